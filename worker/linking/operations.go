package linking

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/trace"

	"toolsearch/connectors"
	"toolsearch/dispatch"
	"toolsearch/subjects"
	"toolsearch/telemetry"
	"toolsearch/worker/storage"
)

// Options configures [New]. The zero value of each field is its default.
type Options struct {
	// Layout names the streams; they must exist before [Operations.Start].
	Layout storage.Layout
	// Gateway is asked for links and read. nil: connectors are switched off.
	Gateway *connectors.Gateway
	// Lease is how long an operation may go without a sign of life before another worker takes it over. 0: 15 s. A
	// third of it lies between two signs of life.
	Lease time.Duration
	// Clock is the time of operations; nil is the machine's.
	Clock connectors.Clock
	// Telemetry gets spans and metrics; nil records nothing, and trace context is passed on as it came.
	Telemetry *telemetry.Recorder
	// Observer is told what becomes of operations, after Telemetry; may be nil.
	Observer *connectors.OperationObserver
	// Logger gets what an operator should know. nil: nothing is logged.
	Logger *slog.Logger
}

const defaultLease = 15 * time.Second

func (o Options) withDefaults() Options {
	o.Layout = o.Layout.WithDefaults()
	if o.Lease == 0 {
		o.Lease = defaultLease
	}
	if o.Clock == nil {
		o.Clock = connectors.SystemClock()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Telemetry = telemetry.OrNone(o.Telemetry)
	o.Observer = recording(o.Telemetry, o.Observer)
	return o
}

func (o Options) validate() error {
	if err := o.Layout.Validate(); err != nil {
		return err
	}
	if o.Lease < 10*time.Millisecond {
		return fmt.Errorf("linking: Options.Lease is %s; use 10 ms or more", o.Lease)
	}
	return nil
}

// waitCheck is how often a waiting caller's record is read although nothing told of it: a safety net.
const waitCheck = 10 * time.Second

// ErrDraining is the cause of a watch that ended because its worker leaves.
var ErrDraining = errors.New("linking: the worker is leaving")

// Operations opens operations, watches them and answers for them. Its methods may be called side by side.
type Operations struct {
	nc      *nats.Conn
	o       Options
	records *records
	watcher *connectors.Watcher
	hosts   *hosts
	spans   *spans

	runs  context.Context // of the watches; ended by a drain
	cut   context.CancelCauseFunc
	work  sync.WaitGroup
	ready chan struct{}

	mu     sync.Mutex
	slots  map[key]*slot
	state  lifeState
	closed chan struct{} // when Drain is through
}

type lifeState int

const (
	lifeNew lifeState = iota
	lifeStarted
	lifeDraining
)

// slot is what this worker knows of one session's operation. The lock of Operations guards it.
type slot struct {
	op      *connectors.Operation                 // as the watch saw it last; nil before
	seen    time.Time                             // when that was
	run     *run                                  // this worker watches it; nil otherwise
	waiters map[chan *connectors.Operation]string // by the id that is waited for
}

// run is this worker's watch over one operation.
type run struct {
	id      string
	created uint64
	changes chan *connectors.Operation // holds the newest
	stop    chan struct{}
	stopped bool
}

// New puts the parts together. It asks nothing of the server.
func New(js jetstream.JetStream, nc *nats.Conn, o Options) (*Operations, error) {
	if js == nil || nc == nil {
		return nil, errors.New("linking: New needs a NATS connection and its JetStream")
	}
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	spans := newSpans(o.Telemetry, o.Layout.Root)
	ops := &Operations{nc: nc, o: o, records: &records{js: js, layout: o.Layout}, spans: spans,
		hosts: &hosts{nc: nc, root: o.Layout.Root, spans: spans}, slots: map[key]*slot{}, ready: make(chan struct{}), closed: make(chan struct{})}
	ops.runs, ops.cut = context.WithCancelCause(context.Background())
	ops.watcher = &connectors.Watcher{Gateway: o.Gateway, Local: ops.hosts, Clock: o.Clock, Beat: o.Lease / 3,
		Observer: o.Observer, Logger: o.Logger}
	return ops, nil
}

// Start begins to look after operations and returns at once. ctx does not end what it started; [Operations.Drain] does.
func (s *Operations) Start(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != lifeNew {
		return errors.New("linking: Start was called before")
	}
	s.state = lifeStarted
	s.work.Go(s.follow)
	s.work.Go(s.look)
	return nil
}

// Ready is closed when the watch stands.
func (s *Operations) Ready() <-chan struct{} { return s.ready }

// Watching is how many operations this worker watches.
func (s *Operations) Watching() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sl := range s.slots {
		if sl.run != nil {
			n++
		}
	}
	return n
}

// Drain hands back what this worker watches, so that another goes on at once, and returns when nothing of this package
// runs any more. It may be called more than once.
func (s *Operations) Drain(context.Context) error {
	s.mu.Lock()
	before := s.state
	s.state = lifeDraining
	s.mu.Unlock()
	if before == lifeDraining {
		<-s.closed
		return nil
	}
	s.cut(ErrDraining)
	s.work.Wait()
	close(s.closed)
	return nil
}

