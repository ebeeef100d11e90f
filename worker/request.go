package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"go.opentelemetry.io/otel/trace"

	"toolsearch/dispatch"
	"toolsearch/subjects"
	"toolsearch/telemetry"
)

// errStopped is the cause with which a drain that ran out of time ends what still runs.
var errStopped = errors.New("worker: shutting down")

// handler does the work of one verb. The body it returns is what the runtime hands to its model. An error that is a
// *[subjects.Error] goes to the runtime as it is; a *[subjects.ToolError] or a *[dispatch.Refusal] is an ordinary reply;
// anything else is told as INTERNAL and logged.
type handler func(ctx context.Context, r *request) ([]byte, error)

// request is one message on its way through an endpoint. The order is: subject, admission, deadline, claim check,
// UTF-8, the handler, which decodes and encodes, claim check of the reply, the one answer.
type request struct {
	worker   *Worker
	endpoint *endpoint
	msg      micro.Request
	tenant   string
	session  string
	deadline time.Time   // zero: none was named
	body     []byte      // after the claim check
	header   nats.Header // of the reply, from the handler
	reply    *buffer     // for handlers to build the reply in; given back after the answer
	answered atomic.Bool

	arrived time.Time
	ctx     context.Context // of the work, with the request's span
	span    trace.Span
	opened  atomic.Bool                   // ctx and span are set; a drain may answer from another goroutine
	failed  atomic.Pointer[subjects.Code] // of the service error that was answered
}

var _ task = (*request)(nil)

// buffer is memory for one reply.
type buffer struct{ b []byte }

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// maxBuffer is the largest buffer that is kept for another reply.
const maxBuffer = 256 << 10

// run does the work and answers, whatever happens.
func (r *request) run() {
	c := &r.endpoint.counters
	began := time.Now()
	c.begun.Add(1)
	r.open()
	waited := began.Sub(r.arrived)
	telemetry.Waited(r.span, waited)
	r.endpoint.metrics().Waited(r.ctx, string(r.endpoint.verb), waited)
	r.reply = buffers.Get().(*buffer)
	body, h, err := r.handle()
	r.answer(body, h, err, replyWait)
	r.close(time.Since(began))
	if cap(r.reply.b) <= maxBuffer {
		buffers.Put(r.reply)
	}
	c.time.Add(int64(time.Since(began)))
}

// open starts the request's span, a child of the requester's, who waits for the answer. It begins with the arrival.
func (r *request) open() {
	rec := r.worker.opts.Telemetry
	r.ctx, r.span = rec.Message(rec.Extract(r.worker.base, nats.Header(r.msg.Headers())), r.endpoint.process, telemetry.Message{
		Subject: r.msg.Subject(), Conversation: r.session, Group: queueGroup, Size: len(r.msg.Data()), Since: r.arrived})
	r.opened.Store(true)
}

// close ends the span and counts the request. It was answered by then, by whomever.
func (r *request) close(took time.Duration) {
	code := ""
	if failed := r.failed.Load(); failed != nil {
		code = string(*failed)
		telemetry.Fail(r.span, code, isFault(*failed))
	}
	r.endpoint.metrics().Processed(r.ctx, string(r.endpoint.verb), r.endpoint.process.Template(), code, took)
	r.span.End()
}

// isFault tells what is the service's to answer for from what the requester did wrong.
func isFault(c subjects.Code) bool {
	return c == subjects.CodeInternal || c == subjects.CodeUnavailable || c == subjects.CodeDeadlineExceeded
}

