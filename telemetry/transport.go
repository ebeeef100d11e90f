package telemetry

import (
	"context"
	"net/http"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
)

// Transport wraps the transport of an HTTP client whose requests go to a third party: each has a CLIENT span named by
// its method, and carries trace context and nothing else. Baggage holds what is for the bus alone. Requests under
// [WithoutSpans] are measured and carry the context of the span around them. A recorder that records nothing returns
// base, and the requests carry nothing.
func (r *Recorder) Transport(base http.RoundTripper) http.RoundTripper {
	if r.silent {
		return base
	}
	under := func(p trace.TracerProvider) http.RoundTripper {
		return otelhttp.NewTransport(resending{base},
			otelhttp.WithTracerProvider(p), otelhttp.WithMeterProvider(r.meters),
			otelhttp.WithPropagators(propagation.TraceContext{}),
			otelhttp.WithSpanNameFormatter(func(_ string, req *http.Request) string { return req.Method }))
	}
	return sparing{resending{base}, under(r.tracers), under(tracenoop.NewTracerProvider())}
}

// sparing sends what is asked again and again without a span.
type sparing struct {
	resending
	spans, quiet http.RoundTripper
}

func (t sparing) RoundTrip(req *http.Request) (*http.Response, error) {
	if isQuiet(req.Context()) {
		return t.quiet.RoundTrip(req)
	}
	return t.spans.RoundTrip(req)
}

type quietKey struct{}

// WithoutSpans says in ctx that the messages and requests sent under it get no span of their own: they are asked again
// and again, and the span around them tells what came of it.
func WithoutSpans(ctx context.Context) context.Context {
	return context.WithValue(ctx, quietKey{}, true)
}

func isQuiet(ctx context.Context) bool {
	quiet, _ := ctx.Value(quietKey{}).(bool)
	return quiet
}

type attemptKey struct{}

// WithAttempt says in ctx how often the request is sent with this time; 1 is the first.
func WithAttempt(ctx context.Context, n int) context.Context {
	if n <= 1 {
		return ctx
	}
	return context.WithValue(ctx, attemptKey{}, n)
}

// resending notes on the request's span that it was sent before.
type resending struct{ base http.RoundTripper }

func (t resending) RoundTrip(req *http.Request) (*http.Response, error) {
	if n, ok := req.Context().Value(attemptKey{}).(int); ok {
		trace.SpanFromContext(req.Context()).SetAttributes(semconv.HTTPRequestResendCount(n - 1))
	}
	return t.base.RoundTrip(req)
}

// CloseIdleConnections closes those of the transport underneath.
func (t resending) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
