package credential_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolsearch/cmd/toolsearch/internal/command"
	"toolsearch/cmd/toolsearch/internal/config"
	"toolsearch/cmd/toolsearch/internal/node"
	"toolsearch/subjects"
	"toolsearch/subjects/roles"
	"toolsearch/subjects/toolhost"
	"toolsearch/worker"
	"toolsearch/worker/durable"
)

// node runs a worker as the command does, under the worker's role.
func (b *bus) node(change ...func(*config.Settings)) *node.Node {
	b.t.Helper()
	s := config.Default()
	s.NATS.URL = b.url(roles.Worker)
	if b.fleet {
		s.NATS.Creds = b.creds(roles.Worker, own)
	}
	for _, c := range change {
		c(&s)
	}
	n, err := node.Start(context.Background(), s, slog.New(slog.DiscardHandler))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := n.Drain(context.Background()); err != nil {
			b.t.Error(err)
		}
	})
	await(b.t, n.Ready(), "the worker")
	return n
}

// host serves one tool under the host's role.
func (b *bus) host(n roles.Names, run toolhost.Handler) (*user, []subjects.Tool) {
	b.t.Helper()
	u := b.login(roles.Host, n)
	h, err := toolhost.Serve(u.Conn, toolhost.Options{Tenant: n.Tenant, Host: n.Host}, toolhost.Tool{
		Toolset: "mcp-clock", Run: run,
		Definition: json.RawMessage(`{"name":"mcp__clock__ring","description":"Rings the bell of the clock.",` +
			`"parameters":{"type":"object","properties":{"times":{"type":"integer"}}}}`),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := h.Stop(inTime(b.t)); err != nil {
			b.t.Error(err)
		}
	})
	return u, h.Definitions()
}

func ring(_ context.Context, r toolhost.Request) (any, error) {
	return map[string]any{"rang": json.RawMessage(r.Arguments)}, nil
}

func (u *user) session(n roles.Names) *subjects.Session {
	u.t.Helper()
	c, err := subjects.NewClient(u.Conn, subjects.ClientOptions{Timeout: 20 * time.Second, CallTimeout: 40 * time.Second})
	if err != nil {
		u.t.Fatal(err)
	}
	return c.Session(n.Tenant, n.Session)
}

