package dispatch

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"toolsearch/subjects"
)

// The messages of entries that this package settles itself. Their reader is a model: what was wrong, whether anything
// ran, what to do next.
const (
	textInterrupted = "Stopped before this call was made; it was not sent."
	textDeadline    = "The time allowed had passed before this call was made; it was not sent."
	textDenied      = "Denied by policy before this call was made; it was not sent."
	textAbandoned   = "Given up before this call was made, after repeated failures of the service; it was not sent."
	textUnknown     = "This call may have been sent and what became of it is not known. Check its effect before making it again."
	textNoJSON      = "The tool answered with something that is not JSON."
	textTooLarge    = "This call was made, but its result of %d bytes is too large to be kept. Ask the tool for less."
	textElsewhere   = "(too large for an event; the call's reply has it)"
	textInEvent     = "(too large to stand here; the entry's own event on the result subject has it)"
	textGone        = "This call has settled, but its result can no longer be read."
	textNoArguments = "Its arguments can no longer be read; it was not sent."
	textBadRewrite  = "Policy replaced the arguments with ones that do not fit the tool; it was not sent."
)

func entryError(code subjects.EntryCode, message string) EntryOutcome {
	return EntryOutcome{Error: &subjects.EntryError{Code: code, Message: message}}
}

// settle gives entry i its outcome, in memory; the next write of the record makes it stand. An outcome that is too big
// for the record goes to the body store first, so that the record never names what is not there.
func (r *run) settle(ctx context.Context, i int, c Cause, out EntryOutcome) error {
	body, err := subjects.Marshal(out)
	if err != nil { // a response that is no JSON
		out = entryError(subjects.EntryProviderError, textNoJSON)
		if c == CauseSucceed {
			c = CauseFail
		}
		body = nil
	}
	var ref *BodyRef
	if len(body) > r.inline() {
		put, err := r.put(ctx, body)
		switch {
		case err == nil:
			ref = &put
		case errors.Is(err, ErrTooLarge):
			out = entryError(subjects.EntryProviderError, fmt.Sprintf(textTooLarge, len(body)))
			if c == CauseSucceed {
				c = CauseFail
			}
		default:
			return err
		}
	}
	if err := r.rec.move(i, c); err != nil {
		return err
	}
	e, now := &r.rec.Entries[i], r.Now().UTC()
	e.FinishedAt, e.Generation = &now, r.rec.Generation
	e.Arguments, e.ArgumentsBody = nil, nil // nobody sends them again
	e.OutcomeBody = ref
	if ref == nil {
		e.Outcome = &out
	}
	r.outcomes[i], r.dirty = &out, true
	r.fresh = append(r.fresh, i)
	return nil
}

// inline is how many bytes of one entry's outcome or arguments the record holds itself. It keeps the whole record well
// below the largest message, however many entries it has.
func (r *run) inline() int {
	return max(512, min(r.Inline, (r.MaxPayload/2-maxNames)/(2*len(r.rec.Entries))))
}

// put stores a body for certain, or fails when ctx ends.
func (r *run) put(ctx context.Context, body []byte) (BodyRef, error) {
	pause := newPause()
	for {
		ref, err := r.Bodies.Put(ctx, r.key.Tenant, body)
		if err == nil || errors.Is(err, ErrTooLarge) {
			return ref, err
		}
		if err := pause.wait(ctx, err); err != nil {
			return BodyRef{}, err
		}
	}
}

// flush writes the record if something changed since the last write, and then, never before, announces what settled.
func (r *run) flush(ctx context.Context) error {
	if !r.dirty {
		return nil
	}
	if err := r.write(ctx); err != nil {
		return err
	}
	r.dirty = false
	r.count(ctx)
	r.announceSettled()
	return nil
}

// announceSettled hands the entries that the record now shows as settled to the announcer, in order of index: one that
// settled early, such as one refused at the door, waits for those before it. What settled before an operator reopened
// the call was announced then.
func (r *run) announceSettled() {
	for ; r.next < len(r.rec.Entries) && r.rec.Entries[r.next].State.Settled(); r.next++ {
		if r.rec.Entries[r.next].Generation == r.rec.Generation {
			r.announcer.add(r.next)
		}
	}
}

// finish ends a call whose entries have all settled, in the order that loses nothing: the record, the events and the
// summary, the copy for the operator of a job that was given up, the record as published, the job off the queue. A
// successor that finds any of these missing does it again from the record.
func (r *run) finish(ctx context.Context) error {
	if err := r.flush(ctx); err != nil {
		return err
	}
	if err := r.announcer.finish(); err != nil {
		return err
	}
	if err := r.summarise(ctx); err != nil {
		return err
	}
	if r.rec.Dead {
		if err := r.bury(ctx); err != nil {
			return err
		}
	}
	r.rec.Published = true
	if err := r.write(ctx); err != nil {
		return err
	}
	r.done(ctx)
	return nil
}

// done takes the job off the queue. Where that fails it is given back: it comes to whoever has a place, who finds its
// record published and takes it off.
func (r *run) done(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, doneWait)
	defer cancel()
	pause := newPause()
	for {
		err := r.d.Receipt.Done(bounded)
		if err == nil {
			return
		}
		if err = pause.wait(bounded, err); err != nil {
			r.log.WarnContext(ctx, "a finished job could not be taken off the queue; it comes back once",
				"call", r.key.String(), "error", err)
			_ = r.d.Receipt.Return(0)
			return
		}
	}
}

