package connectors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"toolsearch/catalog"
	"toolsearch/connectors/gatewaytest"
)

func TestEqualQueriesShareOneRequest(t *testing.T) {
	t.Parallel()
	s := newSetup(t, setupOptions{})
	gate := gatewaytest.NewGate()
	s.server.Fault(gatewaytest.Fault{Kind: gatewaytest.Slow, Gate: gate})
	const callers = 50
	got := make(chan *catalog.RemoteSearch, callers)
	for range callers {
		go func() { got <- s.gateway.Search(context.Background(), "tenant", []string{"send an email"}) }()
	}
	<-gate.Reached()
	waitFor(t, &s.gateway.searches, callers)
	// Another query, and another tenant's, are no equal ones.
	others := make(chan *catalog.RemoteSearch, 2)
	go func() { others <- s.gateway.Search(context.Background(), "tenant", []string{"send an", "email"}) }()
	go func() { others <- s.gateway.Search(context.Background(), "rival", []string{"send an email"}) }()
	<-gate.Reached()
	<-gate.Reached()
	gate.Open()
	for range callers {
		if r := <-got; r == nil || r.Condition != nil || len(r.Groups[0]) == 0 || r.Groups[0][0].Name != sendMail {
			t.Fatalf("got %+v", r)
		}
	}
	<-others
	<-others
	if n := s.server.RequestCount(); n != 3 {
		t.Errorf("%d requests were sent, want 3", n)
	}
}

// waitFor returns once n callers wait for one run.
func waitFor[T any](t *testing.T, f *flights[T], n int) {
	t.Helper()
	for {
		f.mu.Lock()
		waiting := 0
		for _, fl := range f.running {
			waiting += fl.waiting
		}
		f.mu.Unlock()
		if waiting >= n {
			return
		}
		runtime.Gosched()
	}
}

func TestACallerThatLeavesTakesNothingFromTheOthers(t *testing.T) {
	t.Parallel()
	s := newSetup(t, setupOptions{})
	gate := gatewaytest.NewGate()
	s.server.Fault(gatewaytest.Fault{Kind: gatewaytest.Slow, Gate: gate})
	ctx, cancel := context.WithCancel(context.Background())
	first, second := make(chan *catalog.RemoteSearch), make(chan *catalog.RemoteSearch)
	go func() { first <- s.gateway.Search(ctx, "tenant", []string{"send an email"}) }()
	<-gate.Reached() // the first caller's own request
	go func() { second <- s.gateway.Search(context.Background(), "tenant", []string{"send an email"}) }()
	waitFor(t, &s.gateway.searches, 2)
	cancel()
	if r := <-first; r == nil || r.Condition == nil || r.Condition.Reason != "unreachable" {
		t.Errorf("the caller that left got %+v", r)
	}
	gate.Open()
	if r := <-second; r.Condition != nil || len(r.Groups[0]) == 0 {
		t.Errorf("the caller that stayed got %+v", r)
	}
	if n := s.server.RequestCount(); n != 1 {
		t.Errorf("%d requests were sent, want 1", n)
	}
}

func TestTheLastCallerThatLeavesEndsTheRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var f flights[int]
		ended := make(chan error, 2)
		run := func(ctx context.Context) int {
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return 1
		}
		leave := errors.New("leave")
		ctx, cancel := context.WithCancelCause(t.Context())
		results := make(chan bool, 2)
		for range 2 {
			go func() {
				_, ok := f.do(ctx, "key", run)
				results <- ok
			}()
		}
		synctest.Wait()
		cancel(leave)
		for range 2 {
			if <-results {
				t.Error("a caller that left got a value")
			}
		}
		if cause := <-ended; cause != leave {
			t.Errorf("the run ended by %v", cause)
		}
		if len(ended) != 0 {
			t.Error("there were two runs")
		}
		// A later caller is not given the run that was cancelled.
		if v, ok := f.do(t.Context(), "key", func(context.Context) int { return 2 }); !ok || v != 2 {
			t.Errorf("got %v, %v", v, ok)
		}
		f.stop(errClosed)
		if _, ok := f.do(t.Context(), "key", run); ok {
			t.Error("a run began after the stop")
		}
	})
}

