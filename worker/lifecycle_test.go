package worker

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolsearch/subjects"
	"toolsearch/worker/embedded"
	"toolsearch/worker/storage"
)

// freePort is a port that nothing listens on.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// patient reads of a store on however slow a machine.
var patient = storage.Layout{ReadTimeout: wait}

func startBus(t *testing.T, o embedded.Options) *embedded.Server {
	t.Helper()
	o.StartTimeout = wait
	bus, err := embedded.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bus.Shutdown)
	return bus
}

func TestStartsBeforeNATS(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	log := &logBook{}
	nc, err := Connect(t.Context(), ConnectOptions{
		URLs:          []string{"nats://127.0.0.1:" + strconv.Itoa(port)},
		ReconnectWait: 10 * time.Millisecond, Logger: slog.New(log),
	})
	if err != nil {
		t.Fatalf("no server yet must not be an error: %v", err)
	}
	w, err := New(nc, Options{Logger: slog.New(log), Layout: patient})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, log.seen("could not reconnect to NATS"), "a failed attempt")
	if h := w.Health(); h.Ready || len(h.Problems) != 2 || !strings.HasPrefix(h.Problems[1], "not connected to NATS") {
		t.Fatalf("health without a server: %+v", h)
	}
	select {
	case <-w.Ready():
		t.Fatal("ready without a server")
	default:
	}

	bus := startBus(t, embedded.Options{Port: port})
	await(t, w.Ready(), "the worker to be ready once the server is there")
	if h := w.Health(); !h.Ready || len(h.Problems) != 0 {
		t.Fatalf("health: %+v", h)
	}
	b := &bundle{t: t, bus: bus, w: w, log: log}
	b.nc = b.dial()
	b.assemble(20)
	if err := w.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if h := w.Health(); h.Ready {
		t.Fatalf("health after the drain: %+v", h)
	}
}

