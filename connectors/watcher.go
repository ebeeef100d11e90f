package connectors

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"toolsearch/subjects"
	"toolsearch/telemetry"
)

// The pace of an operation.
const (
	watchTick     = time.Second      // between two rounds of reads of the gateway's accounts
	localTick     = 5 * time.Second  // the same for local servers
	localWait     = 30 * time.Second // for a local server where nobody waits on a card
	longestRead   = 10 * time.Second
	DefaultBeat   = 5 * time.Second // between two signs of life of a watcher
	localUnsure   = "The host of local servers did not answer in time; check there what became of it."
	actionStatusW = "status"
)

// The most bytes of a link and of a local server's list of tools. All ten targets of an operation, with their words, must
// fit into one message: its record.
const (
	maxLink  = 8 << 10
	maxTools = 32 << 10
)

// ErrOperationLost says that another worker has the operation.
var ErrOperationLost = errors.New("connectors: another worker has the operation")

// ErrOperationTooLarge says that the bus takes no message of the operation's size.
var ErrOperationTooLarge = errors.New("connectors: the operation is too large to be kept")

// ErrUnchanged is what a change returns that has nothing to write.
var ErrUnchanged = errors.New("connectors: nothing to change")

// Journal is where one operation is kept.
type Journal interface {
	// Update reads the operation, lets change alter it and stores it by compare-and-set, as often as others write in
	// between, unless it has become too large ([ErrOperationTooLarge]). It returns the operation as it stands. [ErrUnchanged] from change writes nothing and is no error; any
	// other error of change ends it.
	Update(ctx context.Context, change func(*Operation) error) (*Operation, error)
}

// LocalServers is the tool host that owns local MCP servers.
type LocalServers interface {
	// Ask runs one action on one server. Asking again under the same key runs nothing twice.
	Ask(ctx context.Context, r LocalRequest) (*LocalAnswer, error)
}

// LocalRequest is one action on one local MCP server.
type LocalRequest struct {
	Tenant, Host, Call string
	Action             string // install, enable, authorize; status while a link waits for the user
	Name               string
	Key                string
	Deadline           time.Time
	Trace              OperationTrace
}

// LocalAnswer is what a host says of a local server: connected, initiated (with a link for the user) or failed.
type LocalAnswer struct {
	State      subjects.ConnectionState `json:"state"`
	Detail     string                   `json:"detail,omitempty"`
	ConnectURL string                   `json:"connect_url,omitempty"`
	Tools      json.RawMessage          `json:"tools,omitempty"`
}

// OperationObserver is told what becomes of operations, for metrics and spans. Every field may be nil, and so may the
// observer. Its functions must not block. They are given operations [Operation.WithoutLinks], and never a token.
type OperationObserver struct {
	// Opened is called by the worker that opened it, TakenOver by each that takes it over.
	Opened, TakenOver func(ctx context.Context, o *Operation)
	// Moved is called for each target that changed its state, whoever moved it, by the worker that watches it.
	Moved func(ctx context.Context, o *Operation, m TargetMove)
	// Round is called after each round of reads of the targets that wait for their user.
	Round func(ctx context.Context, o *Operation, r Round)
	// Answered is called for each button of a card, by the worker that heard of it. refusal is the code of the one that
	// changed nothing, "" for one that did.
	Answered func(ctx context.Context, o *Operation, answer, refusal string)
	// Settled is called by the worker that watched it to its end, with the time since it was opened.
	Settled func(ctx context.Context, o *Operation, took time.Duration)
}

// TargetMove is a target that changed its state.
type TargetMove struct {
	Name, Kind string
	From, To   subjects.ConnectionState
}

// Round is what came of one round of reads.
type Round struct {
	// Reads is how many targets were asked about.
	Reads int
	// Failed names why the last one that could not be read could not: a status or a code of ours. "": all were read.
	Failed string
	// Parked is how long the gateway is left alone because it asked for that, at most until the deadline. 0: it did not.
	Parked time.Duration
}

