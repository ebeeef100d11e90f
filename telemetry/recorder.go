package telemetry

import (
	"context"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
)

// Options configure a [Recorder]. The zero value records nothing and passes trace context on.
type Options struct {
	// TracerProvider makes the spans; nil makes none.
	TracerProvider trace.TracerProvider
	// MeterProvider makes the metrics; nil makes none.
	MeterProvider metric.MeterProvider
	// Propagator carries the context on the bus; nil is W3C trace context alone, as the contract has it. Requests to
	// the gateway carry trace context and nothing else, whatever stands here.
	Propagator propagation.TextMapPropagator
	// Capture says what is recorded of contents; the zero value is nothing.
	Capture Capture
}

// Recorder is what the parts of the product record with: spans, metrics and the context between them. It is safe for
// concurrent use, and one serves all parts of a process.
type Recorder struct {
	tracer     trace.Tracer
	quiet      trace.Tracer // starts no span, and leaves the one around
	tracers    trace.TracerProvider
	meters     metric.MeterProvider
	propagator propagation.TextMapPropagator
	metrics    *Metrics
	capture    Capture
	silent     bool // neither spans nor metrics are wanted
	measures   bool // metrics are
}

// NewRecorder makes a recorder and its instruments. An error is one of the meter provider's.
func NewRecorder(o Options) (*Recorder, error) {
	r := &Recorder{tracers: o.TracerProvider, meters: o.MeterProvider, propagator: o.Propagator, capture: o.Capture,
		silent: o.TracerProvider == nil && o.MeterProvider == nil, measures: o.MeterProvider != nil}
	if r.tracers == nil {
		r.tracers = tracenoop.NewTracerProvider()
	}
	if r.meters == nil {
		r.meters = metricnoop.NewMeterProvider()
	}
	if r.propagator == nil {
		r.propagator = propagation.TraceContext{}
	}
	r.tracer = r.tracers.Tracer(Scope, trace.WithSchemaURL(SchemaURL))
	r.quiet = tracenoop.NewTracerProvider().Tracer(Scope)
	var err error
	if r.metrics, err = newMetrics(r.meters.Meter(Scope, metric.WithSchemaURL(SchemaURL))); err != nil {
		return nil, fmt.Errorf("telemetry: make the instruments: %w", err)
	}
	return r, nil
}

var none = sync.OnceValue(func() *Recorder {
	r, err := NewRecorder(Options{})
	if err != nil {
		panic(err) // the instruments of no meter cannot fail
	}
	return r
})

// None records nothing; it passes on the trace context that it is given.
func None() *Recorder { return none() }

// OrNone is r, or [None] where r is nil: the default of an option.
func OrNone(r *Recorder) *Recorder {
	if r == nil {
		return none()
	}
	return r
}

// Measures reports whether metrics are wanted, for those that cost a question to somebody.
func (r *Recorder) Measures() bool { return r.measures }

// Metrics are the recorder's instruments; never nil.
func (r *Recorder) Metrics() *Metrics { return r.metrics }

// Capture is what may be recorded of contents.
func (r *Recorder) Capture() Capture { return r.capture }

// Inject writes the context of ctx into the headers of a message.
func (r *Recorder) Inject(ctx context.Context, h nats.Header) { r.propagator.Inject(ctx, Carrier(h)) }

// Extract returns ctx with the context that the headers of a message carry; ctx itself if they carry none.
func (r *Recorder) Extract(ctx context.Context, h nats.Header) context.Context {
	if len(h) == 0 {
		return ctx
	}
	return r.propagator.Extract(ctx, Carrier(h))
}

// SpanContext reads the span's context that headers carry, for a link; it is invalid if they carry none.
func (r *Recorder) SpanContext(h nats.Header) trace.SpanContext {
	return trace.SpanContextFromContext(r.Extract(context.Background(), h))
}

// TraceID is the trace that ctx is part of, "" for none.
func TraceID(ctx context.Context) string {
	if sc := trace.SpanContextFromContext(ctx); sc.HasTraceID() {
		return sc.TraceID().String()
	}
	return ""
}
