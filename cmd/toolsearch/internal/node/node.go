package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolsearch/catalog"
	"toolsearch/cmd/toolsearch/internal/config"
	"toolsearch/connectors"
	"toolsearch/connectors/portal"
	"toolsearch/subjects"
	"toolsearch/subjects/roles"
	"toolsearch/telemetry"
	"toolsearch/worker"
	"toolsearch/worker/durable"
	"toolsearch/worker/embedded"
	"toolsearch/worker/storage"
)

// Node is a running worker with what it brought along.
type Node struct {
	bus      *embedded.Server // nil: another's
	gateway  *connectors.Gateway
	accounts *portal.Client
	worker   *worker.Worker
	rec      *telemetry.Recorder
	drain    sync.Once
	drained  error
}

// Start starts what the settings say and returns before the worker is ready: it waits for its bus as long as it must.
func Start(ctx context.Context, s config.Settings, log *slog.Logger) (*Node, error) {
	return StartRecorded(ctx, s, log, nil)
}

// StartRecorded is Start with traces and metrics; a nil recorder gets none.
func StartRecorded(ctx context.Context, s config.Settings, log *slog.Logger, rec *telemetry.Recorder) (*Node, error) {
	n := &Node{rec: rec}
	if err := n.start(ctx, s, log); err != nil {
		n.end()
		return nil, err
	}
	return n, nil
}

func (n *Node) start(ctx context.Context, s config.Settings, log *slog.Logger) (err error) {
	if s.NATS.URL == "" {
		if n.bus, err = StartBus(s.Embedded, log); err != nil {
			return err
		}
		log.Info("started a NATS server of its own", "url", n.bus.ClientURL(), "dir", s.Embedded.Dir)
	}
	if n.gateway, err = gateway(s.Connectors, log, n.rec); err != nil {
		return err
	}
	if n.accounts, err = accounts(s.Connectors, n.rec); err != nil {
		return err
	}
	nc, err := n.connect(ctx, s, log)
	if err != nil {
		return err
	}
	if n.worker, err = worker.New(nc, options(s, n.gateway, n.accounts, log, n.rec)); err != nil {
		nc.Close()
		return err
	}
	return n.worker.Start(ctx)
}

// StartBus starts the embedded server of the settings.
func StartBus(s config.Embedded, log *slog.Logger) (*embedded.Server, error) {
	return embedded.Start(embedded.Options{Dir: s.Dir, Host: s.Host, Port: s.Port, SyncAlways: s.SyncAlways, Logger: log})
}

// connect reaches the bus: through memory where it is our own.
func (n *Node) connect(ctx context.Context, s config.Settings, log *slog.Logger) (*nats.Conn, error) {
	o := worker.ConnectOptions{
		Name: s.Worker.Name, CredsFile: s.NATS.Creds, NKeySeedFile: s.NATS.NKey,
		CAFile: s.NATS.TLS.CA, CertFile: s.NATS.TLS.Cert, KeyFile: s.NATS.TLS.Key,
		Telemetry: n.rec, Logger: log,
		InboxPrefix: roles.WorkerInbox,
	}
	if n.bus != nil {
		o.URLs, o.Extra = []string{n.bus.ClientURL()}, []nats.Option{n.bus.InProcess()}
	} else {
		o.URLs = strings.FieldsFunc(s.NATS.URL, func(r rune) bool { return r == ',' || r == ' ' })
	}
	return worker.Connect(ctx, o)
}

// options words the settings as package worker has them.
func options(s config.Settings, g *connectors.Gateway, a *portal.Client, log *slog.Logger, rec *telemetry.Recorder) worker.Options {
	toolSearch := s.ToolSearch
	o := worker.Options{
		Layout: storage.Layout{Root: subjects.Root(s.Root), Replicas: s.Store.Replicas},
		Name:   s.Worker.Name, ToolSearch: &toolSearch, CoreTools: s.Worker.CoreTools, Connectors: g, Accounts: a,
		Concurrency: s.Worker.Concurrency, QueueDepth: s.Worker.Queue, CallConcurrency: s.Worker.Calls,
		CallQueueDepth: s.Worker.Calls,
		Calls: durable.Options{
			Slots: s.Worker.Runners, TenantSlots: s.Worker.TenantCalls, AckWait: s.Worker.AckWait,
			EntryBound: s.Connectors.EntryTimeout, MaxTakeovers: s.Worker.Takeovers,
		},
		TenantShare: s.Worker.TenantShare, CacheBytes: s.Worker.Cache,
		Limits:         catalog.Limits{MaxBytes: int(s.Worker.CatalogBytes), MaxTools: s.Worker.CatalogTools},
		RequestTimeout: s.Worker.Request, CallTimeout: s.Worker.Call, DrainTimeout: s.Worker.Drain,
		SearchStreak: s.Worker.SearchStreak, Telemetry: rec, Logger: log,
	}
	if o.SearchStreak == 0 {
		o.SearchStreak = -1 // to package worker 0 is the default
	}
	if s.Store.Memory {
		o.Layout.Storage = jetstream.MemoryStorage
	}
	return o
}

// Ready is closed once requests are answered.
func (n *Node) Ready() <-chan struct{} { return n.worker.Ready() }

// URL is where clients reach the node's own server; empty where the bus is another's.
func (n *Node) URL() string {
	if n.bus == nil {
		return ""
	}
	return n.bus.ClientURL()
}

// Worker is the worker itself.
func (n *Node) Worker() *worker.Worker { return n.worker }

// Drain ends the node in order: the worker finishes what it began or hands it back, then its gateway, then its bus.
func (n *Node) Drain(ctx context.Context) error {
	n.drain.Do(func() {
		if err := n.worker.Drain(ctx); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			n.drained = fmt.Errorf("drain: %w", err)
		}
		n.end()
	})
	return n.drained
}

// end releases what the node brought along.
func (n *Node) end() {
	if n.gateway != nil {
		n.gateway.Close()
	}
	n.accounts.Close()
	if n.bus != nil {
		n.bus.Shutdown()
	}
}
