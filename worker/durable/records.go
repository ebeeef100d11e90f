package durable

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolsearch/dispatch"
	"toolsearch/worker/storage"
)

// headerState tells of a record's write, to whoever sees only headers, whether the call is open, handed back or
// published.
const headerState = "Toolsearch-Call-State"

// never is the lifetime of an open record: no age of the stream removes it.
const never = "never"

// records keeps journal records in the stream that also holds the stops.
type records struct {
	*stream
	layout storage.Layout
}

var _ dispatch.Records = (*records)(nil)

func (r *records) Write(ctx context.Context, k dispatch.CallKey, value []byte, rev uint64, p dispatch.Phase) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, apiWait)
	defer cancel()
	ttl := never
	if p == dispatch.PhasePublished {
		ttl = r.layout.RecordAge.String()
	}
	ack, err := r.js.PublishMsg(ctx, &nats.Msg{
		Subject: r.layout.RecordSubject(k.String()),
		Header:  nats.Header{headerState: {string(p)}, jetstream.MsgTTLHeader: {ttl}},
		Data:    value,
	}, jetstream.WithExpectLastSequencePerSubject(rev), jetstream.WithExpectStream(r.name))
	if err != nil {
		return 0, known(err)
	}
	return ack.Sequence, nil
}

func (r *records) Read(ctx context.Context, k dispatch.CallKey) ([]byte, uint64, error) {
	m, err := r.last(ctx, r.layout.RecordSubject(k.String()))
	switch {
	case err != nil:
		return nil, 0, err
	case m == nil:
		return nil, 0, dispatch.ErrNotFound
	}
	return m.Data, m.Sequence, nil
}

func (r *records) Remove(ctx context.Context, k dispatch.CallKey, rev uint64) error {
	// A sequence belongs to one revision, so a record that was written since is not touched.
	if rev == 0 {
		return errors.New("durable: no revision to remove")
	}
	return r.remove(ctx, rev)
}