// Watcher drives operations: it asks for their links and reads the gateway until each target is resolved.
type Watcher struct {
	Gateway *Gateway     // nil: connectors are switched off
	Local   LocalServers // nil: there are no local servers
	Clock   Clock        // nil: the machine's
	// Beat is how often an operation is written although nothing changes, to show that its watcher lives. 0: [DefaultBeat].
	Beat     time.Duration
	Observer *OperationObserver
	Logger   *slog.Logger
}

// Watch is one run of a watcher over one operation.
type Watch struct {
	Runner  string // of this run; the operation must be its own
	Journal Journal
	// Show is called with the operation whenever it changed, to be shown to the user.
	Show func(*Operation)
	// Changes brings the operation as others wrote it, the buttons among them.
	Changes <-chan *Operation
	// Stop is closed by a stop that covers the operation.
	Stop <-chan struct{}
}

// Run watches an operation to its end and returns it settled. When ctx ends before, the operation is left as it is and
// the error is ctx's; [ErrOperationLost] if another worker took it.
//
// A start is sent once. A read that is under way ends with the operation, whatever ended it.
func (w *Watcher) Run(ctx context.Context, op *Operation, r Watch) (*Operation, error) {
	s := &shift{w: w, watch: r, op: op, clock: w.Clock, found: make(chan finding)}
	if s.clock == nil {
		s.clock = machineClock{}
	}
	work, cancel := context.WithCancel(ctx)
	defer s.workers.Wait()
	defer cancel()
	s.work = work
	return s.run(ctx)
}

// shift is a watcher's time with one operation. Only its own goroutine touches the fields; workers send findings.
type shift struct {
	w     *Watcher
	watch Watch
	op    *Operation
	clock Clock
	work  context.Context // of the workers

	workers sync.WaitGroup
	found   chan finding
	shown   int  // the last Seq that was shown
	resumed bool // what an earlier watcher had started was looked at
	reads   bool // a round of reads is due
	reading bool
	tick    <-chan time.Time
	untick  func()
}

// finding is what a worker learned of one attempt of a target, or that a round of reads is over.
type finding struct {
	name, alias string
	attempt     int
	cause       MoveCause
	apply       func(*Target) // sets what comes with the move; may be nil

	round *Round
}

func (s *shift) run(ctx context.Context) (*Operation, error) {
	deadline, undo := s.clock.NewTimer(s.op.Deadline.Sub(s.clock.Now()))
	defer undo()
	defer func() {
		if s.untick != nil {
			s.untick()
		}
	}()
	beat, unbeat := s.clock.NewTimer(orDefault(s.w.Beat, DefaultBeat))
	defer func() { unbeat() }()
	for {
		s.show()
		if s.op.Settled() {
			return s.op, nil
		}
		if isClosed(s.watch.Stop) {
			if err := s.settle(ctx, subjects.SettledInterrupt); err != nil {
				return s.op, err
			}
			continue
		}
		if err := s.proceed(ctx); err != nil {
			return s.op, err
		}
		s.show()
		if s.op.Settled() {
			continue
		}
		var err error
		select {
		case f := <-s.found:
			err = s.take(ctx, f)
		case op := <-s.watch.Changes:
			if op != nil && op.ID == s.op.ID && op.Seq > s.op.Seq {
				if op.Runner != s.watch.Runner && !op.Settled() {
					return s.op, ErrOperationLost
				}
				before := s.op
				s.op = op
				s.tell(ctx, before)
			}
		case <-s.watch.Stop:
			err = s.settle(ctx, subjects.SettledInterrupt)
		case <-deadline:
			err = s.settle(ctx, subjects.SettledDeadline)
		case <-s.tick:
			s.tick, s.reads = nil, true
		case <-beat:
			beat, unbeat = s.clock.NewTimer(orDefault(s.w.Beat, DefaultBeat))
			err = s.update(ctx, func(*Operation) error { return nil })
		case <-ctx.Done():
			return s.op, context.Cause(ctx)
		}
		if err != nil {
			return s.op, err
		}
	}
}

