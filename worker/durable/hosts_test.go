package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"toolsearch/dispatch"
	"toolsearch/subjects"
	"toolsearch/subjects/toolhost"
	"toolsearch/worker/storage"
)

// hosted is a call of one hosted tool.
func hosted(k dispatch.CallKey, host, name, arguments string) dispatch.Call {
	return dispatch.Call{Key: k, Payload: dispatch.Payload{Host: host, Toolset: "mcp-" + host,
		Entries: []dispatch.CallEntry{{Name: name, Arguments: json.RawMessage(arguments)}}}}
}

func (b *bus) host(name string, tools ...toolhost.Tool) *toolhost.Host {
	b.t.Helper()
	nc, _ := b.connect()
	h, err := toolhost.Serve(nc, toolhost.Options{Root: b.layout.Root, Tenant: "acme", Host: name}, tools...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = h.Stop(b.ctx) })
	return h
}

func tool(name string, run func(context.Context, toolhost.Request) (any, error)) toolhost.Tool {
	return toolhost.Tool{Toolset: "mcp-box", Definition: json.RawMessage(`{"name":"` + name + `","description":"d","parameters":{"type":"object"}}`), Run: run}
}

func model(t *testing.T, r *dispatch.Reply) string {
	t.Helper()
	p, err := r.MarshalModel()
	if err != nil {
		t.Fatal(err)
	}
	return string(p)
}

func TestHostedTool(t *testing.T) {
	t.Parallel()
	b := newBus(t, storage.Layout{})
	b.host("box",
		tool("echo", func(_ context.Context, r toolhost.Request) (any, error) { return json.RawMessage(r.Arguments), nil }),
		tool("fail", func(context.Context, toolhost.Request) (any, error) { return nil, errors.New("the disk is full") }),
		tool("large", func(context.Context, toolhost.Request) (any, error) { return strings.Repeat("z", 1200<<10), nil }),
	)
	c := b.worker(Options{})
	if got := model(t, b.do(c, hosted(newKey("acme", "s1"), "box", "echo", `{"a":1.50}`))); got != `{"a":1.50}` {
		t.Fatalf("the reply is not the tool's own result: %s", got)
	}
	if got := model(t, b.do(c, hosted(newKey("acme", "s1"), "box", "fail", `{}`))); !strings.Contains(got, "the disk is full") || !strings.Contains(got, `"TOOL_ERROR"`) {
		t.Fatal(got)
	}
	if got := model(t, b.do(c, hosted(newKey("acme", "s1"), "box", "large", `{"in":"`+strings.Repeat("i", 1200<<10)+`"}`))); len(got) != 1200<<10+2 {
		t.Fatalf("%d bytes", len(got))
	}
}

// What a host answers that no message could carry is no result, and an error without a text gets one.
func TestHostAnswersThatCannotBeCarried(t *testing.T) {
	t.Parallel()
	b := newBus(t, storage.Layout{})
	nested := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	answers := map[string]string{"no text": "{\"result\":\"\xff\xfe\"}", "nested": `{"result":` + nested + `}`, "no message": `{"error":{}}`}
	if _, err := b.nc.Subscribe(b.layout.Root.Host("acme", "liar", subjects.HostCall), func(m *nats.Msg) {
		var q subjects.HostRequest
		_ = json.Unmarshal(m.Data, &q)
		_ = m.Respond([]byte(answers[q.Name]))
	}); err != nil {
		t.Fatal(err)
	}
	if err := b.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	c := b.worker(Options{})
	for _, name := range []string{"no text", "nested"} {
		wantCodes(t, b.do(c, hosted(newKey("acme", "s1"), "liar", name, `{}`)), "OUTCOME_UNKNOWN")
	}
	if got := model(t, b.do(c, hosted(newKey("acme", "s1"), "liar", "no message", `{}`))); !strings.Contains(got, textHostFailed) {
		t.Errorf("got %s", got)
	}
}

// A host that is not there is asked again for a while, and then the tool was not run.
func TestHostAway(t *testing.T) {
	t.Parallel()
	b := newBus(t, storage.Layout{})
	c := b.worker(Options{EntryBound: time.Hour, HostPatience: 2 * time.Second})
	r := b.do(c, hosted(newKey("acme", "s1"), "nowhere", "echo", `{}`))
	wantCodes(t, r, "TOOL_ERROR")
	if n := b.record(r.Key).Entries[0].Attempts; n < 2 {
		t.Fatalf("asked %d times, want it asked again", n)
	}
}

