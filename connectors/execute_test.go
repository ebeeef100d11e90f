package connectors

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"toolsearch/connectors/gatewaytest"
	"toolsearch/subjects"
)

func code(r ExecutionResult) subjects.EntryCode {
	if r.Result.Error == nil {
		return ""
	}
	return r.Result.Error.Code
}

func TestALostAnswerIsAskedForAgainAndNothingIsDoneTwice(t *testing.T) {
	t.Parallel()
	for _, f := range []gatewaytest.Fault{
		{Kind: gatewaytest.Drop}, {Kind: gatewaytest.Drop, AfterEffect: true},
		{Kind: gatewaytest.HalfBody, AfterEffect: true},
		{Kind: gatewaytest.Status, Status: 502}, {Kind: gatewaytest.Status, Status: 500, AfterEffect: true},
		{Kind: gatewaytest.RateLimit, RetryAfter: time.Second},
	} {
		name := string(f.Kind)
		if f.AfterEffect {
			name += " after the effect"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSetup(t, setupOptions{})
			f.Times = 3
			s.server.Fault(f)
			r := s.gateway.Execute(t.Context(), mail())
			if r.Outcome != subjects.OutcomeOK || r.Attempts != 4 || r.Unclear || r.Cut {
				t.Fatalf("got %+v %+v", r, r.Result.Error)
			}
			if n := len(s.server.Effects()); n != 1 {
				t.Errorf("%d effects, want 1", n)
			}
			for _, req := range s.server.Requests() {
				if req.Key != "0/MAIL_SEND_EMAIL" {
					t.Errorf("a request has the key %q", req.Key)
				}
			}
		})
	}
}

// A connection that is open already breaks in the same way; net/http must not repeat the request by itself.
func TestARetryOnAReusedConnectionIsCounted(t *testing.T) {
	t.Parallel()
	s := newSetup(t, setupOptions{})
	if _, err := s.client.List(t.Context(), "tenant"); err != nil {
		t.Fatal(err)
	}
	s.server.Fault(gatewaytest.Fault{Kind: gatewaytest.Drop, AfterEffect: true, Times: 1})
	r := s.gateway.Execute(t.Context(), mail())
	if r.Outcome != subjects.OutcomeOK || r.Attempts != 2 || s.server.RequestCount() != 3 {
		t.Errorf("got %+v after %d requests", r, s.server.RequestCount())
	}
}

func TestWhatIsNotRepeated(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]subjects.EntryCode{
		400: subjects.EntryProviderError, 401: subjects.EntryProviderError, 403: subjects.EntryProviderError,
		404: subjects.EntryToolNotFound, 409: subjects.EntryProviderError, 422: subjects.EntryProviderError,
	} {
		s := newSetup(t, setupOptions{})
		s.server.Fault(gatewaytest.Fault{Kind: gatewaytest.Status, Status: status})
		r := s.gateway.Execute(t.Context(), mail())
		if code(r) != want || r.Outcome != subjects.OutcomeError || s.server.RequestCount() != 1 {
			t.Errorf("%d: got %+v after %d requests", status, r.Result.Error, s.server.RequestCount())
		}
		if status == 404 && strings.Contains(r.Result.Error.Message, "404") {
			t.Errorf("the message names a status: %q", r.Result.Error.Message)
		}
	}
}

func TestAttemptsAreBounded(t *testing.T) {
	t.Parallel()
	s := newSetup(t, setupOptions{client: ClientOptions{ExecuteAttempts: 3}})
	s.server.Fault(gatewaytest.Fault{Kind: gatewaytest.Status, Status: 503})
	r := s.gateway.Execute(t.Context(), mail())
	if code(r) != subjects.EntryProviderError || r.Attempts != 3 || s.server.RequestCount() != 3 || !strings.Contains(r.Result.Error.Message, "scripted fault") {
		t.Errorf("got %+v %+v", r, r.Result.Error)
	}
}

