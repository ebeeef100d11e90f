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
	"github.com/nats-io/nats.go/jetstream"

	"toolsearch/connectors"
	"toolsearch/connectors/gatewaytest"
	"toolsearch/subjects"
	"toolsearch/subjects/toolhost"
	"toolsearch/worker/durable"
)

// scripted is a worker behind which a gateway gives these answers, and a session of it.
func scripted(t *testing.T, o Options, answers []gatewaytest.Answer) *linkedBundle {
	t.Helper()
	g, err := gatewaytest.Start(gatewaytest.Options{Answers: answers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	origin, err := connectors.ParseOrigin(g.URL())
	if err != nil {
		t.Fatal(err)
	}
	client, err := connectors.NewClient(connectors.ClientOptions{Origin: origin, Tokens: connectors.Shared("token")})
	if err != nil {
		t.Fatal(err)
	}
	if o.Connectors, err = connectors.NewGateway(client, connectors.GatewayOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Connectors.Close)
	b := &linkedBundle{bundle: setup(t, o), gateway: g}
	c, err := subjects.NewClient(b.nc, subjects.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b.session = c.Session("acme", "s1")
	return b
}

// Results of which each is over max_payload come whole: in the events, in the reply, in a repeated call and in a replay.
func TestLargeResultsOverTheWire(t *testing.T) {
	t.Parallel()
	const entries = 3
	var answers []gatewaytest.Answer
	var calls []string
	large := func(i int) string { return fmt.Sprintf(`"%d%s"`, i, strings.Repeat("x", 1200<<10)) }
	for i := range entries {
		answers = append(answers, gatewaytest.Answer{Status: 200, Body: json.RawMessage(`{"results":[{"data":` + large(i) + `}]}`)})
		calls = append(calls, `{"name":"connectors__mail__FETCH_EMAILS","arguments":{}}`)
	}
	b := scripted(t, Options{}, answers)
	ask := subjects.CallRequest{Scope: b.scope(subjects.SurfaceLink), CallID: "large",
		Arguments: json.RawMessage(`{"calls":[` + strings.Join(calls, ",") + `]}`)}
	check := func(what string, i int, got json.RawMessage) {
		t.Helper()
		if string(got) != large(i) {
			t.Errorf("%s: entry %d is %.60s (%d bytes)", what, i, got, len(got))
		}
	}
	for _, what := range []string{"call", "repeated call"} {
		got, err := b.session.Call(t.Context(), ask, func(e subjects.EntryEvent) { check(what+", event", e.Index, e.Response) })
		if err != nil || got.Batch == nil || got.Batch.SuccessCount != entries {
			t.Fatalf("%s: %v", what, err)
		}
		for i, r := range got.Batch.Results {
			check(what, i, r.Response)
		}
	}
	replay := func() (seen int, _ error) {
		events, err := b.session.Watch(t.Context(), subjects.WatchOptions{Call: "large", Replay: true})
		if err != nil {
			return 0, err
		}
		for e, err := range events {
			switch {
			case err != nil:
				return 0, err
			case e.Entry != nil:
				check("replay", e.Entry.Index, e.Entry.Response)
				seen++
			default:
				for i, r := range e.Summary.Results {
					check("replayed summary", i, r.Response)
				}
			}
		}
		return seen, nil
	}
	seen, err := replay()
	for errors.Is(err, &subjects.Error{Code: subjects.CodeUnavailable}) { // a large body that took a slow machine too long
		seen, err = replay()
	}
	if err != nil {
		t.Fatal(err)
	}
	if n := b.gateway.RequestCount(); seen != entries || n != entries {
		t.Errorf("%d events replayed, %d requests", seen, n)
	}
}

// An object that is not what its message says is refused at every verb, and what it holds is not looked at.
func TestClaimCheckOfSomethingElse(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{})
	js, err := jetstream.New(b.nc)
	if err != nil {
		t.Fatal(err)
	}
	bodies, err := subjects.NewBodies(js, subjects.BodiesOptions{Wait: wait})
	if err != nil {
		t.Fatal(err)
	}
	ref, err := bodies.Put(t.Context(), "acme", []byte(`{"tools":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	other, err := bodies.Put(t.Context(), "globex", []byte(`{"tools":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []subjects.Verb{subjects.VerbAssemble, subjects.VerbSearch, subjects.VerbDescribe, subjects.VerbCall, subjects.VerbConnections,
		subjects.VerbAnswer, subjects.VerbOperation, subjects.VerbAccounts, subjects.VerbDisconnect} {
		for what, c := range map[string]struct {
			ref   subjects.Ref
			field string
		}{
			"wrong digest":          {subjects.Ref{Object: ref.Object, Digest: subjects.Digest([]byte("{}"))}, subjects.HeaderDigest},
			"no digest":             {subjects.Ref{Object: ref.Object}, subjects.HeaderDigest},
			"digest in capitals":    {subjects.Ref{Object: ref.Object, Digest: strings.ToUpper(ref.Digest)}, subjects.HeaderDigest},
			"no such object":        {subjects.Ref{Object: "none", Digest: ref.Digest}, subjects.HeaderObject},
			"another tenant's":      {other, subjects.HeaderObject},
			"a name that is a path": {subjects.Ref{Object: "../" + ref.Object, Digest: ref.Digest}, subjects.HeaderObject},
			"a very long name":      {subjects.Ref{Object: strings.Repeat("n", 100_000), Digest: ref.Digest}, subjects.HeaderObject},
		} {
			h := nats.Header{}
			c.ref.Set(h)
			e := fails(t, b.askAs("acme", "s1", verb, h, ""))
			if e.Code != subjects.CodeBadRequest || e.Details["field"] != c.field {
				t.Errorf("%s, %s: %v, field %v", verb, what, e, e.Details["field"])
			}
		}
	}
}

// A host that dies in the middle of a tool: nobody knows what became of it. One that comes back with its keys tells.
func TestHostDiesInTheMiddleOfACall(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{Calls: durable.Options{EntryBound: 5 * time.Second}})
	c, err := subjects.NewClient(b.nc, subjects.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	session := c.Session("acme", "s1")
	running := make(chan struct{}, 1)
	nc := b.dial()
	host, err := toolhost.Serve(nc, toolhost.Options{Tenant: "acme", Host: "desk"}, toolhost.Tool{
		Toolset: "mcp-desk", Definition: json.RawMessage(`{"name":"mcp__desk__note","parameters":{}}`),
		Run: func(ctx context.Context, _ toolhost.Request) (any, error) {
			running <- struct{}{}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}})
	if err != nil {
		t.Fatal(err)
	}
	scope := subjects.Handle(b.callScope())
	done := make(chan *subjects.Called, 1)
	go func() {
		got, err := session.Call(t.Context(), subjects.CallRequest{Scope: scope, CallID: "note",
			Arguments: json.RawMessage(`{"calls":[{"name":"mcp__desk__note","arguments":{"text":"x"}}]}`)}, nil)
		if err != nil {
			t.Error(err)
		}
		done <- got
	}()
	await(t, running, "the tool to run")
	nc.Close() // as a power cut would: no word to anybody
	got := await(t, done, "the call's end")
	if !strings.Contains(string(got.Raw), `"code": "OUTCOME_UNKNOWN"`) {
		t.Errorf("%s", got.Raw)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := host.Stop(ended); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, nats.ErrConnectionClosed) {
		t.Error(err)
	}
	again, err := session.Call(t.Context(), subjects.CallRequest{Scope: scope, CallID: "note",
		Arguments: json.RawMessage(`{"calls":[{"name":"mcp__desk__note","arguments":{"text":"x"}}]}`)}, nil)
	if err != nil || string(again.Raw) != string(got.Raw) {
		t.Errorf("a repeated call: %s, %v", again.Raw, err)
	}
}

// Whoever brings the tools is never told that their catalog is not there, also while others ask for it by name.
func TestCatalogByNameAndWithItsToolsAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{})
	for i := range 200 {
		tools := fmt.Sprintf(`[{"toolset":"mcp-x","tool":{"name":"mcp__x__t%d","description":"d","parameters":{}}}]`, i)
		byName := fmt.Sprintf(`{"catalog":%q}`, subjects.Digest([]byte(tools)))
		subject := subjects.DefaultRoot.Request("acme", "s2", subjects.VerbAssemble)
		if err := b.nc.PublishRequest(subject, nats.NewInbox(), []byte(byName)); err != nil {
			t.Fatal(err)
		}
		ok(t, b.ask(subjects.VerbAssemble, `{"tools":`+tools+`}`))
	}
}
