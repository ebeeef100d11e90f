package worker

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"toolsearch/connectors/gatewaytest"
	"toolsearch/subjects"
	"toolsearch/subjects/toolhost"
	"toolsearch/telemetry/telemetrytest"
)

// assembledOn opens the session's scope on a surface.
func (x *theater) assembledOn(surface subjects.Surface) {
	x.t.Helper()
	granted := true
	a, err := x.session.Assemble(x.t.Context(), &subjects.AssembleRequest{Tools: json.RawMessage(callTools), Connectors: &granted, Surface: surface})
	if err != nil {
		x.t.Fatal(err)
	}
	x.scope = subjects.Handle(a.Scope)
}

// manage asks for connections; what comes of it arrives later.
func (x *theater) manage(id, arguments string) <-chan *subjects.Linked {
	done := make(chan *subjects.Linked, 1)
	go func() {
		got, err := x.session.Connections(x.t.Context(), subjects.CallRequest{Scope: x.scope, CallID: id, Arguments: json.RawMessage(arguments)})
		if err != nil {
			x.t.Error(err)
		}
		done <- got
	}()
	return done
}

// drawn is what an interface is shown, card by card.
type drawn struct {
	t    *testing.T
	next func() (subjects.CardEvent, error, bool)
}

// cards subscribes as the session's interface.
func (x *theater) cards(t *testing.T) *drawn {
	t.Helper()
	seq, err := x.session.Cards(inTime(t))
	if err != nil {
		t.Fatal(err)
	}
	next, stop := iter.Pull2(seq)
	t.Cleanup(stop)
	return &drawn{t, next}
}

// with waits for the card whose targets stand like this.
func (d *drawn) with(states ...subjects.ConnectionState) subjects.CardEvent {
	d.t.Helper()
	for {
		e, err, more := d.next()
		if err != nil || !more {
			d.t.Fatalf("no card with %v: %v", states, err)
		}
		if slices.EqualFunc(e.Targets, states, func(t subjects.CardTarget, s subjects.ConnectionState) bool { return t.State == s }) {
			return e
		}
	}
}

func (x *theater) answer(id, answer, name string) {
	x.t.Helper()
	r, err := x.session.Answer(x.t.Context(), subjects.AnswerRequest{Operation: id, Answer: answer, Name: name})
	if err != nil || !r.Accepted {
		x.t.Fatalf("%s %s: %+v, %v", answer, name, r, err)
	}
}

// secretless wants no link in what was recorded.
func secretless(t *testing.T, s *telemetrytest.Spans, secrets ...string) {
	t.Helper()
	tree := s.Tree()
	for _, secret := range append(secrets, "/connect/", hush) {
		if strings.Contains(tree, secret) {
			t.Errorf("%q is in a span:\n%s", secret, tree)
		}
	}
}

// On the surface link, the links are asked for under the request that waits, and the operation is over with them.
func TestSpansOfLinks(t *testing.T) {
	t.Parallel()
	x, s := recorded(t, Options{})
	x.assembledOn(subjects.SurfaceLink)
	got := await(t, x.manage("call-1", `{"action":"connect","connectors":["chat","mail"]}`), "the links")
	if got.Outcome == nil || got.Outcome.SettledBy != subjects.SettledHandedOver {
		t.Fatalf("%s", got.Raw)
	}
	x.ended()
	spans(t, s, "links")
	secretless(t, s, got.Outcome.Targets[0].ConnectURL)
}

