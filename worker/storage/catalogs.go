package storage

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"toolsearch/subjects"
)

// Catalogs is the store of the catalogs: an object store whose objects are named by the digest of their bytes.
// Its methods may be called side by side.
type Catalogs struct {
	js     jetstream.JetStream
	layout Layout
	msgs   messages
	bucket string

	mu  sync.Mutex
	obs jetstream.ObjectStore // bound by the first Put, when the server is surely there
}

// NewCatalogs makes the store. It asks nothing of the server.
func NewCatalogs(js jetstream.JetStream, l Layout) (*Catalogs, error) {
	l = l.WithDefaults()
	if err := l.Validate(); err != nil {
		return nil, err
	}
	bucket := l.CatalogBucket()
	return &Catalogs{js: js, layout: l, bucket: bucket, msgs: newMessages(js, "OBJ_"+bucket, l.ReadTimeout)}, nil
}

// Put stores the bytes under their name, whether or not they are there, and returns from when their age counts.
func (c *Catalogs) Put(ctx context.Context, name string, blob []byte) (time.Time, error) {
	if !ValidName(name) {
		return time.Time{}, fmt.Errorf("%w, not %.80q", ErrName, name)
	}
	ctx, cancel := context.WithTimeout(ctx, c.layout.WriteTimeout)
	defer cancel()
	obs, err := c.store(ctx)
	if err != nil {
		return time.Time{}, err
	}
	at := time.Now()
	meta := jetstream.ObjectMeta{Name: name, Opts: &jetstream.ObjectMetaOptions{ChunkSize: c.chunkSize()}}
	info, err := obs.Put(ctx, meta, bytes.NewReader(blob))
	if err != nil {
		return time.Time{}, fmt.Errorf("storage: write catalog %s: %w", name, err)
	}
	if info.Digest != objectDigest(name) {
		err := obs.Delete(ctx, name)
		return time.Time{}, errors.Join(fmt.Errorf("%w: these bytes are not those of %s", ErrName, name), err)
	}
	return at, nil
}

// chunkSize leaves room for a chunk's headers, and for base64 where a chunk is read at the leader.
func (c *Catalogs) chunkSize() uint32 {
	return uint32(max(1<<10, min(512<<10, c.js.Conn().MaxPayload()/2)))
}

func (c *Catalogs) store(ctx context.Context) (jetstream.ObjectStore, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.obs == nil {
		obs, err := c.js.ObjectStore(ctx, c.bucket)
		if err != nil {
			return nil, fmt.Errorf("storage: bind bucket %s: %w", c.bucket, err)
		}
		c.obs = obs
	}
	return c.obs, nil
}

// Stat tells from when the age of a stored catalog counts. It reads the description only: a description of other
// bytes is a [DigestError], damaged chunks are left for Get to find.
func (c *Catalogs) Stat(ctx context.Context, name string) (time.Time, error) {
	if !ValidName(name) {
		return time.Time{}, fmt.Errorf("%w, not %.80q", ErrName, name)
	}
	return confirmed(func(p place) (time.Time, error) {
		info, at, err := c.describe(ctx, p, name)
		if err == nil && info.Digest != objectDigest(name) {
			err = &DigestError{Kind: "catalog", Name: name, Have: info.Digest}
		}
		return at, err
	})
}

// Get reads a catalog.
func (c *Catalogs) Get(ctx context.Context, name string) (Blob, error) {
	if !ValidName(name) {
		return Blob{}, fmt.Errorf("%w, not %.80q", ErrName, name)
	}
	blob, err := confirmed(func(p place) (Blob, error) { return c.read(ctx, p, name) })
	var bad *DigestError
	if errors.As(err, &bad) {
		if rerr := c.remove(ctx, name); rerr != nil {
			err = errors.Join(err, rerr)
		}
	}
	return blob, err
}

func (c *Catalogs) read(ctx context.Context, p place, name string) (Blob, error) {
	info, at, err := c.describe(ctx, p, name)
	if err != nil {
		return Blob{}, err
	}
	blob := make([]byte, 0, min(info.Size, 1<<30))
	subject, seq := "$O."+c.bucket+".C."+info.NUID, uint64(1)
	for range info.Chunks {
		chunk, err := c.msgs.get(ctx, p, query{Next: subject, Seq: seq})
		if err != nil {
			return Blob{}, missing(err)
		}
		blob, seq = append(blob, chunk.data...), chunk.seq+1
	}
	if have := subjects.Digest(blob); have != name {
		return Blob{}, &DigestError{Kind: "catalog", Name: name, Have: have}
	}
	return Blob{Bytes: blob, At: at}, nil
}

// describe reads an object's description; a deleted or expired object is not found.
func (c *Catalogs) describe(ctx context.Context, p place, name string) (info jetstream.ObjectInfo, at time.Time, err error) {
	msg, err := c.msgs.get(ctx, p, query{Last: c.metaSubject(name)})
	if err != nil {
		return info, at, missing(err)
	}
	if err := json.Unmarshal(msg.data, &info); err != nil || info.Deleted || info.NUID == "" {
		return info, at, ErrNotFound
	}
	if time.Since(msg.at) >= c.layout.BlobAge {
		return info, at, ErrNotFound // its chunks are older still
	}
	return info, msg.at, nil
}

// remove deletes a damaged catalog, so that every worker sees that it has to be put again.
func (c *Catalogs) remove(ctx context.Context, name string) error {
	obs, err := c.store(ctx)
	if err != nil {
		return err
	}
	if err := obs.Delete(ctx, name); err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
		return fmt.Errorf("storage: remove damaged catalog %s: %w", name, err)
	}
	return nil
}

func (c *Catalogs) metaSubject(name string) string {
	return "$O." + c.bucket + ".M." + base64.URLEncoding.EncodeToString([]byte(name))
}
