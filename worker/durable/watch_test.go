package durable

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolsearch/dispatch"
	"toolsearch/worker/embedded"
	"toolsearch/worker/storage"
)

// proxy stands between a worker and its server, and can cut and refuse the connection.
type proxy struct {
	listener net.Listener
	target   string
	wg       sync.WaitGroup

	mu    sync.Mutex
	down  bool
	conns map[net.Conn]struct{}
}

func newProxy(t *testing.T, url string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: strings.TrimPrefix(url, "nats://"), conns: map[net.Conn]struct{}{}}
	p.wg.Go(p.serve)
	t.Cleanup(func() { l.Close(); p.set(true); p.wg.Wait() })
	return p
}

func (p *proxy) serve() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.target)
		p.mu.Lock()
		if err != nil || p.down {
			p.mu.Unlock()
			in.Close()
			if out != nil {
				out.Close()
			}
			continue
		}
		p.conns[in], p.conns[out] = struct{}{}, struct{}{}
		p.mu.Unlock()
		for _, pair := range [2][2]net.Conn{{in, out}, {out, in}} {
			p.wg.Go(func() { io.Copy(pair[0], pair[1]); pair[0].Close(); pair[1].Close() })
		}
	}
}

// set cuts all connections and lets none through, or lets them through again.
func (p *proxy) set(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
	if down {
		for c := range p.conns {
			c.Close()
		}
		clear(p.conns)
	}
}

// A stop that is stored while the worker's connection is down is seen before anything more is sent.
func TestStopWhileConnectionIsDown(t *testing.T) {
	t.Parallel()
	b, g := startBus(t, storage.Layout{}, embedded.Options{}), newGateway()
	p := newProxy(t, b.server.ClientURL())
	down, up := make(chan struct{}, 16), make(chan struct{}, 16)
	nc, err := nats.Connect("nats://"+p.listener.Addr().String(), nats.MaxReconnects(-1), nats.ReconnectWait(5*time.Millisecond), nats.Timeout(patience),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { down <- struct{}{} }), nats.ReconnectHandler(func(*nats.Conn) { up <- struct{}{} }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	arrived, release := g.blocking(0)
	c := b.workerOn(nc, js, Options{Connectors: g})
	call := batch(newKey("acme", "s1"), 3)
	accepting := b.worker(Options{Slots: -1})
	if _, err := accepting.Accept(b.ctx, call); err != nil {
		t.Fatal(err)
	}
	wait(t, arrived, "the first entry")
	p.set(true)
	wait(t, down, "the connection to go")
	b.stopSession(call.Key)
	close(release)
	p.set(false)
	wait(t, up, "the connection to come back")
	r, err := c.Wait(b.ctx, call.Key)
	if err != nil {
		t.Fatal(err)
	}
	wantCodes(t, r, "ok", "INTERRUPTED", "INTERRUPTED")
	wantEffects(t, g, call.Key.Call, 0)
}

// A stream that lost its end, or was made anew, has lower sequences than the watch has seen. The watch starts anew
// rather than wait for them for ever.
func TestStreamMadeAnew(t *testing.T) {
	t.Parallel()
	b, g := newBus(t, storage.Layout{}), newGateway()
	c := b.worker(Options{Connectors: g, Sweep: 10 * time.Millisecond, WatchWait: 50 * time.Millisecond})
	for range 5 {
		b.do(c, batch(newKey("acme", "s1"), 2))
	}
	b.queueEmpty()
	if err := b.js.DeleteStream(b.ctx, b.layout.CallsStream()); err != nil {
		t.Fatal(err)
	}
	ensure(t, b.ctx, b.js, b.layout)
	call := batch(newKey("acme", "s1"), 2)
	wantCodes(t, b.do(c, call), "ok", "ok")
	wantEffects := 12
	if n := len(g.effected()); n != wantEffects {
		t.Fatalf("%d effects, want %d", n, wantEffects)
	}
}

// Follow leaves no gap: of a stop that is stored at any moment around the registration, either the reads or the watch
// tell.
func TestFollowHasNoGap(t *testing.T) {
	t.Parallel()
	b := newBus(t, storage.Layout{})
	c := b.worker(Options{Slots: -1})
	for i := range 200 {
		key := newKey("acme", "gap")
		rev, err := c.records.Write(b.ctx, key, []byte("x"), 0, dispatch.PhaseOpen)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			if i%2 == 0 {
				b.stopCall(key)
			} else {
				b.stopSession(key)
			}
		}()
		f, err := c.watch.Follow(b.ctx, key, rev)
		if err != nil {
			t.Fatal(err)
		}
		wait(t, done, "the stop's acknowledgement")
		wait(t, f.Stopped(), "the stop")
		f.Close()
	}
	c.watch.mu.Lock()
	defer c.watch.mu.Unlock()
	if n := len(c.watch.follows) + len(c.watch.waits); n != 0 {
		t.Fatalf("%d registrations are left", n)
	}
}