// A host that stays away is given up long before the entry's bound, so that its caller is told. A long message of a
// host is cut.
func TestHostStaysAway(t *testing.T) {
	t.Parallel()
	b := newBus(t, storage.Layout{})
	b.host("box", tool("fail", func(context.Context, toolhost.Request) (any, error) {
		return nil, &toolhost.Error{Code: "FULL", Message: strings.Repeat("x", 500<<10)}
	}))
	c := b.worker(Options{EntryBound: time.Hour, HostPatience: 300 * time.Millisecond})
	wantCodes(t, b.do(c, hosted(newKey("acme", "s1"), "nowhere", "echo", `{}`)), "TOOL_ERROR")
	if got := model(t, b.do(c, hosted(newKey("acme", "s1"), "box", "fail", `{}`))); len(got) > 2*dispatch.MaxErrorText {
		t.Errorf("the model is given %d bytes of error text", len(got))
	}
}

// A host that comes back is found by the retries, under the same key.
func TestHostComesBack(t *testing.T) {
	t.Parallel()
	b := newBus(t, storage.Layout{})
	c := b.worker(Options{HostPatience: patience})
	call := hosted(newKey("acme", "s1"), "box", "echo", `{}`)
	reply := b.start(c, call)
	for b.started(call.Key) == false {
	}
	b.host("box", tool("echo", func(context.Context, toolhost.Request) (any, error) { return "back", nil }))
	if got := model(t, wait(t, reply, "the reply")); got != `"back"` {
		t.Fatal(got)
	}
}

// started reports whether the first entry is marked started or has settled.
func (b *bus) started(k dispatch.CallKey) bool {
	r := &records{stream: &stream{js: b.js, name: b.layout.CallsStream()}, layout: b.layout}
	value, _, err := r.Read(b.ctx, k)
	if err != nil {
		return b.ctx.Err() != nil
	}
	rec, err := dispatch.DecodeRecord(value)
	return err == nil && rec.Entries[0].State != dispatch.StatePending
}

