package telemetry

import (
	"context"
	"net/http"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Transport wraps the transport of an HTTP client whose requests go to a third party: each has a CLIENT span named by
// its method, and carries trace context and nothing else. Baggage holds what is for the bus alone. A recorder that
// records nothing returns base, and the requests carry nothing.
func (r *Recorder) Transport(base http.RoundTripper) http.RoundTripper {
	if r.silent {
		return base
	}
	return otelhttp.NewTransport(resending{base},
		otelhttp.WithTracerProvider(r.tracers), otelhttp.WithMeterProvider(r.meters),
		otelhttp.WithPropagators(propagation.TraceContext{}),
		otelhttp.WithSpanNameFormatter(func(_ string, req *http.Request) string { return req.Method }))
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
