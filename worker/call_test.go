package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"toolsearch/connectors"
	"toolsearch/connectors/gatewaytest"
	"toolsearch/subjects"
	"toolsearch/subjects/toolhost"
)

// callTools are a tool that the caller runs and one that the host "desk" runs.
const callTools = `[
 {"toolset":"mcp-shop","parallel":true,"tool":{"name":"mcp__shop__order","description":"Order a thing","parameters":{"type":"object","properties":{"count":{"type":"integer"}},"required":["count"]}}},
 {"toolset":"mcp-desk","host":"desk","tool":{"name":"mcp__desk__note","description":"Write a note","parameters":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}}}]`

// callScope assembles callTools, with connectors granted.
func (b *bundle) callScope() string {
	b.t.Helper()
	var reply subjects.AssembleReply
	if err := json.Unmarshal(ok(b.t, b.ask(subjects.VerbAssemble, `{"tools":`+callTools+`,"connectors":true}`)), &reply); err != nil {
		b.t.Fatal(err)
	}
	return reply.Scope
}

func call(scope, id, calls string) string {
	return fmt.Sprintf(`{"scope":%q,"call_id":%q,"arguments":{"calls":%s}}`, scope, id, calls)
}

// gateway runs a connector gateway and returns a client of it for a worker.
func gateway(t *testing.T) (*gatewaytest.Gateway, *connectors.Gateway) {
	t.Helper()
	g, err := gatewaytest.Start(gatewaytest.Options{Tokens: map[string]string{"hush": "acme"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	origin, err := connectors.ParseOrigin(g.URL())
	if err != nil {
		t.Fatal(err)
	}
	client, err := connectors.NewClient(connectors.ClientOptions{Origin: origin, Tokens: connectors.Static{"acme": "hush"}})
	if err != nil {
		t.Fatal(err)
	}
	gw, err := connectors.NewGateway(client, connectors.GatewayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(gw.Close)
	return g, gw
}

func TestCallAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{})
	scope := b.callScope()

	m := b.ask(subjects.VerbCall, call(scope, "c1", `[{"name":"mcp__shop__order","arguments":{"count":"3"}}]`))
	if got, want := string(ok(t, m)), `{"dispatch": "caller", "name": "mcp__shop__order", "arguments": {"count": 3}, "parallel": true}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if m.Header.Get(subjects.HeaderCall) != "c1" {
		t.Errorf("headers %v", m.Header)
	}

	m = b.ask(subjects.VerbCall, call(scope, "c2", `[{"name":"mcp__shop__order","arguments":{"count":"many"}}]`))
	if got := string(ok(t, m)); !strings.HasPrefix(got, `{"error": "`) || !strings.Contains(got, `"constraint": "type"`) {
		t.Errorf("wrong arguments: %s", got)
	}
	m = b.ask(subjects.VerbCall, call(scope, "c3", `[{"name":"mcp__shop__none","arguments":{}}]`))
	if got := string(ok(t, m)); !strings.HasPrefix(got, `{"error": "`) {
		t.Errorf("an unknown tool: %s", got)
	}
	if s := b.w.Stats()[subjects.VerbCall]; s.Mistakes != 2 || s.Replies != 3 {
		t.Errorf("counted %+v", s)
	}

	if e := fails(t, b.ask(subjects.VerbCall, call(scope, "no token", `[]`))); e.Code != subjects.CodeBadRequest || e.Details["field"] != "call_id" {
		t.Errorf("a call_id that is no token: %v %v", e, e.Details)
	}
	if e := fails(t, b.ask(subjects.VerbCall, `{"scope":"x","call_id":5}`)); e.Code != subjects.CodeBadRequest || e.Details["field"] != "call_id" {
		t.Errorf("a call_id that is no text: %v %v", e, e.Details)
	}
	if e := fails(t, b.askAs("acme", "s2", subjects.VerbCall, nil, call(scope, "c4", `[]`))); e.Code != subjects.CodeScopeForbidden {
		t.Errorf("another session: %v", e)
	}
	// Without a call_id the worker makes one and tells it.
	m = b.ask(subjects.VerbCall, fmt.Sprintf(`{"scope":%q,"arguments":{"calls":[]}}`, scope))
	if ok(t, m); !subjects.ValidToken(m.Header.Get(subjects.HeaderCall)) {
		t.Errorf("headers %v", m.Header)
	}
}

func TestCallHostedTool(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{})
	scope := b.callScope()
	keys := make(chan string, 10)
	host, err := toolhost.Serve(b.dial(), toolhost.Options{Tenant: "acme", Host: "desk"}, toolhost.Tool{
		Toolset:    "mcp-desk",
		Definition: json.RawMessage(`{"name":"mcp__desk__note","description":"Write a note","parameters":{}}`),
		Run: func(_ context.Context, r toolhost.Request) (any, error) {
			keys <- r.Key
			return json.RawMessage(`{"noted":true}`), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = host.Stop(context.Background()) })
	body := call(scope, "note-1", `[{"name":"mcp__desk__note","arguments":{"text":"hi"}}]`)
	for range 2 { // the second is answered from the record
		if got := string(ok(t, b.ask(subjects.VerbCall, body))); got != `{"noted":true}` {
			t.Fatalf("got %s", got)
		}
	}
	await(t, keys, "the tool to run")
	if len(keys) != 0 {
		t.Fatal("the tool ran twice")
	}
	e := fails(t, b.ask(subjects.VerbCall, call(scope, "note-1", `[{"name":"mcp__desk__note","arguments":{"text":"ho"}}]`)))
	if e.Code != subjects.CodeCallConflict {
		t.Fatalf("another payload under the same id: %v", e)
	}
}

const twoMails = `[{"name":"connectors__mail__SEND_EMAIL","arguments":{"to":"a","subject":"1"}},{"name":"connectors__mail__SEND_EMAIL","arguments":{"to":"a","subject":"2"}}]`

func TestCallConnectorBatch(t *testing.T) {
	t.Parallel()
	g, gw := gateway(t)
	b := setup(t, Options{Connectors: gw})
	scope := b.callScope()

	var found subjects.SearchReply
	if err := json.Unmarshal(ok(t, b.ask(subjects.VerbSearch, search(scope, "send email"))), &found); err != nil {
		t.Fatal(err)
	}
	if len(found.Results[0].Matches) == 0 || found.Results[0].Matches[0] != "connectors__mail__SEND_EMAIL" {
		t.Fatalf("found %+v", found)
	}
	var described subjects.DescribeReply
	body := fmt.Sprintf(`{"scope":%q,"arguments":{"names":["connectors__mail__SEND_EMAIL"]}}`, scope)
	if err := json.Unmarshal(ok(t, b.ask(subjects.VerbDescribe, body)), &described); err != nil || len(described.Tools) != 1 {
		t.Fatalf("described %+v: %v", described, err)
	}

	var batch subjects.BatchReply
	if err := json.Unmarshal(ok(t, b.ask(subjects.VerbCall, call(scope, "mail-1", twoMails))), &batch); err != nil {
		t.Fatal(err)
	}
	if batch.SuccessCount != 2 || batch.TotalCount != 2 || len(g.Effects()) != 2 {
		t.Fatalf("%+v, %d effects", batch, len(g.Effects()))
	}
}

// With Toolsearch-Async the reply comes as soon as the call is durable, and the events tell the rest.
func TestCallAsync(t *testing.T) {
	t.Parallel()
	g, gw := gateway(t)
	gate := gatewaytest.NewGate()
	g.Fault(gatewaytest.Fault{Kind: gatewaytest.Slow, Route: "execute", Gate: gate})
	b := setup(t, Options{Connectors: gw})
	scope := b.callScope()
	events := make(chan *nats.Msg, 10)
	sub, err := b.nc.ChanSubscribe(subjects.DefaultRoot.SessionResults("acme", "s1"), events)
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe() //nolint:errcheck // the connection closes
	h := nats.Header{subjects.HeaderAsync: []string{"1"}, subjects.HeaderTraceParent: []string{traceParent}}
	m := b.askAs("acme", "s1", subjects.VerbCall, h, call(scope, "later", twoMails))
	if got, want := string(ok(t, m)), `{"accepted": true, "call_id": "later", "results": "toolsearch.v1.result.acme.s1.later"}`; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	gate.Open()
	for _, want := range []string{`"index":0`, `"index":1`, `"summary"`} {
		e := await(t, events, "an event")
		if !strings.Contains(string(e.Data), want) {
			t.Fatalf("got %s, want %s in it", e.Data, want)
		}
		if e.Header.Get(subjects.HeaderTraceParent) == "" {
			t.Error("the event has no trace context")
		}
	}
}

// A worker that drains finishes the entry it is at, hands the rest back, and tells whoever waits to ask again; another
// worker goes on with the call, and the same call_id gets its whole answer. Each entry takes effect once.
func TestDrainHandsCallsOn(t *testing.T) {
	t.Parallel()
	g, gw := gateway(t)
	gate := gatewaytest.NewGate()
	g.Fault(gatewaytest.Fault{Kind: gatewaytest.Slow, Route: "execute", Times: 1, Gate: gate})
	b := setup(t, Options{Connectors: gw})
	body := call(b.callScope(), "handed-on", twoMails)
	first := make(chan *nats.Msg, 1)
	go func() {
		m, _ := b.nc.Request(subjects.DefaultRoot.Request("acme", "s1", subjects.VerbCall), []byte(body), wait)
		first <- m
	}()
	await(t, gate.Reached(), "the first entry to reach the gateway")
	drained := make(chan error, 1)
	go func() { drained <- b.w.Drain(context.Background()) }()
	await(t, b.log.seen("the worker is draining"), "the drain to begin")
	b.worker(Options{Connectors: gw})
	gate.Open()
	if err := await(t, drained, "the drain"); err != nil {
		t.Fatal(err)
	}
	m := await(t, first, "the first caller's answer")
	if m == nil {
		t.Fatal("the first caller got no answer")
	}
	if err := subjects.ReplyError(m.Header, m.Data); err != nil {
		if !errors.Is(err, &subjects.Error{Code: subjects.CodeUnavailable}) {
			t.Fatal(err)
		}
		m = b.ask(subjects.VerbCall, body)
	}
	var batch subjects.BatchReply
	if err := json.Unmarshal(ok(t, m), &batch); err != nil || batch.SuccessCount != 2 {
		t.Fatalf("%s: %v", m.Data, err)
	}
	if n := len(g.Effects()); n != 2 {
		t.Fatalf("%d effects", n)
	}
}

// A deadline ends the wait; what had begun finishes, and the same call_id finds it.
func TestCallDeadline(t *testing.T) {
	t.Parallel()
	g, gw := gateway(t)
	gate := gatewaytest.NewGate()
	g.Fault(gatewaytest.Fault{Kind: gatewaytest.Slow, Route: "execute", Times: 1, Gate: gate})
	b := setup(t, Options{Connectors: gw})
	body := call(b.callScope(), "slow", `[{"name":"connectors__mail__SEND_EMAIL","arguments":{"to":"a","subject":"1"}}]`)
	h := nats.Header{subjects.HeaderDeadline: []string{subjects.FormatDeadline(time.Now().Add(300 * time.Millisecond))}}
	first := make(chan *nats.Msg, 1)
	go func() {
		m, _ := b.nc.RequestMsg(&nats.Msg{Subject: subjects.DefaultRoot.Request("acme", "s1", subjects.VerbCall), Header: h, Data: []byte(body)}, wait)
		first <- m
	}()
	m := await(t, first, "the answer at the deadline")
	if err := subjects.ReplyError(m.Header, m.Data); err == nil { // a slow machine did not even begin the entry in time
		if !strings.Contains(string(m.Data), `"DEADLINE_EXCEEDED"`) {
			t.Fatalf("got %s", m.Data)
		}
	} else if !errors.Is(err, &subjects.Error{Code: subjects.CodeDeadlineExceeded}) {
		t.Fatalf("got %v", err)
	}
	gate.Open()
	var batch subjects.BatchReply
	if err := json.Unmarshal(ok(t, b.ask(subjects.VerbCall, body)), &batch); err != nil || batch.TotalCount != 1 {
		t.Fatalf("%+v: %v", batch, err)
	}
}
