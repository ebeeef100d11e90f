package subjects_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"toolsearch/subjects"
)

// fakeScope is the handle that a test's worker gives for a request body: equal requests, equal handles.
func fakeScope(body []byte) string { return subjects.Digest(body) }

// assembleReply is a reply that shows the request's tools again.
func assembleReply(scope, catalog string, tools json.RawMessage) []byte {
	return fmt.Appendf(nil, `{"scope":%q,"catalog":%q,"expires_at":"2026-01-01T00:00:00Z","activated":true,"tier":1,"listing_form":"full","deferred_count":1,`+
		`"deferred_tokens":10,"listing_budget":4000,"unknown_toolsets":[],"rejected_tools":[],"tools":%s}`, scope, catalog, tools)
}

// fast keeps the waits of a test short.
var fast = subjects.ClientOptions{MinBackoff: time.Millisecond, MaxBackoff: 5 * time.Millisecond, AskAgain: time.Hour}

func TestAssembleKeepsBytes(t *testing.T) {
	t.Parallel()
	s := startBus(t)
	w := startWorker(t, s)
	tools := json.RawMessage("[ {\"tool\": {\"name\" :\"a\",  \"n\":1.50,\"d\":\"<\u2028>\\u00e9\"}} ]")
	w.on(subjects.VerbAssemble, func(r *request) ([]byte, error) {
		var got struct {
			Tools   json.RawMessage `json:"tools"`
			Surface string          `json:"surface"`
		}
		if err := json.Unmarshal(r.Body, &got); err != nil || !bytes.Equal(got.Tools, tools) || got.Surface != "side" {
			t.Errorf("the worker got %s, %v", r.Body, err)
		}
		return assembleReply(fakeScope(r.Body), subjects.Digest(got.Tools), got.Tools), nil
	})
	out, err := newSession(t, s, fast).Assemble(inTime(t), &subjects.AssembleRequest{Tools: tools, Surface: subjects.SurfaceSide})
	if err != nil {
		t.Fatal(err)
	}
	if want := tools[2 : len(tools)-2]; len(out.Tools) != 1 || !bytes.Equal(out.Tools[0], want) {
		t.Errorf("tools %s, want %s", out.Tools, want)
	}
	if out.Catalog != subjects.Digest(tools) || !bytes.Contains(out.Raw, []byte(`"tier":1`)) {
		t.Errorf("catalog %s, raw %s", out.Catalog, out.Raw)
	}
}

func TestAppendAssembleRequest(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		r    subjects.AssembleRequest
		want string
	}{
		{subjects.AssembleRequest{}, `{}`},
		{subjects.AssembleRequest{Tools: json.RawMessage(`[ ]`)}, `{"tools":[ ]}`},
		{subjects.AssembleRequest{Catalog: "sha256:x"}, `{"catalog":"sha256:x"}`},
		{subjects.AssembleRequest{Tools: json.RawMessage(`[ ]`), EnabledToolsets: &[]string{}}, `{"tools":[ ],"enabled_toolsets":[]}`},
	} {
		if got, err := subjects.AppendAssembleRequest([]byte("x"), &tc.r); err != nil || string(got) != "x"+tc.want {
			t.Errorf("got %s, %v; want %s", got, err, tc.want)
		}
	}
	if _, err := subjects.AppendAssembleRequest(nil, &subjects.AssembleRequest{Config: json.RawMessage(`{`)}); err == nil {
		t.Error("a configuration that is no JSON was written")
	}
}

