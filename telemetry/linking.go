package telemetry

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// Linking is an operation of manage_connections that a worker begins to watch.
type Linking struct {
	ID, Session     string
	Action, Surface string
	Targets         int
	// TakenOver says that another worker watched it before. Nobody waits for this one in the old trace, so it begins
	// one of its own, linked to Opened.
	TakenOver bool
	// Opened is the traceparent of the request that opened it.
	Opened string
}

// LinkingSpan is the span of one worker's watch over an operation. Only the watch's own goroutine touches it. All
// methods may be called on nil.
type LinkingSpan struct {
	span   trace.Span
	reads  int
	parked time.Duration
	unread string // why a read failed last
}

type linkingKey struct{}

// Linking opens the span of a watch, link_accounts: a child of ctx's span, whose requester waits, or after a takeover a
// trace of its own. It lives as long as the watch, minutes where a user takes minutes, so all that it tells of the time
// between is sparse: an event for each target that moves, for each time that the gateway asks for patience, and for
// each new reason why a target cannot be read. [LinkingOf] finds it again under the context that is returned.
func (r *Recorder) Linking(ctx context.Context, l Linking) (context.Context, *LinkingSpan) {
	options := []trace.SpanStartOption{internalOption, trace.WithAttributes(
		ActionKey.String(l.Action), SurfaceKey.String(l.Surface), takenOverKey.Bool(l.TakenOver))}
	if l.TakenOver {
		options = append(options, trace.WithNewRoot())
		if link, ok := Link(spanContext(l.Opened), LinkCreation); ok {
			options = append(options, trace.WithLinks(link))
		}
	}
	ctx, span := r.tracer.Start(ctx, "link_accounts", options...)
	if span.IsRecording() {
		span.SetAttributes(GenAIToolCallIDKey.String(l.ID), GenAIConversationIDKey.String(l.Session), targetsKey.Int(l.Targets))
	}
	s := &LinkingSpan{span: span}
	return context.WithValue(ctx, linkingKey{}, s), s
}

// LinkingOf is the span of the watch that ctx belongs to; nil outside of one.
func LinkingOf(ctx context.Context) *LinkingSpan {
	s, _ := ctx.Value(linkingKey{}).(*LinkingSpan)
	return s
}

// Moved notes that a target changed its state. Its name is a model's, and bounded.
func (s *LinkingSpan) Moved(name, kind, from, to string) {
	if s == nil || !s.span.IsRecording() {
		return
	}
	if len(name) > mostToolName {
		name = strings.ToValidUTF8(name[:mostToolName], "")
	}
	s.span.AddEvent("target.moved", trace.WithAttributes(ConnectorKey.String(name), TargetKindKey.String(kind),
		fromKey.String(from), toKey.String(to)))
}

// Round notes one round of reads: how many there were, why the last one that failed did, "" if none did, and how long
// the gateway wants to be left alone.
func (s *LinkingSpan) Round(reads int, failed string, parked time.Duration) {
	if s == nil || !s.span.IsRecording() {
		return
	}
	s.reads += reads
	s.parked += parked
	if parked > 0 {
		s.span.AddEvent("watch.parked", trace.WithAttributes(backoffDelayKey.Float64(parked.Seconds())))
	}
	if failed != s.unread && failed != "" {
		s.span.AddEvent("watch.unread", trace.WithAttributes(backoffWhyKey.String(failed)))
	}
	s.unread = failed
}

// Settled notes what ended the operation and what became of its targets. One that failed is an error, to be looked at;
// a user who let the time pass, or a stop, is none.
func (s *LinkingSpan) Settled(by string, failed, open int) {
	if s == nil || !s.span.IsRecording() {
		return
	}
	s.span.SetAttributes(SettledByKey.String(by), unresolvedKey.Int(open))
	switch {
	case failed > 0:
		Fail(s.span, "failed", true)
	case by == "interrupt":
		Fail(s.span, "interrupted", false)
	case by == "deadline":
		Fail(s.span, "deadline", false)
	}
}

// End ends the span with the watch's verdict: done, returned to whoever takes it next, lost to another, or failed.
func (s *LinkingSpan) End(verdict string) {
	if s == nil {
		return
	}
	if s.span.IsRecording() {
		s.span.SetAttributes(VerdictKey.String(verdict), readsKey.Int(s.reads))
		if s.parked > 0 {
			s.span.SetAttributes(parkedForKey.Float64(s.parked.Seconds()))
		}
		if verdict == "lost" || verdict == "failed" {
			Fail(s.span, verdict, verdict == "failed")
		}
	}
	s.span.End()
}

// OfOperation links the span of ctx, a request that joins an operation or answers its card, to the request that opened
// it. Nothing happens where that is the same trace.
func OfOperation(ctx context.Context, opened string) {
	span := trace.SpanFromContext(ctx)
	l, ok := Link(spanContext(opened), LinkOperation)
	if ok && span.IsRecording() && l.SpanContext.TraceID() != span.SpanContext().TraceID() {
		span.AddLink(l)
	}
}
