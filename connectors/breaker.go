package connectors

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// BreakerState is what a tenant's breaker does with a search or a describe.
type BreakerState string

// The states. A closed breaker lets everything through. An open one lets nothing through until its cooldown has
// passed; then it is half open and lets one request through, whose outcome closes it or opens it again.
const (
	BreakerClosed   BreakerState = "closed"
	BreakerOpen     BreakerState = "open"
	BreakerHalfOpen BreakerState = "half_open"
)

// maxBreakers bounds how many tenants' failures are remembered; the longest unused are forgotten, which closes them.
const maxBreakers = 8192

// breakers keeps a dead gateway from costing every search its timeout. There is one per tenant, because a token, a
// quota or a shard of the gateway may fail for one tenant alone. Only tenants with a recent failure take memory.
type breakers struct {
	after    int           // consecutive failures that open
	cooldown time.Duration // how long it stays open
	clock    Clock
	observer *Observer

	mu       sync.Mutex
	byTenant *lru.Cache[string, *breaker]
}

type breaker struct {
	state     BreakerState
	failures  int
	reopensAt time.Time // when an open breaker lets a probe through
	probing   bool      // a probe is under way
}

func newBreakers(after int, cooldown time.Duration, clock Clock, observer *Observer) *breakers {
	b := &breakers{after: after, cooldown: cooldown, clock: clock, observer: observer}
	// It fails for a size that is not positive only. What is forgotten is closed, and told so. b.mu is held.
	b.byTenant, _ = lru.NewWithEvict(maxBreakers, func(tenant string, br *breaker) { b.move(tenant, br, BreakerClosed) })
	return b
}

// allow reports whether a request may be sent now. Who was allowed must call done.
func (b *breakers) allow(tenant string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	br, ok := b.byTenant.Get(tenant)
	if !ok || br.state == BreakerClosed {
		return true
	}
	if br.probing || b.clock.Now().Before(br.reopensAt) {
		return false
	}
	b.move(tenant, br, BreakerHalfOpen)
	br.probing = true
	return true
}

// verdict is what an outcome says about the gateway.
type verdict int

const (
	alive   verdict = iota // it answered, whatever it answered
	failing                // no answer, or a status of 500 and above
	unknown                // nothing was asked of it, or the caller left too early to tell
)

// done tells the outcome of a request that was allowed.
func (b *breakers) done(tenant string, v verdict) {
	b.mu.Lock()
	defer b.mu.Unlock()
	br, ok := b.byTenant.Get(tenant)
	if !ok {
		if v != failing {
			return
		}
		br = &breaker{state: BreakerClosed}
		b.byTenant.Add(tenant, br)
	}
	br.probing = false
	switch v {
	case alive:
		b.move(tenant, br, BreakerClosed)
		b.byTenant.Remove(tenant)
	case failing:
		if br.failures++; br.failures >= b.after { // a probe that fails has failed once more
			br.reopensAt = b.clock.Now().Add(b.cooldown)
			b.move(tenant, br, BreakerOpen)
		}
	case unknown:
		// A probe that told nothing leaves the way free for the next one.
		if br.state == BreakerHalfOpen {
			b.move(tenant, br, BreakerOpen)
		}
	}
}

func (b *breakers) move(tenant string, br *breaker, to BreakerState) {
	if br.state != to {
		b.observer.breaker(tenant, br.state, to)
		br.state = to
	}
}

// judge turns the outcome of a leg into a verdict. A caller that left is no sign of a failing gateway, unless the
// gateway has had time enough to answer: otherwise callers with little patience would never notice a dead one.
func judge(ctx context.Context, err error, took time.Duration) verdict {
	var e *Error
	switch {
	case err == nil:
		return alive
	case !errors.As(err, &e):
		return unknown
	case slices.Contains(unsentCodes, e.Code):
		return unknown
	case e.Code == CodeTransport && ctx.Err() != nil && took < slowAnswer:
		return unknown
	case e.Code == CodeTransport || e.Status >= http.StatusInternalServerError:
		return failing
	}
	return alive
}

// unsentCodes are of errors that came before anything was asked of the gateway.
var unsentCodes = []string{CodeNoOrigin, CodeNoToken, CodeNotSetUp, CodeTokenSource, CodeInvalidRequest}

// slowAnswer is how long an unanswered request must have been waited for to count as a failure although the callers
// left before its own timeout.
const slowAnswer = time.Second
