package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"toolsearch/subjects"
	"toolsearch/worker/embedded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wait bounds what a test waits for an event that has to come.
const wait = 90 * time.Second

// bundle is a bus, a worker and a client's connection to them.
type bundle struct {
	t   testing.TB
	bus *embedded.Server
	w   *Worker
	nc  *nats.Conn // a runtime's
	log *logBook
}

// setup starts a bus and a worker. prepare sees the worker before it starts.
func setup(t testing.TB, o Options, prepare ...func(*Worker)) *bundle {
	t.Helper()
	bus, err := embedded.Start(embedded.Options{Port: embedded.InProcessOnly, StartTimeout: wait})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bus.Shutdown)
	b := &bundle{t: t, bus: bus, log: &logBook{}}
	b.nc = b.dial()
	o.Logger = slog.New(b.log)
	b.w = b.worker(o, prepare...)
	return b
}

// worker starts one more worker on the bus.
func (b *bundle) worker(o Options, prepare ...func(*Worker)) *Worker {
	b.t.Helper()
	// A slow machine is not what is tested.
	defaultTo(&o.Layout.ReadTimeout, wait)
	defaultTo(&o.Calls.WatchWait, wait)
	nc, err := Connect(context.Background(), ConnectOptions{URLs: []string{""}, Extra: []nats.Option{b.bus.InProcess()}, Logger: o.Logger})
	if err != nil {
		b.t.Fatal(err)
	}
	w, err := New(nc, o)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, p := range prepare {
		p(w)
	}
	if err := w.Start(context.Background()); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := w.Drain(context.Background()); err != nil {
			b.t.Errorf("drain: %v", err)
		}
	})
	await(b.t, w.Ready(), "the worker to be ready")
	return w
}

// handling puts a handler of the test in the place of a verb's own.
func handling(verb subjects.Verb, h handler) func(*Worker) {
	return func(w *Worker) { w.endpoint(verb).handler = h }
}

func (w *Worker) endpoint(verb subjects.Verb) *endpoint {
	for _, e := range w.endpoints {
		if e.verb == verb {
			return e
		}
	}
	return nil
}

func (b *bundle) dial(opts ...nats.Option) *nats.Conn {
	b.t.Helper()
	nc, err := nats.Connect(b.bus.ClientURL(), append(opts, b.bus.InProcess(), nats.Timeout(wait))...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(nc.Close)
	return nc
}

func await[T any](t testing.TB, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(wait):
		t.Fatalf("waited %s for %s", wait, what)
	}
	return v
}

// ask sends a request of the session s1 of the tenant acme.
func (b *bundle) ask(verb subjects.Verb, body any) *nats.Msg {
	b.t.Helper()
	return b.askAs("acme", "s1", verb, nil, body)
}

func (b *bundle) askAs(tenant, session string, verb subjects.Verb, h nats.Header, body any) *nats.Msg {
	b.t.Helper()
	return b.send(subjects.DefaultRoot.Request(tenant, session, verb), h, body)
}

func (b *bundle) send(subject string, h nats.Header, body any) *nats.Msg {
	b.t.Helper()
	data, ok := body.([]byte)
	if !ok {
		if s, isText := body.(string); isText {
			data = []byte(s)
		} else {
			var err error
			if data, err = json.Marshal(body); err != nil {
				b.t.Fatal(err)
			}
		}
	}
	m, err := b.nc.RequestMsg(&nats.Msg{Subject: subject, Header: h, Data: data}, wait)
	if err != nil {
		b.t.Fatalf("%s: %v", subject, err)
	}
	return m
}

// ok fails the test for a reply that is a service error.
func ok(t testing.TB, m *nats.Msg) []byte {
	t.Helper()
	if err := subjects.ReplyError(m.Header, m.Data); err != nil {
		t.Fatal(err)
	}
	return m.Data
}

// fails is the service error of a reply.
func fails(t testing.TB, m *nats.Msg) *subjects.Error {
	t.Helper()
	var e *subjects.Error
	if err := subjects.ReplyError(m.Header, m.Data); !errors.As(err, &e) {
		t.Fatalf("want a service error, got %v: %.300s", err, m.Data)
	}
	return e
}

