package durable

import (
	"context"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolsearch/dispatch"
	"toolsearch/subjects"
	"toolsearch/worker/storage"
)

// events publishes what settles into the result stream.
type events struct {
	js     jetstream.JetStream
	layout storage.Layout
	store  *subjects.Bodies
	spans  *spans
}

var _ dispatch.Events = (*events)(nil)

func (e *events) Publish(ctx context.Context, k dispatch.CallKey, id string, body []byte, t dispatch.Trace) error {
	h := traceHeader(t)
	h[subjects.HeaderCall] = []string{k.Call}
	h[jetstream.MsgIDHeader] = []string{id}
	data, err := e.store.Pack(ctx, k.Tenant, h, body) // which has a bound of its own, by the size of the body
	if err != nil {
		return known(err)
	}
	ctx, cancel := context.WithTimeout(ctx, apiWait)
	defer cancel()
	m := &nats.Msg{Subject: e.layout.Root.Result(k.Tenant, k.Session, k.Call), Header: h, Data: data}
	ctx, span := e.spans.send(ctx, e.spans.publishResult, k, m)
	_, err = e.js.PublishMsg(ctx, m, jetstream.WithExpectStream(e.layout.ResultsStream()))
	sent(span, err)
	return known(err)
}
