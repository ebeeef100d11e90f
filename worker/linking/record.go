package linking

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolsearch/connectors"
	"toolsearch/subjects"
	"toolsearch/worker/storage"
)

// apiWait bounds one question to JetStream, so that a server that went silent is asked again.
const apiWait = 2 * time.Second

// overdue is how long after its deadline an operation that nobody settled stands in the way of another.
const overdue = 30 * time.Second

// key names a session, and so its operation.
type key struct{ tenant, session string }

func (k key) String() string { return k.tenant + "." + k.session }

// errNone is the leader's word that a session has no record, or none that anybody could read.
var errNone = errors.New("linking: no operation")

// BusyError is returned where the session has another operation open.
type BusyError struct{ Open *connectors.Operation }

func (e *BusyError) Error() string {
	return fmt.Sprintf("linking: the operation %s of this session is open", e.Open.ID)
}

// records keeps one record for each session.
type records struct {
	js     jetstream.JetStream
	layout storage.Layout

	mu    sync.Mutex
	bound jetstream.Stream
}

func (r *records) bind(ctx context.Context) (jetstream.Stream, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bound == nil {
		b, err := r.js.Stream(ctx, r.layout.CallsStream())
		if err != nil {
			return nil, fmt.Errorf("linking: stream %s: %w", r.layout.CallsStream(), err)
		}
		r.bound = b
	}
	return r.bound, nil
}

// last reads the last message of a subject at the stream's leader; nil is its word that there is none.
func (r *records) last(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, apiWait)
	defer cancel()
	b, err := r.bind(ctx)
	if err != nil {
		return nil, err
	}
	m, err := b.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	return m, err
}

// read returns a session's operation and its revision; errNone if there is none. A record of a newer version is left to
// the workers that know it: a *[subjects.Error] that no further attempt of this one changes.
func (r *records) read(ctx context.Context, k key) (*connectors.Operation, uint64, error) {
	m, err := r.last(ctx, r.layout.OperationSubject(k.tenant, k.session))
	switch {
	case err != nil:
		return nil, 0, err
	case m == nil:
		return nil, 0, errNone
	}
	op, err := connectors.DecodeOperation(m.Data)
	switch {
	case errors.Is(err, connectors.ErrOperationVersion):
		return nil, 0, &subjects.Error{Code: subjects.CodeUnavailable, Err: err,
			Message: "the session's operation was opened by a newer worker; ask again, and one of its version may answer"}
	case err != nil:
		return nil, m.Sequence, fmt.Errorf("%w: %w", errNone, err)
	}
	if op.Created == 0 { // one write until now
		op.Created = m.Sequence
	}
	return op, m.Sequence, nil
}

// isFinal reports whether reading again would give the same error.
func isFinal(err error) bool {
	var e *subjects.Error
	return errors.As(err, &e)
}

// write stores an operation if the record stands at rev. An error says nothing about whether it was stored.
func (r *records) write(ctx context.Context, k key, op *connectors.Operation, rev uint64) (uint64, error) {
	body, err := subjects.Marshal(op)
	if err != nil {
		return 0, fmt.Errorf("linking: record: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, apiWait)
	defer cancel()
	ack, err := r.js.PublishMsg(ctx, &nats.Msg{
		Subject: r.layout.OperationSubject(k.tenant, k.session), Data: body,
		Header: nats.Header{jetstream.MsgTTLHeader: {r.layout.WithDefaults().RecordAge.String()}},
	}, jetstream.WithExpectLastSequencePerSubject(rev), jetstream.WithExpectStream(r.layout.CallsStream()))
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// open makes the session's record, or joins an operation of the same id. own is false for one that was joined.
func (r *records) open(ctx context.Context, k key, op *connectors.Operation, now func() time.Time) (_ *connectors.Operation, own bool, err error) {
	op.Write = subjects.NewCallID()
	pause := newPause()
	for {
		have, rev, err := r.read(ctx, k)
		switch {
		case errors.Is(err, errNone):
		case isFinal(err):
			return nil, false, err
		case err != nil:
			if err := pause.wait(ctx, err); err != nil {
				return nil, false, err
			}
			continue
		case have.ID == op.ID && have.Digest != op.Digest:
			return nil, false, &subjects.Error{Code: subjects.CodeCallConflict, Message: "this call_id was used with other arguments"}
		case have.ID == op.ID:
			return have, have.Nonce == op.Nonce && have.Write == op.Write, nil
		case !have.Settled() && now().Before(have.Deadline.Add(overdue)):
			return nil, false, &BusyError{have}
		}
		seq, err := r.write(ctx, k, op, rev)
		if err == nil {
			op.Created = seq
			return op, true, nil
		}
		if errors.Is(err, nats.ErrMaxPayload) { // no further attempt makes it smaller
			return nil, false, fmt.Errorf("%w: %w", connectors.ErrOperationTooLarge, err)
		}
		if err := pause.wait(ctx, err); err != nil {
			return nil, false, err
		}
	}
}

// update changes the session's operation; see [connectors.Journal].
func (r *records) update(ctx context.Context, k key, change func(*connectors.Operation) error) (*connectors.Operation, error) {
	pause := newPause()
	mine := "" // the last write that was tried
	for {
		have, rev, err := r.read(ctx, k)
		switch {
		case errors.Is(err, errNone):
			return nil, connectors.ErrOperationLost
		case isFinal(err):
			return nil, err
		case err != nil:
			if err := pause.wait(ctx, err); err != nil {
				return nil, err
			}
			continue
		case mine != "" && have.Write == mine: // the answer was lost, not the write
			return have, nil
		}
		op := have.Clone()
		if err := change(op); errors.Is(err, connectors.ErrUnchanged) {
			return have, nil
		} else if err != nil {
			return nil, err
		}
		op.Write = subjects.NewCallID()
		mine = op.Write
		if _, err = r.write(ctx, k, op, rev); err == nil {
			return op, nil
		}
		if errors.Is(err, nats.ErrMaxPayload) {
			return nil, fmt.Errorf("%w: %w", connectors.ErrOperationTooLarge, err)
		}
		if err := pause.wait(ctx, err); err != nil {
			return nil, err
		}
	}
}

// pause spaces out attempts; a lost race is tried again almost at once.
type pause struct{ b *backoff.ExponentialBackOff }

func newPause() *pause {
	return &pause{backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(5*time.Millisecond), backoff.WithMaxInterval(time.Second), backoff.WithMaxElapsedTime(0))}
}

func (p *pause) wait(ctx context.Context, cause error) error {
	if errors.Is(cause, nats.ErrConnectionClosed) {
		return cause
	}
	t := time.NewTimer(p.b.NextBackOff())
	defer t.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("%w (last failure: %w)", context.Cause(ctx), cause)
	case <-t.C:
		return nil
	}
}