// assemble assembles n made-up tools and returns the reply.
func (b *bundle) assemble(n int) subjects.AssembleReply {
	b.t.Helper()
	var reply subjects.AssembleReply
	if err := json.Unmarshal(ok(b.t, b.ask(subjects.VerbAssemble, `{"tools":`+string(madeUp(n))+`}`)), &reply); err != nil {
		b.t.Fatal(err)
	}
	return reply
}

// search is the body of a search.
func search(scope, query string) string {
	return fmt.Sprintf(`{"scope":%q,"arguments":{"queries":[%q]}}`, scope, query)
}

// madeUp is a list of n tools of one MCP server.
func madeUp(n int) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('[')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"toolset":"mcp-shop","tool":{"type":"function","function":{"name":"mcp__shop__order_%d",`+
			`"description":"Look up order number %d of the shop","parameters":{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}}}}`, i, i)
	}
	b.WriteByte(']')
	return b.Bytes()
}

// logBook keeps what was logged, and tells of each line.
type logBook struct {
	mu    sync.Mutex
	lines []string
	hooks []func(string)
}

func (l *logBook) Enabled(context.Context, slog.Level) bool { return true }
func (l *logBook) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logBook) WithGroup(string) slog.Handler            { return l }

func (l *logBook) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", r.Level, r.Message)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, b.String())
	for _, h := range l.hooks {
		h(b.String())
	}
	return nil
}

// seen returns a channel that is closed once a line with this text was logged, also if it was before.
func (l *logBook) seen(text string) <-chan struct{} {
	later := l.next(text)
	if l.has(text) {
		done := make(chan struct{})
		close(done)
		return done
	}
	return later
}

// next is closed once another line with this text is logged.
func (l *logBook) next(text string) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	done := make(chan struct{})
	var once sync.Once
	l.hooks = append(l.hooks, func(line string) {
		if strings.Contains(line, text) {
			once.Do(func() { close(done) })
		}
	})
	return done
}

func (l *logBook) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			return true
		}
	}
	return false
}

func TestAssembleSearchDescribe(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{})
	seen := b.assemble(300)
	if !seen.Activated || seen.DeferredCount != 300 || len(seen.Tools) != 3 {
		t.Fatalf("activated %v, %d deferred, %d tools", seen.Activated, seen.DeferredCount, len(seen.Tools))
	}
	if seen.ExpiresAt.Before(time.Now().Add(47 * time.Hour)) {
		t.Fatalf("expires at %v", seen.ExpiresAt)
	}
	var found subjects.SearchReply
	if err := json.Unmarshal(ok(t, b.ask(subjects.VerbSearch, search(seen.Scope, "order_17"))), &found); err != nil {
		t.Fatal(err)
	}
	if len(found.Results) != 1 || len(found.Results[0].Matches) == 0 || found.Results[0].Matches[0] != "mcp__shop__order_17" {
		t.Fatalf("found %+v", found.Results)
	}
	reply := ok(t, b.ask(subjects.VerbDescribe, fmt.Sprintf(`{"scope":%q,"arguments":"{\"names\":[\"mcp__shop__order_17\"]}"}`, seen.Scope)))
	want := `{"tools": {"mcp__shop__order_17": {"description": "Look up order number 17 of the shop", "parameters": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}}}}`
	if string(reply) != want {
		t.Fatalf("described\n%s\nwant\n%s", reply, want)
	}
}

// A mistake of the model is an ordinary reply.
func TestModelsMistake(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{})
	scope := b.assemble(30).Scope
	var mistake subjects.ToolError
	m := b.ask(subjects.VerbSearch, fmt.Sprintf(`{"scope":%q,"arguments":{"queries":[]}}`, scope))
	if err := json.Unmarshal(ok(t, m), &mistake); err != nil || mistake.Message == "" {
		t.Fatalf("%s: %v", m.Data, err)
	}
	if s := b.w.Stats()[subjects.VerbSearch]; s.Mistakes != 1 || s.Replies != 1 || len(s.Errors) != 0 {
		t.Fatalf("counted %+v", s)
	}
}