func (s *shift) show() {
	if s.op.Seq > s.shown && s.watch.Show != nil {
		s.shown = s.op.Seq
		s.watch.Show(s.op)
	}
}

// update changes the operation, if it is still this watcher's and open.
func (s *shift) update(ctx context.Context, change func(*Operation) error) error {
	before := s.op
	op, err := s.watch.Journal.Update(ctx, func(o *Operation) error {
		switch {
		case o.ID != before.ID:
			return ErrOperationLost
		case o.Settled():
			return ErrUnchanged
		case o.Runner != s.watch.Runner:
			return ErrOperationLost
		}
		return change(o)
	})
	if err != nil {
		return err
	}
	s.op = op
	s.tell(ctx, before)
	return nil
}

// tell lets the observer know which targets have moved.
func (s *shift) tell(ctx context.Context, before *Operation) {
	if s.w.Observer == nil || s.w.Observer.Moved == nil {
		return
	}
	for i := range s.op.Targets {
		if from, t := before.Targets[i].State, &s.op.Targets[i]; from != t.State {
			s.w.Observer.Moved(ctx, s.op.WithoutLinks(), TargetMove{Name: t.Name, Kind: t.Kind, From: from, To: t.State})
		}
	}
}

func (s *shift) settle(ctx context.Context, by subjects.SettledBy) error {
	return s.update(ctx, func(o *Operation) error {
		o.settle(by, s.clock.Now())
		return nil
	})
}

// proceed begins what is to be done now: starts that nobody has asked for yet, and reads whose time has come.
func (s *shift) proceed(ctx context.Context) error {
	if !s.resumed {
		s.resumed = true
		if err := s.resume(ctx); err != nil || s.op.Settled() {
			return err
		}
	}
	if s.has(subjects.ConnectionPending) {
		if err := s.start(ctx); err != nil {
			return err
		}
	}
	switch {
	case s.reading || !s.op.Card() || !s.has(subjects.ConnectionInitiated):
	case s.reads:
		s.reads, s.reading = false, true
		op := s.op.Clone()
		s.workers.Go(func() { s.read(op) })
	case s.tick == nil: // the first link: its user needs a moment
		s.arm(watchTick)
	}
	return nil
}

func (s *shift) has(state subjects.ConnectionState) bool {
	return slices.ContainsFunc(s.op.Targets, func(t Target) bool { return t.State == state })
}

// resume looks at what an earlier watcher left: starts whose answer is lost fail, for a start is not repeated; a local
// server is asked again under its key.
func (s *shift) resume(ctx context.Context) error {
	if !s.has(subjects.ConnectionStarting) {
		return nil
	}
	err := s.update(ctx, func(o *Operation) error {
		for i := range o.Targets {
			t := &o.Targets[i]
			if t.State != subjects.ConnectionStarting {
				continue
			}
			if t.move(CauseLose, ActorWatcher) == nil {
				t.Detail = detailLost
			} else if err := t.move(CauseResume, ActorWatcher); err != nil {
				return err
			}
		}
		o.Seq++
		o.conclude(s.clock.Now())
		return nil
	})
	if err == nil && !s.op.Settled() {
		s.begin(func(t *Target) bool { return t.State == subjects.ConnectionStarting })
	}
	return err
}

// start marks what is pending, so that a successor knows that it may have been sent, and then sends it.
func (s *shift) start(ctx context.Context) error {
	marked := map[[2]string]bool{}
	err := s.update(ctx, func(o *Operation) error {
		clear(marked)
		for i := range o.Targets {
			t := &o.Targets[i]
			if t.State != subjects.ConnectionPending {
				continue
			}
			if err := t.move(CauseMark, ActorWatcher); err != nil {
				return err
			}
			marked[[2]string{t.Name, t.Alias}] = true
		}
		if len(marked) == 0 {
			return ErrUnchanged // a button was faster
		}
		o.Seq++
		return nil
	})
	if err == nil && !s.op.Settled() {
		s.begin(func(t *Target) bool { return marked[[2]string{t.Name, t.Alias}] })
	}
	return err
}

