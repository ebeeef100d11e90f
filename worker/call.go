package worker

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"

	"toolsearch/dispatch"
	"toolsearch/subjects"
	"toolsearch/telemetry"
	"toolsearch/worker/durable"
)

// call answers tool_call. What the caller runs itself, and what the model got wrong, is answered at once. The rest is
// made durable first, and then waited for; the wait may end, by a deadline or a drain, without the call ending: a
// repeat under the same call_id, at any worker, takes the wait up again.
func (w *Worker) call(ctx context.Context, r *request) ([]byte, error) {
	req, err := decodeBridge(r.body)
	if err != nil {
		return nil, err
	}
	key := dispatch.CallKey{Tenant: r.tenant, Session: r.session, Call: req.CallID}
	if key.Call == "" {
		key.Call = subjects.NewCallID()
	}
	if err := key.Validate(); err != nil {
		return nil, err
	}
	r.header = nats.Header{subjects.HeaderCall: []string{key.Call}}
	sc, err := w.scopeOf(ctx, r, req)
	if err != nil {
		return nil, err
	}
	plan, err := dispatch.Resolve(sc, req.Arguments)
	if err != nil {
		return nil, err
	}
	if plan.Unchecked != "" {
		w.log.Info("the arguments of a call could not be checked and go as they are", "tenant", r.tenant, "session", r.session,
			"call", key.Call, "tool", plan.Entries[0].Name, "reason", plan.Unchecked)
	}
	if plan.Kind == dispatch.Caller {
		w.opts.Telemetry.Metrics().Called(ctx, telemetry.CallCaller)
		return subjects.MarshalModel(plan.Reply)
	}
	accept := dispatch.Call{Key: key, Payload: dispatch.NewPayload(plan, sc, r.deadline), Trace: r.trace()}
	if nats.Header(r.msg.Headers()).Get(subjects.HeaderAsync) == "1" {
		if _, err := w.durable.Accept(ctx, accept); err != nil {
			return nil, err
		}
		return subjects.MarshalModel(subjects.Accepted{Accepted: true, CallID: key.Call,
			Results: w.opts.Layout.Root.Result(key.Tenant, key.Session, key.Call)})
	}
	reply, err := w.durable.Do(ctx, accept)
	if err != nil {
		return nil, err
	}
	return reply.MarshalWithin(subjects.DefaultBodyLimit)
}

// trace is the request's trace context, for what follows from it.
func (r *request) trace() dispatch.Trace {
	h := r.traceHeader(nil)
	return dispatch.Trace{Parent: h.Get(subjects.HeaderTraceParent), State: h.Get(subjects.HeaderTraceState)}
}

// newDurable makes the part that keeps and runs calls. It reads the server's max_payload, so it is made again once
// there is a connection.
func (w *Worker) newDurable() (*durable.Calls, error) {
	o := w.opts.Calls
	o.Layout, o.Bodies, o.Telemetry, o.Logger = w.opts.Layout, w.bodies, w.opts.Telemetry, w.log
	if w.opts.Connectors != nil {
		o.Connectors = dispatch.GatewaySender(w.opts.Connectors)
	}
	return durable.New(w.js, w.nc, o)
}

// startDurable starts it, once, and waits until it has its watch.
func (w *Worker) startDurable(ctx context.Context) error {
	if w.durable == nil {
		calls, err := w.newDurable()
		if err != nil {
			return err
		}
		if err := calls.Start(w.base); err != nil {
			return err
		}
		w.durable = calls
		w.seen.Store(calls)
	}
	select {
	case <-w.durable.Ready():
		return nil
	case <-ctx.Done():
		return errors.Join(errors.New("worker: the watch over calls and stops does not open"), ctx.Err())
	}
}

// drainDurable hands back what is not finished in time; another worker goes on with it.
func (w *Worker) drainDurable(ctx context.Context) error {
	if w.durable == nil {
		return nil
	}
	if err := w.durable.Drain(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}
