package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolsearch/catalog"
	"toolsearch/subjects"
	"toolsearch/worker/storage"
)

// stored is what the buckets hold of a blob.
func (b *bundle) scopeMessage(handle string) *jetstream.RawStreamMsg {
	b.t.Helper()
	m, err := b.stream("KV_"+b.w.opts.Layout.ScopeBucket()).GetLastMsgForSubject(b.t.Context(),
		"$KV."+b.w.opts.Layout.ScopeBucket()+"."+strings.TrimPrefix(handle, "sha256:"))
	if err != nil {
		b.t.Fatal(err)
	}
	return m
}

func (b *bundle) stream(name string) jetstream.Stream {
	b.t.Helper()
	s, err := b.w.js.Stream(b.t.Context(), name)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func (b *bundle) catalogs() jetstream.ObjectStore {
	b.t.Helper()
	obs, err := b.w.js.ObjectStore(b.t.Context(), b.w.opts.Layout.CatalogBucket())
	if err != nil {
		b.t.Fatal(err)
	}
	return obs
}

func TestForeignScopes(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{})
	scope := b.assemble(20).Scope
	for _, verb := range []subjects.Verb{subjects.VerbSearch, subjects.VerbDescribe} {
		if e := fails(t, b.askAs("other", "s1", verb, nil, search(scope, "x"))); e.Code != subjects.CodeScopeForbidden {
			t.Errorf("%s by another tenant: %v", verb, e)
		}
		if e := fails(t, b.askAs("acme", "s2", verb, nil, search(scope, "x"))); e.Code != subjects.CodeScopeForbidden {
			t.Errorf("%s by another session: %v", verb, e)
		}
		unknown := subjects.Digest([]byte("nothing"))
		if e := fails(t, b.ask(verb, search(unknown, "x"))); e.Code != subjects.CodeScopeNotFound || !e.Retryable() {
			t.Errorf("%s in an unknown scope: %v", verb, e)
		}
	}
	// A subagent's session may intersect with its parent's scope, another tenant may not, and an unknown one is missing.
	body := fmt.Sprintf(`{"tools":%s,"parent_scope":%q}`, madeUp(30), scope)
	var child subjects.AssembleReply
	if err := json.Unmarshal(ok(t, b.askAs("acme", "s2", subjects.VerbAssemble, nil, body)), &child); err != nil || child.DeferredCount != 20 {
		t.Errorf("the child of another session has %d tools: %v", child.DeferredCount, err)
	}
	if e := fails(t, b.askAs("other", "s1", subjects.VerbAssemble, nil, body)); e.Code != subjects.CodeScopeForbidden {
		t.Errorf("the child of another tenant: %v", e)
	}
	body = fmt.Sprintf(`{"tools":%s,"parent_scope":%q}`, madeUp(30), subjects.Digest([]byte("nothing")))
	if e := fails(t, b.ask(subjects.VerbAssemble, body)); e.Code != subjects.CodeScopeNotFound {
		t.Errorf("the child of nobody: %v", e)
	}
}

// Any worker answers for a scope, and equal requests get equal bytes from all of them.
func TestAnyWorkerAnswers(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{})
	request := `{"tools":` + string(madeUp(40)) + `}`
	first := ok(t, b.ask(subjects.VerbAssemble, request))
	var reply subjects.AssembleReply
	if err := json.Unmarshal(first, &reply); err != nil {
		t.Fatal(err)
	}
	found := ok(t, b.ask(subjects.VerbSearch, search(reply.Scope, "order_7")))

	b.worker(Options{})
	if err := b.w.Drain(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := ok(t, b.ask(subjects.VerbSearch, search(reply.Scope, "order_7"))); string(got) != string(found) {
		t.Fatalf("the other worker found\n%s\nnot\n%s", got, found)
	}
	again := ok(t, b.ask(subjects.VerbAssemble, request))
	if withoutExpiry(string(again)) != withoutExpiry(string(first)) {
		t.Fatalf("the other worker assembled\n%.300s\nnot\n%.300s", again, first)
	}
	// A catalog that is named instead of sent gives the same scope.
	named := ok(t, b.ask(subjects.VerbAssemble, fmt.Sprintf(`{"catalog":%q}`, reply.Catalog)))
	if withoutExpiry(string(named)) != withoutExpiry(string(first)) {
		t.Fatalf("the named catalog gave\n%.300s\nnot\n%.300s", named, first)
	}
}