// begin sends what is starting: the apps one request after the other, the local servers side by side.
func (s *shift) begin(which func(*Target) bool) {
	var hosted []Target
	op := s.op.Clone()
	for _, t := range op.Targets {
		switch {
		case t.State != subjects.ConnectionStarting || !which(&t):
		case t.Kind == subjects.KindMCP:
			s.workers.Go(func() { s.askLocal(s.work, op, t, string(op.Action), op.key(&t)) })
		default:
			hosted = append(hosted, t)
		}
	}
	if len(hosted) > 0 {
		s.workers.Go(func() { s.mint(op, hosted) })
	}
}

// send hands a finding to the shift, unless that has ended.
func (s *shift) send(f finding) {
	select {
	case s.found <- f:
	case <-s.work.Done():
	}
}

func (s *shift) findingOf(t *Target, c MoveCause, apply func(*Target)) finding {
	return finding{name: t.Name, alias: t.Alias, attempt: t.Attempt, cause: c, apply: apply}
}

func (s *shift) failed(t *Target, detail string) {
	s.send(s.findingOf(t, CauseFail, func(t *Target) { t.Detail = detail }))
}

// take writes a finding down. What belongs to an earlier attempt, or to a target that was moved meanwhile, is dropped.
func (s *shift) take(ctx context.Context, f finding) error {
	if f.round != nil {
		s.reading = false
		s.arm(max(f.round.Parked, watchTick))
		if s.w.Observer != nil && s.w.Observer.Round != nil {
			told := *f.round
			told.Parked = min(told.Parked, max(s.op.Deadline.Sub(s.clock.Now()), 0))
			s.w.Observer.Round(ctx, s.op.WithoutLinks(), told)
		}
		return nil
	}
	err := s.update(ctx, func(o *Operation) error {
		t := o.target(f.name, f.alias)
		if t == nil || t.Attempt != f.attempt || t.move(f.cause, ActorWatcher) != nil {
			return ErrUnchanged
		}
		t.Detail = ""
		if f.apply != nil {
			f.apply(t)
		}
		o.Seq++
		o.conclude(s.clock.Now())
		return nil
	})
	if errors.Is(err, ErrOperationTooLarge) && f.apply != nil {
		return s.take(ctx, f.bare())
	}
	return err
}

// bare is a finding without what came with it, which is too much to be kept. A link that cannot be kept is none.
func (f finding) bare() finding {
	f.apply = nil
	if f.cause == CauseBegin {
		f.cause, f.apply = CauseFail, func(t *Target) { t.Detail = detailLongLink }
	}
	return f
}

func (s *shift) arm(d time.Duration) {
	if s.untick != nil {
		s.untick()
	}
	s.tick, s.untick = s.clock.NewTimer(d)
}

// mint asks the gateway for links: once for all targets without an alias, and once for each with one. reconnect first
// lists what is connected and leaves that alone, unless it is forced.
func (s *shift) mint(op *Operation, targets []Target) {
	g := s.w.Gateway
	if in := g.SignIn(s.work, op.Tenant); in != SignInOK {
		for i := range targets {
			s.failed(&targets[i], in.hint())
		}
		return
	}
	if op.Action == ActionReconnect && !op.Force {
		targets = s.unconnected(op, targets)
	}
	again := func(t Target) bool { return op.Action == ActionReconnect || t.Attempt > 1 }
	var groups [][]Target
	for _, t := range targets {
		i := slices.IndexFunc(groups, func(have []Target) bool {
			return t.Alias == "" && have[0].Alias == "" && again(have[0]) == again(t)
		})
		if i < 0 {
			groups = append(groups, []Target{t})
		} else {
			groups[i] = append(groups[i], t)
		}
	}
	for _, group := range groups {
		s.mintGroup(op, group, again(group[0]))
	}
}

