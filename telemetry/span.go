package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Operation is one way of handling the messages of one destination: what its spans are called and have in common. Make
// it once, use it for every message. The template has {tenant}, {session} and the like where subjects have theirs.
type Operation struct {
	name     string
	template string
	options  []trace.SpanStartOption
}

// ProcessOf is the handling of a received message.
func ProcessOf(template string) *Operation {
	return operation("process", "process", template, trace.SpanKindConsumer)
}

// PublishOf is sending a message for which no answer is waited.
func PublishOf(template string) *Operation {
	return operation("publish", "send", template, trace.SpanKindProducer)
}

// RequestOf is sending a message and waiting for the answer. The requester waits, so whoever answers is a child.
func RequestOf(template string) *Operation {
	return operation("request", "send", template, trace.SpanKindClient)
}

func operation(name, kind, template string, k trace.SpanKind) *Operation {
	return &Operation{name: name + " " + template, template: template, options: []trace.SpanStartOption{
		trace.WithSpanKind(k),
		trace.WithAttributes(semconv.MessagingSystemKey.String(System), semconv.MessagingOperationName(name),
			semconv.MessagingOperationTypeKey.String(kind), semconv.MessagingDestinationTemplate(template)),
	}}
}

// Template is the destination's.
func (o *Operation) Template() string { return o.template }

// Message is what is known of one message. All of it is optional.
type Message struct {
	// Subject is where it was sent; it stands on the span and nowhere else.
	Subject string
	// ID is its id, such as Nats-Msg-Id.
	ID string
	// Conversation is the call or the session that it belongs to.
	Conversation string
	// Group is the queue group or the consumer that got it.
	Group string
	// Size is that of its body in bytes.
	Size int
	// Since is when it arrived, if its span begins then; zero is now.
	Since time.Time
	// Links are the contexts that it follows from and that are not its parent.
	Links []trace.Link
	// Root begins a new trace.
	Root bool
}

// Message starts the span of one message. Whoever starts it ends it.
func (r *Recorder) Message(ctx context.Context, o *Operation, m Message) (context.Context, trace.Span) {
	options := o.options
	if !m.Since.IsZero() || len(m.Links) > 0 || m.Root {
		options = append(make([]trace.SpanStartOption, 0, len(options)+3), options...)
		if !m.Since.IsZero() {
			options = append(options, trace.WithTimestamp(m.Since))
		}
		if len(m.Links) > 0 {
			options = append(options, trace.WithLinks(m.Links...))
		}
		if m.Root {
			options = append(options, trace.WithNewRoot())
		}
	}
	tracer := r.tracer
	if isQuiet(ctx) {
		tracer = r.quiet
	}
	ctx, span := tracer.Start(ctx, o.name, options...)
	if span.IsRecording() {
		span.SetAttributes(m.attributes()...)
	}
	return ctx, span
}

// Send starts the span of a message that is about to be sent. Where it is recorded, h carries its context in place of the
// one that it has.
func (r *Recorder) Send(ctx context.Context, o *Operation, m Message, h nats.Header) (context.Context, trace.Span) {
	ctx, span := r.Message(ctx, o, m)
	if span.SpanContext().IsSampled() {
		r.Inject(ctx, h)
	}
	return ctx, span
}

// BusErrorCode names an error of the bus for [Fail]: no_responders, timeout, canceled, else _OTHER; "" for none.
func BusErrorCode(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, nats.ErrNoResponders):
		return "no_responders"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	return "_OTHER"
}

func (m *Message) attributes() []attribute.KeyValue {
	out := make([]attribute.KeyValue, 0, 5)
	if m.Subject != "" {
		out = append(out, semconv.MessagingDestinationName(m.Subject))
	}
	if m.ID != "" {
		out = append(out, semconv.MessagingMessageID(m.ID))
	}
	if m.Conversation != "" {
		out = append(out, semconv.MessagingMessageConversationID(m.Conversation))
	}
	if m.Group != "" {
		out = append(out, semconv.MessagingConsumerGroupName(m.Group))
	}
	if m.Size > 0 {
		out = append(out, semconv.MessagingMessageBodySize(m.Size))
	}
	return out
}

