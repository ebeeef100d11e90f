package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"toolsearch/connectors"
	"toolsearch/connectors/gatewaytest"
	"toolsearch/connectors/portal"
	"toolsearch/subjects"
	"toolsearch/subjects/toolhost"
	"toolsearch/telemetry"
	"toolsearch/telemetry/telemetrytest"
	"toolsearch/worker/durable"
	"toolsearch/worker/embedded"
)

// theater is a bus, a recorded worker with a gateway, an account service and a tool host, and a runtime that is recorded
// too.
type theater struct {
	*bundle
	gateway *gatewaytest.Gateway
	gw      *connectors.Gateway
	rec     *telemetry.Recorder
	session *subjects.Session
	scope   subjects.Scope
	service *gatewaytest.Portal
	parked  chan struct{} // gets one each time that a watch is parked
}

// hush is the gateway's token; it must be seen nowhere.
const hush = "hush-0123456789"

// stage starts it all. rec records for the worker and everything below it, runtime for the session.
func stage(t testing.TB, rec, runtime *telemetry.Recorder, o Options) *theater {
	t.Helper()
	x := &theater{rec: rec, parked: make(chan struct{}, 100)}
	var err error
	x.gateway, err = gatewaytest.Start(gatewaytest.Options{Tokens: map[string]string{hush: "acme"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.gateway.Close() })
	origin, err := connectors.ParseOrigin(x.gateway.URL())
	if err != nil {
		t.Fatal(err)
	}
	client, err := connectors.NewClient(connectors.ClientOptions{Origin: origin, Tokens: connectors.Static{"acme": hush}, Telemetry: rec})
	if err != nil {
		t.Fatal(err)
	}
	x.gw, err = connectors.NewGateway(client, connectors.GatewayOptions{Telemetry: rec, BreakerFailures: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.gw.Close)
	o.Connectors, o.Telemetry, o.Accounts = x.gw, rec, x.accounts(t)
	o.OperationObserver = &connectors.OperationObserver{Round: func(_ context.Context, _ *connectors.Operation, r connectors.Round) {
		if r.Parked > 0 {
			x.parked <- struct{}{}
		}
	}}
	x.bundle = setup(t, o)
	host, err := toolhost.Serve(x.dial(), toolhost.Options{Tenant: "acme", Host: "desk", Start: rec.Incoming}, toolhost.Tool{
		Toolset:    "mcp-desk",
		Definition: json.RawMessage(`{"name":"mcp__desk__note","description":"Write a note","parameters":{}}`),
		Run: func(context.Context, toolhost.Request) (any, error) {
			return json.RawMessage(`{"noted":"plainresult"}`), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = host.Stop(context.Background()) })
	c, err := subjects.NewClient(x.dial(), subjects.ClientOptions{Inject: runtime.Inject, Start: runtime.Outgoing, AskAgain: wait, Reattach: wait})
	if err != nil {
		t.Fatal(err)
	}
	x.session = c.Session("acme", "s1")
	return x
}

// accounts is a recorded client of the gateway's account service.
func (x *theater) accounts(t testing.TB) *portal.Client {
	t.Helper()
	service, err := gatewaytest.StartPortal(x.gateway, gatewaytest.PortalOptions{})
	if err != nil {
		t.Fatal(err)
	}
	x.service = service
	t.Cleanup(func() { _ = service.Close() })
	origin, err := connectors.ParseOrigin(service.URL())
	if err != nil {
		t.Fatal(err)
	}
	client, err := portal.New(portal.Options{Origin: origin, Tokens: connectors.Static{"acme": hush}, Telemetry: x.rec})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// assembled opens the session's scope; hooks asks its policy, which allows.
func (x *theater) assembled(hooks bool) {
	x.t.Helper()
	granted := true
	r := &subjects.AssembleRequest{Tools: json.RawMessage(callTools), Connectors: &granted}
	if hooks {
		r.Hooks = &subjects.Hooks{Pre: true, Post: true}
		_, err := x.nc.Subscribe(subjects.DefaultRoot.Hook("acme", "s1", subjects.HookPre), func(m *nats.Msg) {
			_ = m.Respond([]byte(`{"decision":"allow"}`))
		})
		if err != nil {
			x.t.Fatal(err)
		}
		if err := x.nc.Flush(); err != nil {
			x.t.Fatal(err)
		}
	}
	a, err := x.session.Assemble(context.Background(), r)
	if err != nil {
		x.t.Fatal(err)
	}
	x.scope = subjects.Handle(a.Scope)
}

func (x *theater) call(ctx context.Context, id, calls string) *subjects.Called {
	x.t.Helper()
	out, err := x.session.Call(ctx, subjects.CallRequest{Scope: x.scope, CallID: id, Arguments: json.RawMessage(`{"calls":` + calls + `}`)}, nil)
	if err != nil {
		x.t.Fatal(err)
	}
	return out
}

// ended drains the worker: after that every span has ended.
func (x *theater) ended() {
	x.t.Helper()
	if err := x.w.Drain(context.Background()); err != nil {
		x.t.Fatal(err)
	}
}

func recorder(t testing.TB, s *telemetrytest.Spans, o telemetry.Options) *telemetry.Recorder {
	t.Helper()
	o.TracerProvider = s.Provider()
	r, err := telemetry.NewRecorder(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// recorded is a theater of which both sides of the bus are recorded.
func recorded(t testing.TB, o Options) (*theater, *telemetrytest.Spans) {
	t.Helper()
	s := telemetrytest.NewSpans()
	rec := recorder(t, s, telemetry.Options{})
	return stage(t, rec, rec, o), s
}

// spans compares what was recorded with a golden tree.
func spans(t *testing.T, s *telemetrytest.Spans, name string) {
	t.Helper()
	if open := s.Open(); len(open) > 0 {
		t.Errorf("these spans never ended: %q", open)
	}
	for _, e := range s.Ended() {
		for _, word := range []string{"acme", "s1", "call-1"} {
			if strings.Contains(e.Name, word) {
				t.Errorf("the span %q is named by a tenant, a session or a call", e.Name)
			}
		}
	}
	path := filepath.Join("testdata", "spans", name+".txt")
	got := s.Tree()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run the test with -update to make it", err)
	}
	if got != string(want) {
		t.Errorf("%s\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}

const (
	oneMail  = `[{"name":"connectors__mail__SEND_EMAIL","arguments":{"to":"ada","subject":"plainword"}}]`
	mailPair = `[{"name":"connectors__mail__SEND_EMAIL","arguments":{"to":"ada","subject":"1"}},{"name":"connectors__tracker__CREATE_ISSUE","arguments":{"title":"2"}}]`
	oneNote  = `[{"name":"mcp__desk__note","arguments":{"text":"plainword"}}]`
)

func TestSpansOfSearch(t *testing.T) {
	t.Parallel()
	x, s := recorded(t, Options{})
	x.assembled(false)
	ctx := context.Background()
	if _, err := x.session.Search(ctx, x.scope, json.RawMessage(`{"queries":["order a thing","zebra crossing"]}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := x.session.Search(ctx, x.scope, json.RawMessage(`{"limit":1}`)); err != nil { // the model's mistake
		t.Fatal(err)
	}
	if _, err := x.session.Describe(ctx, subjects.Handle("sha256:"+strings.Repeat("0", 64)), json.RawMessage(`{"names":["x"]}`)); err == nil {
		t.Fatal("an unknown scope was described")
	}
	x.ended()
	spans(t, s, "search")
}

// A batch with a policy: the front, the queue, the runner, the policy, each attempt at the gateway, each event.
func TestSpansOfBatch(t *testing.T) {
	t.Parallel()
	x, s := recorded(t, Options{})
	x.gateway.Fault(gatewaytest.Fault{Kind: gatewaytest.Status, Status: 503, Route: "execute", Times: 1})
	x.assembled(true)
	if out := x.call(context.Background(), "call-1", mailPair); out.Batch == nil || out.Batch.SuccessCount != 2 {
		t.Fatalf("%s", out.Raw)
	}
	x.ended()
	spans(t, s, "batch")
	traces := map[trace.TraceID]bool{}
	for _, e := range s.Ended() {
		traces[e.SpanContext.TraceID()] = true
	}
	if len(traces) != 2 { // the assemble's and the call's
		t.Errorf("%d traces, want the whole call in one", len(traces))
	}
}

func TestSpansOfHostedTool(t *testing.T) {
	t.Parallel()
	x, s := recorded(t, Options{})
	x.assembled(false)
	if out := x.call(context.Background(), "call-1", oneNote); !strings.Contains(string(out.Raw), "noted") {
		t.Fatalf("%s", out.Raw)
	}
	x.ended()
	spans(t, s, "hosted")
}

// A stop is linked to the entry that it kept from being sent, which is no error.
func TestSpansOfStop(t *testing.T) {
	t.Parallel()
	x, s := recorded(t, Options{})
	gate := gatewaytest.NewGate()
	x.gateway.Fault(gatewaytest.Fault{Kind: gatewaytest.Slow, Route: "execute", Times: 1, Gate: gate})
	x.assembled(false)
	called := make(chan *subjects.Called, 1)
	go func() { called <- x.call(context.Background(), "call-1", mailPair) }()
	await(t, gate.Reached(), "the first entry to reach the gateway")
	if _, err := x.session.StopCall(context.Background(), "call-1", "enough"); err != nil {
		t.Fatal(err)
	}
	gate.Open()
	if out := await(t, called, "the reply"); out.Batch.Results[1].Error == nil || out.Batch.Results[1].Error.Code != subjects.EntryInterrupted {
		t.Fatalf("%s", out.Raw)
	}
	x.ended()
	spans(t, s, "stop")
}

// What became of an entry that broke off cannot be known: that is an error, to be looked at.
func TestSpansOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	x, s := recorded(t, Options{Calls: durable.Options{EntryBound: 3 * time.Second}})
	x.gateway.Fault(gatewaytest.Fault{Kind: gatewaytest.Silent, Route: "execute"})
	x.assembled(false)
	if out := x.call(context.Background(), "call-1", oneMail); out.Batch.Results[0].Error.Code != subjects.EntryOutcomeUnknown {
		t.Fatalf("%s", out.Raw)
	}
	x.ended()
	spans(t, s, "unknown")
}

// A job that was handed back begins a trace of its own at its next runner, with a link to where it was made.
func TestSpansOfRedelivery(t *testing.T) {
	t.Parallel()
	x, s := recorded(t, Options{})
	gate := gatewaytest.NewGate()
	x.gateway.Fault(gatewaytest.Fault{Kind: gatewaytest.Slow, Route: "execute", Times: 1, Gate: gate})
	x.assembled(false)
	r := subjects.CallRequest{Scope: x.scope, CallID: "call-1", Arguments: json.RawMessage(`{"calls":` + mailPair + `}`)}
	if _, err := x.session.CallAsync(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	await(t, gate.Reached(), "the first entry to reach the gateway")
	drained := make(chan error, 1)
	go func() { drained <- x.w.Drain(context.Background()) }()
	await(t, x.log.seen("the worker is draining"), "the drain to begin")
	next := x.worker(Options{Connectors: x.gw, Telemetry: x.rec})
	gate.Open()
	if err := await(t, drained, "the drain"); err != nil {
		t.Fatal(err)
	}
	if err := x.gateway.WaitEffects(inTime(t), 2); err != nil {
		t.Fatal(err)
	}
	if err := next.Drain(context.Background()); err != nil { // the run publishes and acknowledges before it ends
		t.Fatal(err)
	}
	spans(t, s, "redelivery")
}

func inTime(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	t.Cleanup(cancel)
	return ctx
}

// Both sides of the bus have a provider of their own, set up by the environment, and export over either protocol to a
// receiver; what they tell is one trace.
func TestOneTraceAtTheReceiver(t *testing.T) {
	for protocol, endpoint := range map[string]func(*telemetrytest.Receiver) string{
		"grpc":          func(r *telemetrytest.Receiver) string { return r.GRPC },
		"http/protobuf": func(r *telemetrytest.Receiver) string { return r.HTTP },
	} {
		t.Run(protocol, func(t *testing.T) {
			receiver := telemetrytest.NewReceiver(t)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint(receiver))
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
			side := func(service string) (*telemetry.Providers, *telemetry.Recorder) {
				p, err := telemetry.Start(context.Background(), telemetry.Config{Service: service})
				if err != nil {
					t.Fatal(err)
				}
				r, err := telemetry.NewRecorder(telemetry.Options{TracerProvider: p.Tracers, MeterProvider: p.Meters, Propagator: p.Propagator})
				if err != nil {
					t.Fatal(err)
				}
				return p, r
			}
			workers, rec := side("the-worker")
			runtimes, runtime := side("the-runtime")
			x := stage(t, rec, runtime, Options{})
			x.assembled(false)
			ctx, span := runtimes.Tracers.Tracer("test").Start(context.Background(), "a turn")
			x.call(ctx, "call-1", oneMail)
			span.End()
			x.ended()
			for _, p := range []*telemetry.Providers{workers, runtimes} {
				if err := p.Shutdown(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
			id, of := span.SpanContext().TraceID().String(), map[string]int{}
			for _, s := range receiver.Spans() {
				if s.TraceID == id {
					of[s.Service+": "+s.Name]++
				}
			}
			for _, want := range []string{"the-runtime: a turn", "the-runtime: request toolsearch.v1.req.{tenant}.{session}.call",
				"the-worker: process toolsearch.v1.req.{tenant}.{session}.call", "the-worker: publish toolsearch.v1.job.{tenant}.{session}",
				"the-worker: process toolsearch.v1.job.{tenant}.{session}", "the-worker: dispatch batch",
				"the-worker: execute_tool connectors__mail__SEND_EMAIL", "the-worker: POST",
				"the-worker: publish toolsearch.v1.result.{tenant}.{session}.{call}"} {
				if of[want] == 0 {
					t.Errorf("the trace has no %q; it has %v", want, of)
				}
			}
			for _, m := range []string{"messaging.process.duration", "gen_ai.execute_tool.duration", "toolsearch.runs"} {
				if !receiver.Metric(m) {
					t.Errorf("no metric %s came", m)
				}
			}
		})
	}
}

// Contents are recorded only where that is switched on, and a secret never is: not in a span, not in the log.
func TestContentsAndSecrets(t *testing.T) {
	t.Parallel()
	const calls = `[{"name":"connectors__mail__SEND_EMAIL","arguments":{"to":"ada","subject":"plainword","body":"Bearer abcdefgh12345678","password":"hunter2"}}]`
	for _, capture := range []bool{false, true} {
		t.Run(fmt.Sprint("capture ", capture), func(t *testing.T) {
			t.Parallel()
			s := telemetrytest.NewSpans()
			rec := recorder(t, s, telemetry.Options{Capture: telemetry.Capture{Enabled: capture, MaxBytes: 400}})
			var b syncBuffer
			x := stage(t, rec, rec, Options{})
			x.w.Drain(context.Background()) //nolint:errcheck // another takes its place, with a log that is read
			log := telemetry.NewLogger(telemetry.LogOptions{Writer: &b, JSON: true, Level: slog.LevelDebug})
			next := x.worker(Options{Connectors: x.gw, Telemetry: rec, Logger: log})
			x.assembled(false)
			x.gateway.Fault(gatewaytest.Fault{Kind: gatewaytest.Status, Status: 401, Route: "search", Times: 1,
				Body: `{"error":{"code":"EXPIRED","message":"token ` + hush + ` has expired"}}`})
			if _, err := x.session.Search(context.Background(), x.scope, json.RawMessage(`{"queries":["find plainquery hunter"]}`)); err != nil {
				t.Fatal(err)
			}
			x.call(context.Background(), "call-1", calls)
			x.call(context.Background(), "call-2", oneNote)
			if err := next.Drain(context.Background()); err != nil {
				t.Fatal(err)
			}
			tree := s.Tree()
			for _, secret := range []string{hush, "hunter2", "abcdefgh12345678"} {
				if strings.Contains(tree, secret) || strings.Contains(b.String(), secret) {
					t.Errorf("%q is told:\n%s\n%s", secret, tree, b.String())
				}
			}
			for _, content := range []string{"plainword", "plainquery", "plainresult"} {
				if strings.Contains(tree, content) != capture {
					t.Errorf("content %q is recorded: %v", content, !capture)
				}
				if strings.Contains(b.String(), content) {
					t.Errorf("content %q is in the log", content)
				}
			}
		})
	}
}

// What the operator's propagators carry stays on the bus; the gateway gets trace context alone.
func TestBaggageStaysOnTheBus(t *testing.T) {
	t.Parallel()
	s := telemetrytest.NewSpans()
	rec := recorder(t, s, telemetry.Options{Propagator: propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})})
	x := stage(t, rec, rec, Options{})
	x.assembled(false)
	events := make(chan *nats.Msg, 10)
	if _, err := x.nc.ChanSubscribe(subjects.DefaultRoot.SessionResults("acme", "s1"), events); err != nil {
		t.Fatal(err)
	}
	h := nats.Header{"Baggage": {"tenant=acme"}, "TRACEPARENT": {traceParent}}
	body := call(x.scope.Handle, "call-1", oneMail)
	m := x.askAs("acme", "s1", subjects.VerbCall, h, body)
	ok(t, m)
	if e := await(t, events, "an event"); !strings.HasPrefix(e.Header.Get("traceparent"), traceParent[:36]) {
		t.Errorf("the event's headers %v are not of the request's trace", e.Header)
	}
	if got := m.Header.Get("traceparent"); !strings.HasPrefix(got, traceParent[:36]) || got == traceParent {
		t.Errorf("the reply's context is %q, want the worker's own span in the trace of the request", got)
	}
	sent := x.gateway.Requests()
	if len(sent) == 0 {
		t.Fatal("the gateway got nothing")
	}
	for _, r := range sent {
		if r.Header.Get("Baggage") != "" || !strings.Contains(r.Header.Get("Traceparent"), "-") {
			t.Errorf("%s: headers %v", r.Route, r.Header)
		}
	}
	x.ended()
}

// What goes wrong with the connection is counted.
func TestConnectionIsCounted(t *testing.T) {
	t.Parallel()
	p, err := telemetry.Start(context.Background(), telemetry.Config{Scrape: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Shutdown(context.Background()) })
	rec, err := telemetry.NewRecorder(telemetry.Options{MeterProvider: p.Meters})
	if err != nil {
		t.Fatal(err)
	}
	bus, err := embedded.Start(embedded.Options{StartTimeout: wait})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := Connect(context.Background(), ConnectOptions{URLs: []string{bus.ClientURL()}, Telemetry: rec})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.Opts.AsyncErrorCB(nc, nil, nats.ErrSlowConsumer)
	nc.Opts.AsyncErrorCB(nc, nil, nats.ErrPermissionViolation)
	bus.Shutdown()
	want := map[string]string{"toolsearch_nats_slow_consumers_total": "1", "toolsearch_nats_errors_total": "1", "toolsearch_nats_disconnects_total": "1"}
	for deadline := time.Now().Add(wait); len(want) > 0; {
		w := httptest.NewRecorder()
		p.Metrics.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		for series, n := range want {
			if got, _ := value(w.Body.String(), series); got == n {
				delete(want, series)
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("not counted: %v", want)
		}
	}
}

// syncBuffer is a log that several goroutines write.
type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
