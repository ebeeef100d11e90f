package subjects

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// DefaultBodyLimit is the largest body that travels by claim check: a catalog of 64 MiB and 8 MiB for what stands
	// around it.
	DefaultBodyLimit = 72 << 20
	// DefaultBodyAge is how long a body stays in its bucket.
	DefaultBodyAge = 48 * time.Hour

	bodyWait     = 2 * time.Second // own bound of storing or reading a small body
	bodyWaitMiB  = 2 * time.Second // and what each MiB adds to it: a busy server is slow, not gone
	bodyChunk    = 128 << 10       // size of a stored chunk, smaller where max_payload asks for it
	bodyHeadroom = 1 << 10         // left free below max_payload for headers that are added after the decision
	bodyNameMax  = 256             // longest object name that is looked up
	bodyBuckets  = 256             // buckets whose handle is kept
)

var (
	// ErrBodyNotFound: the object that a message names is not in the store, or is incomplete there.
	ErrBodyNotFound = errors.New("subjects: the body is not in the object store")
	// ErrBodyDigest: the stored bytes are not those that the message's digest names.
	ErrBodyDigest = errors.New("subjects: the stored body does not match its digest")
	// ErrNoBodyStore: this connection has no object store for bodies, or no permission to use it.
	ErrNoBodyStore = errors.New("subjects: no object store for large bodies on this connection")
)

// BodiesOptions configures [Bodies]. The zero value is ready for use.
type BodiesOptions struct {
	// Limit is the largest body in bytes; 0 is [DefaultBodyLimit].
	Limit int64
	// Age is how long a stored body lives; 0 is [DefaultBodyAge].
	Age time.Duration
	// Replicas and Storage are those of a bucket that is created here; 0 is one replica on file.
	Replicas int
	Storage  jetstream.StorageType
	// MaxBytes bounds one tenant's bucket; 0 is unbounded.
	MaxBytes int64
	// Wait bounds storing or reading a small body, whatever the context allows; 0 is 2 s. Each MiB adds 2 s.
	Wait time.Duration
}

func (o BodiesOptions) withDefaults() BodiesOptions {
	if o.Limit == 0 {
		o.Limit = DefaultBodyLimit
	}
	if o.Age == 0 {
		o.Age = DefaultBodyAge
	}
	if o.Replicas == 0 {
		o.Replicas = 1
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = -1
	}
	if o.Wait == 0 {
		o.Wait = bodyWait
	}
	return o
}

func (o BodiesOptions) validate() error {
	switch {
	case o.Limit < 0:
		return errors.New("subjects: BodiesOptions.Limit must not be negative")
	case o.Age < 0:
		return errors.New("subjects: BodiesOptions.Age must not be negative")
	case o.Replicas < 0 || o.Replicas > 5:
		return errors.New("subjects: BodiesOptions.Replicas must be 0 to 5")
	case o.Wait < 0:
		return errors.New("subjects: BodiesOptions.Wait must not be negative")
	}
	return nil
}

// Bodies is the claim check: a body over the server's max_payload goes to the object store bucket of its tenant, and
// the message carries the object's name and digest in [HeaderObject] and [HeaderDigest]. Client and worker share it.
// It is safe for concurrent use and starts no goroutine.
//
// Inside a tenant the bucket is no fence between sessions: a name of 128 random bits is all that keeps a body from
// another session that may read the bucket. A session that has no permission on it gets TOO_LARGE for large bodies.
//
// The permission is, for tenant acme: publish to $O.TOOLSEARCH_BODIES_acme.>, and to $JS.API.STREAM.INFO.S and
// $JS.API.STREAM.MSG.GET.S, where S is OBJ_TOOLSEARCH_BODIES_acme. $JS.API.STREAM.CREATE.S is needed only where no
// worker has made the bucket yet.
type Bodies struct {
	js   jetstream.JetStream
	opts BodiesOptions
	open *lru.Cache[string, jetstream.Stream] // by tenant
}

// Ref names a stored body.
type Ref struct {
	Object string // the object's name in [BodyBucket]
	Digest string // "sha256:<hex>" of its bytes
}

// RefOf reads the reference in h; ok is false where the message carries its own body.
func RefOf(h nats.Header) (r Ref, ok bool) {
	r = Ref{Object: h.Get(HeaderObject), Digest: h.Get(HeaderDigest)}
	return r, r.Object != ""
}

// Set writes the reference into h.
func (r Ref) Set(h nats.Header) {
	h.Set(HeaderObject, r.Object)
	h.Set(HeaderDigest, r.Digest)
}

// BodyBucket is the name of a tenant's bucket, TOOLSEARCH_BODIES_<tenant>.
func BodyBucket(tenant string) string { return "TOOLSEARCH_BODIES_" + tenant }