func (r *request) handle() (body []byte, h nats.Header, err error) {
	defer func() {
		if p := recover(); p != nil {
			r.worker.log.ErrorContext(r.ctx, "a request made its handler panic", "verb", r.endpoint.verb, "tenant", r.tenant,
				"session", r.session, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			body, h, err = nil, nil, errInternal(nil)
		}
	}()
	limit := time.Now().Add(r.endpoint.timeout)
	if !r.deadline.IsZero() {
		if !time.Now().Before(r.deadline) {
			return nil, nil, errDeadline("its turn came")
		}
		if r.deadline.Before(limit) {
			limit = r.deadline
		}
	}
	ctx, cancel := context.WithDeadline(r.ctx, limit)
	defer cancel()
	if err := r.load(ctx); err != nil {
		return nil, nil, err
	}
	if r.isLarge() {
		defer r.worker.large.Release(1)
	}
	if !utf8.Valid(r.body) {
		return nil, nil, badField("body", "the body must be UTF-8")
	}
	body, err = r.endpoint.handler(ctx, r)
	if mistake := mistakeOf(err); mistake != nil {
		r.endpoint.counters.mistakes.Add(1)
		r.endpoint.metrics().Mistake(ctx, string(r.endpoint.verb))
		telemetry.Mistaken(r.span)
		body, err = subjects.MarshalModel(mistake)
	}
	if err != nil {
		return nil, nil, r.serviceError(ctx, err)
	}
	return r.pack(ctx, body)
}

// mistakeOf is the reply that tells a model of its mistake, nil if err is none.
func mistakeOf(err error) any {
	var plain *subjects.ToolError
	var refusal *dispatch.Refusal
	switch {
	case err == nil:
	case errors.As(err, &plain):
		return plain
	case errors.As(err, &refusal):
		return refusal
	}
	return nil
}

// isLarge reports whether the body comes by claim check.
func (r *request) isLarge() bool {
	return len(r.msg.Headers()) > 0 && r.msg.Headers().Get(subjects.HeaderObject) != ""
}

// load fetches a body that came by claim check; only a few are held at once. It holds a place of them if it succeeds.
func (r *request) load(ctx context.Context) error {
	if !r.isLarge() {
		r.body = r.msg.Data()
		return nil
	}
	if err := r.worker.large.Acquire(ctx, 1); err != nil {
		return r.serviceError(ctx, err)
	}
	body, err := r.worker.bodies.Unpack(ctx, r.tenant, nats.Header(r.msg.Headers()), nil)
	if err != nil {
		r.worker.large.Release(1)
		return r.serviceError(ctx, err)
	}
	r.body = body
	return nil
}

// pack sends a reply that is over the server's max_payload by claim check.
func (r *request) pack(ctx context.Context, body []byte) ([]byte, nats.Header, error) {
	h := r.traceHeader(r.header)
	if int64(len(body)+replyHeadroom) <= r.worker.nc.MaxPayload() {
		return body, h, nil
	}
	if h == nil {
		h = nats.Header{}
	}
	packed, err := r.worker.bodies.Pack(ctx, r.tenant, h, body)
	if err != nil {
		return nil, nil, r.serviceError(ctx, err)
	}
	return packed, h, nil
}

// replyHeadroom is more than the headers of a reply take.
const replyHeadroom = 2 << 10

// answer sends the one reply. Whoever comes second is ignored, so that a drain may answer for a handler that does not
// return. patience is how long a reply waits for a connection that was lost; the work is done, and may not be lost with it.
func (r *request) answer(body []byte, h nats.Header, err error, patience time.Duration) {
	if !r.answered.CompareAndSwap(false, true) {
		return
	}
	c := &r.endpoint.counters
	c.inFlight.Add(-1)
	if err != nil {
		body, h = r.errorReply(err)
	} else {
		c.replies.Add(1)
	}
	reply := &nats.Msg{Subject: r.msg.Reply(), Header: h, Data: body}
	if err := r.send(reply, patience); err != nil {
		c.unanswered.Add(1)
		r.endpoint.metrics().Unanswered(r.worker.base, string(r.endpoint.verb))
		r.worker.log.Warn("a reply could not be sent", "verb", r.endpoint.verb, "tenant", r.tenant,
			"session", r.session, "error", err)
	}
}

// replyWait is how long a reply waits for the connection, at most until the requester has gone.
const replyWait = 10 * time.Second

func (r *request) send(reply *nats.Msg, patience time.Duration) error {
	nc := r.worker.nc
	err := nc.PublishMsg(reply)
	if patience == 0 || !errors.Is(err, nats.ErrReconnectBufExceeded) {
		return err
	}
	if !r.deadline.IsZero() {
		patience = min(patience, time.Until(r.deadline))
	}
	ctx, cancel := context.WithTimeout(r.worker.base, patience)
	defer cancel()
	connected := nc.StatusChanged(nats.CONNECTED)
	defer nc.RemoveStatusListener(connected)
	r.worker.log.DebugContext(r.ctx, "a reply waits for the connection", "verb", r.endpoint.verb, "tenant", r.tenant, "session", r.session)
	for {
		if err = nc.PublishMsg(reply); !errors.Is(err, nats.ErrReconnectBufExceeded) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case _, open := <-connected:
			if !open {
				return err
			}
		}
	}
}

