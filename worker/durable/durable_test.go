package durable

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"toolsearch/dispatch"
	"toolsearch/subjects"
	"toolsearch/worker/embedded"
	"toolsearch/worker/storage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen. Nothing is slow because of it.
const patience = 90 * time.Second

// testBound ends what a whole test asks for.
const testBound = 5 * time.Minute

// shortAckWait has a job whose runner died taken over soon. A runner that lives may miss it as well where a machine is
// slow, so the worker that takes over has one slot: no other runner of its own can take its job away.
const shortAckWait = 300 * time.Millisecond

// bus is a server of its own with the streams of a layout.
type bus struct {
	t      testing.TB
	server *embedded.Server
	urls   []string // of a bus without a server of its own
	layout storage.Layout
	nc     *nats.Conn
	js     jetstream.JetStream
	ctx    context.Context
}

func newBus(t testing.TB, l storage.Layout) *bus {
	t.Helper()
	return startBus(t, l, embedded.Options{Port: embedded.InProcessOnly})
}

func startBus(t testing.TB, l storage.Layout, o embedded.Options) *bus {
	t.Helper()
	o.StartTimeout = patience
	s, err := embedded.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	ctx, cancel := context.WithTimeout(context.Background(), testBound)
	t.Cleanup(cancel)
	b := &bus{t: t, server: s, layout: l.WithDefaults(), ctx: ctx}
	b.nc, b.js = b.connect()
	ensure(t, ctx, b.js, b.layout)
	return b
}

func ensure(t testing.TB, ctx context.Context, js jetstream.JetStream, l storage.Layout) {
	t.Helper()
	for _, cfg := range storage.CallStreams(l) {
		if _, err := js.CreateOrUpdateStream(ctx, cfg); err != nil {
			t.Fatal(err)
		}
	}
}

func (b *bus) connect(opts ...nats.Option) (*nats.Conn, jetstream.JetStream) {
	b.t.Helper()
	opts = append([]nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(10 * time.Millisecond), nats.Timeout(patience)}, opts...)
	url := strings.Join(b.urls, ",")
	if b.server != nil {
		url, opts = b.server.ClientURL(), append(opts, b.server.InProcess())
	}
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		b.t.Fatal(err)
	}
	return nc, js
}

// worker starts one with a connection of its own, drained at the end of the test.
func (b *bus) worker(o Options) *Calls {
	b.t.Helper()
	nc, js := b.connect()
	return b.workerOn(nc, js, o)
}

func (b *bus) workerOn(nc *nats.Conn, js jetstream.JetStream, o Options) *Calls {
	b.t.Helper()
	o.Layout = b.layout
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(testWriter{b.t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	if o.Bodies == nil { // patient: a busy machine is no fault here
		var err error
		if o.Bodies, err = subjects.NewBodies(js, subjects.BodiesOptions{Wait: patience}); err != nil {
			b.t.Fatal(err)
		}
	}
	c, err := New(js, nc, o)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := c.Start(b.ctx); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.Drain(ctx)
	})
	wait(b.t, c.Ready(), "the watch to stand")
	return c
}

type testWriter struct{ testing.TB }

func (w testWriter) Write(p []byte) (int, error) { w.Logf("%s", p); return len(p), nil }

// wait waits for a channel to be closed or to give something.
func wait[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
		panic("not reached")
	}
}

var callCount struct {
	sync.Mutex
	n int
}

func newKey(tenant, session string) dispatch.CallKey {
	callCount.Lock()
	defer callCount.Unlock()
	callCount.n++
	return dispatch.CallKey{Tenant: tenant, Session: session, Call: "call-" + strconv.Itoa(callCount.n)}
}

// batch is a call of n connector entries named tool-0 and so on.
func batch(k dispatch.CallKey, n int) dispatch.Call {
	c := dispatch.Call{Key: k}
	for i := range n {
		c.Payload.Entries = append(c.Payload.Entries, dispatch.CallEntry{
			Name: "connectors__app__TOOL_" + strconv.Itoa(i), Arguments: json.RawMessage(`{"n":` + strconv.Itoa(i) + `}`)})
	}
	return c
}

// gateway is a sender that keeps its promise of idempotency: a key takes effect once and has one answer.
type gateway struct {
	mu      sync.Mutex
	effects map[string]int // by key: how often it took effect, which must be once
	order   []string       // "<call>/<index>" in the order of effects
	sends   []dispatch.Sending
	// before, if set, runs before the effect, answer after it.
	before func(ctx context.Context, s dispatch.Sending)
	answer func(ctx context.Context, s dispatch.Sending) dispatch.Sent
}

func newGateway() *gateway { return &gateway{effects: map[string]int{}} }

func (g *gateway) Send(ctx context.Context, s dispatch.Sending) dispatch.Sent {
	g.mu.Lock()
	g.sends = append(g.sends, s)
	g.mu.Unlock()
	if g.before != nil {
		g.before(ctx, s)
		if ctx.Err() != nil {
			return dispatch.Sent{Cut: true}
		}
	}
	g.mu.Lock()
	key := s.IdempotencyKey(s.Name)
	if g.effects[key] == 0 {
		g.effects[key]++
		g.order = append(g.order, fmt.Sprintf("%s/%d", s.Key.Call, s.Index))
	}
	g.mu.Unlock()
	if g.answer != nil {
		return g.answer(ctx, s)
	}
	return okay(fmt.Sprintf(`{"did":%d}`, s.Index))
}

func (g *gateway) sent() []dispatch.Sending {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]dispatch.Sending(nil), g.sends...)
}

func (g *gateway) effected() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.order...)
}

func okay(response string) dispatch.Sent {
	return dispatch.Sent{Outcome: subjects.OutcomeOK, Attempts: 1, EntryOutcome: dispatch.EntryOutcome{Response: json.RawMessage(response)}}
}

func (b *bus) do(c *Calls, call dispatch.Call) *dispatch.Reply {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	r, err := c.Do(ctx, call)
	if err != nil {
		b.t.Fatalf("call %s: %v", call.Key, err)
	}
	return r
}

// codes are the entries' codes in short: "ok" or the error's.
func codes(r *dispatch.Reply) []string {
	out := make([]string, len(r.Batch.Results))
	for i, e := range r.Batch.Results {
		out[i] = "ok"
		if e.Error != nil {
			out[i] = string(e.Error.Code)
		}
	}
	return out
}

func TestBatchRunsInOrder(t *testing.T) {
	t.Parallel()
	b, g := newBus(t, storage.Layout{}), newGateway()
	c := b.worker(Options{Connectors: g})
	key := newKey("acme", "s1")
	r := b.do(c, batch(key, 3))
	if got := fmt.Sprint(codes(r)); got != "[ok ok ok]" {
		t.Fatalf("codes %s", got)
	}
	if got, want := fmt.Sprint(g.effected()), fmt.Sprintf("[%[1]s/0 %[1]s/1 %[1]s/2]", key.Call); got != want {
		t.Fatalf("effects %s, want %s", got, want)
	}
}