// unconnected tells of the targets that need no repair, and returns the others.
func (s *shift) unconnected(op *Operation, targets []Target) []Target {
	apps, err := s.w.Gateway.client.List(s.work, op.Tenant)
	if err != nil {
		for i := range targets {
			s.failed(&targets[i], SignInOf(err).hint())
		}
		return nil
	}
	return slices.DeleteFunc(targets, func(t Target) bool {
		whole := t.Alias == "" && slices.ContainsFunc(apps, func(a Connector) bool {
			return lower(a.Connector) == t.Name && a.Connected && a.Enabled
		})
		if whole {
			s.send(s.findingOf(&t, CauseFind, func(t *Target) { t.Detail = "It was connected already." }))
		}
		return whole
	})
}

func (s *shift) mintGroup(op *Operation, group []Target, again bool) {
	r := ConnectionsRequest{Reinitiate: again, Alias: group[0].Alias, Op: op.ID}
	for _, t := range group {
		r.Connectors = append(r.Connectors, t.Name)
	}
	answer, err := s.w.Gateway.client.Connections(s.work, op.Tenant, r)
	for i := range group {
		t := &group[i]
		if err != nil {
			s.failed(t, startFailure(err))
			continue
		}
		at := slices.IndexFunc(answer.Results, func(c ConnectionResult) bool { return lower(c.Connector) == t.Name })
		if at < 0 {
			s.failed(t, detailNoResult)
			continue
		}
		s.minted(t, &answer.Results[at])
	}
}

// startFailure words why a start failed: the sign-in where that is it, else that asking again is up to the model.
func startFailure(err error) string {
	var e *Error
	if in := SignInOf(err); in != SignInUnreachable || !errors.As(err, &e) || e.Kind != KindRateLimited {
		return in.hint()
	}
	return "The gateway has had too many requests; try again later."
}

func (s *shift) minted(t *Target, c *ConnectionResult) {
	switch {
	case c.Status == "active":
		s.send(s.findingOf(t, CauseFind, nil))
	case c.Status == "failed":
		s.failed(t, textOf(c.StatusReason, "The gateway refused it."))
	case textOf(c.ConnectURL, "") == "":
		s.failed(t, detailNoLink)
	case len(*c.ConnectURL) > maxLink:
		s.failed(t, detailLongLink)
	default:
		s.send(s.findingOf(t, CauseBegin, func(t *Target) {
			t.ConnectURL, t.Instruction, t.ConnectionID = *c.ConnectURL, textOf(c.Instruction, ""), textOf(c.ConnectionID, "")
		}))
	}
}

func textOf(p *string, fallback string) string {
	if p == nil || *p == "" {
		return fallback
	}
	return clip(*p, maxMessage)
}

// read reads the account of each live target once, one after the other. A 429 ends the round: it is about the user and
// not about one app. Any other failure is left to the next round, until the deadline. A read has no span of its own,
// for there may be hundreds.
func (s *shift) read(op *Operation) {
	round := &Round{}
	defer func() { s.send(finding{round: round}) }()
	quiet := telemetry.WithoutSpans(s.work)
	for i := range op.Targets {
		t := &op.Targets[i]
		if t.State != subjects.ConnectionInitiated {
			continue
		}
		if t.Kind == subjects.KindMCP {
			round.Reads++
			s.readLocal(quiet, op, t)
			continue
		}
		if t.ConnectionID == "" {
			continue
		}
		round.Reads++
		ctx, cancel := context.WithTimeout(quiet, min(longestRead, max(watchTick, op.Deadline.Sub(s.clock.Now()))))
		account, err := s.w.Gateway.account(ctx, op.Tenant, t.ConnectionID)
		cancel()
		var e *Error
		switch {
		case errors.As(err, &e) && e.Kind == KindRateLimited:
			round.Failed, _ = errorType(e)
			round.Parked = max(e.RetryAfter, watchTick)
			return
		case err != nil || account == nil:
			if s.work.Err() != nil {
				return
			}
			round.Failed = unread(e)
		default:
			s.judge(t, account)
		}
	}
}