// The server goes away, for longer than a client's patience of old, and comes back, first with its streams, then
// without any.
func TestReconnects(t *testing.T) {
	t.Parallel()
	port, dir := freePort(t), t.TempDir()
	bus := startBus(t, embedded.Options{Port: port, Dir: dir})
	log := &logBook{}
	nc, err := Connect(t.Context(), ConnectOptions{URLs: []string{bus.ClientURL()}, ReconnectWait: 5 * time.Millisecond, Logger: slog.New(log)})
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(nc, Options{Logger: slog.New(log), Layout: patient})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, w.Ready(), "the worker to be ready")
	b := &bundle{t: t, bus: bus, w: w, log: log}
	b.nc = b.dial()
	scope := b.assemble(20).Scope

	for _, dir := range []string{dir, t.TempDir()} {
		down, up := nc.StatusChanged(nats.RECONNECTING), log.next("reconnected to NATS")
		bus.Shutdown()
		await(t, down, "the worker to see the server go")
		if h := w.Health(); h.Ready {
			t.Fatal("healthy without a server")
		}
		bus = startBus(t, embedded.Options{Port: port, Dir: dir})
		await(t, up, "the worker to reconnect")
		if err := nc.Flush(); err != nil { // the server knows its subscriptions again
			t.Fatal(err)
		}
		b.bus = bus
		b.nc = b.dial()
		// What was known to be stored is not trusted any more: the reply comes once it is stored in this server.
		// Until its streams are there, a request is answered UNAVAILABLE, which the client repeats.
		client, err := subjects.NewClient(b.nc, subjects.ClientOptions{Timeout: wait, Retries: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		again, err := client.Session("acme", "s1").Assemble(t.Context(), &subjects.AssembleRequest{Tools: madeUp(20)})
		if err != nil {
			t.Fatal(err)
		}
		if again.Scope != scope {
			t.Fatalf("the same request gave another scope")
		}
		js, err := jetstream.New(b.nc)
		if err != nil {
			t.Fatal(err)
		}
		scopes, err := storage.NewScopes(js, w.opts.Layout)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := scopes.Get(t.Context(), scope); err != nil {
			t.Fatalf("the scope is not in the new server: %v", err)
		}
		ok(t, b.ask(subjects.VerbSearch, search(scope, "order_1")))
	}
	if err := w.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// gate is a dialer that connects as long as it is not shut.
type gate struct{ shut atomic.Bool }

func (g *gate) Dial(network, address string) (net.Conn, error) {
	if g.shut.Load() {
		return nil, errors.New("the gate is shut")
	}
	return net.Dial(network, address)
}

// Work that is done when the connection is lost is answered when it is back, as long as somebody waits.
func TestRepliesWaitForTheConnection(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		patience time.Duration // of the requester
		answered bool
	}{
		"it comes back in time":  {wait, true},
		"it comes back too late": {300 * time.Millisecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bus := startBus(t, embedded.Options{Port: freePort(t)})
			log, g := &logBook{}, &gate{}
			nc, err := Connect(t.Context(), ConnectOptions{URLs: []string{bus.ClientURL()}, ReconnectWait: 5 * time.Millisecond,
				Logger: slog.New(log), Extra: []nats.Option{nats.SetCustomDialer(g)}})
			if err != nil {
				t.Fatal(err)
			}
			w, err := New(nc, Options{Logger: slog.New(log), Layout: patient})
			if err != nil {
				t.Fatal(err)
			}
			handling(subjects.VerbSearch, func(context.Context, *request) ([]byte, error) {
				g.shut.Store(true)
				return []byte(`{"results": []}`), nc.ForceReconnect()
			})(w)
			if err := w.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			await(t, w.Ready(), "the worker to be ready")
			b := &bundle{t: t, bus: bus, w: w, log: log}
			b.nc = b.dial()
			waits, gaveUp := log.seen("a reply waits for the connection"), log.seen("a reply could not be sent")
			reply := make(chan *nats.Msg, 1)
			inbox := b.nc.NewRespInbox()
			if _, err := b.nc.ChanSubscribe(inbox, reply); err != nil {
				t.Fatal(err)
			}
			for patience := tc.patience; ; patience *= 2 {
				m := &nats.Msg{Subject: subjects.DefaultRoot.Request("acme", "s1", subjects.VerbSearch), Reply: inbox, Data: []byte("{}"),
					Header: nats.Header{subjects.HeaderDeadline: {subjects.FormatDeadline(time.Now().Add(patience))}}}
				if err := b.nc.PublishMsg(m); err != nil {
					t.Fatal(err)
				}
				select {
				case <-waits:
				case late := <-reply: // a slow machine did not even begin in time
					if e := fails(t, late); e.Code != subjects.CodeDeadlineExceeded {
						t.Fatal(e)
					}
					continue
				case <-time.After(wait):
					t.Fatal("no reply waits for the connection")
				}
				break
			}
			if tc.answered {
				g.shut.Store(false)
				if got := await(t, reply, "the reply"); string(got.Data) != `{"results": []}` {
					t.Errorf("got %s", got.Data)
				}
			} else {
				await(t, gaveUp, "the reply to be given up")
				g.shut.Store(false)
			}
			if err := w.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A login that may not serve is told as such, and the worker does not count as ready.
func TestALoginThatMayNotServe(t *testing.T) {
	t.Parallel()
	bus, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		Users: []*server.User{{Username: "w", Password: "w", Permissions: &server.Permissions{
			Subscribe: &server.SubjectPermission{Deny: []string{subjects.DefaultRoot.Requests(subjects.VerbSearch)}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	bus.Start()
	t.Cleanup(func() { bus.Shutdown(); bus.WaitForShutdown() })
	log := &logBook{}
	nc, err := Connect(t.Context(), ConnectOptions{URLs: []string{bus.ClientURL()}, User: "w", Password: "w", Logger: slog.New(log)})
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(nc, Options{Logger: slog.New(log), Layout: patient})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, log.seen("the worker is not up yet and tries again"), "a failed attempt")
	if h := w.Health(); h.Ready || !strings.Contains(strings.Join(h.Problems, "; "), "role of a worker") {
		t.Errorf("health: %+v", h)
	}
	if err := w.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestStartGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	nc, err := Connect(t.Context(), ConnectOptions{URLs: []string{"nats://127.0.0.1:" + strconv.Itoa(freePort(t))}, ReconnectWait: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(nc, Options{Layout: patient})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := w.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := w.Start(ctx); err == nil {
		t.Fatal("a second Start was taken")
	}
	cancel()
	w.upkeep.Wait()
	if err := w.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// The end of Start's context is not the end of a worker that is ready.
func TestReadyWorkerOutlivesStartsContext(t *testing.T) {
	t.Parallel()
	bus := startBus(t, embedded.Options{Port: embedded.InProcessOnly})
	nc, err := Connect(t.Context(), ConnectOptions{URLs: []string{""}, Extra: []nats.Option{bus.InProcess()}})
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(nc, Options{Layout: patient})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := w.Start(ctx); err != nil {
		t.Fatal(err)
	}
	await(t, w.Ready(), "the worker to be ready")
	cancel()
	b := &bundle{t: t, bus: bus, w: w}
	b.nc = b.dial()
	b.assemble(20)
	if err := w.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Streams that cannot be brought to the layout keep the worker from being ready, and health says which and why.
func TestDriftIsTold(t *testing.T) {
	t.Parallel()
	bus := startBus(t, embedded.Options{Port: embedded.InProcessOnly})
	log := &logBook{}
	nc, err := Connect(t.Context(), ConnectOptions{URLs: []string{""}, Extra: []nats.Option{bus.InProcess()}})
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(nc, Options{Logger: slog.New(log), Layout: patient})
	if err != nil {
		t.Fatal(err)
	}
	layout := w.opts.Layout
	layout.Storage = jetstream.MemoryStorage
	if err := storage.Ensure(t.Context(), w.js, layout); err != nil {
		t.Fatal(err)
	}
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, log.seen("the worker is not up yet"), "the worker to find the drift")
	h := w.Health()
	if h.Ready || !strings.Contains(strings.Join(h.Problems, "\n"), "storage is Memory, want File") {
		t.Fatalf("health: %+v", h)
	}
	if err := w.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestConnectOptions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	noSeed := filepath.Join(dir, "seed")
	if err := os.WriteFile(noSeed, []byte("hush-hush"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want string
		o    ConnectOptions
	}{
		{"CredsFile and Token", ConnectOptions{CredsFile: "x", Token: "hush-hush"}},
		{"Password is set without User", ConnectOptions{Password: "hush-hush"}},
		{"CertFile and KeyFile go together", ConnectOptions{CertFile: "x"}},
		{"URLs[1]", ConnectOptions{URLs: []string{"a", "nats://"}}},
		{"URLs[0]", ConnectOptions{URLs: []string{"nats://u:hush-hush@[::1"}}},
		{"CredsFile", ConnectOptions{CredsFile: filepath.Join(dir, "none")}},
		{"NKeySeedFile", ConnectOptions{NKeySeedFile: filepath.Join(dir, "none")}},
		{"holds no nkey seed", ConnectOptions{NKeySeedFile: noSeed}},
		{"CAFile", ConnectOptions{CAFile: filepath.Join(dir, "none")}},
		{"KeyFile", ConnectOptions{CertFile: noSeed, KeyFile: noSeed}},
		{"negative", ConnectOptions{Timeout: -1}},
	} {
		nc, err := Connect(t.Context(), c.o)
		if err == nil {
			nc.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q in it", c.o, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "hush-hush") {
			t.Errorf("a secret stands in %q", err)
		}
	}
}

// A wrong password is tried again for ever, and stands in no log line.
func TestSecretsStayOutOfTheLog(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // a server that hangs up on whoever comes
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	log := &logBook{}
	nc, err := Connect(t.Context(), ConnectOptions{
		URLs:          []string{"nats://worker:hush-hush@" + l.Addr().String()},
		ReconnectWait: time.Millisecond, Logger: slog.New(log),
	})
	if err != nil {
		t.Fatal(err)
	}
	await(t, log.seen("could not reconnect"), "a failed attempt")
	nc.Close()
	await(t, log.seen("connection to NATS is closed"), "the end of the connection")
	if log.has("hush-hush") {
		t.Fatal("the password stands in the log")
	}
}

func TestOptionsValidate(t *testing.T) {
	t.Parallel()
	for field, o := range map[string]Options{
		"Layout":         {Layout: storage.Layout{Root: "a.*"}},
		"Version":        {Version: "one"},
		"TenantShare":    {TenantShare: 1.5},
		"Concurrency":    {Concurrency: -1},
		"QueueDepth":     {QueueDepth: -1},
		"CacheBytes":     {CacheBytes: -1},
		"RequestTimeout": {RequestTimeout: -1},
		"LargeBodies":    {LargeBodies: -1},
	} {
		if err := o.withDefaults().validate(); err == nil || !strings.Contains(err.Error(), "Options."+field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := New(nil, Options{}); err == nil {
		t.Error("New without a connection")
	}
}

// As many calls wait for a place as there are places, unless it is said otherwise.
func TestCallQueueFollowsThePlaces(t *testing.T) {
	t.Parallel()
	for o, want := range map[*Options]int{{}: 1024, {CallConcurrency: 7}: 7, {CallConcurrency: 7, CallQueueDepth: 9}: 9} {
		if got := o.withDefaults().callPool().depth; got != want {
			t.Errorf("%d places: %d may wait, want %d", o.CallConcurrency, got, want)
		}
	}
}

// Another root is another installation on the same bus.
func TestRoots(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{})
	b.worker(Options{Layout: storage.Layout{Root: "other.v1"}})
	scope := b.assemble(10).Scope
	m := b.send(subjects.Root("other.v1").Request("acme", "s1", subjects.VerbSearch), nil, search(scope, "order"))
	if e := fails(t, m); e.Code != subjects.CodeScopeNotFound {
		t.Fatalf("the scope of another installation: %v", e)
	}
}