// NewBodies makes a claim check over js. It talks to no server yet.
func NewBodies(js jetstream.JetStream, o BodiesOptions) (*Bodies, error) {
	if js == nil {
		return nil, errors.New("subjects: NewBodies needs a JetStream context")
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	open, err := lru.New[string, jetstream.Stream](bodyBuckets)
	if err != nil {
		return nil, err
	}
	return &Bodies{js: js, opts: o.withDefaults(), open: open}, nil
}

// Limit is the largest body in bytes.
func (b *Bodies) Limit() int64 { return b.opts.Limit }

// Ensure creates the tenant's bucket, or brings it to the options given. It is idempotent.
func (b *Bodies) Ensure(ctx context.Context, tenant string) error {
	ctx, cancel := b.bounded(ctx, tenant, b.opts.Wait)
	defer cancel()
	_, err := b.js.CreateOrUpdateStream(ctx, b.stream(tenant))
	return b.storeError(ctx, err)
}

// stream is the bucket's stream as an object store expects it, but for direct gets: a body is read once, right after
// it was written, so it is read at the leader and never at a replica that lags.
func (b *Bodies) stream(tenant string) jetstream.StreamConfig {
	bucket := BodyBucket(tenant)
	return jetstream.StreamConfig{
		Name:        "OBJ_" + bucket,
		Description: "toolsearch: bodies over max_payload of tenant " + tenant,
		Subjects:    []string{"$O." + bucket + ".C.>", "$O." + bucket + ".M.>"},
		MaxAge:      b.opts.Age,
		MaxBytes:    b.opts.MaxBytes,
		Storage:     b.opts.Storage,
		Replicas:    b.opts.Replicas,
		Discard:     jetstream.DiscardNew,
		AllowRollup: true,
	}
}

// Put stores body under a random name. The bucket is created where it is missing.
func (b *Bodies) Put(ctx context.Context, tenant string, body []byte) (Ref, error) {
	var name [16]byte
	rand.Read(name[:]) //nolint:errcheck // documented never to fail
	return b.put(ctx, tenant, hex.EncodeToString(name[:]), body)
}

// PutDigest stores body under its digest, so that equal bodies are stored once. A copy older than half the age is
// stored again, so that what is returned lives at least that long.
func (b *Bodies) PutDigest(ctx context.Context, tenant string, body []byte) (Ref, error) {
	ref := Ref{Digest: Digest(body)}
	ref.Object = strings.TrimPrefix(ref.Digest, "sha256:")
	ctx, cancel := b.bounded(ctx, tenant, b.wait(len(body)))
	defer cancel()
	if store, err := b.bucket(ctx, tenant, false); err == nil {
		info, err := describeObject(ctx, store, tenant, ref.Object)
		if err == nil && info.Size == uint64(len(body)) && time.Since(info.ModTime) < b.opts.Age/2 {
			return ref, nil
		}
	}
	return b.put(ctx, tenant, ref.Object, body)
}

func (b *Bodies) put(ctx context.Context, tenant, name string, body []byte) (Ref, error) {
	if int64(len(body)) > b.opts.Limit {
		return Ref{}, b.tooLarge(int64(len(body)))
	}
	ctx, cancel := b.bounded(ctx, tenant, b.wait(len(body)))
	defer cancel()
	for again := false; ; again = true {
		_, err := b.bucket(ctx, tenant, true)
		if err == nil {
			if err = b.write(ctx, tenant, name, body); err == nil {
				return Ref{Object: name, Digest: Digest(body)}, nil
			}
			b.open.Remove(tenant)
		}
		if again || !bucketGone(err) {
			return Ref{}, b.storeError(ctx, err)
		}
	}
}

// write stores an object in the format of NATS object stores, chunk by chunk and then its description. The client
// library's own Put leaves a goroutine behind now and then and purges what it replaces under whoever reads it; here
// replaced chunks end with their age.
func (b *Bodies) write(ctx context.Context, tenant, name string, body []byte) error {
	bucket, id, size := BodyBucket(tenant), NewCallID(), b.chunk()
	info := jetstream.ObjectInfo{
		ObjectMeta: jetstream.ObjectMeta{Name: name, Opts: &jetstream.ObjectMetaOptions{ChunkSize: uint32(size)}},
		Bucket:     bucket, NUID: id, Size: uint64(len(body)),
	}
	for chunk := range slices.Chunk(body, size) {
		if _, err := b.js.Publish(ctx, "$O."+bucket+".C."+id, chunk); err != nil {
			return err
		}
		info.Chunks++
	}
	sum := sha256.New()
	sum.Write(body)
	info.Digest = jetstream.GetObjectDigestValue(sum)
	p, err := json.Marshal(info)
	if err != nil {
		return err
	}
	_, err = b.js.PublishMsg(ctx, &nats.Msg{
		Subject: metaSubject(tenant, name), Data: p,
		Header: nats.Header{jetstream.MsgRollup: []string{jetstream.MsgRollupSubject}},
	})
	return err
}

// chunk keeps a chunk and its headers below max_payload.
func (b *Bodies) chunk() int {
	limit := b.js.Conn().MaxPayload()
	if limit <= 0 || limit > 2*bodyChunk {
		return bodyChunk
	}
	return int(max(limit/2, 1))
}

// Get reads a stored body and verifies its digest. It fails with [ErrBodyNotFound], [ErrBodyDigest],
// [ErrNoBodyStore], an [Error] with TOO_LARGE, or what kept the store from answering.
func (b *Bodies) Get(ctx context.Context, tenant string, r Ref) ([]byte, error) {
	if len(r.Object) > bodyNameMax {
		return nil, fmt.Errorf("%w: its name is over %d bytes", ErrBodyNotFound, bodyNameMax)
	}
	bounded, cancel := b.bounded(ctx, tenant, b.opts.Wait)
	defer cancel()
	store, err := b.bucket(bounded, tenant, false)
	if err != nil {
		if bucketGone(err) {
			return nil, ErrBodyNotFound
		}
		return nil, b.storeError(bounded, err)
	}
	info, err := describeObject(bounded, store, tenant, r.Object)
	switch {
	case errors.Is(err, ErrBodyNotFound):
		return nil, err
	case err != nil:
		b.open.Remove(tenant)
		if bucketGone(err) {
			return nil, ErrBodyNotFound
		}
		return nil, b.storeError(bounded, err)
	case info.Size > uint64(b.opts.Limit):
		return nil, b.tooLarge(int64(min(info.Size, 1<<62)))
	}
	reading, cancel := context.WithTimeout(ctx, b.wait(int(info.Size)))
	defer cancel()
	body, err := readObject(reading, store, info)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err() // the caller's end says nothing of the body
	case err != nil:
		return nil, err
	case Digest(body) != r.Digest:
		return nil, ErrBodyDigest
	}
	return body, nil
}