// A watch that was opened anew counts nothing as passed before the stops have been read again.
func TestReopenedWatchReadsStopsAgain(t *testing.T) {
	t.Parallel()
	b, gate := newBus(t, storage.Layout{}), newGate()
	c := b.worker(Options{Slots: -1, feed: gate.feed, Sweep: time.Hour})
	key := newKey("acme", "s1")
	rev, err := c.records.Write(b.ctx, key, []byte("x"), 0, dispatch.PhaseOpen)
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.watch.Follow(b.ctx, key, rev)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	gate.set(true) // the old feed never tells of the stop
	b.stopSession(key)
	wait(t, gate.held, "the old feed to be held back")
	if isHalted(f) {
		t.Fatal("the stop was told of too early for this test")
	}
	c.watch.mu.Lock()
	c.watch.serial++ // what the old feed tells from now on is dropped
	c.watch.mu.Unlock()
	gate.set(false)
	if err := c.watch.open(b.ctx); err != nil {
		t.Fatal(err)
	}
	next, err := c.records.Write(b.ctx, key, []byte("y"), rev, dispatch.PhaseOpen)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Passed(b.ctx, next); err != nil {
		t.Fatal(err)
	}
	if !isHalted(f) {
		t.Fatal("the mark counts as passed, and the stop before it is not known")
	}
}

func isHalted(f dispatch.Following) bool {
	select {
	case <-f.Stopped():
		return true
	default:
		return false
	}
}

// A later write of the record than the one that is waited for means that it was lost.
func TestPassedTellsOfALaterWrite(t *testing.T) {
	t.Parallel()
	b := newBus(t, storage.Layout{})
	c := b.worker(Options{Slots: -1})
	key := newKey("acme", "s1")
	rev, err := c.records.Write(b.ctx, key, []byte("x"), 0, dispatch.PhaseOpen)
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.watch.Follow(b.ctx, key, rev)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mine, err := c.records.Write(b.ctx, key, []byte("mine"), rev, dispatch.PhaseOpen)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Passed(b.ctx, mine); err != nil {
		t.Fatal(err)
	}
	theirs, err := c.records.Write(b.ctx, key, []byte("theirs"), mine, dispatch.PhaseOpen)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Passed(b.ctx, theirs); err != nil {
		t.Fatal(err)
	}
	if err := f.Passed(b.ctx, mine); err == nil {
		t.Fatal("a write that was overtaken counts as standing")
	}
}

// A stop that the watch saw shortly before a call was registered is known without the leader, which may not have caught
// up since it was elected.
func TestWatchRemembersRecentStops(t *testing.T) {
	t.Parallel()
	b := newBus(t, storage.Layout{})
	c := b.worker(Options{Slots: -1})
	key := newKey("acme", "s1")
	seq := b.stopSession(key)
	mark, err := c.records.Write(b.ctx, key, []byte("x"), 0, dispatch.PhaseOpen)
	if err != nil {
		t.Fatal(err)
	}
	seen, err := c.watch.Follow(b.ctx, key, mark)
	if err != nil {
		t.Fatal(err)
	}
	defer seen.Close()
	mine, err := c.records.Write(b.ctx, key, []byte("y"), mark, dispatch.PhaseOpen)
	if err != nil {
		t.Fatal(err)
	}
	if err := seen.Passed(b.ctx, mine); err != nil { // the watch has come past the stop
		t.Fatal(err)
	}
	for _, test := range []struct {
		key     dispatch.CallKey
		created uint64
		want    bool
	}{
		{key, seq - 1, true},
		{key, seq, false},
		{dispatch.CallKey{Tenant: "acme", Session: "s2", Call: key.Call}, seq - 1, false},
	} {
		f := &following{w: c.watch, key: test.key, created: test.created, turned: make(chan struct{}), stopped: make(chan struct{})}
		c.watch.mu.Lock()
		c.watch.recall(f)
		c.watch.mu.Unlock()
		if isHalted(f) != test.want {
			t.Errorf("%s created at %d, stop at %d: halted %t, want %t", test.key, test.created, seq, isHalted(f), test.want)
		}
	}
	r := recentStops{}
	for i := range 3 * recentMost {
		r.add(note{subject: strings.Repeat("x", i%7) + string(rune(i)), seq: uint64(i)})
	}
	if n := len(r.now) + len(r.before); n > 2*recentMost {
		t.Fatalf("%d stops are remembered", n)
	}
}
