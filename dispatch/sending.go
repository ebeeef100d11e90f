package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"toolsearch/subjects"
)

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
