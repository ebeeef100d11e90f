package durable

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go"

	"toolsearch/dispatch"
	"toolsearch/subjects"
)

// hooks asks a session's policy on the bus.
type hooks struct {
	nc    *nats.Conn
	root  subjects.Root
	store *subjects.Bodies
	spans *spans
}

var _ dispatch.Hooks = (*hooks)(nil)

func (h *hooks) Pre(ctx context.Context, k dispatch.CallKey, q *subjects.HookRequest, t dispatch.Trace) (*subjects.HookReply, error) {
	body, err := subjects.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("durable: hook: %w", err)
	}
	m, err := h.message(ctx, k, subjects.HookPre, body, t)
	if err != nil {
		return nil, err
	}
	ctx, span := h.spans.send(ctx, h.spans.requestPre, k, m)
	answer, err := h.nc.RequestMsgWithContext(ctx, m)
	sent(span, err)
	if err != nil {
		return nil, fmt.Errorf("durable: hook: %w", err)
	}
	data, err := h.store.Unpack(ctx, k.Tenant, answer.Header, answer.Data)
	if err != nil {
		return nil, err
	}
	if err := subjects.CheckForeign(data); err != nil {
		return nil, fmt.Errorf("durable: hook: malformed answer: %w", err)
	}
	reply := &subjects.HookReply{}
	if err := json.Unmarshal(data, reply); err != nil {
		return nil, fmt.Errorf("durable: hook: malformed answer: %w", err)
	}
	switch reply.Decision {
	case subjects.DecisionAllow, subjects.DecisionDeny, subjects.DecisionRewrite:
		return reply, nil
	}
	return nil, fmt.Errorf("durable: hook: unknown decision %.40q", reply.Decision)
}

func (h *hooks) Post(ctx context.Context, k dispatch.CallKey, event []byte, t dispatch.Trace) error {
	m, err := h.message(ctx, k, subjects.HookPost, event, t)
	if err != nil {
		return err
	}
	_, span := h.spans.send(ctx, h.spans.publishPost, k, m)
	err = h.nc.PublishMsg(m)
	sent(span, err)
	return err
}

func (h *hooks) message(ctx context.Context, k dispatch.CallKey, moment subjects.Moment, body []byte, t dispatch.Trace) (*nats.Msg, error) {
	header := traceHeader(t)
	header[subjects.HeaderCall] = []string{k.Call}
	data, err := h.store.Pack(ctx, k.Tenant, header, body)
	if err != nil {
		return nil, err
	}
	return &nats.Msg{Subject: h.root.Hook(k.Tenant, k.Session, moment), Header: header, Data: data}, nil
}
