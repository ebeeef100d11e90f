package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"toolsearch/subjects"
	"toolsearch/telemetry"
)

// The defaults of a [Runner].
const (
	DefaultEntryBound   = 120 * time.Second
	DefaultWatchWait    = 5 * time.Second
	DefaultMaxTakeovers = 5
	DefaultHookTimeout  = 300 * time.Second

	returnDelay = time.Second      // before a job that was handed back for a stalled watch is tried again
	farewell    = 5 * time.Second  // for the last write of a runner whose context has ended
	doneWait    = 10 * time.Second // for taking a finished job off the queue
)

// Runner runs accepted calls, one delivery at a time in each call of [Runner.Run]; those may be made side by side.
// The interfaces must be set; the rest has defaults.
type Runner struct {
	Records Records
	Watch   Watch
	Bodies  Bodies
	Events  Events
	Jobs    Jobs
	Dead    Dead
	Hooks   Hooks
	// Connectors and Hosts send an entry: to the gateway, or to a tool host on the bus.
	Connectors Sender
	Hosts      Sender
	// Line is where calls wait whose host does not allow them side by side.
	Line Line

	// AckWait is how long the queue waits for a sign of life; a third of it is the heartbeat. 0: no heartbeat.
	AckWait time.Duration
	// EntryBound is for one entry with its retries. 0: [DefaultEntryBound].
	EntryBound time.Duration
	// WatchWait is how long a mark waits for the watch to come to it. 0: [DefaultWatchWait].
	WatchWait time.Duration
	// MaxTakeovers is how many runners may die of a call before it is given up. 0: [DefaultMaxTakeovers].
	MaxTakeovers int
	// Inline bounds an outcome that the record holds itself, in bytes. 0: [DefaultInline].
	Inline int
	// MaxPayload is the largest message of the bus, in bytes. 0: 1 MiB.
	MaxPayload int
	// Now is the clock. Nil: time.Now.
	Now func() time.Time
	// Telemetry gets the spans of batches and entries, below the one of ctx, and their metrics. Nil: nothing is
	// recorded.
	Telemetry *telemetry.Recorder
	// Logger gets what an operator should know. Nil: nothing is logged.
	Logger *slog.Logger

	once sync.Once
}

// Verdict is how a run ended.
type Verdict string

// The verdicts.
const (
	VerdictDone     Verdict = "done"     // the call is settled, published and off the queue
	VerdictReturned Verdict = "returned" // handed back cleanly, for another runner
	VerdictLost     Verdict = "lost"     // another runner has it
	VerdictFailed   Verdict = "failed"   // a fault; it will be tried again, and that counts as a takeover
)

func (r *Runner) defaults() {
	r.once.Do(func() {
		if r.EntryBound == 0 {
			r.EntryBound = DefaultEntryBound
		}
		if r.WatchWait == 0 {
			r.WatchWait = DefaultWatchWait
		}
		if r.MaxTakeovers == 0 {
			r.MaxTakeovers = DefaultMaxTakeovers
		}
		if r.Inline == 0 {
			r.Inline = DefaultInline
		}
		if r.MaxPayload == 0 {
			r.MaxPayload = 1 << 20
		}
		if r.Now == nil {
			r.Now = time.Now
		}
		r.Telemetry = telemetry.OrNone(r.Telemetry)
		if r.Logger == nil {
			r.Logger = slog.New(slog.DiscardHandler)
		}
	})
}

// returned is the error of a run that hands its job back.
type returned struct {
	delay time.Duration
	why   string
}

func (e *returned) Error() string { return "dispatch: handed back: " + e.why }

// errUnreadable is a record that is gone or that cannot be read.
type errUnreadable struct {
	value []byte
	rev   uint64
	err   error
}

func (e *errUnreadable) Error() string {
	return "dispatch: the record cannot be read: " + e.err.Error()
}

// errDuplicate is a job for which nothing is left to do.
var errDuplicate = errors.New("dispatch: nothing left to do for this job")