// refuse answers a request that is not begun.
func (r *request) refuse(err *subjects.Error) {
	r.endpoint.counters.refused.Add(1)
	r.reject(err)
}

// reject answers a request with an error before any work on it.
func (r *request) reject(err error) {
	r.open()
	r.answer(nil, nil, err, 0)
	r.close(0)
}

// abandon answers for a handler that does not return.
func (r *request) abandon(err *subjects.Error) { r.answer(nil, nil, err, 0) }

// errorReply writes a service error as NATS services do, and counts it.
func (r *request) errorReply(err error) ([]byte, nats.Header) {
	var e *subjects.Error
	if !errors.As(err, &e) {
		e = errInternal(nil)
	}
	h := nats.Header{}
	maps.Copy(h, r.header)
	r.traceHeader(h)
	if e.Code == subjects.CodeInternal {
		if id := traceID(h); id != "" {
			traced := *e
			traced.Details = map[string]any{"trace_id": id}
			e = &traced
		}
	}
	r.endpoint.counters.failed(e.Code)
	r.failed.Store(&e.Code)
	h[subjects.HeaderErrorCode] = []string{strconv.Itoa(e.Code.Number())}
	h[subjects.HeaderError] = []string{string(e.Code)}
	if e.RetryAfter > 0 {
		h[subjects.HeaderRetryAfter] = []string{subjects.FormatRetryAfter(e.RetryAfter)}
	}
	body, err := e.MarshalJSON()
	if err != nil { // details that JSON cannot hold
		body = []byte(`{"error":{"code":"` + string(e.Code) + `","message":"","retryable":false}}`)
	}
	return body, h
}

// serviceError turns any error into the one that the runtime is told, and logs what it is not told.
func (r *request) serviceError(ctx context.Context, err error) error {
	var e *subjects.Error
	switch {
	case errors.As(err, &e):
	case context.Cause(ctx) == errStopped:
		return errDraining()
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil:
		return errDeadline("it was done")
	default:
		e = errInternal(err)
	}
	if e.Code == subjects.CodeInternal || e.Code == subjects.CodeUnavailable {
		r.worker.log.ErrorContext(ctx, "a request failed", "verb", r.endpoint.verb, "tenant", r.tenant, "session", r.session, "error", err)
	}
	return e
}

// traceHeader writes the trace context of what follows from the request into h: that of its span, or where that is not
// recorded the requester's own, in the contract's spelling and within its bounds. Nil stays nil if there is none.
func (r *request) traceHeader(h nats.Header) nats.Header {
	parent, state := subjects.TraceContext(nats.Header(r.msg.Headers()))
	h = subjects.SetTraceContext(h, parent, state)
	if r.opened.Load() && r.span.IsRecording() && r.span.SpanContext().IsSampled() {
		own := nats.Header{}
		r.worker.opts.Telemetry.Inject(r.ctx, own)
		if parent, state = subjects.TraceContext(own); parent != "" {
			h = subjects.SetTraceContext(h, parent, state)
		}
	}
	return h
}

// traceID is the trace id of a W3C traceparent header, or "".
func traceID(h nats.Header) string {
	parts := strings.Split(h.Get(subjects.HeaderTraceParent), "-")
	if len(parts) < 4 || len(parts[1]) != 32 || strings.Trim(parts[1], "0123456789abcdef") != "" {
		return ""
	}
	return parts[1]
}

// errInternal is all that a runtime is told of a fault of ours.
func errInternal(cause error) *subjects.Error {
	return &subjects.Error{Code: subjects.CodeInternal, Err: cause,
		Message: "the worker failed on this request; its log tells more"}
}

func errDeadline(before string) *subjects.Error {
	return subjects.Errorf(subjects.CodeDeadlineExceeded, "the request's deadline passed before %s", before)
}

func badField(field, message string) *subjects.Error {
	return &subjects.Error{Code: subjects.CodeBadRequest, Message: message, Details: map[string]any{"field": field}}
}