// withoutExpiry is an assemble reply without expires_at.
func withoutExpiry(reply string) string {
	before, rest, _ := strings.Cut(reply, `"expires_at"`)
	_, after, _ := strings.Cut(rest, ",")
	return before + after
}

// Damaged bytes are refused and told, on a worker that has them not in memory, and assembling again heals them.
func TestDamagedBlobs(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"catalog", "scope"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := setup(t, Options{})
			reply := b.assemble(40)
			if err := b.w.Drain(context.Background()); err != nil {
				t.Fatal(err)
			}
			b.w = b.worker(Options{Logger: b.w.log})
			if kind == "catalog" {
				if _, err := b.catalogs().PutString(t.Context(), reply.Catalog, "[]"); err != nil {
					t.Fatal(err)
				}
			} else {
				m := b.scopeMessage(reply.Scope)
				if _, err := b.w.js.Publish(t.Context(), m.Subject, []byte("{}")); err != nil {
					t.Fatal(err)
				}
			}
			e := fails(t, b.ask(subjects.VerbSearch, search(reply.Scope, "order_7")))
			if e.Code != subjects.CodeScopeNotFound || e.Details["reason"] != "digest_mismatch" || !e.Retryable() {
				t.Fatalf("got %v %v", e, e.Details)
			}
			if !b.log.has("ERROR stored bytes do not match their name") {
				t.Fatal("nothing was logged")
			}
			if again := b.assemble(40); again.Scope != reply.Scope {
				t.Fatal("another scope")
			}
			ok(t, b.ask(subjects.VerbSearch, search(reply.Scope, "order_7")))
			// The bytes are there again, not only in this worker's memory.
			scopes, err := storage.NewScopes(b.w.js, b.w.opts.Layout)
			if err != nil {
				t.Fatal(err)
			}
			catalogs, err := storage.NewCatalogs(b.w.js, b.w.opts.Layout)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := scopes.Get(t.Context(), reply.Scope); err != nil {
				t.Error(err)
			}
			if _, err := catalogs.Get(t.Context(), reply.Catalog); err != nil {
				t.Error(err)
			}
		})
	}
}

// What the server has dropped is SCOPE_NOT_FOUND, and a miss is not remembered.
func TestExpired(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{})
	reply := b.assemble(40)
	if err := b.w.Drain(context.Background()); err != nil {
		t.Fatal(err)
	}
	b.w = b.worker(Options{})
	if err := b.stream("OBJ_" + b.w.opts.Layout.CatalogBucket()).Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e := fails(t, b.ask(subjects.VerbSearch, search(reply.Scope, "x"))); e.Code != subjects.CodeScopeNotFound {
		t.Fatalf("without its catalog: %v", e)
	}
	if e := fails(t, b.ask(subjects.VerbAssemble, fmt.Sprintf(`{"catalog":%q}`, reply.Catalog))); e.Code != subjects.CodeCatalogNotFound {
		t.Fatalf("a catalog that is gone: %v", e)
	}
	if err := b.stream("KV_" + b.w.opts.Layout.ScopeBucket()).Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e := fails(t, b.ask(subjects.VerbSearch, search(reply.Scope, "x"))); e.Code != subjects.CodeScopeNotFound {
		t.Fatalf("without its document: %v", e)
	}
	b.assemble(40)
	ok(t, b.ask(subjects.VerbSearch, search(reply.Scope, "x")))
}