// describeObject reads what the store says of an object.
func describeObject(ctx context.Context, store jetstream.Stream, tenant, name string) (*jetstream.ObjectInfo, error) {
	m, err := store.GetLastMsgForSubject(ctx, metaSubject(tenant, name))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, ErrBodyNotFound
	}
	if err != nil {
		return nil, err
	}
	info := new(jetstream.ObjectInfo)
	if err := json.Unmarshal(m.Data, info); err != nil || info.Deleted || !ValidToken(info.NUID) {
		return nil, ErrBodyNotFound
	}
	info.ModTime, info.Bucket = m.Time, BodyBucket(tenant)
	return info, nil
}

// readObject reads the chunks one by one. Unlike with a consumer, a chunk that is not there is an answer and not a
// silence. A bucket that somebody else made may be read at a replica that lags, so there a missing chunk is asked for
// again until ctx ends.
func readObject(ctx context.Context, store jetstream.Stream, info *jetstream.ObjectInfo) ([]byte, error) {
	var (
		body    = make([]byte, 0, min(info.Size, 4<<20)) // what an object claims is not yet there
		subject = jetstream.WithGetMsgSubject("$O." + info.Bucket + ".C." + info.NUID)
		pause   = backoff.NewExponentialBackOff(backoff.WithInitialInterval(20 * time.Millisecond))
		missing = false // the next chunk, as the server said before
	)
	for next := uint64(1); uint64(len(body)) < info.Size; {
		m, err := store.GetMsg(ctx, next, subject)
		switch {
		case err == nil && len(m.Data) > 0 && uint64(len(body)+len(m.Data)) <= info.Size:
			body, next, missing = append(body, m.Data...), m.Sequence+1, false
		case err == nil:
			return nil, ErrBodyDigest // more than the object says it has
		case errors.Is(err, jetstream.ErrMsgNotFound):
			missing = true
			if !store.CachedInfo().Config.AllowDirect || sleep(ctx, pause.NextBackOff()) != nil {
				return nil, fmt.Errorf("%w: incomplete", ErrBodyNotFound)
			}
		case missing && ctx.Err() != nil:
			return nil, fmt.Errorf("%w: incomplete", ErrBodyNotFound)
		default:
			return nil, err
		}
	}
	return body, nil
}

func metaSubject(tenant, name string) string {
	return "$O." + BodyBucket(tenant) + ".M." + base64.URLEncoding.EncodeToString([]byte(name))
}