func tools(t testing.TB, list []subjects.Tool) json.RawMessage {
	t.Helper()
	p, err := subjects.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// quiet fails if the server complained of anything that a role's own client did.
func (u *user) quiet(who roles.Role) {
	u.t.Helper()
	if err := u.Flush(); err != nil {
		u.t.Error(err)
	}
	for {
		select {
		case err := <-u.errs:
			u.t.Errorf("%s: %v", who, err)
		default:
			return
		}
	}
}

// policy answers the session's hooks: pre until allow is closed with silence, then with leave.
func policy(t testing.TB, u *user, n roles.Names, asked chan<- string, allow <-chan struct{}) {
	t.Helper()
	if _, err := u.Conn.Subscribe(root.Hook(n.Tenant, n.Session, "*"), func(m *nats.Msg) {
		asked <- m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
		select {
		case <-allow:
		default:
			return
		}
		if m.Reply != "" {
			if err := m.Respond([]byte(`{"decision":"allow"}`)); err != nil {
				t.Error(err)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := u.Flush(); err != nil {
		t.Fatal(err)
	}
}

// TestEveryRoleCanWork runs a session's life over a server made from the files of deploy/nats, every part with the
// permissions of its role and nobody with more.
func TestEveryRoleCanWork(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, b *bus) {
		ctx := inTime(t)
		b.must(roles.Operator, "init")
		b.node()
		host, definitions := b.host(own, ring)
		runtime := b.login(roles.Runtime, own)
		session := runtime.session(own)

		always := make(chan struct{})
		close(always)
		asked := make(chan string, 8)
		policy(t, runtime, own, asked, always)
		events, err := session.Watch(ctx, subjects.WatchOptions{Call: "c1"})
		if err != nil {
			t.Fatal(err)
		}
		orchestrator := b.login(roles.Orchestrator, own)
		tenant, err := orchestrator.SubscribeSync(root.Result(own.Tenant, "*", "*"))
		if err != nil {
			t.Fatal(err)
		}
		if err := orchestrator.Flush(); err != nil {
			t.Fatal(err)
		}

		// An orchestrator opens the session, its runtime works in the scope.
		opened, err := orchestrator.session(own).Assemble(ctx, &subjects.AssembleRequest{Tools: tools(t, definitions),
			Hooks: &subjects.Hooks{Pre: true, Post: true}})
		if err != nil {
			t.Fatal(err)
		}
		again, err := session.Assemble(ctx, &subjects.AssembleRequest{Catalog: opened.Catalog, Hooks: &subjects.Hooks{Pre: true, Post: true}})
		if err != nil || again.Scope != opened.Scope {
			t.Fatalf("assembled %v, %v, want the scope %s", again, err, opened.Scope)
		}
		scope := subjects.Handle(opened.Scope)
		found, err := session.Search(ctx, scope, json.RawMessage(`{"queries":["ring the bell"]}`))
		if err != nil || !bytes.Contains(found.Raw, []byte("mcp__clock__ring")) {
			t.Fatalf("search: %v, %v", found, err)
		}
		described, err := session.Describe(ctx, scope, json.RawMessage(`{"names":["mcp__clock__ring"]}`))
		if err != nil || !bytes.Contains(described.Raw, []byte(`"times"`)) {
			t.Fatalf("describe: %v, %v", described, err)
		}
		called, err := session.Call(ctx, subjects.CallRequest{Scope: scope, CallID: "c1",
			Arguments: json.RawMessage(`{"name":"mcp__clock__ring","arguments":{"times":"3"}}`)}, func(subjects.EntryEvent) {})
		if err != nil || !bytes.Contains(called.Raw, []byte("rang")) {
			t.Fatalf("call: %v, %v", called, err)
		}
		var seen []string
		for ev, err := range events {
			switch {
			case err != nil:
				t.Fatal(err)
			case ev.Entry != nil:
				seen = append(seen, "entry")
			default:
				seen = append(seen, "summary")
			}
		}
		if fmt.Sprint(seen) != "[entry summary]" {
			t.Errorf("watched %v", seen)
		}
		for range 2 {
			if m, err := tenant.NextMsgWithContext(ctx); err != nil || m.Subject != root.Result("default", "cli", "c1") {
				t.Errorf("the orchestrator hears %v, %v", m, err)
			}
		}
		for _, want := range []string{"pre", "post"} {
			if got := await(t, asked, "the hook "+want); got != want {
				t.Errorf("the policy was asked %s, want %s", got, want)
			}
		}

		// Stops, of one call and of the session, by both who may.
		for name, s := range map[string]*subjects.Session{"runtime": session, "orchestrator": orchestrator.session(own)} {
			if ack, err := s.StopCall(ctx, "c2", "test"); err != nil || ack.Seq == 0 {
				t.Errorf("%s: stop a call: %v, %v", name, ack, err)
			}
			if ack, err := s.Stop(ctx, "test"); err != nil || ack.Seq == 0 {
				t.Errorf("%s: stop the session: %v, %v", name, ack, err)
			}
		}
		stopped, err := session.Call(ctx, subjects.CallRequest{Scope: scope, CallID: "c2",
			Arguments: json.RawMessage(`{"name":"mcp__clock__ring","arguments":{}}`)}, nil)
		if err != nil || !bytes.Contains(stopped.Raw, []byte("INTERRUPTED")) {
			t.Errorf("a call that was stopped before it came: %s, %v", stopped.Raw, err)
		}

		// The command line, as each role.
		if out := b.must(roles.Runtime, "search", "--scope", opened.Scope, "ring the bell"); !strings.Contains(out, "mcp__clock__ring") {
			t.Errorf("toolsearch search: %s", out)
		}
		b.must(roles.Runtime, "stop")
		b.must(roles.Orchestrator, "stop", "c3")
		b.must(roles.Orchestrator, "assemble", "--sample")
		if out := b.must(roles.Operator, "jobs", "show", "c1"); !strings.Contains(out, "done") {
			t.Errorf("toolsearch jobs show: %s", out)
		}
		runtime.quiet(roles.Runtime)
		orchestrator.quiet(roles.Orchestrator)
		host.quiet(roles.Host)
	})
}

// TestOperatorRetries has two workers die of a call, the third give it up, and an operator try it again.
func TestOperatorRetries(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, b *bus) {
		ctx := inTime(t)
		calls := durable.Options{AckWait: 300 * time.Millisecond, MaxTakeovers: 1}
		runtime := b.login(roles.Runtime, own)
		asked, allow := make(chan string, 8), make(chan struct{})
		policy(t, runtime, own, asked, allow)
		_, definitions := b.host(own, ring)
		session := runtime.session(own)
		events, err := session.Watch(ctx, subjects.WatchOptions{})
		if err != nil {
			t.Fatal(err)
		}

		for n := range calls.MaxTakeovers + 1 {
			kill := b.mortal(calls)
			if n == 0 {
				opened, err := session.Assemble(ctx, &subjects.AssembleRequest{Tools: tools(t, definitions), Hooks: &subjects.Hooks{Pre: true}})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := session.CallAsync(ctx, subjects.CallRequest{Scope: subjects.Handle(opened.Scope), CallID: "c1",
					Arguments: json.RawMessage(`{"name":"mcp__clock__ring","arguments":{}}`)}); err != nil {
					t.Fatal(err)
				}
			}
			await(t, asked, "the policy to be asked")
			kill()
		}
		b.node(func(s *config.Settings) { s.Worker.AckWait, s.Worker.Takeovers = calls.AckWait, calls.MaxTakeovers })
		var outcomes []subjects.Outcome
		for ev, err := range events {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Entry != nil {
				outcomes = append(outcomes, ev.Entry.Outcome)
				continue
			}
			if len(outcomes) == 2 {
				break
			}
			b.buried(ctx)
			if out := b.must(roles.Operator, "jobs", "list"); !strings.Contains(out, "dead") || !strings.Contains(out, "default.cli.c1") {
				t.Errorf("toolsearch jobs list: %s", out)
			}
			close(allow)
			if out := b.must(roles.Operator, "jobs", "retry", "c1"); !strings.Contains(out, "generation 1") {
				t.Errorf("toolsearch jobs retry: %s", out)
			}
		}
		if fmt.Sprint(outcomes) != "[abandoned ok]" {
			t.Errorf("the outcomes are %v", outcomes)
		}
		// The job goes after the summary was told.
		for {
			out, code := b.toolsearch(roles.Operator, own, "jobs", "list")
			if code == command.ExitNothing {
				break
			}
			if ctx.Err() != nil {
				t.Fatalf("toolsearch jobs list: exit code %d: %s", code, out)
			}
		}
		runtime.quiet(roles.Runtime)
	})
}

// buried waits until a job was given up. A call's summary is told before.
func (b *bus) buried(ctx context.Context) {
	b.t.Helper()
	js, err := jetstream.New(b.login(roles.Operator, own).Conn)
	if err != nil {
		b.t.Fatal(err)
	}
	letters, err := js.OrderedConsumer(ctx, "TOOLSEARCH_DEAD", jetstream.OrderedConsumerConfig{})
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := letters.Next(jetstream.FetchMaxWait(60 * time.Second)); err != nil {
		b.t.Fatal(err)
	}
}

// mortal runs a worker that kill cuts off from the bus without a word.
func (b *bus) mortal(calls durable.Options) (kill func()) {
	b.t.Helper()
	u := b.login(roles.Worker, own)
	w, err := worker.New(u.Conn, worker.Options{Calls: calls})
	if err != nil {
		b.t.Fatal(err)
	}
	if err := w.Start(context.Background()); err != nil {
		b.t.Fatal(err)
	}
	await(b.t, w.Ready(), "the worker")
	b.t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = w.Drain(ctx) // it has no connection any more
	})
	return func() {
		u.quiet(roles.Worker)
		u.Close()
	}
}