func TestModelArguments(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"queries": ["x"]}`: `{"queries": ["x"]}`,
		`"{\"queries\":1}"`:  `"{\"queries\":1}"`,
		` `:                  `{}`,
		``:                   `{}`,
		`{"queries": [`:      `"{\"queries\": ["`,
		`null`:               `null`,
	} {
		if got := subjects.ModelArguments(text); string(got) != want {
			t.Errorf("ModelArguments(%q) = %s, want %s", text, got, want)
		}
	}
}

func TestSearchAndDescribe(t *testing.T) {
	t.Parallel()
	s := startBus(t)
	w := startWorker(t, s)
	reply := []byte(`{"queries": ["x"], "total_available": 2, "results": [{"query": "x", "matches": ["a"]}], "tools": {"a": {"source": "mcp", "source_name": "g", "description": "", "required": []}}}`)
	w.on(subjects.VerbSearch, func(r *request) ([]byte, error) {
		if want := `{"scope":"sha256:1","arguments":{"queries": ["x"]}}`; string(r.Body) != want {
			t.Errorf("the worker got %s, want %s", r.Body, want)
		}
		return reply, nil
	})
	w.on(subjects.VerbDescribe, func(r *request) ([]byte, error) {
		if !bytes.Contains(r.Body, []byte(`"arguments":"{\"names\": ["`)) {
			t.Errorf("arguments that are no JSON arrive as %s", r.Body)
		}
		return []byte(`{"error": "arguments is no JSON; nothing was described."}`), nil
	})
	session := newSession(t, s, fast)
	found, err := session.Search(inTime(t), subjects.Handle("sha256:1"), json.RawMessage(`{"queries": ["x"]}`))
	if err != nil || !bytes.Equal(found.Raw, reply) || found.Mistake != nil || found.Results[0].Matches[0] != "a" {
		t.Errorf("found %+v, %v", found, err)
	}
	described, err := session.Describe(inTime(t), subjects.Handle("sha256:1"), json.RawMessage(`{"names": [`))
	if err != nil || described.Mistake == nil || !strings.HasPrefix(described.Mistake.Error(), "arguments") || described.Raw[0] != '{' {
		t.Errorf("described %+v, %v", described, err)
	}
}

// Bodies over max_payload in both directions, and small ones beside them on the same session.
func TestLargeBodies(t *testing.T) {
	t.Parallel()
	s := startBus(t) // max_payload 64 KiB
	w := startWorker(t, s)
	w.on(subjects.VerbAssemble, func(r *request) ([]byte, error) {
		var got subjects.AssembleRequest
		if err := json.Unmarshal(r.Body, &got); err != nil {
			return nil, err
		}
		if _, claimed := subjects.RefOf(r.Header); claimed != (len(r.Body) > 64<<10) {
			t.Errorf("%d bytes: claimed %v", len(r.Body), claimed)
		}
		return assembleReply(fakeScope(r.Body), subjects.Digest(got.Tools), got.Tools), nil
	})
	session := newSession(t, s, fast)
	for _, n := range []int{10, 5 << 20} {
		tools := json.RawMessage(`[{"name":"` + strings.Repeat("a", n) + `"}]`)
		out, err := session.Assemble(inTime(t), &subjects.AssembleRequest{Tools: tools})
		if err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if len(out.Tools) != 1 || !bytes.Equal(out.Tools[0], tools[1:len(tools)-1]) {
			t.Errorf("%d bytes came back as %d", n, len(out.Tools[0]))
		}
	}
}

func TestDeadlineTravels(t *testing.T) {
	t.Parallel()
	s := startBus(t)
	w := startWorker(t, s)
	deadlines := make(chan time.Time, 2)
	w.on(subjects.VerbSearch, func(r *request) ([]byte, error) {
		d, err := subjects.ParseDeadline(r.Header.Get(subjects.HeaderDeadline))
		if err != nil {
			t.Error(err)
		}
		deadlines <- d
		return []byte(`{"queries": [], "total_available": 0, "results": [], "tools": {}}`), nil
	})
	session := newSession(t, s, subjects.ClientOptions{Timeout: 7 * time.Minute})
	want := time.Now().Add(11 * time.Minute)
	ctx, cancel := context.WithDeadline(context.Background(), want)
	defer cancel()
	if _, err := session.Search(ctx, subjects.Handle("x"), nil); err != nil {
		t.Fatal(err)
	}
	if got := <-deadlines; !got.Equal(want) {
		t.Errorf("deadline %v, want the context's %v", got, want)
	}
	before := time.Now()
	if _, err := session.Search(context.Background(), subjects.Handle("x"), nil); err != nil {
		t.Fatal(err)
	}
	if got := <-deadlines; got.Before(before.Add(7*time.Minute)) || got.After(time.Now().Add(7*time.Minute)) {
		t.Errorf("deadline %v, want 7 minutes after %v", got, before)
	}
}

// A worker that never answers costs the context's time and no more, and the error says whose fault it may be.
func TestNoReplyInTime(t *testing.T) {
	t.Parallel()
	s := startBus(t)
	startWorker(t, s).on(subjects.VerbSearch, func(*request) ([]byte, error) { return nil, nil })
	session := newSession(t, s, fast)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := session.Search(ctx, subjects.Handle("x"), nil)
	if code(err) != subjects.CodeDeadlineExceeded || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want DEADLINE_EXCEEDED that is also the context's", err)
	}
	cause := errors.New("the user left")
	stopped, stop := context.WithCancelCause(context.Background())
	stop(cause)
	if _, err := session.Search(stopped, subjects.Handle("x"), nil); !errors.Is(err, cause) {
		t.Errorf("got %v, want the cause of the cancelled context", err)
	}
}

func TestRetries(t *testing.T) {
	t.Parallel()
	fine := []byte(`{"queries": [], "total_available": 0, "results": [], "tools": {}}`)
	for _, tc := range []struct {
		name  string
		fails []error // of the first requests
		asked int64
		want  subjects.Code
	}{
		{"overloaded, then fine", []error{&subjects.Error{Code: subjects.CodeOverloaded, RetryAfter: time.Millisecond}, &subjects.Error{Code: subjects.CodeOverloaded}}, 3, ""},
		{"unavailable, then fine", []error{subjects.Errorf(subjects.CodeUnavailable, "x")}, 2, ""},
		{"bad request is not repeated", []error{subjects.Errorf(subjects.CodeBadRequest, "x")}, 1, subjects.CodeBadRequest},
		{"forbidden is not repeated", []error{subjects.Errorf(subjects.CodeScopeForbidden, "x")}, 1, subjects.CodeScopeForbidden},
		{"a deadline is not repeated", []error{subjects.Errorf(subjects.CodeDeadlineExceeded, "x")}, 1, subjects.CodeDeadlineExceeded},
		{"too large is not repeated", []error{subjects.Errorf(subjects.CodeTooLarge, "x")}, 1, subjects.CodeTooLarge},
		{"internal is not repeated", []error{subjects.Errorf(subjects.CodeInternal, "x")}, 1, subjects.CodeInternal},
		{"a scope that is not this session's is given back", []error{subjects.Errorf(subjects.CodeScopeNotFound, "x")}, 1, subjects.CodeScopeNotFound},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := startBus(t)
			w := startWorker(t, s)
			w.on(subjects.VerbSearch, func(r *request) ([]byte, error) {
				if int(r.N) <= len(tc.fails) {
					return nil, tc.fails[r.N-1]
				}
				return fine, nil
			})
			_, err := newSession(t, s, fast).Search(inTime(t), subjects.Handle("x"), nil)
			if code(err) != tc.want || (tc.want == "") != (err == nil) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if n := w.asked.Load(); n != tc.asked {
				t.Errorf("asked %d times, want %d", n, tc.asked)
			}
		})
	}
}

func TestRetriesEnd(t *testing.T) {
	t.Parallel()
	s := startBus(t)
	w := startWorker(t, s)
	w.on(subjects.VerbSearch, func(*request) ([]byte, error) {
		return nil, &subjects.Error{Code: subjects.CodeOverloaded, Message: "full", RetryAfter: time.Millisecond}
	})
	o := fast
	o.Retries = 2
	_, err := newSession(t, s, o).Search(inTime(t), subjects.Handle("x"), nil)
	if code(err) != subjects.CodeOverloaded || w.asked.Load() != 3 {
		t.Errorf("after %d requests: %v", w.asked.Load(), err)
	}
	o.Retries = -1
	_, err = newSession(t, s, o).Search(inTime(t), subjects.Handle("x"), nil)
	if code(err) != subjects.CodeOverloaded || w.asked.Load() != 4 {
		t.Errorf("without retries, after %d requests: %v", w.asked.Load(), err)
	}
}

// What the worker asks to wait is waited, and a wait that would pass the deadline is not begun.
func TestRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	s := startBus(t)
	w := startWorker(t, s)
	var mu sync.Mutex
	var at []time.Time
	w.on(subjects.VerbSearch, func(r *request) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		at = append(at, time.Now())
		wait := 200 * time.Millisecond
		if len(at) > 1 {
			wait = time.Hour
		}
		return nil, &subjects.Error{Code: subjects.CodeOverloaded, Message: "full", RetryAfter: wait}
	})
	ctx := inTime(t)
	_, err := newSession(t, s, fast).Search(ctx, subjects.Handle("x"), nil)
	if code(err) != subjects.CodeOverloaded || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want OVERLOADED and the deadline", err)
	}
	if ctx.Err() != nil {
		t.Error("waited for an hour that the deadline does not have")
	}
	mu.Lock()
	defer mu.Unlock()
	if len(at) != 2 || at[1].Sub(at[0]) < 200*time.Millisecond {
		t.Errorf("asked at %v, want twice with 200 ms between", at)
	}
}

// A worker that comes a little later is found.
func TestNoWorkerYet(t *testing.T) {
	t.Parallel()
	s := startBus(t)
	session := newSession(t, s, subjects.ClientOptions{Retries: -1})
	if _, err := session.Search(inTime(t), subjects.Handle("x"), nil); code(err) != subjects.CodeUnavailable || !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("got %v, want UNAVAILABLE for want of a worker", err)
	}
	patient := newSession(t, s, subjects.ClientOptions{Retries: 1 << 20, MinBackoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond})
	done := make(chan error, 1)
	go func() {
		_, err := patient.Search(inTime(t), subjects.Handle("x"), nil)
		done <- err
	}()
	startWorker(t, s).on(subjects.VerbSearch, func(*request) ([]byte, error) {
		return []byte(`{"queries": [], "total_available": 0, "results": [], "tools": {}}`), nil
	})
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// An expired scope is assembled again, by the session that assembled it, once.
func TestScopeIsAssembledAgain(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]subjects.Code{"scope": subjects.CodeScopeNotFound, "catalog": subjects.CodeCatalogNotFound} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startBus(t)
			w := startWorker(t, s)
			var mu sync.Mutex
			stored := map[string]bool{}
			assembles := 0
			w.on(subjects.VerbAssemble, func(r *request) ([]byte, error) {
				mu.Lock()
				defer mu.Unlock()
				assembles++
				stored[fakeScope(r.Body)] = true
				return assembleReply(fakeScope(r.Body), subjects.Digest([]byte("[]")), json.RawMessage("[]")), nil
			})
			w.on(subjects.VerbSearch, func(r *request) ([]byte, error) {
				mu.Lock()
				defer mu.Unlock()
				var got subjects.BridgeRequest
				if err := json.Unmarshal(r.Body, &got); err != nil {
					return nil, err
				}
				if !stored[got.Scope.Handle] {
					return nil, subjects.Errorf(gone, "expired")
				}
				return []byte(`{"queries": [], "total_available": 0, "results": [], "tools": {}}`), nil
			})
			session := newSession(t, s, fast)
			out, err := session.Assemble(inTime(t), &subjects.AssembleRequest{Tools: json.RawMessage("[]")})
			if err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			clear(stored) // everything expires
			mu.Unlock()
			if _, err := session.Search(inTime(t), subjects.Handle(out.Scope), nil); err != nil {
				t.Errorf("after the expiry: %v", err)
			}
			if assembles != 2 {
				t.Errorf("assembled %d times, want 2", assembles)
			}
			stranger := newSession(t, s, fast)
			mu.Lock()
			clear(stored)
			mu.Unlock()
			if _, err := stranger.Search(inTime(t), subjects.Handle(out.Scope), nil); code(err) != gone {
				t.Errorf("a session that did not assemble: %v, want %s", err, gone)
			}
		})
	}
}

// A catalog that is named and gone is sent again with its tools, where the session had them.
func TestCatalogIsSentAgain(t *testing.T) {
	t.Parallel()
	s := startBus(t)
	w := startWorker(t, s)
	tools := json.RawMessage(`[{"tool": {"name": "a"}}]`)
	var mu sync.Mutex
	known := false
	w.on(subjects.VerbAssemble, func(r *request) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		var got subjects.AssembleRequest
		if err := json.Unmarshal(r.Body, &got); err != nil {
			return nil, err
		}
		if got.Tools == nil && !known {
			return nil, subjects.Errorf(subjects.CodeCatalogNotFound, "expired")
		}
		known = true
		return assembleReply(fakeScope(r.Body), subjects.Digest(tools), tools), nil
	})
	session := newSession(t, s, fast)
	if _, err := session.Assemble(inTime(t), &subjects.AssembleRequest{Catalog: subjects.Digest(tools)}); code(err) != subjects.CodeCatalogNotFound {
		t.Fatalf("without the tools: %v", err)
	}
	first, err := session.Assemble(inTime(t), &subjects.AssembleRequest{Tools: tools})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 * 4 { // more than a session remembers, each over the same catalog
		if _, err := session.Assemble(inTime(t), &subjects.AssembleRequest{Catalog: first.Catalog, RequiredToolsets: []string{subjects.NewCallID()}}); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	known = false
	mu.Unlock()
	if _, err := session.Assemble(inTime(t), &subjects.AssembleRequest{Catalog: first.Catalog}); err != nil {
		t.Errorf("a catalog that the session knows: %v", err)
	}
}

func TestInject(t *testing.T) {
	t.Parallel()
	s := startBus(t)
	w := startWorker(t, s)
	got := make(chan nats.Header, 1)
	w.on(subjects.VerbSearch, func(r *request) ([]byte, error) {
		got <- r.Header
		return []byte(`{"queries": [], "total_available": 0, "results": [], "tools": {}}`), nil
	})
	type key struct{}
	o := fast
	o.Inject = func(ctx context.Context, h nats.Header) { // in the case of OpenTelemetry's own carrier
		h.Set("Traceparent", ctx.Value(key{}).(string))
		h.Set("Tracestate", "a=b")
	}
	ctx := context.WithValue(inTime(t), key{}, "00-1-2-01")
	if _, err := newSession(t, s, o).Search(ctx, subjects.Handle("x"), nil); err != nil {
		t.Fatal(err)
	}
	h := <-got
	if h.Get("traceparent") != "00-1-2-01" || h.Get("tracestate") != "a=b" || h["Traceparent"] != nil {
		t.Errorf("headers %v, want the trace context in lower case", h)
	}
}

// Each operation opens the caller's span once, however often it is sent, and tells it how it ended.
func TestStartOfOperations(t *testing.T) {
	t.Parallel()
	s := startBus(t)
	w := startWorker(t, s)
	refusals := 1
	w.on(subjects.VerbSearch, func(*request) ([]byte, error) {
		if refusals--; refusals >= 0 {
			return nil, &subjects.Error{Code: subjects.CodeOverloaded, Message: "full"}
		}
		return []byte(`{"queries": [], "total_available": 0, "results": [], "tools": {}}`), nil
	})
	w.on(subjects.VerbDescribe, func(*request) ([]byte, error) {
		return nil, &subjects.Error{Code: subjects.CodeScopeForbidden, Message: "no"}
	})
	type key struct{}
	var got []string
	o := fast
	o.Start = func(ctx context.Context, operation, template, subject string) (context.Context, func(string)) {
		got = append(got, operation+" "+template+" "+subject)
		return context.WithValue(ctx, key{}, template), func(code string) { got = append(got, "end "+code) }
	}
	o.Inject = func(ctx context.Context, h nats.Header) {
		if ctx.Value(key{}) == nil {
			t.Error("the context of Inject is not the span's")
		}
	}
	session := newSession(t, s, o)
	if _, err := session.Search(inTime(t), subjects.Handle("x"), nil); err != nil {
		t.Error(err)
	}
	if _, err := session.Describe(inTime(t), subjects.Handle("x"), nil); err == nil {
		t.Error("a refused describe has no error")
	}
	prefix := "request toolsearch.v1.req.{tenant}.{session}."
	at := "toolsearch.v1.req." + session.Tenant() + "." + session.ID() + "."
	want := []string{prefix + "search " + at + "search", "end ", prefix + "describe " + at + "describe", "end SCOPE_FORBIDDEN"}
	if !slices.Equal(got, want) {
		t.Errorf("spans\n%q, want\n%q", got, want)
	}
}

// A session that is fenced in as the package's documentation says can do all of its own, and nothing of another's.
func TestFence(t *testing.T) {
	t.Parallel()
	permissions := func(tenant, session string) *server.Permissions {
		return &server.Permissions{
			Publish: &server.SubjectPermission{Allow: []string{
				"toolsearch.v1.req." + tenant + "." + session + ".*", "toolsearch.v1.stop." + tenant + "." + session, "toolsearch.v1.stop." + tenant + "." + session + ".*"}},
			Subscribe: &server.SubjectPermission{Allow: []string{
				"toolsearch.v1.result." + tenant + "." + session + ".*", subjects.InboxPrefix(tenant, session) + ".>"}},
		}
	}
	s := startBus(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "worker", Password: "p"},
			{Username: "s1", Password: "p", Permissions: permissions("acme", "s1")},
		}
	})
	nc := connect(t, s, nats.UserInfo("worker", "p"))
	if _, err := nc.Subscribe(subjects.DefaultRoot.Requests(subjects.VerbSearch), func(m *nats.Msg) {
		m.Respond([]byte(`{"queries": [], "total_available": 0, "results": [], "tools": {}}`))
	}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	own := connect(t, s, append(subjects.ConnectOptions("acme", "s1"), nats.UserInfo("s1", "p"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))...)
	client, err := subjects.NewClient(own, fast)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Session("acme", "s1").Search(inTime(t), subjects.Handle("x"), nil); err != nil {
		t.Errorf("its own session: %v", err)
	}
	_, err = client.Session("acme", "s2").Search(inTime(t), subjects.Handle("x"), nil)
	if refused := subjects.AsPermissionError(err); refused == nil || refused.Subject != "toolsearch.v1.req.acme.s2.search" {
		t.Errorf("another session: %v, want a refusal", err)
	}
	sub, err := own.SubscribeSync(subjects.InboxPrefix("acme", "s2") + ".>")
	if err != nil {
		t.Fatal(err)
	}
	if err := own.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := sub.NextMsgWithContext(inTime(t)); !errors.Is(err, nats.ErrPermissionViolation) {
		t.Errorf("another's inbox: %v", err)
	}
	_, err = client.Session("acme", "s2").Watch(inTime(t), subjects.WatchOptions{})
	if refused := subjects.AsPermissionError(err); refused == nil || refused.Subject != "toolsearch.v1.result.acme.s2.*" {
		t.Errorf("another's events: %v, want a refusal", err)
	}
}

// With the permissions that Bodies documents, and not one more, a fenced session sends and gets large bodies.
func TestFencedBodies(t *testing.T) {
	t.Parallel()
	const stream = "OBJ_TOOLSEARCH_BODIES_acme"
	var mu sync.Mutex
	var refused []error
	s := startBus(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "worker", Password: "p"},
			{Username: "s1", Password: "p", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Allow: []string{"toolsearch.v1.req.acme.s1.*",
					"$O.TOOLSEARCH_BODIES_acme.>", "$JS.API.STREAM.INFO." + stream, "$JS.API.STREAM.MSG.GET." + stream}},
				Subscribe: &server.SubjectPermission{Allow: []string{subjects.InboxPrefix("acme", "s1") + ".>"}},
			}},
		}
	})
	b, _ := newBodies(t, s, subjects.BodiesOptions{}, nats.UserInfo("worker", "p"))
	if err := b.Ensure(inTime(t), "acme"); err != nil {
		t.Fatal(err)
	}
	w := connect(t, s, nats.UserInfo("worker", "p"))
	if _, err := w.Subscribe(subjects.DefaultRoot.Requests(subjects.VerbAssemble), func(m *nats.Msg) {
		body, err := b.Unpack(context.Background(), "acme", m.Header, m.Data)
		if err != nil {
			t.Error(err)
		}
		h := nats.Header{}
		var r subjects.AssembleRequest
		if err := json.Unmarshal(body, &r); err != nil {
			t.Error(err)
		}
		data, err := b.Pack(context.Background(), "acme", h, assembleReply(fakeScope(body), subjects.Digest(r.Tools), r.Tools))
		if err != nil {
			t.Error(err)
		}
		m.RespondMsg(&nats.Msg{Header: h, Data: data})
	}); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	own := connect(t, s, append(subjects.ConnectOptions("acme", "s1"), nats.UserInfo("s1", "p"), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		mu.Lock()
		defer mu.Unlock()
		refused = append(refused, err)
	}))...)
	client, err := subjects.NewClient(own, fast)
	if err != nil {
		t.Fatal(err)
	}
	tools := json.RawMessage(`["` + strings.Repeat("x", 2<<20) + `"]`)
	out, err := client.Session("acme", "s1").Assemble(inTime(t), &subjects.AssembleRequest{Tools: tools})
	if err != nil || out.Catalog != subjects.Digest(tools) {
		t.Errorf("got %v", err)
	}
	if err := own.Flush(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(refused) > 0 {
		t.Errorf("refused: %v", refused)
	}
}

func TestClientOptions(t *testing.T) {
	t.Parallel()
	nc := connect(t, startBus(t))
	for field, o := range map[string]subjects.ClientOptions{
		"Root":        {Root: "a..b"},
		"Timeout":     {Timeout: -1},
		"CallTimeout": {CallTimeout: -1},
		"Reattach":    {Reattach: -1},
		"AskAgain":    {AskAgain: -1},
		"MinBackoff":  {MinBackoff: -1},
		"MaxBackoff":  {MinBackoff: 10 * time.Second},
		"Limit":       {BodyLimit: -1},
	} {
		if _, err := subjects.NewClient(nc, o); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%+v: %v, want an error that names %s", o, err, field)
		}
	}
	if _, err := subjects.NewClient(nil, subjects.ClientOptions{}); err == nil {
		t.Error("made without a connection")
	}
	c, err := subjects.NewClient(nc, subjects.ClientOptions{Root: "two.roots"})
	if err != nil || c.Root() != "two.roots" {
		t.Errorf("root %q, %v", c.Root(), err)
	}
	if s := c.Session("Acme Ltd.", "ada@example.com"); s.Tenant() != "b64-QWNtZSBMdGQu" || s.ID() != "b64-YWRhQGV4YW1wbGUuY29t" {
		t.Errorf("session %s of %s", s.ID(), s.Tenant())
	}
}

// What comes back and is not of the contract is an error, never an empty answer.
func TestRepliesOutsideTheContract(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]string{"no JSON": "<html>", "an array": "[]", "a wrong type": `{"queries": 1}`, "null": "{\"results\":{}}"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startBus(t)
			startWorker(t, s).on(subjects.VerbSearch, func(*request) ([]byte, error) { return []byte(reply), nil })
			if out, err := newSession(t, s, fast).Search(inTime(t), subjects.Handle("x"), nil); code(err) != subjects.CodeInternal {
				t.Errorf("got %+v, %v", out, err)
			}
		})
	}
}