// An assemble of blobs older than the bound puts them again; of younger ones it touches nothing.
func TestRenewal(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{Recheck: time.Hour})
	reply := b.assemble(40)
	before := b.scopeMessage(reply.Scope)
	object, err := b.catalogs().GetInfo(t.Context(), reply.Catalog)
	if err != nil {
		t.Fatal(err)
	}
	api := b.apiCalls()
	for range 3 {
		b.assemble(40)
	}
	if n := api(); n != 0 {
		t.Fatalf("repeated assembles asked JetStream %d times", n)
	}
	b.w.shelf.layout.RenewAfter = time.Nanosecond
	again := b.assemble(40)
	if m := b.scopeMessage(reply.Scope); m.Sequence <= before.Sequence || string(m.Data) != string(before.Data) {
		t.Fatalf("the scope was not put again: %d, then %d", before.Sequence, m.Sequence)
	}
	if o, err := b.catalogs().GetInfo(t.Context(), reply.Catalog); err != nil || o.NUID == object.NUID {
		t.Fatalf("the catalog was not put again: %v", err)
	}
	if again.ExpiresAt.Before(reply.ExpiresAt) {
		t.Fatalf("expires at %v, before %v", again.ExpiresAt, reply.ExpiresAt)
	}
	// It may be named instead, too.
	named := ok(t, b.ask(subjects.VerbAssemble, fmt.Sprintf(`{"catalog":%q}`, reply.Catalog)))
	if !strings.Contains(string(named), reply.Scope) {
		t.Fatalf("named: %.200s", named)
	}
}

// apiCalls counts, from now on, what is asked of the buckets of catalogs and scopes and published into them.
func (b *bundle) apiCalls() func() int64 {
	b.t.Helper()
	var n atomic.Int64
	for _, subject := range []string{"$JS.API.>", "$KV.>", "$O.>"} {
		sub, err := b.nc.Subscribe(subject, func(m *nats.Msg) {
			if strings.Contains(m.Subject, b.w.opts.Layout.CatalogBucket()) || strings.Contains(m.Subject, b.w.opts.Layout.ScopeBucket()) {
				n.Add(1)
			}
		})
		if err != nil {
			b.t.Fatal(err)
		}
		b.t.Cleanup(func() { _ = sub.Unsubscribe() })
	}
	if err := b.nc.Flush(); err != nil {
		b.t.Fatal(err)
	}
	return func() int64 {
		b.t.Helper()
		if err := b.nc.Flush(); err != nil {
			b.t.Fatal(err)
		}
		done := make(chan struct{})
		if err := b.nc.Barrier(func() { close(done) }); err != nil {
			b.t.Fatal(err)
		}
		await(b.t, done, "the count")
		return n.Load()
	}
}

// A blob that vanishes although it was known to be stored is put again behind the next assemble.
func TestRecheckHeals(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{Recheck: time.Nanosecond})
	reply := b.assemble(40)
	if err := b.stream("KV_" + b.w.opts.Layout.ScopeBucket()).Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	put := make(chan *nats.Msg, 10)
	sub, err := b.nc.ChanSubscribe("$KV."+b.w.opts.Layout.ScopeBucket()+".>", put)
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe() //nolint:errcheck // the connection closes
	if err := b.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if again := b.assemble(40); again.Scope != reply.Scope {
		t.Fatal("another scope")
	}
	await(t, put, "the scope to be put again")
}

// A thousand equal requests at once read and build each thing once.
func TestHerd(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{Concurrency: 1000, QueueDepth: 1000, TenantShare: 1})
	reply := b.assemble(500)
	if err := b.w.Drain(context.Background()); err != nil {
		t.Fatal(err)
	}
	b.w = b.worker(Options{Concurrency: 1000, QueueDepth: 1000, TenantShare: 1})
	api := b.apiCalls()
	a := b.floodAs("acme", 1000, search(reply.Scope, "order_7"))
	if codes := a.all(t); codes[""] != 1000 {
		t.Fatalf("answers by code: %v", codes)
	}
	// The scope, the catalog's description, and its one chunk.
	if n := api(); n != 3 {
		t.Fatalf("a herd of 1000 asked storage %d times, want 3", n)
	}
}