// Run works on one delivery until its call has settled, or hands it back. When drain closes, it finishes the entry
// that is on its way and hands the rest back; when ctx ends, it hands back at once, and what was on its way is sent
// again by its successor, under the same key. It never panics.
func (r *Runner) Run(ctx context.Context, drain <-chan struct{}, d Delivery) (v Verdict) {
	r.defaults()
	stop := r.heartbeat(d.Receipt)
	defer stop()
	defer func() {
		if p := recover(); p != nil {
			r.Logger.Error("a runner panicked; the job is tried again", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			_ = d.Receipt.Return(returnDelay)
			v = VerdictFailed
		}
	}()
	job, err := DecodeJob(d.Data)
	switch {
	case errors.Is(err, errNewer):
		_ = d.Receipt.Return(returnDelay)
		return VerdictReturned
	case err != nil:
		return r.unreadableJob(ctx, d, err)
	}
	return r.runJob(ctx, drain, d, job)
}

// runJob picks the job up, until it has it, has nothing to do for it, or has lost it.
func (r *Runner) runJob(ctx context.Context, drain <-chan struct{}, d Delivery, job *Job) Verdict {
	// A job that is handed out for the first time, of a call that was never reopened, finds the record as it was made.
	// That saves a read; where it is wrong, the first write fails and nothing has happened.
	asMade := d.First && job.Generation == 0
	for {
		run := &run{Runner: r, job: job, d: d, drain: drain, log: r.Logger,
			journal: journal{records: r.Records, key: job.Key}, id: NewNonce()}
		err := run.do(ctx, asMade)
		if errors.Is(err, ErrLost) && !run.owned && asMade {
			asMade = false
			continue
		}
		return run.end(ctx, err)
	}
}

// heartbeat tells the queue that the runner lives, until the function that it returns is called.
func (r *Runner) heartbeat(receipt Receipt) (stop func()) {
	if r.AckWait <= 0 {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(r.AckWait / 3)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				_ = receipt.Working() // the next one may get through
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-done }
}

// run is one runner at one call.
type run struct {
	*Runner
	journal
	id      string
	job     *Job
	payload *Payload
	d       Delivery
	drain   <-chan struct{}
	log     *slog.Logger
	follow  Following
	dirty   bool   // the record in memory is ahead of the one that stands
	next    int    // the first entry that was not handed to the announcer
	corrupt []byte // a record that could not be read
	// outcomes are those known in memory: settled in this run, or read for an event.
	outcomes  []*EntryOutcome
	announcer *announcer
	span      *telemetry.EntrySpan // of the entry that is at work
	fresh     []int                // entries that settled in this run and were not counted yet
}

// do runs the call to its end.
func (r *run) do(ctx context.Context, asMade bool) error {
	follow, err := r.Watch.Follow(ctx, r.key, r.job.Created)
	if err != nil {
		return &returned{delay: returnDelay, why: "the stops cannot be read: " + err.Error()}
	}
	defer follow.Close()
	r.follow = follow
	if err := r.pickUp(ctx, asMade); err != nil {
		return err
	}
	publishing, cancel := context.WithCancel(ctx)
	r.announce(publishing)
	defer func() {
		cancel() // whoever has lost the call publishes nothing more
		_ = r.announcer.finish()
	}()
	err = r.entries(ctx)
	if err == nil {
		err = r.finish(ctx)
	}
	var back *returned
	switch {
	case err == nil, errors.Is(err, ErrLost):
		return err
	case errors.As(err, &back):
		return r.handBack(ctx, back)
	case ctx.Err() != nil:
		return r.handBack(ctx, &returned{why: err.Error()})
	}
	return err
}

// pickUp takes the record over, in memory; the first write makes it stand.
func (r *run) pickUp(ctx context.Context, asMade bool) error {
	if asMade {
		r.rec, r.rev = r.job.record(), r.job.Created
		r.countDoor()
	} else if err := r.read(ctx); err != nil {
		var bad *errUnreadable
		if !errors.As(err, &bad) {
			return err
		}
		r.log.ErrorContext(ctx, "the record of a call cannot be read; its entries settle as unknown", "call", r.key.String(), "error", bad.err)
		r.rec, r.rev, r.corrupt = r.job.record(), bad.rev, bad.value
		r.rec.Generation, r.rec.Dead = r.job.Generation, true
	}
	r.outcomes = make([]*EntryOutcome, len(r.rec.Entries))
	if r.rec.Runner != "" && !r.rec.Returned {
		r.rec.Takeovers++
		r.Telemetry.Metrics().TookOver(ctx)
	}
	r.rec.Runner, r.rec.Returned = r.id, false
	r.rec.Job, r.rec.Created = r.d.Sequence, r.job.Created
	r.dirty = true
	if r.rec.Dead && !r.rec.settled() {
		return r.settleUnread(ctx)
	}
	return r.load(ctx)
}

// settleUnread settles entries of which nothing is known, since the record could not be read.
func (r *run) settleUnread(ctx context.Context) error {
	for i := range r.rec.Entries {
		if r.rec.Entries[i].State.Settled() {
			continue
		}
		if err := r.settle(ctx, i, CauseUnreadable, entryError(subjects.EntryOutcomeUnknown, textUnknown)); err != nil {
			return err
		}
	}
	return nil
}

// read reads the record and decides whether this job is the one that works for it.
func (r *run) read(ctx context.Context) error {
	value, rev, err := r.readRecord(ctx)
	if err != nil {
		return err
	}
	rec, err := DecodeRecord(value)
	switch {
	case errors.Is(err, errNewer):
		return &returned{delay: returnDelay, why: "a newer worker wrote its record"}
	case err == nil && len(rec.Entries) != len(r.job.Names):
		err = errors.New("it has another number of entries than its job")
	}
	if err != nil {
		return &errUnreadable{value: value, rev: rev, err: err}
	}
	r.rec, r.rev = rec, rev
	switch {
	case rec.Nonce != r.job.Nonce, rec.Generation > r.job.Generation, rec.Published:
		// The record of a later call with the same id, or of a later generation, or all is done.
		return errDuplicate
	case rec.Job != 0 && rec.Job != r.d.Sequence:
		stands, err := r.Jobs.Exists(ctx, rec.Job)
		if err != nil {
			return &returned{delay: returnDelay, why: "the queue cannot be read: " + err.Error()}
		}
		if stands {
			return errDuplicate
		}
	}
	return nil
}

// readRecord reads the record of a job. It was written before the job, so one that is missing, or older than the job
// knows, is first taken for a leader that has not caught up.
func (r *run) readRecord(ctx context.Context) ([]byte, uint64, error) {
	pause := newPause()
	for misses := 0; ; {
		value, rev, err := r.Records.Read(ctx, r.key)
		if err == nil && rev >= r.job.Created {
			return value, rev, nil
		}
		if err == nil || errors.Is(err, ErrNotFound) {
			if misses++; misses > certainMisses {
				return value, rev, &errUnreadable{value: value, rev: rev, err: ErrNotFound}
			}
		}
		if err := pause.wait(ctx, err); err != nil {
			return nil, 0, err
		}
	}
}

// load gets the payload where the job only names it. A payload that is certainly gone settles what has not started.
func (r *run) load(ctx context.Context) error {
	if r.job.Payload != nil {
		r.payload = r.job.Payload
		return nil
	}
	if r.rec.settled() {
		return nil
	}
	pause := newPause()
	for {
		body, err := r.Bodies.Get(ctx, r.key.Tenant, *r.job.Body)
		p := &Payload{}
		if err == nil {
			err = json.Unmarshal(body, p)
			if err == nil && len(p.Entries) == len(r.rec.Entries) {
				r.payload = p
				return nil
			}
			err = ErrNotFound
		}
		if errors.Is(err, ErrNotFound) {
			r.log.ErrorContext(ctx, "the arguments of a call are gone; it is given up", "call", r.key.String())
			return r.abandon(ctx, textNoArguments)
		}
		if err := pause.wait(ctx, err); err != nil {
			return err
		}
	}
}

// entries settles every entry, in order.
func (r *run) entries(ctx context.Context) error {
	ctx, span := r.Telemetry.Batch(ctx, len(r.rec.Entries), r.rec.Takeovers, r.rec.Generation)
	defer span.End()
	if r.rec.Takeovers > r.MaxTakeovers && !r.rec.settled() {
		r.log.ErrorContext(ctx, "a call is given up: its runners died too often", "call", r.key.String(), "takeovers", r.rec.Takeovers)
		return r.abandon(ctx, textAbandoned)
	}
	for i := range r.rec.Entries {
		var err error
		switch r.rec.Entries[i].State {
		case StatePending:
			err = r.entry(ctx, i, r.begin)
		case StateStarted:
			err = r.entry(ctx, i, r.resume)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// abandon settles what is open without sending anything.
func (r *run) abandon(ctx context.Context, text string) error {
	r.rec.Dead = true
	for i := range r.rec.Entries {
		out := entryError(subjects.EntryAbandoned, text)
		switch r.rec.Entries[i].State {
		case StateStarted:
			out = entryError(subjects.EntryOutcomeUnknown, textUnknown)
		case StatePending:
		default:
			continue
		}
		if err := r.settle(ctx, i, CauseAbandon, out); err != nil {
			return err
		}
	}
	return nil
}

// mayBegin checks what can keep an entry from being sent that was not sent yet. settled is true where it has settled.
func (r *run) mayBegin(ctx context.Context, i int) (settled bool, err error) {
	switch {
	case isClosed(r.follow.Stopped()):
		return true, r.settle(ctx, i, CauseStop, entryError(subjects.EntryInterrupted, textInterrupted))
	case !r.payload.Deadline.IsZero() && !r.Now().Before(r.payload.Deadline):
		return true, r.settle(ctx, i, CauseRefuse, entryError(subjects.EntryDeadlineExceeded, textDeadline))
	case isClosed(r.drain):
		return false, &returned{why: "the worker is draining"}
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	}
	return false, nil
}

// begin takes a pending entry from the stop check to its outcome.
func (r *run) begin(ctx context.Context, i int) error {
	if settled, err := r.mayBegin(ctx, i); settled || err != nil {
		return err
	}
	arguments := r.payload.Entries[i].Arguments
	e := &r.rec.Entries[i]
	e.Arguments, e.ArgumentsBody = nil, nil
	if r.payload.Hooks.Pre {
		// What has settled shows before a wait that may be long.
		if err := r.flush(ctx); err != nil {
			return err
		}
		rewritten, settled, err := r.ask(ctx, i, arguments)
		if settled || err != nil {
			return err
		}
		if settled, err := r.mayBegin(ctx, i); settled || err != nil {
			return err
		}
		if rewritten != nil {
			arguments = rewritten
			if err := r.keepArguments(ctx, i, rewritten); err != nil {
				return err
			}
		}
	}
	leave, settled, err := r.enterLine(ctx, i)
	if settled || err != nil {
		return err
	}
	defer leave()
	return r.start(ctx, i, arguments)
}

// enterLine waits for the one place at a host that does not allow calls side by side, before the entry counts as
// started. settled is true where a stop or the deadline came first.
func (r *run) enterLine(ctx context.Context, i int) (leave func(), settled bool, err error) {
	if r.payload.Host == "" || r.payload.Parallel {
		return func() {}, false, nil
	}
	waiting, cancel := r.whileWanted(ctx)
	defer cancel()
	leave, err = r.Line.Enter(waiting, r.key.Tenant, r.payload.Host)
	if err != nil {
		if settled, berr := r.mayBegin(ctx, i); settled || berr != nil {
			return nil, settled, berr
		}
		return nil, false, &returned{delay: returnDelay, why: "no place in line: " + err.Error()}
	}
	if settled, err := r.mayBegin(ctx, i); settled || err != nil {
		leave()
		return nil, settled, err
	}
	return leave, false, nil
}

// whileWanted ends when a stop, the deadline or a drain makes it pointless to wait for leave to send.
func (r *run) whileWanted(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if d := r.payload.Deadline; !d.IsZero() {
		ctx, cancel = withTimeout(ctx, cancel, d.Sub(r.Now()))
	}
	go func() {
		select {
		case <-r.follow.Stopped():
		case <-r.drain:
		case <-ctx.Done():
		}
		cancel()
	}()
	return ctx, cancel
}

// withTimeout is context.WithTimeout whose cancel cancels the parent too.
func withTimeout(parent context.Context, cancel context.CancelFunc, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, inner := context.WithTimeout(parent, d)
	return ctx, func() { inner(); cancel() }
}

// start marks an entry started, makes sure that no stop came before the mark, and sends.
func (r *run) start(ctx context.Context, i int, arguments json.RawMessage) error {
	if err := r.rec.move(i, CauseMark); err != nil {
		return err
	}
	e, now := &r.rec.Entries[i], r.Now().UTC()
	e.StartedAt, e.Runs, r.dirty = &now, 1, true
	if err := r.flush(ctx); err != nil {
		return err
	}
	if err := r.passed(ctx); err != nil {
		if errors.Is(err, ErrLost) {
			return err
		}
		// Nothing was sent, and nothing may be while stops may have been missed.
		if merr := r.rec.move(i, CauseTakeBack); merr != nil {
			return merr
		}
		e.StartedAt, e.Runs, r.dirty = nil, 0, true
		return &returned{delay: returnDelay, why: "the watch has not come to the mark: " + err.Error()}
	}
	if isClosed(r.follow.Stopped()) {
		e.StartedAt, e.Runs = nil, 0
		return r.settle(ctx, i, CauseStop, entryError(subjects.EntryInterrupted, textInterrupted))
	}
	return r.send(ctx, i, arguments, false)
}

// resume sends an entry again that another runner had marked. Whether that one sent it cannot be known; the key is the
// same, and so are the arguments. The policy hook is not asked twice.
func (r *run) resume(ctx context.Context, i int) error {
	if isClosed(r.drain) {
		return &returned{why: "the worker is draining"}
	}
	e := &r.rec.Entries[i]
	if err := r.rec.move(i, CauseResume); err != nil {
		return err
	}
	e.Runs++
	r.dirty = true
	if err := r.flush(ctx); err != nil {
		return err
	}
	if err := r.passed(ctx); err != nil {
		if errors.Is(err, ErrLost) {
			return err
		}
		e.Runs--
		r.dirty = true
		return &returned{delay: returnDelay, why: "the watch has not come to the pickup: " + err.Error()}
	}
	leave, err := r.lineAgain(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if isClosed(r.follow.Stopped()) {
		e.Runs--
		return r.settle(ctx, i, CauseLose, entryError(subjects.EntryOutcomeUnknown, textUnknown))
	}
	arguments, err := r.arguments(ctx, i)
	if errors.Is(err, ErrNotFound) {
		return r.settle(ctx, i, CauseLose, entryError(subjects.EntryOutcomeUnknown, textUnknown))
	}
	if err != nil {
		return err
	}
	return r.send(ctx, i, arguments, true)
}

// lineAgain is enterLine for an entry that has started already: only a stop keeps it from being sent, and a drain.
func (r *run) lineAgain(ctx context.Context) (leave func(), err error) {
	if r.payload.Host == "" || r.payload.Parallel {
		return func() {}, nil
	}
	waiting, cancel := r.whileWanted(ctx)
	defer cancel()
	leave, err = r.Line.Enter(waiting, r.key.Tenant, r.payload.Host)
	switch {
	case err == nil:
		return leave, nil
	case isClosed(r.follow.Stopped()):
		return func() {}, nil
	}
	return nil, &returned{why: "no place in line: " + err.Error()}
}

// passed waits until the watch has come to the write that stands.
func (r *run) passed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.WatchWait)
	defer cancel()
	return r.follow.Passed(ctx, r.rev)
}

// send sends a started entry and settles it with what came of it.
func (r *run) send(ctx context.Context, i int, arguments json.RawMessage, repeat bool) error {
	e, began := &r.rec.Entries[i], time.Now()
	r.span.Arguments(arguments)
	sent := r.safeSend(ctx, Sending{
		Key: r.key, Index: i, Name: e.Name, Arguments: arguments, Host: r.payload.Host, Surface: r.payload.Surface,
		IdempotencyKey: func(slug string) string { return IdempotencyKey(r.rec.Nonce, i, slug) },
		Repeat:         repeat, Stop: r.follow.Stopped(), Bound: r.EntryBound, Deadline: r.payload.Deadline, Trace: r.d.Trace})
	if sent.Cut {
		// The mark stays, and the successor sends again under the same key.
		return fmt.Errorf("%w while an entry was on its way", context.Cause(ctx))
	}
	cause := CauseLose
	switch {
	case sent.Outcome == subjects.OutcomeInterrupted && sent.Attempts == 0 && !repeat:
		e.StartedAt, e.Runs = nil, 0
		return r.settle(ctx, i, CauseStop, entryError(subjects.EntryInterrupted, textInterrupted))
	case sent.Outcome == subjects.OutcomeOK && sent.Error == nil:
		cause = CauseSucceed
	case sent.Outcome == subjects.OutcomeError && sent.Error != nil:
		cause = CauseFail
	case sent.Error == nil || sent.Outcome != subjects.OutcomeUnknown:
		sent.EntryOutcome = entryError(subjects.EntryOutcomeUnknown, textUnknown)
	}
	e.Attempts = e.Runs - 1 + sent.Attempts
	if err := r.settle(ctx, i, cause, sent.EntryOutcome); err != nil {
		return err
	}
	r.executed(ctx, i, time.Since(began))
	return nil
}

// safeSend keeps a fault of a sender to its entry.
func (r *run) safeSend(ctx context.Context, s Sending) (sent Sent) {
	defer func() {
		if p := recover(); p != nil {
			r.log.ErrorContext(ctx, "a sender panicked", "call", r.key.String(), "index", s.Index, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			sent = Sent{Outcome: subjects.OutcomeUnknown, EntryOutcome: entryError(subjects.EntryOutcomeUnknown, textUnknown)}
		}
	}()
	if s.Host != "" {
		return r.Hosts.Send(ctx, s)
	}
	return r.Connectors.Send(ctx, s)
}

// keepArguments notes arguments that a hook rewrote, so that a successor sends the same.
func (r *run) keepArguments(ctx context.Context, i int, arguments json.RawMessage) error {
	e := &r.rec.Entries[i]
	if len(arguments) <= r.inline() {
		e.Arguments, e.ArgumentsBody = arguments, nil
		return nil
	}
	ref, err := r.put(ctx, arguments)
	if err != nil {
		return err
	}
	e.Arguments, e.ArgumentsBody = nil, &ref
	return nil
}

// arguments are what a started entry is sent with: those of its mark, or the job's own.
func (r *run) arguments(ctx context.Context, i int) (json.RawMessage, error) {
	e := &r.rec.Entries[i]
	switch {
	case e.Arguments != nil:
		return e.Arguments, nil
	case e.ArgumentsBody == nil:
		return r.payload.Entries[i].Arguments, nil
	}
	pause := newPause()
	for {
		body, err := r.Bodies.Get(ctx, r.key.Tenant, *e.ArgumentsBody)
		if err == nil || errors.Is(err, ErrNotFound) {
			return body, err
		}
		if err := pause.wait(ctx, err); err != nil {
			return nil, err
		}
	}
}

// ask puts one entry to the session's policy. settled is true where that refused it, or a stop or the deadline came
// first.
func (r *run) ask(ctx context.Context, i int, arguments json.RawMessage) (rewritten json.RawMessage, settled bool, err error) {
	timeout := time.Duration(r.payload.Hooks.TimeoutMS) * time.Millisecond
	if timeout <= 0 {
		timeout = DefaultHookTimeout
	}
	wanted, cancel := r.whileWanted(ctx)
	defer cancel()
	waiting, cancelTimeout := context.WithTimeout(wanted, timeout)
	defer cancelTimeout()
	began := time.Now()
	reply, err := r.Hooks.Pre(waiting, r.key, &subjects.HookRequest{CallID: r.key.Call, Index: i, Name: r.rec.Entries[i].Name,
		Arguments: arguments, Toolset: r.payload.Toolset, Surface: r.payload.Surface}, r.d.Trace)
	r.asked(ctx, reply, time.Since(began))
	if err != nil {
		// No answer, because a stop, the deadline or a drain came first; or a policy that is not there, which is a no.
		if settled, berr := r.mayBegin(ctx, i); settled || berr != nil {
			return nil, settled, berr
		}
		r.log.WarnContext(ctx, "a session's policy gave no answer; the entry is denied", "call", r.key.String(), "index", i, "error", err)
		return nil, true, r.deny(ctx, i, "")
	}
	switch reply.Decision {
	case subjects.DecisionAllow:
		return nil, false, nil
	case subjects.DecisionRewrite:
		// The tool's own schema decides, as it did for the model's arguments; a connector's is the gateway's to check.
		checked, err := Validate(r.rec.Entries[i].Name, r.payload.Parameters, reply.Arguments)
		if err != nil {
			r.log.WarnContext(ctx, "a session's policy rewrote arguments so that they do not fit", "call", r.key.String(), "index", i)
			return nil, true, r.settle(ctx, i, CauseRefuse, entryError(subjects.EntryDenied, textBadRewrite+" "+err.Error()))
		}
		return checked.Arguments, false, nil
	case subjects.DecisionDeny:
		return nil, true, r.deny(ctx, i, reply.Reason)
	}
	return nil, true, r.deny(ctx, i, "")
}

func (r *run) deny(ctx context.Context, i int, reason string) error {
	text := textDenied
	if reason != "" {
		text += " " + reason
	}
	return r.settle(ctx, i, CauseRefuse, entryError(subjects.EntryDenied, Bounded(text)))
}

// handBack leaves the record for another runner; the job is given to it by end. The count of takeovers stays as it is:
// what was counted at this pickup was the end of the runner before. What has settled is still published.
func (r *run) handBack(ctx context.Context, why *returned) error {
	if r.owned || r.settledSome() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
		r.rec.Returned, r.dirty = true, true
		if err := r.flush(last); err != nil {
			return err
		}
	}
	if err := r.announcer.finish(); err != nil {
		r.log.InfoContext(ctx, "events are left to the next runner", "call", r.key.String(), "error", err)
	}
	return why
}

// settledSome reports whether an entry has settled in this run.
func (r *run) settledSome() bool {
	return slices.ContainsFunc(r.outcomes, func(o *EntryOutcome) bool { return o != nil })
}

// end tells the queue how the run ended.
func (r *run) end(ctx context.Context, err error) Verdict {
	var back *returned
	switch {
	case err == nil:
		return VerdictDone
	case errors.Is(err, errDuplicate):
		r.done(ctx)
		return VerdictDone
	case errors.As(err, &back):
		r.log.InfoContext(ctx, "a call is handed back", "call", r.key.String(), "why", back.why)
		_ = r.d.Receipt.Return(back.delay)
		return VerdictReturned
	case errors.Is(err, ErrLost):
		// Neither acknowledged nor returned: the delivery may be the other runner's by now, and the queue would take
		// it for its.
		r.log.InfoContext(ctx, "a call was taken over by another runner", "call", r.key.String())
		return VerdictLost
	case ctx.Err() != nil: // before there was anything to hand back
		_ = r.d.Receipt.Return(0)
		return VerdictReturned
	}
	r.log.ErrorContext(ctx, "a call could not be run; it is tried again", "call", r.key.String(), "error", err)
	_ = r.d.Receipt.Return(returnDelay)
	return VerdictFailed
}
