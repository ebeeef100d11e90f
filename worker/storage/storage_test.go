package storage

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"toolsearch/subjects"
	"toolsearch/worker/embedded"
)

// patience is more than any step of a test needs, on however slow a machine.
const patience = 90 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type bundle struct {
	js       jetstream.JetStream
	layout   Layout
	catalogs *Catalogs
	scopes   *Scopes
}

func setup(t *testing.T, l Layout) *bundle {
	t.Helper()
	if l.ReadTimeout == 0 {
		l.ReadTimeout = patience // a slow machine is not what is tested
	}
	bus, err := embedded.Start(embedded.Options{Port: embedded.InProcessOnly, StartTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bus.Shutdown)
	nc, err := nats.Connect("", bus.InProcess(), nats.Timeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := Ensure(t.Context(), js, l); err != nil {
		t.Fatal(err)
	}
	catalogs, err := NewCatalogs(js, l)
	if err != nil {
		t.Fatal(err)
	}
	scopes, err := NewScopes(js, l)
	if err != nil {
		t.Fatal(err)
	}
	return &bundle{js: js, layout: l, catalogs: catalogs, scopes: scopes}
}

// blob makes n bytes that do not compress to nothing and span several chunks when n is large.
func blob(n int, seed byte) []byte {
	out := make([]byte, n)
	x := uint32(seed) + 1
	for i := range out {
		x = x*1664525 + 1013904223
		out[i] = byte(x >> 24)
	}
	return out
}

func TestCatalogRoundTrip(t *testing.T) {
	t.Parallel()
	b := setup(t, Layout{})
	for _, n := range []int{0, 1, 512 << 10, 3<<20 + 7} {
		body := blob(n, byte(n))
		name := subjects.Digest(body)
		if _, err := b.catalogs.Get(t.Context(), name); !errors.Is(err, ErrNotFound) {
			t.Fatalf("before the put: %v", err)
		}
		if _, err := b.catalogs.Stat(t.Context(), name); !errors.Is(err, ErrNotFound) {
			t.Fatalf("before the put: %v", err)
		}
		before := time.Now()
		at, err := b.catalogs.Put(t.Context(), name, body)
		if err != nil || at.Before(before) {
			t.Fatalf("put at %v (began %v): %v", at, before, err)
		}
		got, err := b.catalogs.Get(t.Context(), name)
		if err != nil || !bytes.Equal(got.Bytes, body) {
			t.Fatalf("%d bytes came back as %d: %v", n, len(got.Bytes), err)
		}
		stat, err := b.catalogs.Stat(t.Context(), name)
		if err != nil || !stat.Equal(got.At) || stat.Before(before.Add(-time.Second)) {
			t.Fatalf("stat %v, get %v, put began %v: %v", stat, got.At, before, err)
		}
		// What the standard object store reads is the same.
		obs, err := b.js.ObjectStore(t.Context(), b.layout.CatalogBucket())
		if err != nil {
			t.Fatal(err)
		}
		if plain, err := obs.GetBytes(t.Context(), name); err != nil || !bytes.Equal(plain, body) {
			t.Fatalf("as an object: %d bytes, %v", len(plain), err)
		}
	}
}

func TestCatalogPutAgainRenews(t *testing.T) {
	t.Parallel()
	b := setup(t, Layout{})
	body := blob(1<<20, 1)
	name := subjects.Digest(body)
	if _, err := b.catalogs.Put(t.Context(), name, body); err != nil {
		t.Fatal(err)
	}
	first, err := b.catalogs.Stat(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.catalogs.Put(t.Context(), name, body); err != nil {
		t.Fatal(err)
	}
	second, err := b.catalogs.Stat(t.Context(), name)
	if err != nil || !second.After(first) {
		t.Fatalf("stored %v, then %v: %v", first, second, err)
	}
	s, err := b.js.Stream(t.Context(), "OBJ_"+b.layout.CatalogBucket())
	if err != nil {
		t.Fatal(err)
	}
	if got := s.CachedInfo().State.Msgs; got != 3 {
		t.Fatalf("%d messages are stored, want 2 chunks and a description: the old chunks stayed", got)
	}
}

func TestCatalogWrongName(t *testing.T) {
	t.Parallel()
	b := setup(t, Layout{})
	name := subjects.Digest([]byte("others"))
	if _, err := b.catalogs.Put(t.Context(), name, []byte("bytes")); !errors.Is(err, ErrName) {
		t.Fatalf("bytes under another name: %v", err)
	}
	if _, err := b.catalogs.Get(t.Context(), name); !errors.Is(err, ErrNotFound) {
		t.Fatalf("they stayed: %v", err)
	}
	for _, name := range []string{"", "sha256:", "sha256:" + strings.Repeat("A", 64), "x", "sha256:" + strings.Repeat("a", 63) + "."} {
		if _, err := b.catalogs.Get(t.Context(), name); !errors.Is(err, ErrName) {
			t.Errorf("catalog %q: %v", name, err)
		}
		if _, err := b.scopes.Get(t.Context(), name); !errors.Is(err, ErrName) {
			t.Errorf("scope %q: %v", name, err)
		}
	}
}

func TestCatalogDamaged(t *testing.T) {
	t.Parallel()
	b := setup(t, Layout{ReadTimeout: time.Hour})
	body := blob(2<<20, 1)
	name := subjects.Digest(body)
	obs, err := b.js.ObjectStore(t.Context(), b.layout.CatalogBucket())
	if err != nil {
		t.Fatal(err)
	}
	put := func() {
		t.Helper()
		if _, err := b.catalogs.Put(t.Context(), name, body); err != nil {
			t.Fatal(err)
		}
	}
	healed := func() {
		t.Helper()
		if _, err := b.catalogs.Stat(t.Context(), name); !errors.Is(err, ErrNotFound) {
			t.Fatalf("the damaged catalog still stands: %v", err)
		}
		put()
		if got, err := b.catalogs.Get(t.Context(), name); err != nil || !bytes.Equal(got.Bytes, body) {
			t.Fatalf("put again: %v", err)
		}
	}

	t.Run("other bytes under the name", func(t *testing.T) {
		if _, err := obs.PutBytes(t.Context(), name, []byte("forged")); err != nil {
			t.Fatal(err)
		}
		var bad *DigestError
		if _, err := b.catalogs.Stat(t.Context(), name); !errors.As(err, &bad) || !errors.Is(err, ErrNotFound) {
			t.Fatalf("stat: %v", err)
		}
		if _, err := b.catalogs.Get(t.Context(), name); !errors.As(err, &bad) || bad.Have != subjects.Digest([]byte("forged")) {
			t.Fatalf("get: %v", err)
		}
		healed()
	})
	t.Run("one chunk changed", func(t *testing.T) {
		info, err := obs.GetInfo(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := b.js.Stream(t.Context(), "OBJ_"+b.layout.CatalogBucket())
		if err != nil {
			t.Fatal(err)
		}
		chunks := "$O." + b.layout.CatalogBucket() + ".C." + info.NUID
		if err := s.Purge(t.Context(), jetstream.WithPurgeSubject(chunks)); err != nil {
			t.Fatal(err)
		}
		for range info.Chunks {
			if _, err := b.js.Publish(t.Context(), chunks, blob(512<<10, 99)); err != nil {
				t.Fatal(err)
			}
		}
		var bad *DigestError
		if _, err := b.catalogs.Get(t.Context(), name); !errors.As(err, &bad) {
			t.Fatalf("get: %v", err)
		}
		healed()
	})
	t.Run("chunks gone", func(t *testing.T) {
		info, err := obs.GetInfo(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := b.js.Stream(t.Context(), "OBJ_"+b.layout.CatalogBucket())
		if err != nil {
			t.Fatal(err)
		}
		chunks := "$O." + b.layout.CatalogBucket() + ".C." + info.NUID
		if err := s.Purge(t.Context(), jetstream.WithPurgeSubject(chunks), jetstream.WithPurgeKeep(1)); err != nil {
			t.Fatal(err)
		}
		_, err = b.catalogs.Get(t.Context(), name) // does not wait an hour for what never comes
		var bad *DigestError
		if !errors.Is(err, ErrNotFound) || errors.As(err, &bad) {
			t.Fatalf("get: %v", err)
		}
		healed()
	})
}

// A description may claim any size; what is not there takes no memory.
func TestCatalogClaimsMoreThanThereIs(t *testing.T) { //nolint:paralleltest // it measures what is allocated
	b := setup(t, Layout{})
	name := subjects.Digest([]byte("x"))
	at := func(kind, rest string) string { return "$O." + b.layout.CatalogBucket() + "." + kind + "." + rest }
	if _, err := b.js.Publish(t.Context(), at("C", "one"), []byte("x")); err != nil {
		t.Fatal(err)
	}
	info := fmt.Sprintf(`{"name":%q,"nuid":"one","size":%d,"chunks":1}`, name, uint64(1)<<50)
	if _, err := b.js.Publish(t.Context(), at("M", base64.URLEncoding.EncodeToString([]byte(name))), []byte(info)); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if got, err := b.catalogs.Get(t.Context(), name); err != nil || string(got.Bytes) != "x" {
		t.Errorf("got %d bytes, %v", len(got.Bytes), err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 256<<20 {
		t.Errorf("%d MiB for one byte", n>>20)
	}
}

func TestScopeRoundTrip(t *testing.T) {
	t.Parallel()
	b := setup(t, Layout{})
	doc := []byte(`{"tenant":"a"}`)
	handle := subjects.Digest(doc)
	if _, err := b.scopes.Get(t.Context(), handle); !errors.Is(err, ErrNotFound) {
		t.Fatalf("before the put: %v", err)
	}
	if _, err := b.scopes.Put(t.Context(), handle, []byte("other")); !errors.Is(err, ErrName) {
		t.Fatalf("bytes under another name: %v", err)
	}
	if _, err := b.scopes.Put(t.Context(), handle, doc); err != nil {
		t.Fatal(err)
	}
	got, err := b.scopes.Get(t.Context(), handle)
	if err != nil || !bytes.Equal(got.Bytes, doc) {
		t.Fatalf("%q: %v", got.Bytes, err)
	}
	kv, err := b.js.KeyValue(t.Context(), b.layout.ScopeBucket())
	if err != nil {
		t.Fatal(err)
	}
	key := strings.TrimPrefix(handle, "sha256:")
	if e, err := kv.Get(t.Context(), key); err != nil || !bytes.Equal(e.Value(), doc) {
		t.Fatalf("as a key: %v", err)
	}
	if _, err := kv.Put(t.Context(), key, []byte("forged")); err != nil {
		t.Fatal(err)
	}
	var bad *DigestError
	if _, err := b.scopes.Stat(t.Context(), handle); !errors.As(err, &bad) || !errors.Is(err, ErrNotFound) {
		t.Fatalf("forged: %v", err)
	}
	if err := kv.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if _, err := b.scopes.Get(t.Context(), handle); !errors.Is(err, ErrNotFound) || errors.As(err, &bad) {
		t.Fatalf("deleted: %v", err)
	}
}

// A replica that lags answers "no such message"; the leader then has the last word.
func TestMissIsConfirmedAtTheLeader(t *testing.T) {
	t.Parallel()
	b := setup(t, Layout{})
	nc := b.js.Conn()
	doc := []byte("doc")
	handle := subjects.Digest(doc)
	if _, err := b.scopes.Put(t.Context(), handle, doc); err != nil {
		t.Fatal(err)
	}
	body := blob(1<<20, 3)
	name := subjects.Digest(body)
	if _, err := b.catalogs.Put(t.Context(), name, body); err != nil {
		t.Fatal(err)
	}
	// The API under another prefix, where direct gets are answered by a replica that has nothing and reads at the
	// leader are passed on.
	lag, err := nc.Subscribe("LAG.DIRECT.GET.*", func(m *nats.Msg) {
		_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": []string{"404"}}})
	})
	if err != nil {
		t.Fatal(err)
	}
	defer lag.Unsubscribe() //nolint:errcheck // the connection closes
	pass, err := nc.Subscribe("LAG.STREAM.MSG.GET.*", func(m *nats.Msg) {
		r, err := nc.Request("$JS.API."+strings.TrimPrefix(m.Subject, "LAG."), m.Data, patience)
		if err == nil {
			_ = m.Respond(r.Data)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer pass.Unsubscribe() //nolint:errcheck // the connection closes
	js, err := jetstream.NewWithAPIPrefix(nc, "LAG")
	if err != nil {
		t.Fatal(err)
	}
	scopes, err := NewScopes(js, b.layout)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := scopes.Get(t.Context(), handle); err != nil || !bytes.Equal(got.Bytes, doc) {
		t.Fatalf("scope: %q, %v", got.Bytes, err)
	}
	catalogs, err := NewCatalogs(js, b.layout)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := catalogs.Get(t.Context(), name); err != nil || !bytes.Equal(got.Bytes, body) {
		t.Fatalf("catalog: %d bytes, %v", len(got.Bytes), err)
	}
	if _, err := catalogs.Stat(t.Context(), name); err != nil {
		t.Fatalf("catalog's description: %v", err)
	}
}

// A server that does not answer costs the read's own bound, whatever the caller would wait, and is not "not found".
func TestReadIsBounded(t *testing.T) {
	t.Parallel()
	b := setup(t, Layout{})
	nc := b.js.Conn()
	silent, err := nc.SubscribeSync("MUTE.>")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Unsubscribe() //nolint:errcheck // the connection closes
	js, err := jetstream.NewWithAPIPrefix(nc, "MUTE")
	if err != nil {
		t.Fatal(err)
	}
	l := b.layout
	l.ReadTimeout = 20 * time.Millisecond
	scopes, err := NewScopes(js, l)
	if err != nil {
		t.Fatal(err)
	}
	_, err = scopes.Get(t.Context(), subjects.Digest(nil))
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrNotFound) {
		t.Fatalf("got %v", err)
	}
}

func TestEnsureIsIdempotent(t *testing.T) {
	t.Parallel()
	l := Layout{}
	b := setup(t, l)
	for range 2 {
		if err := Ensure(t.Context(), b.js, l); err != nil {
			t.Fatal(err)
		}
	}
	if d, err := Drift(t.Context(), b.js, l); err != nil || len(d) != 0 {
		t.Fatalf("drift %v: %v", d, err)
	}
}

func TestEnsureSideBySide(t *testing.T) {
	t.Parallel()
	b := setup(t, Layout{})
	errs := make(chan error)
	l := Layout{Root: "other.root"}
	for range 8 {
		go func() { errs <- Ensure(context.WithoutCancel(t.Context()), b.js, l) }()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestDrift(t *testing.T) {
	t.Parallel()
	l := Layout{}
	b := setup(t, l)
	name := "OBJ_" + l.CatalogBucket()
	s, err := b.js.Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	cfg.MaxAge = time.Hour
	cfg.MaxBytes = 1 << 30
	if _, err := b.js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if err := b.js.DeleteStream(t.Context(), "KV_"+l.ScopeBucket()); err != nil {
		t.Fatal(err)
	}
	d, err := Drift(t.Context(), b.js, l)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("[stream %s: max_age is 1h0m0s, want 48h0m0s stream KV_%s is missing]", name, l.ScopeBucket())
	if got := fmt.Sprint(d); got != want {
		t.Fatalf("drift\n%s\nwant\n%s", got, want)
	}
	if err := Ensure(t.Context(), b.js, l); err != nil {
		t.Fatal(err)
	}
	if d, err := Drift(t.Context(), b.js, l); err != nil || len(d) != 0 {
		t.Fatalf("drift after it was mended: %v, %v", d, err)
	}
	if s, err = b.js.Stream(t.Context(), name); err != nil || s.CachedInfo().Config.MaxBytes != 1<<30 {
		t.Fatalf("the operator's limit was lost: %v", err)
	}
}

func TestDriftThatCannotBeMended(t *testing.T) {
	t.Parallel()
	b := setup(t, Layout{})
	err := Ensure(t.Context(), b.js, Layout{Storage: jetstream.MemoryStorage})
	var drift *DriftError
	if !errors.As(err, &drift) || !strings.Contains(err.Error(), "storage is File, want Memory") {
		t.Fatalf("got %v", err)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	if got := (Layout{}).CatalogBucket(); got != "TOOLSEARCH_CATALOGS" {
		t.Errorf("under the default root: %q", got)
	}
	seen := map[string]subjects.Root{}
	for _, r := range []subjects.Root{"a.b", "a_b", "a-b", "toolsearch.v2", "toolsearch.v1"} {
		n := Layout{Root: r}.ScopeBucket()
		if !subjects.ValidToken(n) {
			t.Errorf("%q makes %q", r, n)
		}
		if other, ok := seen[n]; ok {
			t.Errorf("%q and %q share %q", r, other, n)
		}
		seen[n] = r
	}
}

func TestLayoutValidate(t *testing.T) {
	t.Parallel()
	for field, l := range map[string]Layout{
		"Root":         {Root: "a..b"},
		"Replicas":     {Replicas: 6},
		"BlobAge":      {BlobAge: -1},
		"RenewAfter":   {BlobAge: time.Hour, RenewAfter: time.Hour},
		"ReadTimeout":  {ReadTimeout: -1},
		"WriteTimeout": {WriteTimeout: -1},
	} {
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), "Layout."+field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
