package durable

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"

	"toolsearch/dispatch"
	"toolsearch/subjects"
	"toolsearch/telemetry"
)

// spans opens the spans of what this package sends and takes.
type spans struct {
	rec                                   *telemetry.Recorder
	publishJob, processJob, publishResult *telemetry.Operation
	requestPre, publishPost, requestHost  *telemetry.Operation
}

func newSpans(rec *telemetry.Recorder, root subjects.Root) *spans {
	return &spans{rec: rec,
		publishJob:    telemetry.PublishOf(root.Template(subjects.FamilyJob, "")),
		processJob:    telemetry.ProcessOf(root.Template(subjects.FamilyJob, "")),
		publishResult: telemetry.PublishOf(root.Template(subjects.FamilyResult, "")),
		requestPre:    telemetry.RequestOf(root.Template(subjects.FamilyHook, string(subjects.HookPre))),
		publishPost:   telemetry.PublishOf(root.Template(subjects.FamilyHook, string(subjects.HookPost))),
		requestHost:   telemetry.RequestOf(root.Template(subjects.FamilyHost, subjects.HostCall)),
	}
}

// send opens the span of a message of a call that is about to be sent.
func (s *spans) send(ctx context.Context, o *telemetry.Operation, k dispatch.CallKey, m *nats.Msg) (context.Context, trace.Span) {
	return s.rec.Send(ctx, o, telemetry.Message{Subject: m.Subject, ID: m.Header.Get(nats.MsgIdHdr),
		Conversation: k.Call, Size: len(m.Data)}, m.Header)
}

// sent ends the span of a message, with what kept it from being sent.
func sent(span trace.Span, err error) {
	telemetry.Fail(span, errorCode(err), true)
	span.End()
}

// errorCode names an error of the bus.
func errorCode(err error) string {
	var e *subjects.Error
	switch {
	case errors.As(err, &e):
		return string(e.Code)
	case errors.Is(err, dispatch.ErrQueueFull):
		return "queue_full"
	}
	return telemetry.BusErrorCode(err)
}

// take opens the span of a job that was handed out. The first time it is a child of the acceptor's, for that is what a
// person looks for, and linked to it as well. A job that was handed out before begins a trace of its own, with a link:
// who waited then may have long gone.
func (s *spans) take(ctx context.Context, m *nats.Msg, first bool) (context.Context, trace.Span) {
	about := telemetry.Message{Subject: m.Subject, ID: m.Header.Get(nats.MsgIdHdr), Size: len(m.Data), Root: !first}
	if l, ok := telemetry.Link(s.rec.SpanContext(m.Header), telemetry.LinkCreation); ok {
		about.Links = []trace.Link{l}
	}
	if first {
		ctx = s.rec.Extract(ctx, m.Header)
	}
	s.rec.Metrics().Delivered(ctx, !first)
	return s.rec.Message(ctx, s.processJob, about)
}

// took ends the span of a job and counts its run.
func (s *spans) took(ctx context.Context, span trace.Span, v dispatch.Verdict, first bool, d time.Duration) {
	code := ""
	if v == dispatch.VerdictFailed || v == dispatch.VerdictLost {
		code = string(v)
	}
	telemetry.Ended(span, string(v), !first)
	telemetry.Fail(span, code, v == dispatch.VerdictFailed)
	s.rec.Metrics().Ran(ctx, string(v))
	s.rec.Metrics().Processed(ctx, "job", s.processJob.Template(), code, d)
	span.End()
}

// accepted counts a call by who runs it.
func (s *spans) accepted(ctx context.Context, call *dispatch.Call, t dispatch.Ticket) {
	kind := telemetry.CallBatch
	switch {
	case t.Attached:
		kind = telemetry.CallAttached
	case call.Payload.Host != "":
		kind = telemetry.CallHosted
	}
	s.rec.Metrics().Called(ctx, kind)
}

// retry tells of the wait before a host is asked again.
func (s *spans) retry(ctx context.Context, wait time.Duration, attempt int, out dispatch.Sent) {
	code := string(out.Error.Code)
	s.rec.Metrics().Retried(ctx, "host", code)
	telemetry.Backoff(ctx, wait, attempt, code)
}