// Pack decides how body travels in a message with the headers h: it returns body where both fit into the server's
// max_payload, otherwise it stores body, names it in h, and returns nil. h must not be nil. Without a store the error
// is TOO_LARGE.
func (b *Bodies) Pack(ctx context.Context, tenant string, h nats.Header, body []byte) ([]byte, error) {
	limit := b.js.Conn().MaxPayload()
	if int64(len(body)+headerSize(h)+bodyHeadroom) <= limit || len(body) < bodyHeadroom {
		return body, nil
	}
	ref, err := b.Put(ctx, tenant, body)
	var typed *Error
	switch {
	case err == nil:
		ref.Set(h)
		return nil, nil
	case errors.As(err, &typed):
		return nil, typed
	case errors.Is(err, ErrNoBodyStore):
		return nil, &Error{Code: CodeTooLarge, Err: err, Message: fmt.Sprintf("a body of %d bytes is over the server's "+
			"max_payload of %d, and this connection may not use the bucket %s; grant it, or send less",
			len(body), limit, BodyBucket(tenant))}
	}
	return nil, &Error{Code: CodeUnavailable, Message: "the object store did not take a large body; try again", Err: err}
}

// Unpack returns the body of a message: data, or the stored body that h names. Its error is always an [Error]:
// BAD_REQUEST for a reference that leads nowhere or to other bytes, TOO_LARGE, or UNAVAILABLE.
func (b *Bodies) Unpack(ctx context.Context, tenant string, h nats.Header, data []byte) ([]byte, error) {
	r, ok := RefOf(h)
	if !ok {
		return data, nil
	}
	if !ValidDigest(r.Digest) {
		return nil, badHeader(HeaderDigest, "must be sha256: and 64 hex digits where "+HeaderObject+" is set", nil)
	}
	body, err := b.Get(ctx, tenant, r)
	var typed *Error
	switch {
	case err == nil:
		return body, nil
	case errors.As(err, &typed):
		return nil, typed
	case errors.Is(err, ErrBodyNotFound):
		return nil, badHeader(HeaderObject, "names no complete object of the bucket "+BodyBucket(tenant)+
			"; store the body again and repeat the request", err)
	case errors.Is(err, ErrBodyDigest):
		return nil, badHeader(HeaderDigest, "does not match the stored body; store it again and repeat the request", err)
	}
	return nil, &Error{Code: CodeUnavailable, Message: "the object store did not give a large body; try again", Err: err}
}

func badHeader(name, what string, err error) *Error {
	return &Error{Code: CodeBadRequest, Message: "header " + name + " " + what,
		Details: map[string]any{"field": name}, Err: err}
}

// bucket opens a tenant's bucket, and creates it where it is missing and that is wanted.
func (b *Bodies) bucket(ctx context.Context, tenant string, create bool) (jetstream.Stream, error) {
	if store, ok := b.open.Get(tenant); ok {
		return store, nil
	}
	if !ValidToken(tenant) {
		return nil, fmt.Errorf("subjects: tenant %q is no token", tenant)
	}
	config := b.stream(tenant)
	store, err := b.js.Stream(ctx, config.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) && create {
		if store, err = b.js.CreateStream(ctx, config); errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			store, err = b.js.Stream(ctx, config.Name)
		}
	}
	if err == nil {
		b.open.Add(tenant, store)
	}
	return store, err
}

func bucketGone(err error) bool {
	return errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrNoStreamResponse)
}

// bounded gives the context of a look into the store. A request that was not permitted gets no answer, so it ends with
// the refusal too.
func (b *Bodies) bounded(ctx context.Context, tenant string, wait time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	ctx, release := untilRefused(ctx, b.js.Conn(), ofStream(BodyBucket(tenant), b.stream(tenant).Name))
	return ctx, func() { release(); cancel() }
}

// storeError tells a store that is not for this connection from one that is out of reach for now. ctx is that of
// [Bodies.bounded].
func (b *Bodies) storeError(ctx context.Context, err error) error {
	refused := causeRefused(ctx)
	switch {
	case err == nil:
		return nil
	case refused != nil:
		return fmt.Errorf("%w: %w", ErrNoBodyStore, refused)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount),
		errors.Is(err, nats.ErrNoResponders),
		errors.Is(err, context.DeadlineExceeded) && errors.Is(b.js.Conn().LastError(), nats.ErrPermissionViolation):
		return fmt.Errorf("%w: %w", ErrNoBodyStore, err)
	}
	return err
}

func (b *Bodies) tooLarge(n int64) *Error {
	return Errorf(CodeTooLarge, "a body of %d bytes is over the bound of %d bytes; send less", n, b.opts.Limit)
}

func (b *Bodies) wait(n int) time.Duration {
	return b.opts.Wait + time.Duration(n>>20)*bodyWaitMiB
}

// headerSize is what h takes on the wire.
func headerSize(h nats.Header) int {
	n := len("NATS/1.0\r\n\r\n")
	for k, vs := range h {
		for _, v := range vs {
			n += len(k) + len(": \r\n") + len(v)
		}
	}
	return n
}

// sleep waits for d, or returns why ctx ended first.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