func TestABreakerOpensAndRecovers(t *testing.T) {
	t.Parallel()
	s := newSetup(t, setupOptions{gateway: GatewayOptions{BreakerFailures: 3, BreakerCooldown: time.Minute}})
	search := func(tenant string) string {
		r := s.gateway.Search(context.Background(), tenant, []string{"send an email"})
		if r == nil || r.Condition == nil {
			return "ok"
		}
		return r.Condition.Reason
	}
	check := func(step, tenant, want string, requests int) {
		t.Helper()
		if got := search(tenant); got != want || s.server.RequestCount() != requests {
			t.Fatalf("%s: got %s after %d requests, want %s after %d", step, got, s.server.RequestCount(), want, requests)
		}
	}
	s.server.Fault(gatewaytest.Fault{Kind: gatewaytest.Status, Status: 503, Times: 2})
	s.server.Fault(gatewaytest.Fault{Kind: gatewaytest.Drop, Times: 1})
	for i := range 3 {
		check("failing", "tenant", "unreachable", i+1)
	}
	for range 5 {
		check("open", "tenant", "unreachable", 3)
	}
	if r := s.gateway.Describe(context.Background(), "tenant", []string{sendMail}); !r.Failed || r.Condition.Reason != "unreachable" || s.server.RequestCount() != 3 {
		t.Fatalf("describe, open: got %+v", r)
	}
	s.server.ClearFaults()
	check("another tenant", "rival", "ok", 4)
	s.clock.advance(59 * time.Second)
	check("still open", "tenant", "unreachable", 4)
	s.clock.advance(2 * time.Second)
	s.server.Fault(gatewaytest.Fault{Kind: gatewaytest.Status, Status: 500, Times: 1})
	check("a probe that fails", "tenant", "unreachable", 5)
	check("open again", "tenant", "unreachable", 5)
	s.clock.advance(61 * time.Second)
	check("a probe that succeeds", "tenant", "ok", 6)
	check("closed", "tenant", "ok", 7)
	want := []string{"closed>open", "open>half_open", "half_open>open", "open>half_open", "half_open>closed"}
	if !slices.Equal(s.moves, want) {
		t.Errorf("the breaker moved %v, want %v", s.moves, want)
	}
}

func TestAHalfOpenBreakerLetsOneThrough(t *testing.T) {
	t.Parallel()
	clock := newTestClock()
	b := newBreakers(1, time.Minute, clock, nil)
	b.allow("t")
	b.done("t", failing)
	clock.advance(2 * time.Minute)
	allowed := func() (n int) {
		for range 3 {
			if b.allow("t") {
				n++
			}
		}
		return n
	}
	if n := allowed(); n != 1 {
		t.Fatalf("%d probes were let through, want 1", n)
	}
	b.done("t", unknown) // the probe's caller left: the next one probes
	if n := allowed(); n != 1 {
		t.Fatalf("%d probes were let through after one that told nothing, want 1", n)
	}
	b.done("t", alive)
	if allowed() != 3 || b.byTenant.Len() != 0 {
		t.Error("the breaker is not closed and forgotten")
	}
}