// outcome is what entry i came to, from memory, the record or the body store.
func (r *run) outcome(ctx context.Context, i int) (*EntryOutcome, error) {
	if r.outcomes[i] == nil {
		out, err := loadOutcome(ctx, r.Bodies, r.key.Tenant, &r.rec.Entries[i])
		if err != nil {
			return nil, err
		}
		r.outcomes[i] = out
	}
	return r.outcomes[i], nil
}

// announcer publishes the events of one call in order, beside the sending of later entries. Each is stored for certain
// before the next is published, so that their order holds whatever has to be repeated.
type announcer struct {
	queue chan int
	done  chan error
	once  sync.Once
	err   error
}

// announce starts the announcer of a run, which ends by finish. When ctx ends, what is left is not published.
func (r *run) announce(ctx context.Context) {
	a := &announcer{queue: make(chan int, len(r.rec.Entries)), done: make(chan error, 1)}
	r.announcer = a
	go func() {
		var err error
		for i := range a.queue {
			if err == nil {
				err = r.publishEntry(ctx, i)
			}
		}
		a.done <- err
	}()
}

// add never blocks: an entry settles once in a run.
func (a *announcer) add(i int) { a.queue <- i }

// finish waits until all that was added has been published, or returns why it was not. Further calls return the same.
func (a *announcer) finish() error {
	a.once.Do(func() {
		close(a.queue)
		a.err = <-a.done
	})
	return a.err
}

func (r *run) eventID(last string) string {
	id := r.key.String() + "." + last
	if r.rec.Generation > 0 {
		id += ".g" + strconv.Itoa(r.rec.Generation)
	}
	return id
}

// publishEntry runs in the announcer. Of the record it reads only what no longer changes: an entry that has settled.
func (r *run) publishEntry(ctx context.Context, i int) error {
	e := &r.rec.Entries[i]
	out, err := r.outcome(ctx, i)
	if err != nil {
		return err
	}
	ev := subjects.EntryEvent{Event: subjects.EventEntry, CallID: r.key.Call, EntryResult: out.result(i, e.Name),
		Outcome: e.State.Outcome(), Attempts: e.Attempts, StartedAt: e.StartedAt, FinishedAt: *e.FinishedAt,
		Generation: r.rec.Generation}
	body, err := r.publishEvent(ctx, i, &ev)
	if errors.Is(err, ErrTooLarge) {
		ev.Response = subjects.AppendString(nil, textElsewhere)
		body, err = r.publishEvent(ctx, i, &ev)
	}
	if err != nil {
		return err
	}
	if r.payload != nil && r.payload.Hooks.Post {
		if err := r.Hooks.Post(ctx, r.key, body, r.d.Trace); err != nil {
			r.log.WarnContext(ctx, "a session's policy could not be told of an entry",
				"call", r.key.String(), "index", i, "error", err)
		}
	}
	return nil
}

func (r *run) publishEvent(ctx context.Context, i int, ev *subjects.EntryEvent) ([]byte, error) {
	body, err := subjects.Marshal(ev)
	if err != nil {
		return nil, fmt.Errorf("dispatch: event: %w", err)
	}
	return body, r.publish(ctx, r.eventID(strconv.Itoa(i)), body)
}

func (r *run) summarise(ctx context.Context) error {
	batch, err := r.batch(ctx)
	if err != nil {
		return err
	}
	err = r.publishSummary(ctx, batch)
	if !errors.Is(err, ErrTooLarge) {
		return err
	}
	for i := range batch.Results {
		if len(batch.Results[i].Response) > DefaultInline {
			batch.Results[i].Response = subjects.AppendString(nil, textInEvent)
		}
	}
	return r.publishSummary(ctx, batch)
}

func (r *run) publishSummary(ctx context.Context, batch *subjects.BatchReply) error {
	body, err := subjects.Marshal(subjects.SummaryEvent{Event: subjects.EventSummary, CallID: r.key.Call, BatchReply: *batch,
		Generation: r.rec.Generation})
	if err != nil {
		return fmt.Errorf("dispatch: summary: %w", err)
	}
	return r.publish(ctx, r.eventID(subjects.EventSummary), body)
}

func (r *run) batch(ctx context.Context) (*subjects.BatchReply, error) {
	outs := make([]*EntryOutcome, len(r.rec.Entries))
	for i := range outs {
		out, err := r.outcome(ctx, i)
		if err != nil {
			return nil, err
		}
		outs[i] = out
	}
	return assembleBatch(r.rec, outs), nil
}

// publish stores one event for certain, or fails when ctx ends.
func (r *run) publish(ctx context.Context, id string, body []byte) error {
	pause := newPause()
	for {
		err := r.Events.Publish(ctx, r.key, id, body, r.d.Trace)
		if err == nil || errors.Is(err, ErrTooLarge) {
			return err
		}
		if err := pause.wait(ctx, err); err != nil {
			return err
		}
	}
}

// loadOutcome reads what a settled entry came to. A body that is certainly gone leaves an outcome that says so.
func loadOutcome(ctx context.Context, bodies Bodies, tenant string, e *EntryRecord) (*EntryOutcome, error) {
	if e.Outcome != nil {
		return e.Outcome, nil
	}
	pause := newPause()
	for {
		out := &EntryOutcome{}
		body, err := bodies.Get(ctx, tenant, *e.OutcomeBody)
		if err == nil {
			err = decodeOutcome(body, out)
		}
		switch {
		case err == nil:
			return out, nil
		case errors.Is(err, ErrNotFound):
			gone := entryError(subjects.EntryOutcomeUnknown, textGone)
			return &gone, nil
		}
		if err := pause.wait(ctx, err); err != nil {
			return nil, err
		}
	}
}
