package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"toolsearch/cmd/toolsearch/internal/config"
	"toolsearch/cmd/toolsearch/internal/node"
	"toolsearch/cmd/toolsearch/internal/sample"
	"toolsearch/cmd/toolsearch/internal/screen"
	"toolsearch/connectors/gatewaytest"
	"toolsearch/subjects"
	"toolsearch/worker/embedded"
)

// Options configure [Run].
type Options struct {
	// Out is where it is shown.
	Out *screen.Screen
	// Worker is the command line that starts a worker process, without its flags: this binary and "worker". The scene
	// with a killed worker starts two.
	Worker []string
	// Environ is the environment of those processes.
	Environ []string
	// Pause is called between scenes; nil goes on at once.
	Pause func()
}

const (
	tenant  = "acme"
	session = "demo"
	// patience bounds the whole demo.
	patience = time.Minute
)

// stage is what the scenes play on.
type stage struct {
	Options
	say     *teller
	bus     *embedded.Server
	gateway *gatewaytest.Gateway
	node    *node.Node // the worker in this process, until the last scene
	nc      *nats.Conn
	agent   *subjects.Session
	scope   subjects.Scope
	began   time.Time
}

// Run plays all scenes.
func Run(ctx context.Context, o Options) (err error) {
	if o.Out == nil || len(o.Worker) == 0 {
		return errors.New("demo: Options needs Out and Worker")
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s := &stage{Options: o, say: &teller{out: o.Out}, began: time.Now()}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	if err := s.open(ctx); err != nil {
		return err
	}
	scenes := []func(context.Context) error{
		s.assemble, s.search, s.searchInVain, s.describe, s.repaired, s.refused, s.linked, s.stopped, s.killed,
	}
	for i, scene := range scenes {
		if i > 0 && s.Pause != nil {
			s.Pause()
		}
		if err := scene(ctx); err != nil {
			return err
		}
	}
	s.say.scene("What you saw")
	s.say.text(fmt.Sprintf("A model worked with %s tools by three of them, over NATS, in %.1f s. Read README.md for the rest, or try:",
		number(len(sample.Tools())), time.Since(s.began).Seconds()))
	s.say.line("  toolsearch worker")
	s.say.line(`  toolsearch search --sample "create an issue"`)
	return nil
}

// open brings up the bus, the gateway and a worker, and connects the agent.
func (s *stage) open(ctx context.Context) (err error) {
	quiet := slog.New(slog.DiscardHandler)
	if s.bus, err = embedded.Start(embedded.Options{Logger: quiet}); err != nil {
		return err
	}
	// Each worker has a token of its own, so that the last scene knows which of them sends.
	s.gateway, err = gatewaytest.Start(gatewaytest.Options{Tokens: map[string]string{
		token(0): tenant, token(1): tenant, token(2): tenant,
	}})
	if err != nil {
		return err
	}
	settings := config.Default()
	settings.NATS.URL = s.bus.ClientURL()
	settings.Worker.AckWait = takeover
	settings.Connectors.Origin, settings.Connectors.Token = s.gateway.URL(), token(0)
	if s.node, err = node.Start(ctx, settings, quiet); err != nil {
		return err
	}
	select {
	case <-s.node.Ready():
	case <-ctx.Done():
		return fmt.Errorf("demo: the worker did not become ready: %v", s.node.Worker().Health().Problems)
	}
	s.nc, err = nats.Connect(s.bus.ClientURL(), slices.Concat(subjects.ConnectOptions(tenant, session), []nats.Option{
		s.bus.InProcess(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			quiet.Error("NATS reports an error", "error", err)
		}),
	})...)
	if err != nil {
		return err
	}
	client, err := subjects.NewClient(s.nc, subjects.ClientOptions{Reattach: takeover})
	if err != nil {
		return err
	}
	s.agent = client.Session(tenant, session)
	s.say.scene("The stage")
	s.say.text(fmt.Sprintf("A NATS server, a worker and a stand-in for the connector gateway run in this process. The catalog is our own "+
		"sample: %s tools of %d invented MCP servers and of the agent itself.", number(len(sample.Tools())), sample.Servers()))
	return nil
}

func token(worker int) string { return fmt.Sprintf("demo-token-of-worker-%d", worker) }

// close takes everything down, in the opposite order.
func (s *stage) close(ctx context.Context) error {
	var err error
	if s.nc != nil {
		s.nc.Close()
	}
	if s.node != nil {
		err = s.node.Drain(context.WithoutCancel(ctx))
	}
	if s.gateway != nil {
		err = errors.Join(err, s.gateway.Close())
	}
	if s.bus != nil {
		s.bus.Shutdown()
	}
	return err
}