// The reasons of a link.
const (
	LinkCreation  = "creation"  // the message, or the operation, was made there
	LinkStop      = "stop"      // the stop came from there
	LinkOperation = "operation" // the operation that is asked for, or answered, was opened there
)

// Link points to another span and says why. ok is false where there is none to point to.
func Link(sc trace.SpanContext, why string) (l trace.Link, ok bool) {
	return trace.Link{SpanContext: sc, Attributes: []attribute.KeyValue{linkKey.String(why)}}, sc.IsValid()
}

// spanContext reads a traceparent; it is invalid where that is none.
func spanContext(traceparent string) trace.SpanContext {
	carrier := propagation.MapCarrier{"traceparent": traceparent}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}

// Fail notes what went wrong on a span: a code from a closed set, never a text, for texts may hold what is not to be
// recorded. fault says that it is to be looked at; without it the span's status stays as it is.
func Fail(span trace.Span, code string, fault bool) {
	if code == "" || !span.IsRecording() {
		return
	}
	span.SetAttributes(errorType(code))
	if fault {
		span.SetStatus(codes.Error, code)
	}
}

// Waited notes on a request's span how long it waited for its place.
func Waited(span trace.Span, d time.Duration) {
	if span.IsRecording() {
		span.SetAttributes(queueWaitKey.Float64(d.Seconds()))
	}
}

// Ended notes on a job's span how its run ended, and that the queue had handed the job out before.
func Ended(span trace.Span, verdict string, redelivered bool) {
	if span.IsRecording() {
		span.SetAttributes(VerdictKey.String(verdict), RedeliveredKey.Bool(redelivered))
	}
}

// Mistaken notes on a request's span that its reply tells a model of its mistake.
func Mistaken(span trace.Span) { span.SetAttributes(mistakeKey.Bool(true)) }

// Saved notes on a request's span how many tokens an assemble kept out of a context.
func Saved(span trace.Span, tokens int) { span.SetAttributes(tokensSavedKey.Int(tokens)) }

// Backoff notes the wait before another attempt on the span of ctx: an event retry.backoff.
func Backoff(ctx context.Context, delay time.Duration, attempt int, reason string) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.AddEvent("retry.backoff", trace.WithAttributes(backoffDelayKey.Float64(delay.Seconds()),
			backoffTryKey.Int(attempt), backoffWhyKey.String(reason)))
	}
}

// Outgoing opens the span of a message that a client sends; operation is "request" or "publish". It fits
// subjects.ClientOptions.Start. end is told the code of what went wrong, "" for nothing.
func (r *Recorder) Outgoing(ctx context.Context, operation, template, subject string) (_ context.Context, end func(code string)) {
	o := RequestOf(template)
	if operation == "publish" {
		o = PublishOf(template)
	}
	ctx, span := r.Message(ctx, o, Message{Subject: subject})
	return ctx, func(code string) {
		Fail(span, code, true)
		span.End()
	}
}

// Incoming opens the span of a message that was received, as a child of what its headers carry. It fits
// toolhost.Options.Start. end is told the code of what went wrong, "" for nothing.
func (r *Recorder) Incoming(ctx context.Context, template, subject string, h nats.Header) (_ context.Context, end func(code string)) {
	ctx, span := r.Message(r.Extract(ctx, h), ProcessOf(template), Message{Subject: subject})
	return ctx, func(code string) {
		Fail(span, code, true)
		span.End()
	}
}

// Search is a search that is about to run.
type Search struct {
	Queries       []string // recorded only if they are captured
	Session       string
	CatalogTools  int
	CatalogDigest string
}