// A card that is watched for a while: one target is skipped, one connected after the gateway had asked for patience. The
// reads, one each second, have no spans.
func TestSpansOfACard(t *testing.T) {
	t.Parallel()
	x, s := recorded(t, Options{})
	gate := gatewaytest.NewGate()
	x.gateway.Fault(gatewaytest.Fault{Kind: gatewaytest.Slow, Route: "account", Times: 1, Gate: gate})
	x.gateway.Fault(gatewaytest.Fault{Kind: gatewaytest.RateLimit, Route: "account", Times: 1})
	x.gateway.Link("acme", "mail", false)
	x.assembledOn(subjects.SurfaceCard)
	cards := x.cards(t)
	done := x.manage("call-1", `{"action":"connect","connectors":["chat","mail"]}`)
	e := cards.with(subjects.ConnectionInitiated, subjects.ConnectionInitiated)
	await(t, gate.Reached(), "the first read")
	x.answer("call-1", subjects.AnswerSkip, "mail")
	cards.with(subjects.ConnectionInitiated, subjects.ConnectionSkipped)
	gate.Open()
	await(t, x.parked, "the watch to be parked")
	if err := gatewaytest.Consent(t.Context(), e.Targets[0].ConnectURL, true); err != nil {
		t.Fatal(err)
	}
	if got := await(t, done, "the card's call"); got.Outcome == nil || got.Outcome.SettledBy != subjects.SettledAllResolved {
		t.Fatalf("%s", got.Raw)
	}
	x.ended()
	spans(t, s, "card")
	secretless(t, s, e.Targets[0].ConnectURL)
	for _, r := range x.gateway.Requests() {
		if r.Route == "account" && !strings.Contains(r.Header.Get("Traceparent"), "-") {
			t.Errorf("a read carries no trace context: %v", r.Header)
		}
	}
}

// An operation that was handed back begins a trace of its own at its next watcher, linked to the request that opened
// it. The client asks again, in the trace of its turn.
func TestSpansOfATakeover(t *testing.T) {
	t.Parallel()
	x, s := recorded(t, Options{OperationLease: time.Minute})
	x.assembledOn(subjects.SurfaceCard)
	cards := x.cards(t)
	done := x.manage("call-1", `{"action":"connect","connectors":["chat"]}`)
	e := cards.with(subjects.ConnectionInitiated)
	next := x.worker(Options{Connectors: x.gw, Telemetry: x.rec, OperationLease: time.Minute})
	x.ended()
	if err := gatewaytest.Consent(t.Context(), e.Targets[0].ConnectURL, true); err != nil {
		t.Fatal(err)
	}
	if got := await(t, done, "the card's call"); got.Outcome == nil || got.Outcome.Targets[0].State != subjects.ConnectionConnected {
		t.Fatalf("%s", got.Raw)
	}
	if err := next.Drain(context.Background()); err != nil {
		t.Fatal(err)
	}
	spans(t, s, "handover")
	secretless(t, s, e.Targets[0].ConnectURL)
}

// A local server is worked on by its host, in the same trace.
func TestSpansOfALocalServer(t *testing.T) {
	t.Parallel()
	x, s := recorded(t, Options{})
	host, err := toolhost.Serve(x.dial(), toolhost.Options{Tenant: "acme", Host: "s1", Start: x.rec.Incoming,
		Servers: func(context.Context, string, string, toolhost.Request) (toolhost.ServerState, error) {
			return toolhost.ServerState{State: subjects.ConnectionConnected}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = host.Stop(context.Background()) })
	x.assembledOn(subjects.SurfaceLink)
	got := await(t, x.manage("call-1", `{"action":"install","connectors":[{"name":"git","mcp":true}]}`), "the install")
	if got.Outcome == nil || got.Outcome.Targets[0].State != subjects.ConnectionConnected {
		t.Fatalf("%s", got.Raw)
	}
	x.ended()
	spans(t, s, "local")
}

// What a user's interface asks of the account service.
func TestSpansOfAccounts(t *testing.T) {
	t.Parallel()
	x, s := recorded(t, Options{})
	list, err := x.session.Accounts(t.Context(), "")
	if err != nil || len(list.Accounts) == 0 {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, want := range []bool{true, false} { // the second time there is no such account
		if ended, err := x.session.Disconnect(t.Context(), list.Accounts[0].ConnectionID); err != nil || ended.Disconnected != want {
			t.Fatalf("%+v, %v", ended, err)
		}
	}
	x.ended()
	spans(t, s, "accounts")
	secretless(t, s)
}