// Do opens an operation, or joins the one that has its id, and waits until it is settled. When ctx ends first, the
// operation goes on; a repeat under the same id joins it. A *[BusyError] tells of another that is open.
func (s *Operations) Do(ctx context.Context, op *connectors.Operation) (*connectors.Operation, error) {
	k := key{op.Tenant, op.Session}
	// Registered before the operation exists, so that its end cannot be missed.
	settled, leave := s.await(k, op.ID)
	defer leave()
	op.Runner = subjects.NewCallID()
	runner := op.Runner
	have, own, err := s.records.open(ctx, k, op, s.o.Clock.Now)
	switch {
	case err != nil:
		return nil, err
	case have.Settled():
		telemetry.OfOperation(ctx, have.Trace.Parent)
		return have, nil
	case own:
		s.o.Observer.Opened(ctx, have.WithoutLinks())
		s.begin(ctx, k, have, runner, false)
	default:
		telemetry.OfOperation(ctx, have.Trace.Parent)
	}
	return s.wait(ctx, k, op.ID, settled)
}

func (s *Operations) wait(ctx context.Context, k key, id string, settled <-chan *connectors.Operation) (*connectors.Operation, error) {
	check := time.NewTicker(waitCheck)
	defer check.Stop()
	for {
		select {
		case op := <-settled:
			return op, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-check.C:
		}
		have, _, err := s.records.read(ctx, k)
		switch {
		case errors.Is(err, errNone), err == nil && have.ID != id:
			return nil, subjects.Errorf(subjects.CodeUnavailable, "the operation's record is gone; check with status")
		case isFinal(err):
			return nil, err
		case err == nil && have.Settled():
			return have, nil
		}
	}
}

// await hears of the end of an operation.
func (s *Operations) await(k key, id string) (<-chan *connectors.Operation, func()) {
	c := make(chan *connectors.Operation, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slot(k).waiters[c] = id
	return c, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if sl := s.slots[k]; sl != nil {
			delete(sl.waiters, c)
			s.forget(k, sl)
		}
	}
}

// slot is the session's, made where there is none. The lock is held.
func (s *Operations) slot(k key) *slot {
	sl := s.slots[k]
	if sl == nil {
		sl = &slot{waiters: map[chan *connectors.Operation]string{}}
		s.slots[k] = sl
	}
	return sl
}

// forget drops a slot that nobody needs. The lock is held.
func (s *Operations) forget(k key, sl *slot) {
	if sl.run == nil && len(sl.waiters) == 0 && (sl.op == nil || sl.op.Settled()) {
		delete(s.slots, k)
	}
}

// Answer takes a button of the card, at whichever worker hears of it, and shows the card as it is then.
func (s *Operations) Answer(ctx context.Context, tenant, session string, a subjects.AnswerRequest) (*subjects.AnswerReply, error) {
	var refusal *subjects.Refusal
	op, err := s.records.update(ctx, key{tenant, session}, func(o *connectors.Operation) error {
		if refusal = o.Answer(a, s.o.Clock.Now()); refusal != nil {
			return connectors.ErrUnchanged
		}
		return nil
	})
	if errors.Is(err, connectors.ErrOperationLost) {
		return &subjects.AnswerReply{Refusal: &subjects.Refusal{Code: subjects.RefusalUnknownOperation,
			Message: "No card is open in this session."}}, nil
	}
	if err != nil {
		return nil, err
	}
	reply := &subjects.AnswerReply{Accepted: refusal == nil, Refusal: refusal}
	code := ""
	if refusal != nil {
		code = refusal.Code
	}
	s.o.Observer.Answered(ctx, op.WithoutLinks(), a.Answer, code)
	if op.ID == a.Operation {
		telemetry.OfOperation(ctx, op.Trace.Parent)
		reply.Card = op.Event()
	}
	return reply, nil
}

// Current shows the session's open or last operation; no card if there was none lately, or none with a card.
func (s *Operations) Current(ctx context.Context, tenant, session string) (*subjects.OperationReply, error) {
	op, _, err := s.records.read(ctx, key{tenant, session})
	switch {
	case errors.Is(err, errNone):
		return &subjects.OperationReply{}, nil
	case err != nil:
		return nil, err
	case !op.Card():
		return &subjects.OperationReply{}, nil
	}
	return &subjects.OperationReply{Card: op.Event()}, nil
}

// LocalHost finds the host that owns local MCP servers among those that a session knows, or the one that has the
// session's own name; "" if none of them announces it.
func (s *Operations) LocalHost(ctx context.Context, tenant, session string, known []string) string {
	return s.hosts.owner(ctx, tenant, append(known, session))
}

// begin watches an operation that is this worker's under the name runner. ctx gives the watch nothing but its parent:
// the request that opened the operation, unless it was taken over.
func (s *Operations) begin(ctx context.Context, k key, op *connectors.Operation, runner string, takenOver bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != lifeStarted {
		return // another worker finds it without a sign of life
	}
	sl := s.slot(k)
	if sl.run != nil && sl.run.id == op.ID {
		return
	}
	r := &run{id: op.ID, created: op.Created, changes: make(chan *connectors.Operation, 1), stop: make(chan struct{})}
	sl.run = r
	watch, span := s.spans.watch(trace.ContextWithSpanContext(s.runs, trace.SpanContextFromContext(ctx)), op, takenOver)
	s.work.Go(func() { s.watch(watch, span, k, op, runner, r) })
}

