package connectors

import (
	"context"
	"strconv"
	"time"

	"toolsearch/telemetry"
)

// recording is an observer that tells a recorder, and then next, if there is one. Without a recorder it is next itself.
// The spans of requests are the transport's; here are the metrics, and the waits as events of the span around them.
func recording(r *telemetry.Recorder, next *Observer) *Observer {
	if r == nil {
		return next
	}
	m := r.Metrics()
	return &Observer{
		AttemptStarted: next.attemptStarted,
		AttemptFinished: func(ctx context.Context, a Attempt, took time.Duration, err *Error) {
			code, status := errorType(err)
			m.Attempted(ctx, string(a.Route), code, status, took)
			next.attemptFinished(ctx, a, took, err)
		},
		Retry: func(ctx context.Context, a Attempt, reason *Error, wait time.Duration) {
			code, _ := errorType(reason)
			m.Retried(ctx, string(a.Route), code)
			telemetry.Backoff(ctx, wait, a.Number, code)
			next.retry(ctx, a, reason, wait)
		},
		Breaker: func(tenant string, from, to BreakerState) {
			m.BreakerMoved(context.Background(), string(from), string(to))
			next.breaker(tenant, from, to)
		},
		Dropped: func(ctx context.Context, route Route, tenant string, reason error) {
			m.Dropped(ctx, string(route))
			next.dropped(ctx, route, tenant, reason)
		},
	}
}

// errorType names an error for metrics and spans: the answer's status, as the HTTP conventions have it, or one of our
// own codes. A gateway's code is its own to choose, and so is none of a closed set.
func errorType(e *Error) (code string, status int) {
	switch {
	case e == nil:
		return "", 0
	case e.Kind == KindBadAnswer:
		return CodeInvalidResponse, e.Status
	case e.Status > 0 && e.Code != CodeNoToken:
		return strconv.Itoa(e.Status), e.Status
	}
	return e.Code, 0
}
