package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"
	"golang.org/x/sync/semaphore"

	"toolsearch/subjects"
	"toolsearch/telemetry"
	"toolsearch/worker/durable"
	"toolsearch/worker/linking"
	"toolsearch/worker/storage"
)

// Worker answers requests on one connection. Its methods may be called side by side.
type Worker struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	opts   Options
	log    *slog.Logger
	bodies *subjects.Bodies
	large  *semaphore.Weighted
	shelf  *shelf

	durable *durable.Calls                // made by the goroutine that follows the connection, before the endpoints
	seen    atomic.Pointer[durable.Calls] // the same, for whoever reads figures at any time

	linking  *linking.Operations
	linkOnce sync.Once // starts it

	queries   *pool
	calls     *pool
	endpoints []*endpoint

	base context.Context // of all work; ends with errStopped when a drain runs out of time
	stop context.CancelCauseFunc

	ready     chan struct{}
	upkeep    sync.WaitGroup // the goroutine that follows the connection
	endUpkeep context.CancelFunc
	unobserve func()        // ends the reading of figures
	drained   chan struct{} // closed at the end of the one drain

	mu       sync.Mutex
	state    state
	service  micro.Service
	problem  error // why it could not be brought up, last time
	drainErr error
}

// state is where a worker is in its life; it only moves forward.
type state int

const (
	stateNew state = iota
	stateStarting
	stateReady
	stateDraining
	stateDrained
)

// New makes a worker on a connection and asks nothing of the server, which need not be reachable yet. The worker takes
// the connection over: [Worker.Drain] closes it.
func New(nc *nats.Conn, o Options) (*Worker, error) {
	if nc == nil {
		return nil, errors.New("worker: New needs a connection, see Connect")
	}
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.Name == "" {
		o.Name = nc.Opts.Name
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	bodies, err := subjects.NewBodies(js, subjects.BodiesOptions{
		Replicas: o.Layout.Replicas, Storage: o.Layout.Storage, Wait: o.Layout.ReadTimeout})
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	w := &Worker{
		nc: nc, js: js, opts: o, log: o.Logger, bodies: bodies,
		large:   semaphore.NewWeighted(int64(o.LargeBodies)),
		queries: newPool(o.queryPool()), calls: newPool(o.callPool()),
		ready: make(chan struct{}), drained: make(chan struct{}),
		endUpkeep: func() {}, unobserve: func() {},
	}
	w.base, w.stop = context.WithCancelCause(context.Background())
	if w.shelf, err = w.newShelf(); err != nil {
		return nil, err
	}
	w.endpoints = []*endpoint{
		{worker: w, verb: subjects.VerbAssemble, handler: w.assemble, pool: w.queries, timeout: o.RequestTimeout},
		{worker: w, verb: subjects.VerbSearch, handler: w.search, pool: w.queries, timeout: o.RequestTimeout},
		{worker: w, verb: subjects.VerbDescribe, handler: w.describe, pool: w.queries, timeout: o.RequestTimeout},
		{worker: w, verb: subjects.VerbCall, handler: w.call, pool: w.calls, timeout: o.CallTimeout},
		{worker: w, verb: subjects.VerbConnections, handler: w.connections, pool: w.calls, timeout: o.CallTimeout},
		{worker: w, verb: subjects.VerbAnswer, handler: w.answerCard, pool: w.queries, timeout: o.RequestTimeout},
		{worker: w, verb: subjects.VerbOperation, handler: w.operation, pool: w.queries, timeout: o.RequestTimeout},
		{worker: w, verb: subjects.VerbAccounts, handler: w.accounts, pool: w.queries, timeout: o.RequestTimeout},
		{worker: w, verb: subjects.VerbDisconnect, handler: w.disconnect, pool: w.queries, timeout: o.RequestTimeout},
	}
	for _, ep := range w.endpoints {
		ep.process = telemetry.ProcessOf(o.Layout.Root.Template(ep.verb.Family(), string(ep.verb)))
	}
	if _, err := w.newDurable(); err != nil { // to tell of bad options now
		return nil, err
	}
	if w.linking, err = w.newLinking(); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *Worker) newShelf() (*shelf, error) {
	s := &shelf{
		layout: w.opts.Layout, limits: w.opts.Limits, recheck: w.opts.Recheck, log: w.log, metrics: w.opts.Telemetry.Metrics(),
		fill:     &filler{base: w.base, log: w.log, bound: 4 * w.opts.Concurrency},
		building: semaphore.NewWeighted(int64(runtime.GOMAXPROCS(0))),
		ledger:   newLedger(func() uint64 { return w.nc.Stats().Reconnects }),
	}
	s.open(w.opts.CacheBytes)
	var err error
	if s.store.catalogs, err = storage.NewCatalogs(w.js, w.opts.Layout); err != nil {
		return nil, err
	}
	s.store.scopes, err = storage.NewScopes(w.js, w.opts.Layout)
	return s, err
}

// Start brings the worker up and returns at once. As soon as the server is reachable its streams are made and the
// endpoints appear; see [Worker.Ready]. The end of ctx gives the attempts up, and changes nothing for a worker that is
// ready: that one ends by [Worker.Drain], which must be called in either case.
func (w *Worker) Start(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state != stateNew {
		return errors.New("worker: Start was called before")
	}
	unobserve, err := w.opts.Telemetry.Metrics().Observe(w.figures)
	if err != nil {
		return fmt.Errorf("worker: observe the figures: %w", err)
	}
	w.unobserve = unobserve
	w.state = stateStarting
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	w.endUpkeep = end
	unhook := context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.state == stateStarting {
			end()
		}
	})
	// Registered before the status is read, so that no change falls between.
	changes := w.nc.StatusChanged(nats.CONNECTED, nats.RECONNECTING, nats.CLOSED)
	w.upkeep.Add(1)
	go func() {
		defer w.upkeep.Done()
		defer unhook()
		defer w.nc.RemoveStatusListener(changes)
		w.follow(life, changes)
	}()
	return nil
}