// watch runs the watcher, and hands the operation back if it did not come to its end.
func (s *Operations) watch(ctx context.Context, span *telemetry.LinkingSpan, k key, op *connectors.Operation, runner string, r *run) {
	log := s.o.Logger.With("tenant", k.tenant, "session", k.session, "operation", op.ID)
	verdict := dispatch.VerdictReturned
	defer s.ended(k, r)
	defer func() { span.End(string(verdict)) }()
	defer func() {
		if p := recover(); p != nil {
			verdict = dispatch.VerdictFailed
			log.Error("the watch over an operation panicked", "panic", fmt.Sprint(p))
		}
	}()
	if err := s.stopsBefore(ctx, k, r); err != nil {
		log.Warn("the stops that came before an operation cannot be read", "error", err)
	}
	settled, err := s.watcher.Run(ctx, op, connectors.Watch{Runner: runner, Journal: journal{s.records, k},
		Show: func(o *connectors.Operation) { s.show(ctx, k, o) }, Changes: r.changes, Stop: r.stop})
	switch {
	case err == nil && settled.Runner == runner:
		verdict = dispatch.VerdictDone
		s.o.Observer.Settled(ctx, settled.WithoutLinks(), settled.SettledAt.Sub(settled.OpenedAt()))
	case err == nil, errors.Is(err, connectors.ErrOperationLost):
		verdict = dispatch.VerdictLost
		log.Info("another worker has the operation")
	default:
		log.Info("the watch over an operation ended before it was settled; it is handed back", "error", err)
		s.handBack(k, op.ID, runner)
	}
}

// handBack says that nobody watches the operation.
func (s *Operations) handBack(k key, id, runner string) {
	ctx, cancel := context.WithTimeout(context.Background(), apiWait)
	defer cancel()
	_, err := s.records.update(ctx, k, func(o *connectors.Operation) error {
		if o.ID != id || o.Runner != runner || o.Settled() {
			return connectors.ErrUnchanged
		}
		o.Runner = ""
		return nil
	})
	if err != nil {
		s.o.Logger.Warn("an operation could not be handed back; another worker takes it when its time is over",
			"tenant", k.tenant, "session", k.session, "operation", id, "error", err)
	}
}

func (s *Operations) ended(k key, r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sl := s.slots[k]; sl != nil && sl.run == r {
		sl.run = nil
		s.forget(k, sl)
	}
}

// stopsBefore reads the stops that were stored before the run was registered; later ones the watch sees.
func (s *Operations) stopsBefore(ctx context.Context, k key, r *run) error {
	root := s.o.Layout.Root
	for _, subject := range []string{root.StopSession(k.tenant, k.session), root.StopCall(k.tenant, k.session, r.id)} {
		m, err := s.records.last(ctx, subject)
		if err != nil {
			return err
		}
		if m != nil {
			s.stopped(m.Subject, m.Sequence)
		}
	}
	return nil
}

// stopped takes in a stop.
func (s *Operations) stopped(subject string, seq uint64) {
	stop, err := s.o.Layout.Root.Parse(subject)
	if err != nil || stop.Family != subjects.FamilyStop {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sl := s.slots[key{stop.Tenant, stop.Session}]
	if sl == nil || sl.run == nil || sl.run.stopped {
		return
	}
	call := dispatch.CallKey{Tenant: stop.Tenant, Session: stop.Session, Call: sl.run.id}
	if dispatch.StopCovers(stop, seq, call, sl.run.created) {
		sl.run.stopped = true
		close(sl.run.stop)
	}
}

// show puts the card before the session's interface. Whoever misses it asks for the operation.
func (s *Operations) show(ctx context.Context, k key, o *connectors.Operation) {
	if !o.Card() {
		return
	}
	body, err := subjects.Marshal(o.Event())
	if err != nil {
		return // texts, numbers and times only
	}
	m := &nats.Msg{Subject: s.o.Layout.Root.Card(k.tenant, k.session, o.ID), Header: traceHeader(o.Trace), Data: body}
	_, span := s.spans.send(ctx, s.spans.publishCard, o.ID, m)
	err = s.nc.PublishMsg(m)
	ended(span, telemetry.BusErrorCode(err))
	if err != nil {
		s.o.Logger.Warn("a card could not be shown", "tenant", k.tenant, "session", k.session, "operation", o.ID, "error", err)
	}
}

func traceHeader(t connectors.OperationTrace) nats.Header {
	return subjects.SetTraceContext(nats.Header{}, t.Parent, t.State)
}

// journal is the record of one session as the watcher sees it.
type journal struct {
	records *records
	key     key
}

func (j journal) Update(ctx context.Context, change func(*connectors.Operation) error) (*connectors.Operation, error) {
	return j.records.update(ctx, j.key, change)
}
