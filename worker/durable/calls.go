package durable

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolsearch/dispatch"
	"toolsearch/subjects"
)

// waitCheck is how often a waiting caller's record is read although nothing told of it: a safety net.
const waitCheck = 10 * time.Second

// Calls accepts calls, runs them and answers for them. Its methods may be called side by side.
type Calls struct {
	nc       *nats.Conn
	o        Options
	acceptor *dispatch.Acceptor
	runner   *dispatch.Runner
	reopener *dispatch.Reopener
	records  dispatch.Records
	bodies   dispatch.Bodies
	watch    *watch
	jobs     *jobs
	dead     *dead
	spans    *spans
	figures  figures

	ready  chan struct{} // closed when the watch was opened first
	drain  chan struct{} // closed when no more jobs are taken
	cut    context.CancelCauseFunc
	parts  sync.WaitGroup // the loops
	runs   sync.WaitGroup // the runners
	taking sync.WaitGroup // the loop that takes jobs
	life   sync.Mutex     // guards the three below
	state  lifeState
	leave  context.CancelFunc // ends the loops
	gone   chan struct{}      // closed when Drain is through
}

type lifeState int

const (
	lifeNew lifeState = iota
	lifeStarted
	lifeDraining
)

// ErrDraining is the cause of a run that was cut because the worker's time to drain was over.
var ErrDraining = errors.New("durable: the worker is leaving")

// New puts the parts together. It asks nothing of the server.
func New(js jetstream.JetStream, nc *nats.Conn, o Options) (*Calls, error) {
	if js == nil || nc == nil {
		return nil, errors.New("durable: New needs a NATS connection and its JetStream")
	}
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	store := o.Bodies
	if store == nil {
		var err error
		if store, err = subjects.NewBodies(js, subjects.BodiesOptions{}); err != nil {
			return nil, err
		}
	}
	l := o.Layout
	sp := newSpans(o.Telemetry, l.Root)
	calls := &stream{js: js, name: l.CallsStream()}
	c := &Calls{nc: nc, o: o,
		records: &records{stream: calls, layout: l},
		bodies:  bodies{store},
		watch:   newWatch(calls, l, o.Logger),
		jobs:    newJobs(&stream{js: js, name: l.JobsStream()}, l, o, sp),
		spans:   sp,
		dead:    &dead{stream: &stream{js: js, name: l.DeadStream()}, layout: l, store: store},
		ready:   make(chan struct{}), drain: make(chan struct{}), gone: make(chan struct{})}
	if o.feed != nil {
		c.watch.feed = o.feed(c.watch.feed)
	}
	c.watch.onRecord = func(k dispatch.CallKey, p dispatch.Phase) {
		switch p {
		case dispatch.PhaseReturned:
			c.jobs.announced(k.Tenant) // its job is handed back next
		case dispatch.PhasePublished:
			c.jobs.freed(k.Tenant)
		}
	}
	c.runner = &dispatch.Runner{Records: c.records, Watch: c.watch, Bodies: c.bodies,
		Events: &events{js: js, layout: l, store: store, spans: sp}, Jobs: c.jobs, Dead: c.dead,
		Hooks:      &hooks{nc: nc, root: l.Root, store: store, spans: sp},
		Connectors: o.Connectors, Hosts: &hosts{nc: nc, root: l.Root, store: store, spans: sp, patience: o.HostPatience}, Line: &line{},
		AckWait: o.AckWait, EntryBound: o.EntryBound, WatchWait: o.WatchWait, MaxTakeovers: o.MaxTakeovers,
		MaxPayload: int(nc.MaxPayload()), Now: o.Now, Telemetry: o.Telemetry, Logger: o.Logger}
	if o.wrap != nil {
		o.wrap(c.runner)
	}
	c.acceptor = &dispatch.Acceptor{Records: c.records, Jobs: c.jobs, Bodies: c.bodies, Now: o.Now}
	c.reopener = &dispatch.Reopener{Records: c.records, Jobs: c.jobs, Dead: c.dead}
	return c, nil
}

// Start begins to watch and to take jobs, and returns at once. ctx does not end what it started; [Calls.Drain] does.
func (c *Calls) Start(ctx context.Context) error {
	c.life.Lock()
	defer c.life.Unlock()
	if c.state != lifeNew {
		return errors.New("durable: Start was called before")
	}
	sub, err := c.nc.Subscribe(c.o.Layout.Root.Jobs(), c.wakeUp)
	if err != nil {
		return fmt.Errorf("durable: wake-ups: %w", err)
	}
	c.state = lifeStarted
	loops, leave := context.WithCancel(context.WithoutCancel(ctx))
	c.leave = func() { leave(); _ = sub.Unsubscribe() }
	runs, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	c.cut = cut
	var once sync.Once
	c.parts.Go(func() {
		c.watch.run(loops, 2*c.o.Sweep, func() { once.Do(func() { close(c.ready) }) })
	})
	if c.o.Slots > 0 {
		c.parts.Go(func() { c.sweep(loops) })
		if c.o.Telemetry.Measures() {
			c.parts.Go(func() { c.watchQueue(loops) })
		}
		c.taking.Go(func() { c.take(runs) })
	}
	return nil
}

// Ready is closed when the watch stands, and with it the first job can be run.
func (c *Calls) Ready() <-chan struct{} { return c.ready }