// A caller who leaves while a cache is being filled ends nothing for the others, and what is filled is kept.
func TestCancelledRequestHarmsNoCache(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{})
	f := b.w.shelf.fill
	working, release := make(chan struct{}), make(chan struct{})
	work := func(ctx context.Context) (any, error) {
		close(working)
		select {
		case <-release:
			return "value", nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	left, leave := context.WithCancel(t.Context())
	type result struct {
		v   any
		err error
	}
	first, second := make(chan result, 1), make(chan result, 1)
	go func() {
		v, err := f.do(left, "key", work)
		first <- result{v, err}
	}()
	await(t, working, "the work to begin")
	go func() {
		v, err := f.do(t.Context(), "key", func(context.Context) (any, error) { return "second", nil })
		second <- result{v, err}
	}()
	leave()
	if r := await(t, first, "the caller who left"); !errors.Is(r.err, context.Canceled) {
		t.Fatalf("the caller who left got %v, %v", r.v, r.err)
	}
	close(release)
	if r := await(t, second, "the caller who stayed"); r.err != nil || r.v != "value" && r.v != "second" {
		t.Fatalf("the caller who stayed got %v, %v", r.v, r.err)
	}

	// The same through the bus: a deadline that passes while the scope is loaded, then a good request.
	reply := b.assemble(40)
	h := nats.Header{subjects.HeaderDeadline: []string{subjects.FormatDeadline(time.Now().Add(-time.Second))}}
	if e := fails(t, b.askAs("acme", "s1", subjects.VerbSearch, h, search(reply.Scope, "x"))); e.Code != subjects.CodeDeadlineExceeded {
		t.Fatalf("a deadline in the past: %v", e)
	}
	ok(t, b.ask(subjects.VerbSearch, search(reply.Scope, "x")))
}

func TestFillErrorsAreNotKept(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{})
	f := b.w.shelf.fill
	if _, err := f.do(t.Context(), "k", func(context.Context) (any, error) { return nil, errors.New("no") }); err == nil || err.Error() != "no" {
		t.Fatalf("got %v", err)
	}
	if v, err := f.do(t.Context(), "k", func(context.Context) (any, error) { return 1, nil }); err != nil || v != 1 {
		t.Fatalf("then %v, %v", v, err)
	}
	_, err := f.do(t.Context(), "k", func(context.Context) (any, error) { panic("boom") })
	if !errors.Is(err, &subjects.Error{Code: subjects.CodeInternal}) || !b.log.has("boom") {
		t.Fatalf("a panic gave %v", err)
	}
}

func TestFillIsBounded(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{})
	f := b.w.shelf.fill
	f.bound = 1
	working, release := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		_, err := f.do(t.Context(), "a", func(context.Context) (any, error) {
			close(working)
			<-release
			return nil, nil
		})
		done <- err
	}()
	await(t, working, "the work to begin")
	_, err := f.do(t.Context(), "b", func(context.Context) (any, error) { return nil, nil })
	var e *subjects.Error
	if !errors.As(err, &e) || e.Code != subjects.CodeOverloaded || e.RetryAfter <= 0 {
		t.Fatalf("more work than the bound: %v", err)
	}
	close(release)
	if err := await(t, done, "the work"); err != nil {
		t.Fatal(err)
	}
}

// A scope leaves memory together with its catalog, and both come back from storage.
func TestCatalogTakesItsScopesAlong(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{})
	reply := b.assemble(40)
	ok(t, b.ask(subjects.VerbSearch, search(reply.Scope, "x")))
	s := b.w.shelf
	if n, _ := s.scopes.usage(); n != 1 {
		t.Fatalf("%d scopes in memory", n)
	}
	s.indexes.remove(reply.Catalog)
	if n, bytes := s.scopes.usage(); n != 0 || bytes != 0 {
		t.Fatalf("%d scopes of %d bytes stay without their catalog", n, bytes)
	}
	ok(t, b.ask(subjects.VerbSearch, search(reply.Scope, "x")))
}