// What may have reached the gateway and has no answer is never told as failed.
func TestWhatBecameOfItIsNotKnown(t *testing.T) {
	t.Parallel()
	drop := gatewaytest.Answer{Fault: "reset"}
	status := func(n int) gatewaytest.Answer {
		return gatewaytest.Answer{Status: n, Body: json.RawMessage(`{"code":"C","message":"m"}`)}
	}
	row := func(s string) gatewaytest.Answer {
		return gatewaytest.Answer{Status: 200, Body: json.RawMessage(`{"results":[` + s + `]}`)}
	}
	missing := row(`{"error":{"code":"TOOL_NOT_FOUND","message":"missing"}}`)
	for _, c := range []struct {
		name    string
		repeat  bool
		answers []gatewaytest.Answer
		want    subjects.EntryCode
	}{
		{"every connection broke", false, []gatewaytest.Answer{drop, drop, drop}, subjects.EntryOutcomeUnknown},
		{"broke, then 5xx", false, []gatewaytest.Answer{drop, status(500), status(503)}, subjects.EntryOutcomeUnknown},
		{"5xx, then broke", false, []gatewaytest.Answer{status(500), status(500), drop}, subjects.EntryOutcomeUnknown},
		{"broke, then signed out", false, []gatewaytest.Answer{drop, status(401)}, subjects.EntryOutcomeUnknown},
		{"broke, then forbidden", false, []gatewaytest.Answer{drop, status(403)}, subjects.EntryOutcomeUnknown},
		{"broke, then dark", false, []gatewaytest.Answer{drop, status(404)}, subjects.EntryOutcomeUnknown},
		{"broke, then in use", false, []gatewaytest.Answer{drop, status(409)}, subjects.EntryOutcomeUnknown},
		{"5xx, then in use", false, []gatewaytest.Answer{status(502), status(409)}, subjects.EntryOutcomeUnknown},
		{"in use at once", false, []gatewaytest.Answer{status(409)}, subjects.EntryProviderError},
		{"in use at once, sent before by another", true, []gatewaytest.Answer{status(409)}, subjects.EntryOutcomeUnknown},
		{"broke, then refused as such", false, []gatewaytest.Answer{drop, status(422)}, subjects.EntryProviderError},
		{"broke, then a result", false, []gatewaytest.Answer{drop, row(`{"data":1}`)}, ""},
		{"broke, then a refusal in a row", false, []gatewaytest.Answer{drop, row(`{"error":{"code":"TOOL_NOT_ALLOWED","message":"no"}}`)}, subjects.EntryToolNotAllowed},
		{"broke, then a row that cannot be read", false, []gatewaytest.Answer{drop, row(`5`)}, subjects.EntryProviderError},
		{"sent before, now 5xx", true, []gatewaytest.Answer{status(500), status(500), status(500)}, subjects.EntryOutcomeUnknown},
		{"sent before, now signed out", true, []gatewaytest.Answer{status(401)}, subjects.EntryOutcomeUnknown},
		{"sent before, now a result", true, []gatewaytest.Answer{row(`{"data":1}`)}, ""},
		{"only 5xx", false, []gatewaytest.Answer{status(500), status(500), status(500)}, subjects.EntryProviderError},
		{"missing, then the literal name broke", false, []gatewaytest.Answer{missing, drop, drop, drop}, subjects.EntryOutcomeUnknown},
		{"missing, then the literal name in use", false, []gatewaytest.Answer{missing, status(409)}, subjects.EntryProviderError},
		{"broke, missing, then refused", false, []gatewaytest.Answer{drop, missing, status(400)}, subjects.EntryProviderError},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSetup(t, setupOptions{server: gatewaytest.Options{Answers: c.answers}, client: ClientOptions{ExecuteAttempts: 3}})
			e := mail()
			e.Repeat = c.repeat
			r := s.gateway.Execute(t.Context(), e)
			if code(r) != c.want || r.Attempts != len(c.answers) || s.server.RequestCount() != len(c.answers) {
				t.Fatalf("got %s after %d attempts and %d requests: %+v", code(r), r.Attempts, s.server.RequestCount(), r.Result.Error)
			}
			unknown := c.want == subjects.EntryOutcomeUnknown
			if r.Unclear != unknown || (r.Outcome == subjects.OutcomeUnknown) != unknown || r.Cut {
				t.Errorf("got %+v", r)
			}
		})
	}
}

