package connectors

import (
	"context"
	"time"
)

// Route names a request of the gateway's HTTP interface.
type Route string

// The routes.
const (
	RouteSearch      Route = "search"
	RouteSchemas     Route = "schemas"
	RouteExecute     Route = "execute"
	RouteConnections Route = "connections"
	RouteList        Route = "list"
	RouteAccount     Route = "account"
)

// Attempt is one HTTP request about to be sent, or sent.
type Attempt struct {
	Route  Route
	Tenant string
	Number int // 1 for the first
}

// Observer is told what the client and the gateway do, for metrics and spans. Every field may be nil, and so may the
// Observer. Its functions are called from the goroutine that works, so they must not block. None is ever given a
// token, arguments or a result.
type Observer struct {
	// AttemptStarted is called before a request is sent.
	AttemptStarted func(ctx context.Context, a Attempt)
	// AttemptFinished is called when its answer has been read or given up; err is nil for a 2xx answer.
	AttemptFinished func(ctx context.Context, a Attempt, took time.Duration, err *Error)
	// Retry is called before the wait that leads to another attempt.
	Retry func(ctx context.Context, a Attempt, reason *Error, wait time.Duration)
	// Breaker is called when a tenant's breaker changes its state.
	Breaker func(tenant string, from, to BreakerState)
	// Dropped is called for each malformed element that was left out of an answer.
	Dropped func(ctx context.Context, route Route, tenant string, reason error)
}

func (o *Observer) attemptStarted(ctx context.Context, a Attempt) {
	if o != nil && o.AttemptStarted != nil {
		o.AttemptStarted(ctx, a)
	}
}

func (o *Observer) attemptFinished(ctx context.Context, a Attempt, took time.Duration, err *Error) {
	if o != nil && o.AttemptFinished != nil {
		o.AttemptFinished(ctx, a, took, err)
	}
}

func (o *Observer) retry(ctx context.Context, a Attempt, reason *Error, wait time.Duration) {
	if o != nil && o.Retry != nil {
		o.Retry(ctx, a, reason, wait)
	}
}

func (o *Observer) breaker(tenant string, from, to BreakerState) {
	if o != nil && o.Breaker != nil {
		o.Breaker(tenant, from, to)
	}
}

func (o *Observer) dropped(ctx context.Context, route Route, tenant string, reason error) {
	if o != nil && o.Dropped != nil {
		o.Dropped(ctx, route, tenant, reason)
	}
}
