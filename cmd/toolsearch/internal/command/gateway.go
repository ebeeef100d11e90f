package command

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"toolsearch/cmd/toolsearch/internal/config"
	"toolsearch/cmd/toolsearch/internal/table"
	"toolsearch/connectors/gatewaytest"
)

func (a *app) gateway() *cobra.Command {
	var o gatewaytest.Options
	var token, accounts string
	var faults []string
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Run a stand-in for the connector gateway, with sample apps",
		Long: `Gateway runs a connector gateway in one process, so that connector batches can be tried on a laptop: invented apps
behind the real routes, with an idempotency store and scripted faults. It is not for a network that others reach.

A fault is a kind (status, rate_limit, drop, html, half_body, huge, silent, slow) and what it matches: route, slug,
tenant, skip, times, probability, and how it goes: after_effect, status, body, retry_after, retry_at, bytes, delay.

` + exitHelp,
		Example: `  toolsearch gateway
  toolsearch gateway --fault status,status=502,probability=0.1 --fault drop,route=execute,after_effect=true,times=1
  TOOLSEARCH_TOOLS_CONNECTORS_TOKEN=anything toolsearch worker --gateway http://127.0.0.1:8787
  toolsearch call --sample connectors__mail__SEND_EMAIL '{"to": "ada@example.com", "subject": "hello"}'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.load(cmd)
			if err != nil {
				return err
			}
			if token != "" {
				o.Tokens = map[string]string{token: "default"}
			}
			o.Logger = a.logger(config.Log{Level: s.Log.Level, JSON: s.Log.JSON}, nil)
			var script []gatewaytest.Fault
			for _, text := range faults {
				f, err := gatewaytest.ParseFault(text)
				if err != nil {
					return usageError{err}
				}
				script = append(script, f)
			}
			for flag, address := range map[string]string{"addr": o.Addr, "accounts": accounts} {
				if address == "" {
					continue // --addr "" is any free port
				}
				if err := checkListen(flag, address); err != nil {
					return err
				}
			}
			g, err := gatewaytest.Start(o)
			if err != nil {
				return err
			}
			for _, f := range script {
				g.Fault(f)
			}
			if accounts != "" {
				p, err := gatewaytest.StartPortal(g, gatewaytest.PortalOptions{Addr: accounts})
				if err != nil {
					return errors.Join(err, g.Close())
				}
				defer p.Close()
				a.out.Println("accounts at", a.out.Bold(p.URL()))
			}
			if err := a.printApps(g, gatewaytest.SampleApps()); err != nil {
				return err
			}
			<-cmd.Context().Done()
			return g.Close()
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Addr, "addr", "127.0.0.1:8787", "address to listen on")
	f.StringVar(&accounts, "accounts", "", "also be the account-management service, at this address")
	f.StringVar(&token, "token", "", "the only bearer token that is taken (default any)")
	f.StringArrayVar(&faults, "fault", nil, "a scripted fault, kind,key=value,... (repeatable)")
	f.BoolVar(&o.Admin, "admin", false, "also serve /admin/requests, /admin/effects, /admin/faults and /admin/links")
	f.String("log-level", "", "debug, info, warn or error")
	config.Bind(f, "log-level", "log.level")
	return cmd
}

func (a *app) printApps(g *gatewaytest.Gateway, apps []gatewaytest.App) error {
	a.out.Println("listening on", a.out.Bold(g.URL()))
	t := table.New("APP", "LINKED", "TOOLS")
	for _, app := range apps {
		linked := "yes"
		switch {
		case app.Disabled:
			linked = "disabled"
		case app.Unlinked:
			linked = "no"
		}
		slugs := make([]string, len(app.Tools))
		for i, tool := range app.Tools {
			slugs[i] = tool.Slug
		}
		slices.Sort(slugs)
		t.Row(app.Connector, linked, strings.Join(slugs, " "))
	}
	return a.out.Table(t)
}
