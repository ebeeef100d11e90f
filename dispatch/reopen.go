package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"toolsearch/subjects"
)

// Letter is a job that was given up, with the record as it stood, for an operator.
type Letter struct {
	Job json.RawMessage `json:"job,omitempty"`
	// Record is nil where the job itself could not be read.
	Record *Record `json:"record,omitempty"`
	// Unreadable is the job or the record that could not be read, as it was.
	Unreadable []byte `json:"unreadable,omitempty"`
	Trace      Trace  `json:"trace,omitzero"`
}

// bury copies the job to where an operator can read it. It may be done twice: a later letter takes the place of the
// first.
func (r *run) bury(ctx context.Context) error {
	return r.Runner.bury(ctx, r.key, &Letter{Job: r.d.Data, Record: r.rec, Unreadable: r.corrupt, Trace: r.d.Trace})
}

func (r *Runner) bury(ctx context.Context, k CallKey, l *Letter) error {
	p, err := subjects.Marshal(l)
	if err != nil {
		return fmt.Errorf("dispatch: letter: %w", err)
	}
	pause := newPause()
	for {
		err := r.Dead.Bury(ctx, k, p, l.Trace)
		if err == nil {
			r.Telemetry.Metrics().Abandoned(ctx)
			return nil
		}
		if err := pause.wait(ctx, err); err != nil {
			return err
		}
	}
}

// unreadableJob keeps a message of the queue that is no job and takes it off, so that it stands in nobody's way.
func (r *Runner) unreadableJob(ctx context.Context, d Delivery, cause error) Verdict {
	r.Logger.ErrorContext(ctx, "a job cannot be read; it is kept for an operator and not run", "sequence", d.Sequence, "error", cause)
	key := CallKey{Tenant: "unreadable", Session: "unreadable", Call: fmt.Sprintf("job-%d", d.Sequence)}
	if err := r.bury(ctx, key, &Letter{Unreadable: d.Data, Trace: d.Trace}); err != nil {
		_ = d.Receipt.Return(returnDelay)
		return VerdictReturned
	}
	if err := d.Receipt.Done(ctx); err != nil {
		return VerdictFailed
	}
	return VerdictDone
}

// Reopener lets an operator try a call again that was given up.
type Reopener struct {
	Records Records
	Jobs    Jobs
	Dead    Dead
}

// ErrNothingToReopen is a call that has no ABANDONED entry. Nothing else may be tried again: it may have taken effect.
var ErrNothingToReopen = errors.New("dispatch: the call has no ABANDONED entry; nothing of it may be tried again")

// Reopen tries the ABANDONED entries of a call again, under the same keys, in a new generation that its events carry.
// Entries with another outcome keep it. It may be repeated where it failed or its answer was lost: the same generation
// is then queued once.
func (o *Reopener) Reopen(ctx context.Context, k CallKey) (generation int, err error) {
	letter, seq, err := o.Dead.Exhume(ctx, k)
	if err != nil {
		return 0, err
	}
	var l Letter
	if err := json.Unmarshal(letter, &l); err != nil {
		return 0, fmt.Errorf("dispatch: letter: %w", err)
	}
	job, err := DecodeJob(l.Job)
	if err != nil {
		return 0, err
	}
	rec, rev, err := o.current(ctx, k, job, &l)
	if err != nil {
		return 0, err
	}
	if rec.Published {
		if err := o.open(ctx, k, rec, rev); err != nil {
			return 0, err
		}
	} else if rec.Job != 0 || rec.Generation == 0 {
		return 0, fmt.Errorf("dispatch: call %s is open already; wait for it", k)
	}
	job.Generation = rec.Generation
	p, err := subjects.Marshal(job)
	if err != nil {
		return 0, fmt.Errorf("dispatch: job: %w", err)
	}
	if err := o.Jobs.Publish(ctx, k, job.msgID(), p, l.Trace); err != nil {
		return 0, fmt.Errorf("dispatch: the reopened call is not queued; retry again: %w", err)
	}
	if err := o.Dead.Remove(ctx, seq); err != nil {
		return rec.Generation, fmt.Errorf("dispatch: the call runs again, but its letter could not be removed: %w", err)
	}
	return rec.Generation, nil
}

// current is the call's record, or the letter's copy where the record has expired.
func (o *Reopener) current(ctx context.Context, k CallKey, job *Job, l *Letter) (*Record, uint64, error) {
	value, rev, err := o.Records.Read(ctx, k)
	if errors.Is(err, ErrNotFound) {
		if l.Record == nil {
			return nil, 0, ErrNothingToReopen
		}
		rec := *l.Record
		rec.Published = true
		return &rec, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	rec, err := DecodeRecord(value)
	if err != nil {
		return nil, 0, err
	}
	if rec.Nonce != job.Nonce {
		return nil, 0, fmt.Errorf("dispatch: call %s is a later call with the same id", k)
	}
	return rec, rev, nil
}

// open writes the record of the next generation.
func (o *Reopener) open(ctx context.Context, k CallKey, rec *Record, rev uint64) error {
	reopened := 0
	for i := range rec.Entries {
		e := &rec.Entries[i]
		if e.State != StateAbandoned {
			continue
		}
		if err := rec.move(i, CauseReopen); err != nil {
			return err
		}
		*e = EntryRecord{Name: e.Name, State: e.State}
		reopened++
	}
	if reopened == 0 {
		return ErrNothingToReopen
	}
	rec.Generation++
	rec.Takeovers, rec.Job, rec.Dead, rec.Published = 0, 0, false, false
	rec.Runner, rec.Returned = NewNonce(), true
	j := journal{records: o.Records, key: k, rec: rec, rev: rev}
	return j.write(ctx)
}