// unread names why an account was not read, where there is no error because the gateway does not know it.
func unread(e *Error) string {
	if e == nil {
		return "not_found"
	}
	code, _ := errorType(e)
	return code
}

// account reads one account, also where connectors were switched off meanwhile.
func (g *Gateway) account(ctx context.Context, tenant, id string) (*Account, error) {
	if !g.Configured() {
		return nil, newError(KindUnavailable, CodeNoOrigin, nil, "connectors are switched off")
	}
	return g.client.Account(ctx, tenant, id)
}

// judge turns the gateway's word for an account into a move.
func (s *shift) judge(t *Target, a *Account) {
	reason := textOf(a.StatusReason, "")
	switch a.Status {
	case "active":
		s.send(s.findingOf(t, CauseConnect, nil))
	case "expired":
		s.send(s.findingOf(t, CauseExpire, func(t *Target) { t.Detail = reason }))
	case "failed", "revoked", "inactive":
		s.failed(t, textOf(a.StatusReason, "The app says "+a.Status+"."))
	}
}

// askLocal has a local server worked on.
func (s *shift) askLocal(ctx context.Context, op *Operation, t Target, action, key string) {
	if s.w.Local == nil || t.Host == "" {
		s.failed(&t, textNoHost)
		return
	}
	deadline := op.Deadline
	wait := localWait
	if action == actionStatusW {
		wait = localTick
	}
	if soon := s.clock.Now().Add(wait); (!op.Card() || action == actionStatusW) && soon.Before(deadline) {
		deadline = soon
	}
	ctx, cancel := context.WithTimeout(ctx, deadline.Sub(s.clock.Now()))
	defer cancel()
	answer, err := s.w.Local.Ask(ctx, LocalRequest{Tenant: op.Tenant, Host: t.Host, Call: op.ID, Action: action, Name: t.Name,
		Key: key, Deadline: deadline, Trace: op.Trace})
	if err != nil {
		var said *subjects.ToolError
		detail := localUnsure
		if errors.As(err, &said) {
			detail = clip(said.Message, maxMessage)
		}
		if t.State == subjects.ConnectionStarting { // a status that fails is asked for again
			s.failed(&t, detail)
		}
		return
	}
	s.answered(&t, answer)
}

func (s *shift) answered(t *Target, a *LocalAnswer) {
	apply := func(t *Target) {
		t.Detail, t.ConnectURL, t.Tools = clip(a.Detail, maxMessage), a.ConnectURL, a.Tools
		if len(a.Tools) > maxTools {
			t.Detail, t.Tools = detailLongTools, nil
		}
	}
	if len(a.ConnectURL) > maxLink {
		s.failed(t, detailLongLink)
		return
	}
	starting := t.State == subjects.ConnectionStarting
	switch {
	case a.State == subjects.ConnectionConnected && starting:
		s.send(s.findingOf(t, CauseFind, apply))
	case a.State == subjects.ConnectionConnected:
		s.send(s.findingOf(t, CauseConnect, apply))
	case a.State == subjects.ConnectionInitiated && starting:
		s.send(s.findingOf(t, CauseBegin, apply))
	case a.State == subjects.ConnectionInitiated:
	default:
		s.send(s.findingOf(t, CauseFail, apply))
	}
}

// readLocal asks a host, at its own slower pace, whether the user is done.
func (s *shift) readLocal(ctx context.Context, op *Operation, t *Target) {
	round := int64(s.clock.Now().Sub(op.Deadline) / localTick) // the same key for all asks of one interval
	probe := *t
	probe.Attempt = int(round) - 1 // no start has it: they count from 1
	s.askLocal(ctx, op, *t, actionStatusW, op.key(&probe))
}