// A gateway's own failure is an error, and its model is told that the tool may have run nevertheless, until an answer tells
// better.
func TestAFailureMayHaveTakenEffect(t *testing.T) {
	t.Parallel()
	status := func(n int) gatewaytest.Answer {
		return gatewaytest.Answer{Status: n, Body: json.RawMessage(`{"code":"C","message":"it broke."}`)}
	}
	for _, c := range []struct {
		name    string
		answers []gatewaytest.Answer
		told    bool
	}{
		{"5xx", []gatewaytest.Answer{status(500), status(502), status(503)}, true},
		{"5xx, then refused as such", []gatewaytest.Answer{status(500), status(422)}, false},
		{"5xx, then signed out", []gatewaytest.Answer{status(500), status(401)}, true},
		{"5xx, then dark", []gatewaytest.Answer{status(504), status(404)}, true},
		{"a timeout of the gateway's", []gatewaytest.Answer{status(408)}, true},
		{"refused", []gatewaytest.Answer{status(422)}, false},
		{"dark", []gatewaytest.Answer{status(404)}, false},
		{"no row", []gatewaytest.Answer{{Status: 200, Body: json.RawMessage(`{"results":[]}`)}}, true},
		{"a row", []gatewaytest.Answer{status(500), {Status: 200, Body: json.RawMessage(`{"results":[{"error":{"code":"TOOL_NOT_ALLOWED","message":"no"}}]}`)}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSetup(t, setupOptions{server: gatewaytest.Options{Answers: c.answers}, client: ClientOptions{ExecuteAttempts: 3}})
			r := s.gateway.Execute(t.Context(), mail())
			if r.Outcome != subjects.OutcomeError || s.server.RequestCount() != len(c.answers) {
				t.Fatalf("got %+v after %d requests", r, s.server.RequestCount())
			}
			text := r.Result.Error.Message
			if strings.Contains(text, "may have taken effect") != c.told || strings.Contains(text, "Nothing was done") && c.told || strings.Contains(text, "..") {
				t.Errorf("told %q", text)
			}
		})
	}
}

func TestARefusedConnectionHasSentNothing(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	s := newSetup(t, setupOptions{client: ClientOptions{Origin: mustOrigin(t, "http://"+l.Addr().String()), ExecuteAttempts: 3}})
	r := s.gateway.Execute(t.Context(), mail())
	if text := r.Result.Error.Message; strings.Contains(text, "127.0.0.1") || !strings.Contains(text, "refused") {
		t.Errorf("told %q", text)
	}
	if code(r) != subjects.EntryProviderError || r.Unclear || r.Attempts != 3 {
		t.Errorf("got %+v %+v", r, r.Result.Error)
	}
	e := mail()
	e.Repeat = true
	if r := s.gateway.Execute(t.Context(), e); code(r) != subjects.EntryOutcomeUnknown {
		t.Errorf("sent before: got %+v", r.Result.Error)
	}
}

// silentTransport tells nothing of its connections, as a transport of somebody else's may.
type silentTransport struct{}

func (silentTransport) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("broken")
}

func TestATransportThatTellsNothingIsTakenToHaveSent(t *testing.T) {
	t.Parallel()
	s := newSetup(t, setupOptions{client: ClientOptions{Transport: silentTransport{}, ExecuteAttempts: 2}})
	if r := s.gateway.Execute(t.Context(), mail()); code(r) != subjects.EntryOutcomeUnknown {
		t.Errorf("got %+v", r.Result.Error)
	}
}

func TestRetryAfterIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := newSetup(t, setupOptions{})
	s.server.Fault(gatewaytest.Fault{Kind: gatewaytest.RateLimit, RetryAfter: 7 * time.Second, Times: 1})
	s.server.Fault(gatewaytest.Fault{Kind: gatewaytest.RateLimit, RetryAfter: 20 * time.Second, RetryAtDate: true, Times: 1})
	if r := s.gateway.Execute(t.Context(), mail()); r.Outcome != subjects.OutcomeOK || r.Attempts != 3 {
		t.Fatalf("got %+v", r)
	}
	waits := s.clock.waits()
	if len(waits) != 2 || waits[0] != 7*time.Second || waits[1] < 18*time.Second || waits[1] > 20*time.Second {
		t.Errorf("it waited %v", waits)
	}
	if len(s.retries) != 2 {
		t.Errorf("the observer was told of %v", s.retries)
	}
}

func TestAWaitThatDoesNotFitIsNotBegun(t *testing.T) {
	t.Parallel()
	s := newSetup(t, setupOptions{})
	s.server.Fault(gatewaytest.Fault{Kind: gatewaytest.RateLimit, RetryAfter: 10 * time.Minute})
	r := s.gateway.Execute(t.Context(), mail())
	if code(r) != subjects.EntryProviderError || r.Attempts != 1 || len(s.clock.waits()) != 0 || r.Cut {
		t.Errorf("got %+v %+v after waits %v", r, r.Result.Error, s.clock.waits())
	}
}

func TestBackoffGrowsWithJitter(t *testing.T) {
	t.Parallel()
	s := newSetup(t, setupOptions{client: ClientOptions{Backoff: exponential}})
	s.server.Fault(gatewaytest.Fault{Kind: gatewaytest.Status})
	s.gateway.Execute(t.Context(), mail())
	waits := s.clock.waits()
	if len(waits) != DefaultExecuteAttempts-1 {
		t.Fatalf("it waited %v", waits)
	}
	for i, w := range waits {
		middle := min(100*time.Millisecond<<i, 5*time.Second)
		if w < middle/2 || w > middle*3/2 {
			t.Errorf("wait %d is %v, want about %v", i, w, middle)
		}
	}
}

func TestAStopEndsAWaitAndTellsTheLastOutcome(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault gatewaytest.Fault
		want  subjects.EntryCode
	}{
		{gatewaytest.Fault{Kind: gatewaytest.Status, Status: 502}, subjects.EntryProviderError},
		{gatewaytest.Fault{Kind: gatewaytest.RateLimit, RetryAfter: time.Second}, subjects.EntryProviderError},
		{gatewaytest.Fault{Kind: gatewaytest.Drop, AfterEffect: true}, subjects.EntryOutcomeUnknown},
	} {
		t.Run(string(c.fault.Kind), func(t *testing.T) {
			t.Parallel()
			s := newSetup(t, setupOptions{client: ClientOptions{Backoff: exponential}})
			s.clock.hold()
			s.server.Fault(c.fault)
			stop, done := make(chan struct{}), make(chan ExecutionResult)
			e := mail()
			e.Stop = stop
			go func() { done <- s.gateway.Execute(context.Background(), e) }()
			<-s.clock.held
			close(stop)
			if r := <-done; code(r) != c.want || r.Attempts != 1 || r.Cut || s.server.RequestCount() != 1 {
				t.Errorf("got %+v %+v after %d requests", r, r.Result.Error, s.server.RequestCount())
			}
		})
	}
}

func TestAStopDoesNotCutARequestUnderWay(t *testing.T) {
	t.Parallel()
	s := newSetup(t, setupOptions{})
	gate := gatewaytest.NewGate()
	s.server.Fault(gatewaytest.Fault{Kind: gatewaytest.Slow, Gate: gate})
	stop, done := make(chan struct{}), make(chan ExecutionResult)
	e := mail()
	e.Stop = stop
	go func() { done <- s.gateway.Execute(context.Background(), e) }()
	<-gate.Reached()
	close(stop)
	gate.Open()
	if r := <-done; r.Outcome != subjects.OutcomeOK || r.Attempts != 1 {
		t.Errorf("got %+v %+v", r, r.Result.Error)
	}
}