// TestLargeBodies checks both ways for a body over max_payload: refused without the bucket, carried with it.
func TestLargeBodies(t *testing.T) {
	t.Parallel()
	b := newBus(t, true)
	ctx := inTime(t)
	b.must(roles.Operator, "init", "--tenant", "default")
	b.node()
	large := strings.Repeat("a large description ", 100_000)
	n := own
	n.Bodies = true
	host, definitions := b.host(n, func(context.Context, toolhost.Request) (any, error) { return map[string]string{"said": large}, nil })
	request := &subjects.AssembleRequest{Tools: tools(t, append(definitions, subjects.Tool{Toolset: "mcp-x",
		Tool: json.RawMessage(`{"name":"mcp__x__y","description":"` + large + `","parameters":{"type":"object"}}`)}))}

	if _, err := b.login(roles.Runtime, own).session(own).Assemble(ctx, request); !isCode(err, subjects.CodeTooLarge) {
		t.Errorf("without the bucket: %v, want TOO_LARGE", err)
	}
	runtime := b.login(roles.Runtime, n)
	session := runtime.session(n)
	opened, err := session.Assemble(ctx, request)
	if err != nil {
		t.Fatal(err)
	}
	called, err := session.Call(ctx, subjects.CallRequest{Scope: subjects.Handle(opened.Scope),
		Arguments: json.RawMessage(`{"name":"mcp__clock__ring","arguments":{}}`)}, nil)
	if err != nil || len(called.Raw) < len(large) {
		t.Errorf("a large result: %d bytes, %v", len(called.Raw), err)
	}
	orchestrator := b.login(roles.Orchestrator, n)
	if _, err := orchestrator.session(n).Assemble(ctx, request); err != nil {
		t.Errorf("an orchestrator: %v", err)
	}
	runtime.quiet(roles.Runtime)
	orchestrator.quiet(roles.Orchestrator)
	host.quiet(roles.Host)

	// The bucket of another tenant, and everything else, stays closed.
	for _, s := range []string{"$O.TOOLSEARCH_BODIES_globex.C.x", "$JS.API.STREAM.INFO.OBJ_TOOLSEARCH_BODIES_globex",
		"$JS.API.STREAM.MSG.GET.KV_TOOLSEARCH_CALLS", "$JS.API.STREAM.PURGE.OBJ_TOOLSEARCH_BODIES_default"} {
		runtime.refusedPublish(s)
		orchestrator.refusedPublish(s)
		host.refusedPublish(s)
	}
}

func isCode(err error, code subjects.Code) bool {
	e, ok := err.(*subjects.Error)
	return ok && e.Code == code
}
