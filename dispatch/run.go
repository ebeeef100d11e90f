package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	"toolsearch/subjects"
	"toolsearch/telemetry"
)

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