// The stop comes while the request is under way and no wait would follow: still nothing is sent again.
func TestAStopUnderWayLeavesNoFurtherAttempt(t *testing.T) {
	t.Parallel()
	s := newSetup(t, setupOptions{})
	gate := gatewaytest.NewGate()
	s.server.Fault(gatewaytest.Fault{Kind: gatewaytest.Status, Gate: gate})
	stop, done := make(chan struct{}), make(chan ExecutionResult)
	e := mail()
	e.Stop = stop
	go func() { done <- s.gateway.Execute(context.Background(), e) }()
	<-gate.Reached()
	close(stop)
	gate.Open()
	if r := <-done; code(r) != subjects.EntryProviderError || r.Attempts != 1 || s.server.RequestCount() != 1 {
		t.Errorf("got %+v %+v after %d requests", r, r.Result.Error, s.server.RequestCount())
	}
}

func TestAfterAStopNothingIsSent(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	close(stop)
	s := newSetup(t, setupOptions{})
	e := mail()
	e.Stop = stop
	if r := s.gateway.Execute(t.Context(), e); code(r) != subjects.EntryInterrupted || r.Outcome != subjects.OutcomeInterrupted || r.Attempts != 0 {
		t.Errorf("got %+v", r)
	}
	e.Repeat = true
	if r := s.gateway.Execute(t.Context(), e); code(r) != subjects.EntryOutcomeUnknown || r.Outcome != subjects.OutcomeUnknown {
		t.Errorf("sent before: got %+v", r)
	}
	if s.server.RequestCount() != 0 {
		t.Errorf("%d requests were sent", s.server.RequestCount())
	}
}

func TestAStopLeavesTheLiteralNameUnsent(t *testing.T) {
	t.Parallel()
	s := newSetup(t, setupOptions{})
	gate := gatewaytest.NewGate()
	s.server.Fault(gatewaytest.Fault{Kind: gatewaytest.Slow, Gate: gate, Times: 1})
	stop, done := make(chan struct{}), make(chan ExecutionResult)
	e := execution("connectors__files__UPLOAD_FILE", `{"name":"x"}`)
	e.Stop = stop
	go func() { done <- s.gateway.Execute(context.Background(), e) }()
	<-gate.Reached()
	close(stop)
	gate.Open()
	if r := <-done; code(r) != subjects.EntryToolNotFound || len(s.server.Effects()) != 0 {
		t.Errorf("got %+v with %d effects", r, len(s.server.Effects()))
	}
	e.Stop = nil
	if r := s.gateway.Execute(t.Context(), e); r.Outcome != subjects.OutcomeOK || r.Attempts != 2 {
		t.Errorf("without a stop: got %+v", r)
	}
	if effects := s.server.Effects(); len(effects) != 1 || effects[0].Key != "0/UPLOAD_FILE" {
		t.Errorf("got %+v", effects)
	}
}