// A catalog over the budget is answered for all the same, and told.
func TestCatalogOverTheBudget(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{CacheBytes: 64 << 10})
	reply := b.assemble(1000)
	ok(t, b.ask(subjects.VerbSearch, search(reply.Scope, "order_7")))
	if n, bytes := b.w.shelf.indexes.usage(); n != 0 || bytes != 0 {
		t.Fatalf("%d catalogs of %d bytes are kept", n, bytes)
	}
	if n, _ := b.w.shelf.scopes.usage(); n != 0 {
		t.Fatalf("%d scopes are kept without their catalog", n)
	}
	if !b.log.has("raise CacheBytes") {
		t.Fatal("nothing was logged")
	}
}

// An assemble request in the place of a handle is used once and stored nowhere.
func TestInlineScope(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{})
	api := b.apiCalls()
	body := fmt.Sprintf(`{"scope":{"tools":%s},"arguments":{"queries":["order_7"]}}`, madeUp(40))
	for range 2 {
		if got := ok(t, b.ask(subjects.VerbSearch, body)); !strings.Contains(string(got), `"matches": ["mcp__shop__order_7"`) {
			t.Fatalf("found %s", got)
		}
	}
	ok(t, b.ask(subjects.VerbDescribe, fmt.Sprintf(`{"scope":{"tools":%s},"arguments":{"names":["mcp__shop__order_7"]}}`, madeUp(40))))
	if n := api(); n != 0 {
		t.Fatalf("storage was asked %d times", n)
	}
	// Nobody can name it afterwards.
	digest := subjects.Digest(madeUp(40))
	if e := fails(t, b.ask(subjects.VerbAssemble, fmt.Sprintf(`{"catalog":%q}`, digest))); e.Code != subjects.CodeCatalogNotFound {
		t.Fatalf("the inline catalog by name: %v", e)
	}
	// Its fields are told with where they stand.
	e := fails(t, b.ask(subjects.VerbSearch, `{"scope":{"tools":[],"surface":5},"arguments":{"queries":["x"]}}`))
	if e.Code != subjects.CodeBadRequest || e.Details["field"] != "scope.surface" {
		t.Fatalf("got %v %v", e, e.Details)
	}
	// It may name a stored catalog.
	stored := b.assemble(40)
	got := ok(t, b.ask(subjects.VerbSearch, fmt.Sprintf(`{"scope":{"catalog":%q},"arguments":{"queries":["order_7"]}}`, stored.Catalog)))
	if !strings.Contains(string(got), "mcp__shop__order_7") {
		t.Fatalf("found %s", got)
	}
}

// The worker's own configuration and core tools stand under a request's.
func TestWorkersConfiguration(t *testing.T) {
	t.Parallel()
	config := catalog.DefaultConfig()
	config.SearchDefaultLimit = 2
	b := setup(t, Options{ToolSearch: &config, CoreTools: []string{"mcp__shop__order_3"}})
	reply := b.assemble(40)
	var found subjects.SearchReply
	if err := json.Unmarshal(ok(t, b.ask(subjects.VerbSearch, search(reply.Scope, "order"))), &found); err != nil {
		t.Fatal(err)
	}
	if n := len(found.Results[0].Matches); n != 2 {
		t.Fatalf("%d matches, want the worker's default of 2", n)
	}
	ok(t, b.ask(subjects.VerbAssemble, fmt.Sprintf(`{"catalog":%q,"config":{"search_default_limit":"many"}}`, reply.Catalog)))
	if !b.log.has("configuration could not be used") || !b.log.has("search_default_limit") {
		t.Fatal("a wrong value was not told")
	}
}
