package toolhost_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"toolsearch/subjects"
	"toolsearch/subjects/toolhost"
)

func TestCallAndList(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.serve(toolhost.Options{}, tool("echo", func(_ context.Context, r toolhost.Request) (any, error) {
		return map[string]any{"name": r.Name, "call": r.CallID, "index": r.Index, "key": r.Key, "arguments": r.Arguments}, nil
	}))
	got := b.ask(&subjects.HostRequest{CallID: "c1", Index: 2, Name: "echo", Arguments: json.RawMessage(`{"n":12345678901234567890}`), IdempotencyKey: "k", Deadline: time.Now().Add(time.Minute)})
	if want := `{"arguments":{"n":12345678901234567890},"call":"c1","index":2,"key":"k","name":"echo"}`; string(got.Result) != want {
		t.Errorf("got %s %v, want %s", got.Result, got.Error, want)
	}
	m := b.request(subjects.HostList, nats.Header{}, nil)
	var list subjects.HostListReply
	if err := json.Unmarshal(m.Data, &list); err != nil || len(list.Tools) != 1 {
		t.Fatalf("%s: %v", m.Data, err)
	}
	if l := list.Tools[0]; l.Host != "mcp-1" || l.Toolset != "mcp-test" || !l.Parallel || !strings.Contains(string(l.Tool), `"echo"`) {
		t.Errorf("listed %+v", l)
	}
	if d := h.Definitions(); len(d) != 1 || d[0].Host != "mcp-1" {
		t.Errorf("definitions %+v", d)
	}
}

func TestResults(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, tc := range map[string]struct {
		value  any
		err    error
		result string
		code   string
		text   string
	}{
		"a-value":      {value: []int{1}, result: `[1]`},
		"raw-json":     {value: json.RawMessage(`{"a":1.0}`), result: `{"a":1.0}`},
		"bytes":        {value: []byte(`"x"`), result: `"x"`},
		"nothing":      {result: `null`},
		"empty-raw":    {value: json.RawMessage{}, result: `null`},
		"no-json":      {value: json.RawMessage(`{`), code: "TOOL_ERROR", text: "the tool ran"},
		"no-encoding":  {value: make(chan int), code: "TOOL_ERROR", text: "the tool ran"},
		"plain-error":  {err: errors.New("no such repository"), code: "TOOL_ERROR", text: "no such repository"},
		"coded-error":  {err: fmt.Errorf("wrapped: %w", &toolhost.Error{Code: subjects.EntryDenied, Message: "not on Sundays"}), code: "DENIED", text: "not on Sundays"},
		"html-in-text": {value: "<b>&", result: `"<b>&"`},
	} {
		b.serveOne(t, name, func(context.Context, toolhost.Request) (any, error) { return tc.value, tc.err }, func() {
			got := b.call("k-"+name, name, `{}`)
			if string(got.Result) != tc.result || code(got) != tc.code || tc.text != "" && !strings.Contains(got.Error.Message, tc.text) {
				t.Errorf("%s: got %s %v, want %s %s", name, got.Result, got.Error, tc.result, tc.code)
			}
		})
	}
}

