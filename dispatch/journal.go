package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// journal writes one record by compare-and-set, for one runner.
type journal struct {
	records Records
	key     CallKey
	rec     *Record
	rev     uint64
	owned   bool // at least one write of this runner stands
}

// write stores the record as it is now. It comes back when the write stands for certain, with [ErrLost] when another's
// does, or with an error when ctx ended before either was known.
//
// An answer that is missing or says no proves nothing: the write may have been stored and its acknowledgement lost, and
// then a repeated one fails against itself. So the record is read at the stream's leader after each failure. Its runner
// and write number tell whose it is.
func (j *journal) write(ctx context.Context) error {
	j.rec.Write++
	value, err := j.rec.encode()
	if err != nil {
		return fmt.Errorf("dispatch: record: %w", err)
	}
	pause := newPause()
	for {
		rev, err := j.records.Write(ctx, j.key, value, j.rev, j.rec.phase())
		if err == nil {
			j.rev, j.owned = rev, true
			return nil
		}
		again, rerr := j.stands(ctx, pause)
		if rerr != nil {
			return rerr
		}
		if !again {
			j.owned = true
			return nil
		}
		if err := pause.wait(ctx, err); err != nil {
			return err
		}
	}
}

// stands finds out what became of a write: nil and false if it stands, nil and true if the old revision does. A leader
// that was just elected may answer from before what it has yet to apply; what is older than this runner knows is no
// answer.
func (j *journal) stands(ctx context.Context, pause *pause) (again bool, err error) {
	for misses := 0; ; {
		value, rev, err := j.records.Read(ctx, j.key)
		switch {
		case errors.Is(err, ErrNotFound) && j.rev == 0:
			return true, nil
		case errors.Is(err, ErrNotFound), err == nil && rev < j.rev:
			if misses++; misses > certainMisses {
				return false, fmt.Errorf("%w: its record is gone", ErrLost)
			}
		case err == nil && rev == j.rev:
			return true, nil
		case err == nil:
			if cur, err := DecodeRecord(value); err != nil || !cur.sameWrite(j.rec) {
				return false, ErrLost
			}
			j.rev = rev
			return false, nil
		}
		if err := pause.wait(ctx, err); err != nil {
			return false, err
		}
	}
}

// certainMisses is how often a record that must exist may be missing, or older than known, before that is believed.
const certainMisses = 5

// pause spaces out the attempts of something that must succeed sooner or later.
type pause struct{ b *backoff.ExponentialBackOff }

func newPause() *pause {
	return &pause{backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(10*time.Millisecond), backoff.WithMaxInterval(time.Second), backoff.WithMaxElapsedTime(0))}
}

// wait returns nil when it is time for the next attempt, or an error that holds cause when there is none: ctx has
// ended, or the bus was left.
func (p *pause) wait(ctx context.Context, cause error) error {
	if errors.Is(cause, ErrClosed) {
		return cause
	}
	t := time.NewTimer(p.b.NextBackOff())
	defer t.Stop()
	select {
	case <-ctx.Done():
		if cause == nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%w (last failure: %w)", context.Cause(ctx), cause)
	case <-t.C:
		return nil
	}
}