// Search opens the span of a search, which end closes. end is told how many tools each query found and what the
// gateway's part was, and counts the search too. end(nil, "") is for one that failed, and counts nothing.
func (r *Recorder) Search(ctx context.Context, s Search) (_ context.Context, end func(found []int, remote string)) {
	began := time.Now()
	ctx, span := r.tracer.Start(ctx, "search_tools", searchOptions...)
	if span.IsRecording() {
		span.SetAttributes(queryTermsKey.Int(len(s.Queries)), catalogSizeKey.Int(s.CatalogTools), catalogKey.String(s.CatalogDigest),
			GenAIConversationIDKey.String(s.Session))
		if r.capture.Enabled {
			texts := make([]string, len(s.Queries))
			for i, q := range s.Queries {
				texts[i] = r.capture.Text(q)
			}
			span.SetAttributes(queryTextKey.StringSlice(texts))
		}
	}
	return ctx, func(found []int, remote string) {
		if remote != "" {
			r.metrics.Searched(ctx, time.Since(began), remote, found)
		}
		if span.IsRecording() {
			total, without := 0, 0
			for _, n := range found {
				total += n
				if n == 0 {
					without++
				}
			}
			span.SetAttributes(resultsKey.Int(total), withoutHitKey.Int(without), RemoteKey.String(remote))
		}
		span.End()
	}
}

var searchOptions = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindInternal),
	trace.WithAttributes(GenAIOperationNameKey.String(operationRetrieval))}

// Batch opens the span around the entries of a call.
func (r *Recorder) Batch(ctx context.Context, size, takeovers, generation int) (context.Context, trace.Span) {
	ctx, span := r.tracer.Start(ctx, "dispatch batch", internalOption)
	if span.IsRecording() {
		span.SetAttributes(batchSizeKey.Int(size))
		if takeovers > 0 {
			span.SetAttributes(takeoversKey.Int(takeovers))
		}
		if generation > 0 {
			span.SetAttributes(generationKey.Int(generation))
		}
	}
	return ctx, span
}

var internalOption = trace.WithSpanKind(trace.SpanKindInternal)

// Entry is an entry of a call that is about to be executed.
type Entry struct {
	Tool, Call, Session string
	Index               int
}

// mostToolName bounds the name of a tool in a span, in bytes: a model wrote it.
const mostToolName = 200

// EntrySpan is the span of one entry.
type EntrySpan struct {
	span    trace.Span
	capture Capture
}

// Entry opens the span of one entry, execute_tool and the tool's name.
func (r *Recorder) Entry(ctx context.Context, e Entry) (context.Context, *EntrySpan) {
	if len(e.Tool) > mostToolName {
		e.Tool = strings.ToValidUTF8(e.Tool[:mostToolName], "")
	}
	ctx, span := r.tracer.Start(ctx, operationExecuteTool+" "+e.Tool, internalOption, trace.WithAttributes(
		GenAIOperationNameKey.String(operationExecuteTool), GenAIToolNameKey.String(e.Tool),
		GenAIToolTypeKey.String(toolTypeExtension)))
	if span.IsRecording() {
		span.SetAttributes(GenAIToolCallIDKey.String(e.Call), GenAIConversationIDKey.String(e.Session), entryIndexKey.Int(e.Index))
	}
	return ctx, &EntrySpan{span, r.capture}
}

// Arguments records what the tool is called with, if that is captured.
func (s *EntrySpan) Arguments(raw json.RawMessage) {
	if s.capture.Enabled && s.span.IsRecording() {
		s.span.SetAttributes(GenAIToolCallArgumentsKey.String(s.capture.JSON(raw)))
	}
}

// Stopped links the entry to the stop that kept it from being sent, by the traceparent that the stop came with.
func (s *EntrySpan) Stopped(traceparent string) {
	if l, ok := Link(spanContext(traceparent), LinkStop); ok {
		s.span.AddLink(l)
	}
}

// Settled notes what became of the entry. An interrupted one is no error: that is what the stop asked for.
func (s *EntrySpan) Settled(outcome, code string, attempts int, result json.RawMessage) {
	if !s.span.IsRecording() {
		return
	}
	s.span.SetAttributes(OutcomeKey.String(outcome), attemptsKey.Int(attempts))
	switch outcome {
	case "ok":
		if s.capture.Enabled {
			s.span.SetAttributes(GenAIToolCallResultKey.String(s.capture.JSON(result)))
		}
	case "interrupted":
		s.span.SetAttributes(errorType("interrupted"))
	default:
		if code == "" {
			code = outcome
		}
		Fail(s.span, code, true)
	}
}

// End ends the span. An entry that has not settled by then is left to another runner.
func (s *EntrySpan) End() { s.span.End() }