// serveOne runs a host of one tool for as long as do.
func (b *testBundle) serveOne(t *testing.T, name string, run toolhost.Handler, do func()) {
	t.Helper()
	h, err := toolhost.Serve(b.connect(), toolhost.Options{Tenant: "acme", Host: "mcp-1"}, tool(name, run))
	if err != nil {
		t.Fatal(err)
	}
	do()
	if err := h.Stop(inTime(t)); err != nil {
		t.Error(err)
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var ran atomic.Int64
	b.serve(toolhost.Options{}, tool("echo", func(context.Context, toolhost.Request) (any, error) { ran.Add(1); return nil, nil }))
	for name, tc := range map[string]struct{ body, code string }{
		"not JSON":          {`<html>`, "BAD_REQUEST"},
		"an array":          {`[]`, "BAD_REQUEST"},
		"nothing":           {``, "BAD_REQUEST"},
		"a wrong type":      {`{"index":"x"}`, "BAD_REQUEST"},
		"no key":            {`{"name":"echo","arguments":{}}`, "BAD_REQUEST"},
		"arguments a list":  {`{"name":"echo","arguments":[],"idempotency_key":"k"}`, "BAD_REQUEST"},
		"arguments a text":  {`{"name":"echo","arguments":"{}","idempotency_key":"k"}`, "BAD_REQUEST"},
		"an unknown tool":   {`{"name":"nope","arguments":{},"idempotency_key":"k"}`, "TOOL_NOT_FOUND"},
		"a deadline passed": {`{"name":"echo","arguments":{},"idempotency_key":"k","deadline":"2020-01-01T00:00:00Z"}`, "DEADLINE_EXCEEDED"},
		"no such deadline":  {`{"name":"echo","arguments":{},"idempotency_key":"k","deadline":"soon"}`, "BAD_REQUEST"},
	} {
		if got := b.send(nats.Header{}, []byte(tc.body)); code(got) != tc.code || got.Error.Message == "" {
			t.Errorf("%s: got %s %v, want %s", name, got.Result, got.Error, tc.code)
		}
	}
	if m := b.request(subjects.HostCall, nats.Header{"Toolsearch-Object": {"none"}, "Toolsearch-Digest": {subjects.Digest(nil)}}, nil); !bytes.Contains(m.Data, []byte("BAD_REQUEST")) {
		t.Errorf("a body that is not there: %s", m.Data)
	}
	if ran.Load() != 0 {
		t.Errorf("%d of them ran", ran.Load())
	}
	// None of them used the key up, and arguments may be left out.
	if got := b.send(nats.Header{}, []byte(`{"name":"echo","idempotency_key":"k"}`)); code(got) != "" || ran.Load() != 1 {
		t.Errorf("afterwards: %v, ran %d times", got.Error, ran.Load())
	}
}

func TestOneKeyOneEffect(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var ran atomic.Int64
	b.serve(toolhost.Options{}, tool("count", func(_ context.Context, r toolhost.Request) (any, error) {
		n := ran.Add(1)
		if strings.Contains(string(r.Arguments), "fail") {
			return nil, fmt.Errorf("failure %d", n)
		}
		return n, nil
	}))
	for range 3 {
		if got := b.call("k1", "count", `{"a":1}`); string(got.Result) != "1" {
			t.Errorf("got %s %v, want the first answer", got.Result, got.Error)
		}
	}
	if got := b.call("k1", "count", `{ "a" : 1 }`); string(got.Result) != "1" {
		t.Errorf("the same arguments in other spacing: %s %v", got.Result, got.Error)
	}
	if got := b.call("k1", "count", `{"a":2}`); code(got) != "CALL_CONFLICT" {
		t.Errorf("other arguments under the key: %s %v", got.Result, got.Error)
	}
	for range 2 { // a failure is an answer too
		if got := b.call("k2", "count", `{"fail":1}`); code(got) != "TOOL_ERROR" || got.Error.Message != "failure 2" {
			t.Errorf("got %s %v, want failure 2", got.Result, got.Error)
		}
	}
	if ran.Load() != 2 {
		t.Errorf("ran %d times, want 2", ran.Load())
	}
}

// Repeats that come while the first one runs wait for its answer.
func TestDuplicatesWait(t *testing.T) {
	t.Parallel()
	b := setup(t)
	begun, release := make(chan struct{}, 10), make(chan struct{})
	b.serve(toolhost.Options{}, tool("slow", func(context.Context, toolhost.Request) (any, error) {
		begun <- struct{}{}
		<-release
		return "done", nil
	}))
	const n = 8
	answers := make(chan *subjects.HostReply, n)
	ask := func() { answers <- b.call("k", "slow", `{}`) }
	go ask()
	<-begun
	for range n - 1 {
		go ask()
	}
	b.settled(n) // all of them have arrived at the host
	close(release)
	for range n {
		if got := <-answers; string(got.Result) != `"done"` {
			t.Errorf("got %s %v", got.Result, got.Error)
		}
	}
	if len(begun) != 0 {
		t.Error("it ran again")
	}
}

// settled returns when the host's subscription was sent n requests by the server.
func (b *testBundle) settled(n uint64) {
	b.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		for _, sub := range b.subscriptions() {
			if sub >= n {
				return
			}
		}
		if err := b.caller.Flush(); err != nil {
			b.t.Fatal(err)
		}
	}
	b.t.Fatal("the requests did not arrive")
}

