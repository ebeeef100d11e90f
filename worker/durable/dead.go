package durable

import (
	"context"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolsearch/dispatch"
	"toolsearch/subjects"
	"toolsearch/worker/storage"
)

// dead keeps the jobs that were given up, one for each call.
type dead struct {
	*stream
	layout storage.Layout
	store  *subjects.Bodies
}

var _ dispatch.Dead = (*dead)(nil)

func (d *dead) Bury(ctx context.Context, k dispatch.CallKey, letter []byte, t dispatch.Trace) error {
	ctx, cancel := context.WithTimeout(ctx, apiWait)
	defer cancel()
	h := traceHeader(t)
	h[subjects.HeaderCall] = []string{k.Call}
	data, err := d.store.Pack(ctx, k.Tenant, h, letter)
	if err != nil {
		return known(err)
	}
	_, err = d.js.PublishMsg(ctx, &nats.Msg{Subject: d.layout.DeadSubject(k.String()), Header: h, Data: data},
		jetstream.WithExpectStream(d.name))
	return known(err)
}

func (d *dead) Exhume(ctx context.Context, k dispatch.CallKey) ([]byte, uint64, error) {
	m, err := d.last(ctx, d.layout.DeadSubject(k.String()))
	switch {
	case err != nil:
		return nil, 0, err
	case m == nil:
		return nil, 0, dispatch.ErrNotFound
	}
	letter, err := d.store.Unpack(ctx, k.Tenant, m.Header, m.Data)
	return letter, m.Sequence, err
}

func (d *dead) Remove(ctx context.Context, seq uint64) error { return d.remove(ctx, seq) }
