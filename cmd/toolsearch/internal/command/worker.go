package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"toolsearch/cmd/toolsearch/internal/config"
	"toolsearch/cmd/toolsearch/internal/node"
)

func (a *app) worker() *cobra.Command {
	var printConfig bool
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Answer requests, and run connector batches",
		Long: `Worker answers assemble, search, describe and call on the bus. Without --nats it brings a NATS server of its own, with
JetStream, on the loopback address. Start as many as you like on one bus: any of them answers any request.

Settings come from a file (--config), the environment and flags, each over the one before. --print-config prints the
result as a file and ends. A value that is not understood is told and replaced, and stops no start; only the address of
the bus, the root and the number of copies are never replaced.

Traces, metrics and logs are exported as the standard OTEL_* variables say, and not at all without them. --admin serves
/healthz, /readyz, /metrics, /buildinfo and, to callers on this machine, /debug/pprof/.

SIGINT or SIGTERM ends it in order: it takes nothing new, finishes what it began or hands it back, and leaves. A
second signal ends it at once.

` + exitHelp,
		Example: `  toolsearch worker
  toolsearch worker --nats nats://bus:4222 --creds worker.creds
  toolsearch worker --config toolsearch.yaml --print-config
  TOOLSEARCH_TOOLS_TOOL_SEARCH_LISTING=off toolsearch worker`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.load(cmd)
			if err != nil {
				return err
			}
			if printConfig {
				text, err := s.YAML()
				if err != nil {
					return err
				}
				_, err = a.out.Write(text)
				return err
			}
			return a.work(cmd.Context(), s)
		},
	}
	workerFlags(cmd.Flags())
	cmd.Flags().BoolVar(&printConfig, "print-config", false, "print the settings as YAML and end")
	return cmd
}

func workerFlags(f *pflag.FlagSet) {
	natsFlags(f)
	f.Lookup("nats").Usage = "NATS server, nats://host:port, several with commas (default a server of its own)"
	own := config.Default()
	f.String("name", "", "name of this worker (default made from the machine's name)")
	f.String("dir", own.Embedded.Dir, "folder of the embedded server")
	f.String("host", own.Embedded.Host, "address that the embedded server listens on")
	f.Int("port", own.Embedded.Port, "port of the embedded server; 0 is any free one")
	f.Int("replicas", 1, "copies of every stream")
	f.String("gateway", "", "address of the connector gateway")
	f.String("log-level", own.Log.Level, "debug, info, warn or error")
	f.Bool("log-json", false, "log lines as JSON")
	f.String("admin", "", "address of health, metrics and profiles, such as 127.0.0.1:9464 (default off)")
	f.Bool("capture", false, "record arguments, results and query texts on spans, capped and redacted")
	for flag, path := range map[string]string{"name": "worker.name", "dir": "embedded.dir", "host": "embedded.host",
		"port": "embedded.port", "replicas": "store.replicas", "gateway": "tools.connectors.origin",
		"log-level": "log.level", "log-json": "log.json", "admin": "admin.addr", "capture": "telemetry.capture"} {
		config.Bind(f, flag, path)
	}
}

// work runs a worker until a signal.
func (a *app) work(ctx context.Context, s config.Settings) error {
	if _, err := untilEnd(ctx, func() ([]nats.Option, error) { return natsOptions(s.NATS) }); err != nil {
		return err // before anything is started
	}
	w, err := a.watched(ctx, s)
	if err != nil {
		return err
	}
	defer w.end()
	log := w.log
	// First of all: where its address is taken, nothing else is begun.
	if err := w.serve(s.Admin.Addr); err != nil {
		return err
	}
	n, err := node.StartRecorded(ctx, s, log, w.recorder)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w; or let it use the server that is there: --nats nats://%s", err,
			net.JoinHostPort(s.Embedded.Host, strconv.Itoa(s.Embedded.Port)))
	case err != nil:
		return err
	}
	w.worker.Store(n.Worker())
	<-ctx.Done()
	log.Info("draining", "reason", context.Cause(ctx).Error())
	// The signal has ended ctx; the drain has its own time.
	return n.Drain(context.WithoutCancel(ctx))
}