// subscriptions counts what was delivered to each subscription of the host's call subject.
func (b *testBundle) subscriptions() (delivered []uint64) {
	b.t.Helper()
	connz, err := b.server.Connz(nil)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, c := range connz.Conns {
		delivered = append(delivered, uint64(c.OutMsgs))
	}
	return delivered
}

func TestPanicIsContained(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var log bytes.Buffer
	var mu sync.Mutex
	b.serve(toolhost.Options{Logger: slog.New(slog.NewTextHandler(&lockedWriter{w: &log, mu: &mu}, nil))},
		tool("crash", func(context.Context, toolhost.Request) (any, error) { panic("boom") }),
		tool("fine", func(context.Context, toolhost.Request) (any, error) { return 1, nil }))
	for range 2 { // the key is used up: a crash may have done something
		if got := b.call("k", "crash", `{}`); code(got) != "TOOL_ERROR" || strings.Contains(got.Error.Message, "boom") {
			t.Errorf("got %s %v", got.Result, got.Error)
		}
	}
	if got := b.call("k2", "fine", `{}`); string(got.Result) != "1" {
		t.Errorf("afterwards: %s %v", got.Result, got.Error)
	}
	mu.Lock()
	defer mu.Unlock()
	if n := strings.Count(log.String(), "boom"); n != 1 {
		t.Errorf("logged %d times: %s", n, log.String())
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// A tool is cut at its deadline; one that does not heed it is answered for, and its own answer is kept.
func TestDeadlineWhileRunning(t *testing.T) {
	t.Parallel()
	b := setup(t)
	release, left := make(chan struct{}), make(chan struct{})
	b.serve(toolhost.Options{},
		tool("heeds", func(ctx context.Context, _ toolhost.Request) (any, error) { <-ctx.Done(); return nil, ctx.Err() }),
		tool("stubborn", func(context.Context, toolhost.Request) (any, error) { defer close(left); <-release; return "late", nil }))
	soon := func(name string) *subjects.HostReply {
		for left := 100 * time.Millisecond; ; left *= 2 {
			got := b.ask(&subjects.HostRequest{Name: name, Arguments: json.RawMessage(`{}`), IdempotencyKey: name, Deadline: time.Now().Add(left)})
			if code(got) != "DEADLINE_EXCEEDED" { // a slow machine did not even begin it, and needs more time
				return got
			}
		}
	}
	if got := soon("heeds"); code(got) != "OUTCOME_UNKNOWN" {
		t.Errorf("cut: %s %v", got.Result, got.Error)
	}
	if got := soon("stubborn"); code(got) != "OUTCOME_UNKNOWN" || !strings.Contains(got.Error.Message, "still runs") {
		t.Errorf("stubborn: %s %v", got.Result, got.Error)
	}
	close(release)
	<-left
	if got := b.call("stubborn", "stubborn", `{}`); string(got.Result) != `"late"` {
		t.Errorf("asked again: %s %v", got.Result, got.Error)
	}
}

func TestToolsThatAreNotParallel(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var running, most atomic.Int64
	serial := func(name string) toolhost.Tool {
		tl := tool(name, func(context.Context, toolhost.Request) (any, error) {
			if n := running.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer running.Add(-1)
			return nil, b.caller.Flush() // a moment in which another could begin
		})
		tl.Parallel = false
		return tl
	}
	begun, release := make(chan struct{}), make(chan struct{})
	holder := tool("holder", func(context.Context, toolhost.Request) (any, error) { close(begun); <-release; return nil, nil })
	holder.Parallel = false
	b.serve(toolhost.Options{}, serial("one"), serial("two"), holder)
	var all sync.WaitGroup
	for i := range 20 {
		all.Add(1)
		go func() {
			defer all.Done()
			if got := b.call(fmt.Sprint("k", i), []string{"one", "two"}[i%2], `{}`); code(got) != "" {
				t.Errorf("%v", got.Error)
			}
		}()
	}
	all.Wait()
	if most.Load() != 1 {
		t.Errorf("%d ran side by side", most.Load())
	}
	// One that waits in line past its deadline was never begun, and its key is free.
	all.Add(1)
	go func() { defer all.Done(); b.call("holder", "holder", `{}`) }()
	<-begun
	got := b.ask(&subjects.HostRequest{Name: "one", Arguments: json.RawMessage(`{}`), IdempotencyKey: "late", Deadline: time.Now().Add(50 * time.Millisecond)})
	if code(got) != "DEADLINE_EXCEEDED" {
		t.Errorf("in line: %s %v", got.Result, got.Error)
	}
	close(release)
	all.Wait()
	if got := b.call("late", "one", `{}`); code(got) != "" {
		t.Errorf("afterwards: %v", got.Error)
	}
}

// A full host says so at once, and nothing of it runs.
func TestOverloaded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	begun, release := make(chan struct{}, 2), make(chan struct{})
	b.serve(toolhost.Options{Concurrency: 1, Queue: 1}, tool("slow", func(context.Context, toolhost.Request) (any, error) {
		begun <- struct{}{}
		<-release
		return nil, nil
	}))
	answers := make(chan *subjects.HostReply, 3)
	ask := func(key string) { answers <- b.call(key, "slow", `{}`) }
	go ask("a")
	<-begun // one runs
	go ask("b")
	go ask("c") // one waits, one is too many
	if got := <-answers; code(got) != "OVERLOADED" {
		t.Errorf("got %s %v", got.Result, got.Error)
	}
	close(release)
	for range 2 {
		if got := <-answers; code(got) != "" {
			t.Errorf("got %v", got.Error)
		}
	}
}

func TestLargeBodies(t *testing.T) {
	t.Parallel()
	b := setup(t) // max_payload 64 KiB
	b.serve(toolhost.Options{}, tool("echo", func(_ context.Context, r toolhost.Request) (any, error) { return r.Arguments, nil }))
	want := `{"text":"` + strings.Repeat("x", 300_000) + `"}`
	if got := b.call("k", "echo", want); string(got.Result) != want {
		t.Errorf("got %d bytes, %v", len(got.Result), got.Error)
	}
}

func TestTraceContextGoesThrough(t *testing.T) {
	t.Parallel()
	b := setup(t)
	type key struct{}
	b.serve(toolhost.Options{Context: func(ctx context.Context, h nats.Header) context.Context {
		return context.WithValue(ctx, key{}, h["Traceparent"])
	}}, tool("t", func(ctx context.Context, r toolhost.Request) (any, error) {
		return []any{ctx.Value(key{}), r.Header["Traceparent"]}, nil
	}))
	body := []byte(`{"name":"t","arguments":{},"idempotency_key":"k"}`)
	m := b.request(subjects.HostCall, nats.Header{"Traceparent": {"00-1-2-01"}}, body)
	if m.Header.Get("traceparent") != "00-1-2-01" || string(m.Data) != `{"result":[["00-1-2-01"],["00-1-2-01"]]}` {
		t.Errorf("got %v %s", m.Header, m.Data)
	}
}

// What was accepted is answered, what comes later finds nobody.
func TestStopDrains(t *testing.T) {
	t.Parallel()
	b := setup(t)
	begun, release := make(chan struct{}, 4), make(chan struct{})
	h := b.serve(toolhost.Options{Concurrency: 2}, tool("slow", func(context.Context, toolhost.Request) (any, error) {
		begun <- struct{}{}
		<-release
		return "done", nil
	}))
	answers := make(chan *subjects.HostReply, 4)
	for i := range 4 { // two run, two wait
		go func() { answers <- b.call(fmt.Sprint("k", i), "slow", `{}`) }()
	}
	<-begun
	<-begun
	b.settled(4)
	stopped := make(chan error, 1)
	go func() { stopped <- h.Stop(inTime(t)) }()
	b.gone()
	select {
	case <-h.Stopped():
		t.Error("stopped with tools running")
	default:
	}
	close(release)
	for range 4 {
		if got := <-answers; string(got.Result) != `"done"` {
			t.Errorf("got %s %v", got.Result, got.Error)
		}
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if err := h.Stop(inTime(t)); err != nil {
		t.Errorf("stopped again: %v", err)
	}
}

// gone returns when nobody answers for the host any more.
func (b *testBundle) gone() {
	b.t.Helper()
	for {
		_, err := b.caller.RequestWithContext(inTime(b.t), subjects.DefaultRoot.Host("acme", "mcp-1", subjects.HostList), nil)
		if errors.Is(err, nats.ErrNoResponders) {
			return
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
}

// A tool that does not end by itself is told when the stop has no more time, and why.
func TestStopHard(t *testing.T) {
	t.Parallel()
	b := setup(t)
	begun := make(chan struct{})
	h := b.serve(toolhost.Options{}, tool("slow", func(ctx context.Context, _ toolhost.Request) (any, error) {
		close(begun)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}))
	answers := make(chan *subjects.HostReply, 1)
	go func() { answers <- b.call("k", "slow", `{}`) }()
	<-begun
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := h.Stop(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if got := <-answers; code(got) != "OUTCOME_UNKNOWN" {
		t.Errorf("got %s %v", got.Result, got.Error)
	}
}

// A host whose connection is already gone stops all the same.
func TestStopWithoutAConnection(t *testing.T) {
	t.Parallel()
	b := setup(t)
	nc := b.connect()
	h, err := toolhost.Serve(nc, toolhost.Options{Tenant: "acme", Host: "mcp-1"}, tool("a", func(context.Context, toolhost.Request) (any, error) { return nil, nil }))
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	if err := h.Stop(inTime(t)); err != nil {
		t.Error(err)
	}
}

func TestServeRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := func(context.Context, toolhost.Request) (any, error) { return nil, nil }
	ok := toolhost.Options{Tenant: "acme", Host: "h"}
	with := func(change func(*toolhost.Options)) toolhost.Options { o := ok; change(&o); return o }
	for name, tc := range map[string]struct {
		o     toolhost.Options
		tools []toolhost.Tool
	}{
		"Tenant":          {with(func(o *toolhost.Options) { o.Tenant = "a.b" }), nil},
		"Host":            {with(func(o *toolhost.Options) { o.Host = "" }), nil},
		"Root":            {with(func(o *toolhost.Options) { o.Root = ".." }), nil},
		"Concurrency":     {with(func(o *toolhost.Options) { o.Concurrency = -1 }), nil},
		"MaxKeys":         {with(func(o *toolhost.Options) { o.MaxKeys = -1 }), nil},
		"no name":         {ok, []toolhost.Tool{{Definition: json.RawMessage(`{"description":"x"}`), Run: run}}},
		"not a JSON":      {ok, []toolhost.Tool{{Definition: json.RawMessage(`[]`), Run: run}}},
		"has no Run":      {ok, []toolhost.Tool{{Definition: json.RawMessage(`{"name":"x"}`)}}},
		`"x" is given tw`: {ok, []toolhost.Tool{tool("x", run), {Definition: json.RawMessage(`{"type":"function","function":{"name":"x"}}`), Run: run}}},
	} {
		if _, err := toolhost.Serve(b.caller, tc.o, tc.tools...); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := toolhost.Serve(nil, ok); err == nil {
		t.Error("served without a connection")
	}
}

// A host whose login may not answer for its name is told so, and does not wait in silence for calls that cannot come.
func TestServeRefused(t *testing.T) {
	t.Parallel()
	s, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true, Users: []*server.User{{
		Username: "host", Password: "p", Permissions: &server.Permissions{
			Subscribe: &server.SubjectPermission{Allow: []string{"toolsearch.v1.host.acme.mine.*"}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	closed := make(chan struct{})
	nc, err := nats.Connect("", nats.InProcessServer(s), nats.UserInfo("host", "p"), nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close(); <-closed })
	_, err = toolhost.Serve(nc, toolhost.Options{Tenant: "acme", Host: "another"})
	if refused := subjects.AsPermissionError(err); refused == nil || !strings.HasPrefix(refused.Subject, "toolsearch.v1.host.acme.another.") {
		t.Errorf("another's name: %v, want a refusal", err)
	}
	h, err := toolhost.Serve(nc, toolhost.Options{Tenant: "acme", Host: "mine"})
	if err != nil {
		t.Fatalf("its own name: %v", err)
	}
	if err := h.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}