// A host that got the request and fell silent, or answered gibberish, leaves the outcome unknown.
func TestHostSilent(t *testing.T) {
	t.Parallel()
	b := newBus(t, storage.Layout{})
	for host, answer := range map[string]string{"mute": "", "mad": "?", "empty": "{}", "lost": `{"error":{"code":"OUTCOME_UNKNOWN","message":"m"}}`} {
		if _, err := b.nc.Subscribe(b.layout.Root.Host("acme", host, subjects.HostCall), func(m *nats.Msg) {
			if answer != "" {
				_ = m.Respond([]byte(answer))
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	c := b.worker(Options{EntryBound: 200 * time.Millisecond})
	for _, host := range []string{"mute", "mad", "empty", "lost"} {
		r := b.do(c, hosted(newKey("acme", "s1"), host, "echo", `{}`))
		wantCodes(t, r, "OUTCOME_UNKNOWN")
	}
}

// The worker dies while the host works; the successor asks again under the same key and gets the one answer.
func TestHostedToolSurvivesItsWorker(t *testing.T) {
	t.Parallel()
	b := newBus(t, storage.Layout{})
	running, release := make(chan struct{}, 4), make(chan struct{})
	var runs atomic.Int32
	b.host("box", tool("slow", func(context.Context, toolhost.Request) (any, error) {
		runs.Add(1)
		running <- struct{}{}
		<-release
		return "once", nil
	}))
	o := Options{AckWait: shortAckWait, Slots: 1}
	accepting := b.worker(Options{Slots: -1, AckWait: o.AckWait})
	dying, call := b.worker(o), hosted(newKey("acme", "s1"), "box", "slow", `{}`)
	if _, err := accepting.Accept(b.ctx, call); err != nil {
		t.Fatal(err)
	}
	wait(t, running, "the tool to run")
	kill(dying)
	heir := b.worker(o)
	for b.record(call.Key).Entries[0].Runs < 2 && b.ctx.Err() == nil {
	}
	close(release)
	r, err := heir.Wait(b.ctx, call.Key)
	if err != nil {
		t.Fatal(err)
	}
	if got := model(t, r); got != `"once"` || runs.Load() != 1 {
		t.Fatalf("%s after %d runs", got, runs.Load())
	}
}

// Calls to a host that does not allow them side by side wait in line; another host, and one that allows it, do not.
func TestCallsToAHostWaitInLine(t *testing.T) {
	t.Parallel()
	b := newBus(t, storage.Layout{})
	var mu sync.Mutex
	now, most := map[string]int{}, map[string]int{}
	both := make(chan struct{})
	for _, host := range []string{"serial", "free"} {
		if _, err := b.nc.Subscribe(b.layout.Root.Host("acme", host, subjects.HostCall), func(m *nats.Msg) {
			go func() {
				mu.Lock()
				now[host]++
				most[host] = max(most[host], now[host])
				if host == "free" && now[host] == 2 {
					close(both)
				}
				mu.Unlock()
				if host == "free" {
					<-both // answers only when two run at a time
				}
				mu.Lock()
				now[host]--
				mu.Unlock()
				_ = m.Respond([]byte(`{"result":1}`))
			}()
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	c := b.worker(Options{})
	var replies []<-chan *dispatch.Reply
	for i := range 12 {
		call := hosted(newKey("acme", fmt.Sprintf("s%d", i)), "serial", "t", `{}`)
		if i < 2 {
			call = hosted(newKey("acme", fmt.Sprintf("s%d", i)), "free", "t", `{}`)
			call.Payload.Parallel = true
		}
		replies = append(replies, b.start(c, call))
	}
	for _, r := range replies {
		wantCodes(t, wait(t, r, "a reply"), "ok")
	}
	mu.Lock()
	defer mu.Unlock()
	if most["serial"] != 1 || most["free"] != 2 {
		t.Fatalf("at most %d at the serial host and %d at the other", most["serial"], most["free"])
	}
}

// A call that waits in line was not sent: a stop makes it INTERRUPTED.
func TestStopWhileInLine(t *testing.T) {
	t.Parallel()
	b := newBus(t, storage.Layout{})
	running, release := make(chan struct{}, 4), make(chan struct{})
	b.host("box", tool("slow", func(context.Context, toolhost.Request) (any, error) {
		running <- struct{}{}
		<-release
		return 1, nil
	}))
	c := b.worker(Options{})
	first := b.start(c, hosted(newKey("acme", "s1"), "box", "slow", `{}`))
	wait(t, running, "the tool to run")
	second := hosted(newKey("acme", "s2"), "box", "slow", `{}`)
	reply := b.start(c, second)
	for { // until the second is in line
		l := c.runner.Line.(*line)
		l.mu.Lock()
		p := l.places[[2]string{"acme", "box"}]
		in := p != nil && p.users == 2
		l.mu.Unlock()
		if in || b.ctx.Err() != nil {
			break
		}
	}
	b.stopSession(second.Key)
	wantCodes(t, wait(t, reply, "the second reply"), "INTERRUPTED")
	close(release)
	wantCodes(t, wait(t, first, "the first reply"), "ok")
}

// A policy's rewrite of a hosted tool's arguments is checked against the tool's schema, and repaired by it.
func TestRewriteIsValidatedAgain(t *testing.T) {
	t.Parallel()
	b := newBus(t, storage.Layout{})
	got := make(chan string, 4)
	b.host("box", tool("echo", func(_ context.Context, r toolhost.Request) (any, error) {
		got <- string(r.Arguments)
		return 1, nil
	}))
	answers := map[string]string{"s1": `{"n":"5"}`, "s2": `{"m":5}`}
	for session, arguments := range answers {
		b.policy("acme", session, func(subjects.HookRequest) string { return `{"decision":"rewrite","arguments":` + arguments + `}` })
	}
	c := b.worker(Options{})
	schema := json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)
	for session, want := range map[string]string{"s1": "ok", "s2": "DENIED"} {
		call := hosted(newKey("acme", session), "box", "echo", `{"n":1}`)
		call.Payload.Hooks, call.Payload.Parameters = subjects.Hooks{Pre: true}, schema
		wantCodes(t, b.do(c, call), want)
	}
	if a := wait(t, got, "the tool to run"); a != `{"n":5}` {
		t.Fatalf("ran with %s", a)
	}
}