func TestFailuresOfTheCallerDoNotOpenABreaker(t *testing.T) {
	t.Parallel()
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	transport := newError(KindOther, CodeTransport, nil, "x")
	for _, c := range []struct {
		name string
		ctx  context.Context
		err  error
		took time.Duration
		want verdict
	}{
		{"answered", t.Context(), nil, 0, alive},
		{"rate limited", t.Context(), &Error{Kind: KindRateLimited, Status: 429}, 0, alive},
		{"forbidden", t.Context(), &Error{Kind: KindAuth, Status: 403}, 0, alive},
		{"server error", t.Context(), &Error{Kind: KindOther, Status: 502}, 0, failing},
		{"no answer", t.Context(), transport, 0, failing},
		{"the caller left at once", cancelled, transport, time.Millisecond, unknown},
		{"the caller left in the end", cancelled, transport, 2 * time.Second, failing},
		{"signed out", t.Context(), tokenError(errSignedOut), 0, unknown},
		{"token source", t.Context(), tokenError(errors.New("x")), 0, unknown},
	} {
		if got := judge(c.ctx, c.err, c.took); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestASlowGatewayCostsNoMoreThanTheDeadline(t *testing.T) {
	t.Parallel()
	s := newSetup(t, setupOptions{})
	s.server.Fault(gatewaytest.Fault{Kind: gatewaytest.Silent})
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	r := s.gateway.Search(ctx, "tenant", []string{"send an email"})
	if r == nil || r.Condition == nil || r.Condition.Reason != "unreachable" {
		t.Errorf("got %+v", r)
	}
	if ctx.Err() != nil {
		t.Error("no time is left for the reply")
	}
	if got := s.gateway.Describe(ctx, "tenant", []string{sendMail}); got == nil || !got.Failed {
		t.Errorf("got %+v", got)
	}
}

func TestABoundOfItsOwn(t *testing.T) {
	t.Parallel()
	s := newSetup(t, setupOptions{gateway: GatewayOptions{SearchBound: 50 * time.Millisecond, DescribeBound: 50 * time.Millisecond}})
	s.server.Fault(gatewaytest.Fault{Kind: gatewaytest.Silent})
	if r := s.gateway.Search(context.Background(), "tenant", []string{"q"}); r == nil || r.Condition == nil {
		t.Errorf("got %+v", r)
	}
	if r := s.gateway.Describe(context.Background(), "tenant", []string{sendMail, "local"}); r == nil || !r.Failed || !slices.Equal(r.Condition.Names, []string{sendMail}) {
		t.Errorf("got %+v", r)
	}
}

func TestTheEndOfAGatewayEndsItsLegs(t *testing.T) {
	t.Parallel()
	s := newSetup(t, setupOptions{})
	gate := gatewaytest.NewGate()
	defer gate.Open()
	s.server.Fault(gatewaytest.Fault{Kind: gatewaytest.Slow, Gate: gate})
	done := make(chan *catalog.RemoteSearch)
	go func() { done <- s.gateway.Search(context.Background(), "tenant", []string{"q"}) }()
	<-gate.Reached()
	s.gateway.Close()
	if r := <-done; r == nil || r.Condition == nil {
		t.Errorf("got %+v", r)
	}
	if r := s.gateway.Search(context.Background(), "tenant", []string{"q"}); r == nil || r.Condition == nil || s.server.RequestCount() != 1 {
		t.Errorf("after the end: got %+v", r)
	}
}

func TestTwinSlugsAreWarnedOf(t *testing.T) {
	t.Parallel()
	answer := `{"results":[{"index":0,"tools":["FETCH","MAIL_FETCH","FETCH","ORPHAN","MAIL_"]}],"schemas":{
		"FETCH":{"connector":"Mail","tool":"FETCH","description":"literal"},"MAIL_FETCH":{"connector":"Mail","tool":"MAIL_FETCH","description":"prefixed","inputSchema":{"required":["a",5,"` +
		strings.Repeat("x", 70) + `"]}},"MAIL_":{"connector":"mail","tool":"MAIL_"}}}`
	s := newSetup(t, setupOptions{server: gatewaytest.Options{Answers: []gatewaytest.Answer{{Status: 200, Body: json.RawMessage(answer)}}}})
	r := s.gateway.Search(t.Context(), "tenant", []string{"fetch"})
	if len(r.Groups[0]) != 1 {
		t.Fatalf("got %+v", r.Groups[0])
	}
	got := r.Groups[0][0]
	if got.Name != "connectors__mail__FETCH" || got.Connector != "Mail" || got.Slug != "MAIL_FETCH" || got.Description != "prefixed" ||
		!slices.Equal(got.Required, []string{"a", strings.Repeat("x", 64)}) {
		t.Errorf("got %+v", got)
	}
	if !strings.Contains(s.logs.String(), "two gateway slugs give one name") {
		t.Errorf("no warning in %s", s.logs)
	}
}

func TestDescribeMapsSlugsBackToNames(t *testing.T) {
	t.Parallel()
	s := newSetup(t, setupOptions{})
	names := []string{"connectors__files__UPLOAD_FILE", "local_tool", sendMail, "connectors__broken", sendMail, "connectors__mail__NOPE"}
	r := s.gateway.Describe(t.Context(), "tenant", names)
	if r == nil || r.Failed || r.Condition != nil || len(r.Schemas) != 2 {
		t.Fatalf("got %+v", r)
	}
	if !strings.Contains(r.Schemas[names[0]].Description, "Upload") || !strings.Contains(string(r.Schemas[sendMail].Parameters), "subject") {
		t.Errorf("got %+v", r.Schemas)
	}
	want := []string{"FILES_UPLOAD_FILE", "UPLOAD_FILE", "MAIL_SEND_EMAIL", "SEND_EMAIL", "MAIL_NOPE", "NOPE"}
	if got := s.server.Requests()[0].Slugs; !slices.Equal(got, want) {
		t.Errorf("it asked for %v, want %v", got, want)
	}
	if r := s.gateway.Describe(t.Context(), "tenant", []string{"connectors__broken"}); r == nil || r.Failed || len(r.Schemas) != 0 {
		t.Errorf("nothing to ask for: got %+v", r)
	}
	if r := s.gateway.Describe(t.Context(), "tenant", []string{"local"}); r != nil {
		t.Errorf("no connector: got %+v", r)
	}
	if s.server.RequestCount() != 1 {
		t.Errorf("%d requests were sent, want 1", s.server.RequestCount())
	}
}

func TestNotSetUpIsTold(t *testing.T) {
	t.Parallel()
	s := newSetup(t, setupOptions{client: ClientOptions{Tokens: tokenFunc(func() (string, error) { return "", fmt.Errorf("vault: %w", ErrNotSetUp) })}})
	r := s.gateway.Search(t.Context(), "tenant", []string{"q"})
	if r == nil || r.Condition == nil || r.Condition.Status != "not_set_up" || r.Condition.Reason != "" || r.Condition.Hint == "" {
		t.Errorf("got %+v", r)
	}
}

func TestAPanicInALegIsAFailure(t *testing.T) {
	t.Parallel()
	s := newSetup(t, setupOptions{client: ClientOptions{Tokens: tokenFunc(func() (string, error) { panic("a bug") })}})
	r := s.gateway.Search(t.Context(), "tenant", []string{"q"})
	if r == nil || r.Condition == nil || r.Condition.Reason != "unreachable" || !strings.Contains(s.logs.String(), "a bug") {
		t.Errorf("got %+v", r)
	}
	if r := s.gateway.Describe(t.Context(), "tenant", []string{sendMail}); r == nil || !r.Failed {
		t.Errorf("got %+v", r)
	}
}