// Ready is closed when the endpoints are on the bus and the server knows of it.
func (w *Worker) Ready() <-chan struct{} { return w.ready }

// follow makes the streams whenever the connection comes up, and puts the endpoints on the bus the first time.
func (w *Worker) follow(ctx context.Context, changes <-chan nats.Status) {
	pause := backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond),
		backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0))
	retry := time.NewTimer(0)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case s, open := <-changes:
			if !open || s == nats.CLOSED {
				return
			}
			pause.Reset()
			retry.Reset(0)
		case <-retry.C:
			if !w.nc.IsConnected() {
				continue // the change that follows brings us back
			}
			changed, err := w.attempt(ctx, changes)
			w.note(err)
			switch {
			case changed:
				retry.Reset(0)
			case err != nil:
				w.log.Warn("the worker is not up yet and tries again", "error", err)
				retry.Reset(pause.NextBackOff())
			}
		}
	}
}

// attempt tries to bring the worker up. It ends early when the connection changes: a request that a server took with it
// would be waited for in vain.
func (w *Worker) attempt(ctx context.Context, changes <-chan nats.Status) (changed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, bringUpTimeout)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- w.bringUp(ctx) }()
	select {
	case err = <-done:
		return false, err
	case <-changes:
		cancel()
		return true, <-done
	}
}

// bringUpTimeout bounds one attempt to bring the worker up.
const bringUpTimeout = 30 * time.Second

func (w *Worker) note(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problem = err
}

// bringUp makes the streams and, if they are not there yet, the endpoints.
func (w *Worker) bringUp(ctx context.Context) error {
	drift, _ := storage.Drift(ctx, w.js, w.opts.Layout) // only to be told; what fails here fails below as well
	switch err := storage.Ensure(ctx, w.js, w.opts.Layout); {
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("worker: nothing answers for JetStream on this bus; start its servers with it: %w", err)
	case err != nil:
		return err
	}
	for _, d := range drift {
		w.log.Info("a stream was brought to the layout", "difference", d.String())
	}
	if w.is() != stateStarting {
		return nil
	}
	if err := w.startDurable(ctx); err != nil {
		return err
	}
	if err := w.startLinking(ctx); err != nil {
		return err
	}
	before := w.nc.LastError()
	svc, err := w.serve()
	if err != nil {
		return err
	}
	if err := w.nc.FlushWithContext(ctx); err != nil { // once it returns, the server knows the subscriptions
		return errors.Join(fmt.Errorf("worker: tell the server of the endpoints: %w", err), svc.Stop())
	}
	// What the server refuses it says before it answers the flush.
	if err := w.nc.LastError(); err != before && errors.Is(err, nats.ErrPermissionViolation) {
		return errors.Join(fmt.Errorf("worker: the server lets this login not serve; give it the role of a worker: %w", err), svc.Stop())
	}
	w.mu.Lock()
	w.service = svc // a drain waits for this goroutine before it looks
	if w.state == stateStarting {
		w.state = stateReady
		close(w.ready)
	}
	w.mu.Unlock()
	w.log.Info("the worker is ready", "name", w.opts.Name, "root", string(w.opts.Layout.Root),
		"server", w.nc.ConnectedUrlRedacted())
	return nil
}

func (w *Worker) is() state {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

// Health is what a probe is told.
type Health struct {
	// Ready reports whether requests are taken and can be answered.
	Ready bool
	// Problems says what is wrong, in words for an operator; empty if nothing is.
	Problems []string
}

// Health tells whether the worker takes requests, and if not, why.
func (w *Worker) Health() Health {
	w.mu.Lock()
	defer w.mu.Unlock()
	var h Health
	switch w.state {
	case stateNew:
		h.Problems = append(h.Problems, "the worker was not started")
	case stateDraining, stateDrained:
		h.Problems = append(h.Problems, "the worker is shutting down")
	case stateStarting:
		h.Problems = append(h.Problems, "the endpoints are not on the bus yet")
	}
	if !w.nc.IsConnected() {
		text := "not connected to NATS"
		if err := w.nc.LastError(); err != nil {
			text += ": " + err.Error()
		}
		h.Problems = append(h.Problems, text)
	}
	if w.problem != nil {
		h.Problems = append(h.Problems, "the worker could not be brought up: "+w.problem.Error())
	}
	h.Ready = len(h.Problems) == 0
	return h
}
