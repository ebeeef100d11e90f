package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"toolsearch/cmd/toolsearch/internal/config"
)

// healthTimeout bounds the question: a probe that hangs is a no.
const healthTimeout = 2 * time.Second

func (a *app) health() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask the worker on this machine whether it takes requests",
		Long: `Health asks /readyz of the worker whose admin address is in the settings (admin.addr, TOOLSEARCH_ADMIN_ADDR or --admin)
and prints what it says. It is the health check of a container that has no other tools.

` + exitHelp,
		Example: `  toolsearch health --admin 127.0.0.1:9464
  TOOLSEARCH_ADMIN_ADDR=:9464 toolsearch health`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkListen("admin", cmd.Flags().Lookup("admin").Value.String()); cmd.Flags().Changed("admin") && err != nil {
				return err
			}
			s, err := a.load(cmd)
			if err != nil {
				return err
			}
			if s.Admin.Addr == "" {
				return usagef("no admin address is set; give --admin, or start the worker with one")
			}
			return a.askReady(cmd.Context(), s.Admin.Addr)
		},
	}
	cmd.Flags().String("admin", "", "admin address of the worker, such as 127.0.0.1:9464")
	config.Bind(cmd.Flags(), "admin", "admin.addr")
	return cmd
}

func (a *app) askReady(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+local(address)+"/readyz", nil)
	if err != nil {
		return usagef("--admin %s: %w", address, err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // no proxy between us and ourselves
	resp, err := client.Do(req)
	var dial *net.OpError
	switch {
	case err == nil:
	case errors.As(err, &dial) && dial.Op == "dial", errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no worker answers at %s; start one with --admin %[1]s, or name its admin address: %w", address, err)
	default:
		return fmt.Errorf("what answers at %s is no worker's admin address", address)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return fmt.Errorf("the worker at %s broke off: %w", address, err)
	}
	text := strings.TrimSpace(string(body))
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the worker does not take requests: %s", text)
	}
	a.out.Println(text)
	return nil
}

// local is an address to listen on as one to call: every address of the machine means this one.
func local(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address
}
