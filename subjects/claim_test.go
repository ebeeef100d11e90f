package subjects_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"toolsearch/subjects"
)

// newBodies is a claim check of its own connection.
func newBodies(t testing.TB, s *server.Server, o subjects.BodiesOptions, c ...nats.Option) (*subjects.Bodies, jetstream.JetStream) {
	t.Helper()
	if o.Wait == 0 {
		o.Wait = patience // a slow machine is not what is tested
	}
	js, err := jetstream.New(connect(t, s, c...))
	if err != nil {
		t.Fatal(err)
	}
	b, err := subjects.NewBodies(js, o)
	if err != nil {
		t.Fatal(err)
	}
	return b, js
}

func randomBody(n int) []byte {
	p := make([]byte, n)
	rand.Read(p)
	return p
}

func code(err error) subjects.Code {
	var e *subjects.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func TestBodiesRoundTrip(t *testing.T) {
	t.Parallel()
	s := startBus(t)
	b, js := newBodies(t, s, subjects.BodiesOptions{})
	for _, n := range []int{0, 1, 1000, 200_000, 3 << 20} { // no chunk, one, several below a max_payload of 64 KiB
		want := randomBody(n)
		ref, err := b.Put(inTime(t), "acme", want)
		if err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if len(ref.Object) != 32 || ref.Digest != subjects.Digest(want) {
			t.Errorf("%d bytes: stored as %+v, want a name of 128 bits and its digest", n, ref)
		}
		got, err := b.Get(inTime(t), "acme", ref)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: read %d bytes, %v", n, len(got), err)
		}
		if _, err := b.Get(inTime(t), "other", ref); !errors.Is(err, subjects.ErrBodyNotFound) {
			t.Errorf("another tenant's bucket: %v, want not found", err)
		}
	}
	st, err := js.Stream(inTime(t), "OBJ_TOOLSEARCH_BODIES_acme")
	if err != nil {
		t.Fatal(err)
	}
	if c := st.CachedInfo().Config; c.MaxAge != 48*time.Hour || c.AllowDirect || c.Storage != jetstream.FileStorage {
		t.Errorf("bucket: age %v, direct reads %v, storage %v", c.MaxAge, c.AllowDirect, c.Storage)
	}
}

func TestBodiesPutDigestStoresOnce(t *testing.T) {
	t.Parallel()
	b, js := newBodies(t, startBus(t), subjects.BodiesOptions{})
	body := randomBody(10_000)
	first, err := b.PutDigest(inTime(t), "acme", body)
	if err != nil {
		t.Fatal(err)
	}
	messages := func() uint64 {
		st, err := js.Stream(inTime(t), "OBJ_TOOLSEARCH_BODIES_acme")
		if err != nil {
			t.Fatal(err)
		}
		return st.CachedInfo().State.LastSeq
	}
	before := messages()
	again, err := b.PutDigest(inTime(t), "acme", body)
	if err != nil || again != first || "sha256:"+first.Object != first.Digest {
		t.Errorf("again: %+v, %v; want %+v named by its digest", again, err, first)
	}
	if after := messages(); after != before {
		t.Errorf("stored again: sequence %d, was %d", after, before)
	}
}