func TestAShutdownCutsAndSettlesNothing(t *testing.T) {
	t.Parallel()
	shutdown := errors.New("shutting down")
	t.Run("under way", func(t *testing.T) {
		t.Parallel()
		s := newSetup(t, setupOptions{})
		gate := gatewaytest.NewGate()
		defer gate.Open()
		s.server.Fault(gatewaytest.Fault{Kind: gatewaytest.Slow, AfterEffect: true, Gate: gate})
		ctx, cancel := context.WithCancelCause(context.Background())
		done := make(chan ExecutionResult)
		go func() { done <- s.gateway.Execute(ctx, mail()) }()
		<-gate.Reached()
		cancel(shutdown)
		if r := <-done; !r.Cut || !r.Unclear || r.Outcome != subjects.OutcomeUnknown || r.Attempts != 1 {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("while it waits", func(t *testing.T) {
		t.Parallel()
		s := newSetup(t, setupOptions{client: ClientOptions{Backoff: exponential}})
		s.clock.hold()
		s.server.Fault(gatewaytest.Fault{Kind: gatewaytest.Status})
		ctx, cancel := context.WithCancelCause(context.Background())
		done := make(chan ExecutionResult)
		go func() { done <- s.gateway.Execute(ctx, mail()) }()
		<-s.clock.held
		cancel(shutdown)
		if r := <-done; !r.Cut || r.Unclear || code(r) != subjects.EntryProviderError {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("before it began", func(t *testing.T) {
		t.Parallel()
		s := newSetup(t, setupOptions{})
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(shutdown)
		if r := s.gateway.Execute(ctx, mail()); !r.Cut || r.Unclear || r.Attempts != 0 || s.server.RequestCount() != 0 {
			t.Errorf("got %+v", r)
		}
	})
}

func TestABoundSettlesWhatItCuts(t *testing.T) {
	t.Parallel()
	s := newSetup(t, setupOptions{})
	s.server.Fault(gatewaytest.Fault{Kind: gatewaytest.Silent, AfterEffect: true})
	e := mail()
	e.Bound = time.Second
	if r := s.gateway.Execute(context.Background(), e); r.Cut || code(r) != subjects.EntryOutcomeUnknown || len(s.server.Effects()) != 1 {
		t.Errorf("got %+v with %d effects", r, len(s.server.Effects()))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	e = mail()
	e.Key = keyOf(1)
	if r := s.gateway.Execute(ctx, e); r.Cut || code(r) != subjects.EntryOutcomeUnknown {
		t.Errorf("a deadline: got %+v", r)
	}
	if r := s.gateway.Execute(ctx, e); r.Cut || code(r) != subjects.EntryDeadlineExceeded || r.Attempts != 0 {
		t.Errorf("a deadline that had passed: got %+v", r)
	}
}

func TestASilentGatewayIsAskedAgainAndInUseIsNotKnown(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	apps := []gatewaytest.App{{Connector: "mail", Tools: []gatewaytest.Tool{{Slug: "MAIL_SEND_EMAIL", Run: func(context.Context, gatewaytest.Call) (any, error) {
		<-release
		return "sent", nil
	}}}}}
	s := newSetup(t, setupOptions{server: gatewaytest.Options{Apps: apps}, client: ClientOptions{Timeouts: Timeouts{Execute: 500 * time.Millisecond}}})
	defer close(release)
	r := s.gateway.Execute(t.Context(), mail())
	if code(r) != subjects.EntryOutcomeUnknown || r.Attempts < 2 || len(s.server.Effects()) != 1 {
		t.Errorf("got %+v with %d effects", r, len(s.server.Effects()))
	}
}

func TestConnectorsThatAreNotThere(t *testing.T) {
	t.Parallel()
	var none *Gateway
	off := newSetup(t, setupOptions{gateway: GatewayOptions{Disabled: true}})
	out := newSetup(t, setupOptions{client: ClientOptions{Tokens: Static{"another": "tok"}}})
	client, err := NewClient(ClientOptions{Tokens: Shared("tok")})
	if err != nil {
		t.Fatal(err)
	}
	dark, err := NewGateway(client, GatewayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, g := range map[string]*Gateway{"none": none, "switched off": off.gateway, "signed out": out.gateway, "no origin": dark} {
		r := g.Execute(t.Context(), mail())
		if code(r) != subjects.EntryToolNotFound || r.Outcome != subjects.OutcomeError || r.Unclear {
			t.Errorf("%s: got %+v", name, r)
		}
		e := mail()
		e.Repeat = true
		if r := g.Execute(t.Context(), e); code(r) != subjects.EntryOutcomeUnknown {
			t.Errorf("%s, sent before: got %+v", name, r)
		}
		if got := g.Search(t.Context(), "tenant", []string{"send an email"}); got != nil {
			t.Errorf("%s: search got %+v", name, got)
		}
		if got := g.Describe(t.Context(), "tenant", []string{sendMail}); got != nil {
			t.Errorf("%s: describe got %+v", name, got)
		}
	}
	if n := off.server.RequestCount() + out.server.RequestCount(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestAMissingConnectionIsToldBySurface(t *testing.T) {
	t.Parallel()
	for surface, check := range map[subjects.Surface]func(e *subjects.EntryError) bool{
		subjects.SurfaceLink: func(e *subjects.EntryError) bool {
			return strings.Contains(e.ConnectURL, "/connect/") && !e.ConnectCardAvailable && e.Hint == "Open the link, then call again."
		},
		"anything": func(e *subjects.EntryError) bool { return e.ConnectURL != "" },
		subjects.SurfaceCard: func(e *subjects.EntryError) bool {
			return e.ConnectURL == "" && e.ConnectCardAvailable && e.Hint == hintCard("chat")
		},
		subjects.SurfaceSide: func(e *subjects.EntryError) bool {
			return e.ConnectURL == "" && !e.ConnectCardAvailable && e.Hint == hintSide
		},
	} {
		s := newSetup(t, setupOptions{})
		e := execution("connectors__chat__POST_MESSAGE", `{"channel":"c","text":"t"}`)
		e.Surface = surface
		r := s.gateway.Execute(t.Context(), e)
		if code(r) != subjects.EntryConnectionRequired || r.Result.Error.Connector != "chat" || r.Result.Error.ConnectionID == "" || !check(r.Result.Error) {
			t.Errorf("%s: got %+v", surface, r.Result.Error)
		}
		if surface != subjects.SurfaceLink {
			continue
		}
		if err := gatewaytest.Consent(t.Context(), r.Result.Error.ConnectURL, true); err != nil {
			t.Fatal(err)
		}
		e.Key = keyOf(1)
		if r := s.gateway.Execute(t.Context(), e); r.Outcome != subjects.OutcomeOK {
			t.Errorf("after the link was opened: got %+v", r.Result.Error)
		}
	}
}

func TestATokenIsReadForEveryAttempt(t *testing.T) {
	t.Parallel()
	n := 0
	tokens := tokenFunc(func() (string, error) {
		n++
		return []string{"token-one", "token-two", "token-three"}[min(n, 3)-1], nil
	})
	s := newSetup(t, setupOptions{client: ClientOptions{Tokens: tokens}})
	s.server.Fault(gatewaytest.Fault{Kind: gatewaytest.Status, Times: 2})
	if r := s.gateway.Execute(t.Context(), mail()); r.Outcome != subjects.OutcomeOK {
		t.Fatalf("got %+v", r)
	}
	for i, want := range []string{"Bearer token-one", "Bearer token-two", "Bearer token-three"} {
		if got := s.server.Requests()[i].Authorization; got != want {
			t.Errorf("request %d has %q, want %q", i, got, want)
		}
	}
}

type tokenFunc func() (string, error)

func (f tokenFunc) Token(context.Context, string) (string, error) { return f() }

func TestATokenSourceThatFailsForAMoment(t *testing.T) {
	t.Parallel()
	n := 0
	s := newSetup(t, setupOptions{client: ClientOptions{Tokens: tokenFunc(func() (string, error) {
		if n++; n < 3 {
			return "", errors.New("the vault is sealed")
		}
		return "tok", nil
	})}})
	if r := s.gateway.Execute(t.Context(), mail()); r.Outcome != subjects.OutcomeOK || s.server.RequestCount() != 1 {
		t.Errorf("got %+v after %d requests", r, s.server.RequestCount())
	}
	if !strings.Contains(s.logs.String(), "the vault is sealed") {
		t.Error("the reason is not in the log")
	}
}

func TestANumberKeepsItsDigits(t *testing.T) {
	t.Parallel()
	const n = "123456789012345678901234567890.10"
	s := newSetup(t, setupOptions{server: gatewaytest.Options{Apps: []gatewaytest.App{{Connector: "mail", Tools: []gatewaytest.Tool{{Slug: "MAIL_SEND_EMAIL"}}}}}})
	r := s.gateway.Execute(t.Context(), execution(sendMail, `{"n":`+n+`,"x":null}`))
	if !strings.Contains(string(r.Result.Response), n) || !strings.Contains(string(s.server.Requests()[0].Body), `"x":null`) {
		t.Errorf("got %s", r.Result.Response)
	}
}