// wakeUp hears of each job that is published.
func (c *Calls) wakeUp(m *nats.Msg) {
	if a, err := c.o.Layout.Root.Parse(m.Subject); err == nil && a.Family == subjects.FamilyJob {
		c.jobs.announced(a.Tenant)
	}
}

// sweep looks at the queue now and then, in case a wake-up was missed.
func (c *Calls) sweep(ctx context.Context) {
	t := time.NewTicker(c.o.Sweep)
	defer t.Stop()
	for {
		if err := c.jobs.sweep(ctx); err != nil && ctx.Err() == nil {
			c.o.Logger.DebugContext(ctx, "the queue of calls cannot be looked at now", "error", err)
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// take takes jobs, never one without a place to run it, until the worker drains.
func (c *Calls) take(ctx context.Context) {
	asking, stop := context.WithCancel(ctx)
	defer stop()
	c.parts.Go(func() {
		select {
		case <-c.drain:
			stop()
		case <-asking.Done():
		}
	})
	select {
	case <-c.ready:
	case <-asking.Done():
		return
	}
	places := make(chan struct{}, c.o.Slots)
	for {
		select {
		case places <- struct{}{}:
		case <-asking.Done():
			return
		}
		tenant, err := c.jobs.next(asking)
		if err != nil {
			return
		}
		// The question has its place already, and so has the job that it brings. A tenant that has none, or as many at
		// work as it may, keeps no other waiting.
		c.runs.Go(func() {
			defer func() { <-places }()
			if m := c.jobs.ask(asking, tenant); m != nil {
				c.run(ctx, m)
				c.jobs.freed(tenant)
			}
		})
	}
}

// run runs one delivery.
func (c *Calls) run(ctx context.Context, m *nats.Msg) {
	d, err := delivery(c.nc, m)
	if err != nil {
		c.o.Logger.ErrorContext(ctx, "the queue gave what is no job", "error", err)
		return
	}
	c.figures.busy.Add(1)
	defer c.figures.busy.Add(-1)
	began := time.Now()
	ctx, span := c.spans.take(ctx, m, d.First)
	v := c.runner.Run(ctx, c.drain, d)
	c.spans.took(ctx, span, v, d.First, time.Since(began))
	if c.o.verdict != nil {
		c.o.verdict(v)
	}
}

// Drain takes no more jobs, lets each runner finish the entry that is on its way and hand the rest back, and returns
// when all have. When ctx ends first, what is on its way is cut and handed back too: its successor sends it again under
// the same key. It may be called more than once, and blocks each time until everything has ended.
func (c *Calls) Drain(ctx context.Context) error {
	c.life.Lock()
	before := c.state
	c.state = lifeDraining
	c.life.Unlock()
	switch before {
	case lifeNew:
		close(c.gone)
		return nil
	case lifeDraining:
		<-c.gone
		return nil
	}
	defer close(c.gone)
	close(c.drain)
	ended := make(chan struct{})
	go func() { c.taking.Wait(); c.runs.Wait(); close(ended) }()
	var err error
	select {
	case <-ended:
	case <-ctx.Done():
		err = context.Cause(ctx)
		c.cut(ErrDraining)
		<-ended
	}
	c.cut(ErrDraining)
	c.leave()
	c.parts.Wait()
	return err
}

// Accept makes a call durable, or attaches to it if its id is known; see [dispatch.Acceptor.Accept].
func (c *Calls) Accept(ctx context.Context, call dispatch.Call) (dispatch.Ticket, error) {
	t, err := c.acceptor.Accept(ctx, call)
	if err == nil {
		c.spans.accepted(ctx, &call, t)
	}
	return t, err
}

// Do accepts a call, or attaches to it, and waits for its answer. When ctx ends first the call goes on; a repeat of it
// under the same id attaches. The error is then ctx's, otherwise that of [Calls.Accept].
func (c *Calls) Do(ctx context.Context, call dispatch.Call) (*dispatch.Reply, error) {
	// Registered before the call exists, so its end cannot be missed and needs no look.
	published, cancel := c.watch.Await(call.Key)
	defer cancel()
	t, err := c.Accept(ctx, call)
	if err != nil {
		return nil, err
	}
	for {
		r, err := c.await(ctx, call.Key, published, t.Attached)
		if !errors.Is(err, dispatch.ErrNotFound) {
			return r, err
		}
		// It is there: a leader that was just elected has yet to catch up.
		select {
		case <-published:
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		t.Attached = true
	}
}

// Wait waits for the answer of an accepted call, from whichever worker. [dispatch.ErrNotFound] if there is no record
// of it.
func (c *Calls) Wait(ctx context.Context, k dispatch.CallKey) (*dispatch.Reply, error) {
	published, cancel := c.watch.Await(k)
	defer cancel()
	return c.await(ctx, k, published, true)
}

// await reads the record whenever there may be an answer.
func (c *Calls) await(ctx context.Context, k dispatch.CallKey, published <-chan struct{}, look bool) (*dispatch.Reply, error) {
	t := time.NewTicker(waitCheck)
	defer t.Stop()
	for {
		if look {
			reply, done, err := dispatch.ReadReply(ctx, c.records, c.bodies, k)
			switch {
			case done:
				return reply, nil
			case errors.Is(err, dispatch.ErrNotFound):
				return nil, err
			case err != nil && ctx.Err() == nil:
				c.o.Logger.WarnContext(ctx, "a call's record cannot be read now", "call", k.String(), "error", err)
			}
		}
		look = true
		select {
		case <-published:
		case <-t.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