// Half of the chunks are gone, as after an expiry in mid-object: the read ends with the store's answer, not with a bound.
func TestBodiesIncompleteIsNotFound(t *testing.T) {
	t.Parallel()
	b, js := newBodies(t, startBus(t), subjects.BodiesOptions{Wait: time.Hour})
	ref, err := b.Put(inTime(t), "acme", randomBody(200_000))
	if err != nil {
		t.Fatal(err)
	}
	st, err := js.Stream(inTime(t), "OBJ_TOOLSEARCH_BODIES_acme")
	if err != nil {
		t.Fatal(err)
	}
	chunk, err := st.GetMsg(inTime(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		gone   string
		damage func() error
	}{
		{"one chunk", func() error { return st.DeleteMsg(context.Background(), 2) }},
		{"all chunks", func() error { return st.Purge(context.Background(), jetstream.WithPurgeSubject(chunk.Subject)) }},
	} {
		if err := tc.damage(); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Get(inTime(t), "acme", ref); !errors.Is(err, subjects.ErrBodyNotFound) {
			t.Errorf("%s gone: %v, want not found", tc.gone, err)
		}
	}
}

// A bucket that somebody else made may be read at a replica that lags, so a missing chunk is asked for again. Who gives
// up waiting for it hears of that, and not that the body is gone.
func TestBodiesLaggingReplica(t *testing.T) {
	t.Parallel()
	s := startBus(t)
	b, js := newBodies(t, s, subjects.BodiesOptions{Wait: time.Hour})
	store, err := js.CreateObjectStore(inTime(t), jetstream.ObjectStoreConfig{Bucket: subjects.BodyBucket("acme")})
	if err != nil {
		t.Fatal(err)
	}
	ref, err := b.Put(inTime(t), "acme", randomBody(200_000))
	if err != nil {
		t.Fatal(err)
	}
	info, err := store.GetInfo(inTime(t), ref.Object)
	if err != nil {
		t.Fatal(err)
	}
	st, err := js.Stream(inTime(t), "OBJ_TOOLSEARCH_BODIES_acme")
	if err != nil {
		t.Fatal(err)
	}
	if !st.CachedInfo().Config.AllowDirect {
		t.Fatal("this bucket is not read at replicas")
	}
	chunks := "$O." + subjects.BodyBucket("acme") + ".C." + info.NUID
	if err := st.Purge(inTime(t), jetstream.WithPurgeSubject(chunks)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(inTime(t))
	defer cancel()
	asked := 0
	nc := connect(t, s)
	if _, err := nc.Subscribe("$JS.API.DIRECT.GET.OBJ_TOOLSEARCH_BODIES_acme", func(m *nats.Msg) {
		if strings.Contains(string(m.Data), chunks) {
			if asked++; asked == 3 {
				cancel()
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Get(ctx, "acme", ref); !errors.Is(err, context.Canceled) || errors.Is(err, subjects.ErrBodyNotFound) {
		t.Errorf("got %v, want the end of the context", err)
	}
}

func TestBodiesOtherBytesAreRefused(t *testing.T) {
	t.Parallel()
	b, js := newBodies(t, startBus(t), subjects.BodiesOptions{})
	ref, err := b.Put(inTime(t), "acme", []byte("what was promised"))
	if err != nil {
		t.Fatal(err)
	}
	store, err := js.ObjectStore(inTime(t), subjects.BodyBucket("acme"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.PutBytes(inTime(t), ref.Object, []byte("what was slipped in")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Get(inTime(t), "acme", ref); !errors.Is(err, subjects.ErrBodyDigest) {
		t.Errorf("got %v, want ErrBodyDigest", err)
	}
	h := nats.Header{}
	ref.Set(h)
	if _, err := b.Unpack(inTime(t), "acme", h, nil); code(err) != subjects.CodeBadRequest {
		t.Errorf("unpacked: %v, want BAD_REQUEST", err)
	}
}

func TestUnpack(t *testing.T) {
	t.Parallel()
	b, js := newBodies(t, startBus(t), subjects.BodiesOptions{Limit: 1000})
	big, err := subjects.NewBodies(js, subjects.BodiesOptions{})
	if err != nil {
		t.Fatal(err)
	}
	large, err := big.Put(inTime(t), "acme", randomBody(1001))
	if err != nil {
		t.Fatal(err)
	}
	some := subjects.Digest([]byte("x"))
	for _, tc := range []struct {
		name   string
		header nats.Header
		want   subjects.Code
		field  any
	}{
		{"nothing there", nats.Header{"Toolsearch-Object": {"none"}, "Toolsearch-Digest": {some}}, subjects.CodeBadRequest, "Toolsearch-Object"},
		{"a name that is too long", nats.Header{"Toolsearch-Object": {strings.Repeat("n", 300)}, "Toolsearch-Digest": {some}}, subjects.CodeBadRequest, "Toolsearch-Object"},
		{"no digest", nats.Header{"Toolsearch-Object": {"none"}}, subjects.CodeBadRequest, "Toolsearch-Digest"},
		{"a digest of another kind", nats.Header{"Toolsearch-Object": {"none"}, "Toolsearch-Digest": {"md5:00"}}, subjects.CodeBadRequest, "Toolsearch-Digest"},
		{"a digest in capitals", nats.Header{"Toolsearch-Object": {"none"}, "Toolsearch-Digest": {"sha256:" + strings.Repeat("AB", 32)}}, subjects.CodeBadRequest, "Toolsearch-Digest"},
		{"over the bound", nats.Header{"Toolsearch-Object": {large.Object}, "Toolsearch-Digest": {large.Digest}}, subjects.CodeTooLarge, nil},
	} {
		_, err := b.Unpack(inTime(t), "acme", tc.header, nil)
		var e *subjects.Error
		if !errors.As(err, &e) || e.Code != tc.want || e.Details["field"] != tc.field {
			t.Errorf("%s: %v, want %s of %v", tc.name, err, tc.want, tc.field)
		}
	}
	if got, err := b.Unpack(inTime(t), "acme", nats.Header{}, []byte("own")); err != nil || string(got) != "own" {
		t.Errorf("a message with its own body: %q, %v", got, err)
	}
	if _, err := b.Put(inTime(t), "acme", randomBody(1001)); code(err) != subjects.CodeTooLarge {
		t.Errorf("stored over the bound: %v", err)
	}
}

// A body travels in its message as long as headers and body fit, whatever the headers are.
func TestPackAtTheEdge(t *testing.T) {
	t.Parallel()
	s := startBus(t)
	nc := connect(t, s)
	b, _ := newBodies(t, s, subjects.BodiesOptions{})
	limit := int(nc.MaxPayload())
	for _, tc := range []struct {
		name    string
		body    int
		header  int
		claimed bool
	}{
		{"small", 100, 0, false},
		{"just below", limit - 2048, 0, false},
		{"at the limit", limit, 0, true},
		{"headers push it over", limit - 2048, 4096, true},
	} {
		h := nats.Header{}
		if tc.header > 0 {
			h.Set("X", strings.Repeat("x", tc.header))
		}
		body := randomBody(tc.body)
		data, err := b.Pack(inTime(t), "acme", h, body)
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if _, claimed := subjects.RefOf(h); claimed != tc.claimed || claimed == (data != nil) {
			t.Errorf("%s: claimed %v, %d bytes stay", tc.name, claimed, len(data))
		}
		if err := nc.PublishMsg(&nats.Msg{Subject: "x", Header: h, Data: data}); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		if got, err := b.Unpack(inTime(t), "acme", h, data); err != nil || !bytes.Equal(got, body) {
			t.Errorf("%s: read back %d bytes, %v", tc.name, len(got), err)
		}
	}
}

// Who must not use the store gets TOO_LARGE, which names the way out, and gets it long before the store's own bound.
func TestPackWithoutAStore(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*server.Options)
		opts   []nats.Option
	}{
		"no JetStream": {change: func(o *server.Options) { o.JetStream = false }},
		"no permission": {
			change: func(o *server.Options) {
				o.Users = []*server.User{{Username: "u", Password: "p", Permissions: &server.Permissions{
					Publish: &server.SubjectPermission{Allow: []string{"toolsearch.v1.req.acme.s1.*"}},
				}}}
			},
			opts: []nats.Option{nats.UserInfo("u", "p"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, _ := newBodies(t, startBus(t, tc.change), subjects.BodiesOptions{Wait: time.Hour}, tc.opts...)
			_, err := b.Pack(inTime(t), "acme", nats.Header{}, randomBody(100_000))
			if code(err) != subjects.CodeTooLarge || !errors.Is(err, subjects.ErrNoBodyStore) || !strings.Contains(err.Error(), "TOOLSEARCH_BODIES_acme") {
				t.Errorf("got %v, want TOO_LARGE that names the bucket", err)
			}
		})
	}
}

// The worker brings a bucket that a client made first to its own options, and both go on using it.
func TestEnsure(t *testing.T) {
	t.Parallel()
	s := startBus(t)
	client, _ := newBodies(t, s, subjects.BodiesOptions{})
	ref, err := client.Put(inTime(t), "acme", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	w, js := newBodies(t, s, subjects.BodiesOptions{MaxBytes: 1 << 20})
	for range 2 {
		if err := w.Ensure(inTime(t), "acme"); err != nil {
			t.Fatal(err)
		}
	}
	st, err := js.Stream(inTime(t), "OBJ_TOOLSEARCH_BODIES_acme")
	if err != nil || st.CachedInfo().Config.MaxBytes != 1<<20 {
		t.Errorf("%v, %v", st.CachedInfo().Config, err)
	}
	if got, err := client.Get(inTime(t), "acme", ref); err != nil || string(got) != "x" {
		t.Errorf("%q, %v", got, err)
	}
	// A bucket that was removed under an open handle is made again.
	if err := js.DeleteStream(inTime(t), "OBJ_TOOLSEARCH_BODIES_acme"); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Get(inTime(t), "acme", ref); !errors.Is(err, subjects.ErrBodyNotFound) {
		t.Errorf("read from a removed bucket: %v", err)
	}
	if _, err := client.Put(inTime(t), "acme", []byte("y")); err != nil {
		t.Errorf("stored after a removal: %v", err)
	}
}

func TestBodiesOptions(t *testing.T) {
	t.Parallel()
	js, err := jetstream.New(connect(t, startBus(t)))
	if err != nil {
		t.Fatal(err)
	}
	for field, o := range map[string]subjects.BodiesOptions{
		"Limit": {Limit: -1}, "Age": {Age: -1}, "Replicas": {Replicas: 6}, "Wait": {Wait: -1},
	} {
		if _, err := subjects.NewBodies(js, o); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%+v: %v, want an error that names %s", o, err, field)
		}
	}
	if _, err := subjects.NewBodies(nil, subjects.BodiesOptions{}); err == nil {
		t.Error("made without JetStream")
	}
}
