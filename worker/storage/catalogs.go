package storage

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"toolsearch/subjects"
)

// Catalogs is the store of the catalogs: an object store whose objects are named by the digest of their bytes.
// Its methods may be called side by side.
//
// It reads and writes single messages in the format of an object store rather than through that type: a read there hangs
// on a chunk that is missing, and a write there may leave a goroutine behind for ever (nats.go v1.55.0, cleanupReplySub).
type Catalogs struct {
	js     jetstream.JetStream
	layout Layout
	msgs   messages
	bucket string
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
// What was stored under the name before is readable until the new bytes are complete.
func (c *Catalogs) Put(ctx context.Context, name string, blob []byte) (time.Time, error) {
	if have := subjects.Digest(blob); have != name {
		return time.Time{}, fmt.Errorf("%w: these bytes are not those of %.80q", ErrName, name)
	}
	ctx, cancel := context.WithTimeout(ctx, c.layout.WriteTimeout)
	defer cancel()
	at := time.Now()
	old, _, oldErr := c.describe(ctx, leader, name)
	if oldErr != nil && !errors.Is(oldErr, ErrNotFound) {
		return time.Time{}, fmt.Errorf("storage: write catalog %s: %w", name, oldErr)
	}
	info := jetstream.ObjectInfo{
		ObjectMeta: jetstream.ObjectMeta{Name: name, Opts: &jetstream.ObjectMetaOptions{ChunkSize: c.chunkSize()}},
		Bucket:     c.bucket, NUID: nuid.Next(), Size: uint64(len(blob)), Digest: objectDigest(name),
	}
	if err := c.putChunks(ctx, &info, blob); err != nil {
		// What is there of them is no use to anybody. If this fails too, the bucket's age takes them.
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.layout.ReadTimeout)
		defer cancel()
		err = errors.Join(err, c.purge(clean, c.chunkSubject(info.NUID), 0))
		return time.Time{}, fmt.Errorf("storage: write catalog %s: %w", name, err)
	}
	if err := c.putDescription(ctx, &info); err != nil {
		return time.Time{}, fmt.Errorf("storage: write catalog %s: %w", name, err)
	}
	if oldErr == nil {
		_ = c.purge(ctx, c.chunkSubject(old.NUID), 0) // or its age takes them
	}
	return at, nil
}

func (c *Catalogs) putChunks(ctx context.Context, info *jetstream.ObjectInfo, blob []byte) error {
	for chunk := range slices.Chunk(blob, int(info.Opts.ChunkSize)) {
		if _, err := c.js.Publish(ctx, c.chunkSubject(info.NUID), chunk); err != nil {
			return err
		}
		info.Chunks++
	}
	return nil
}

func (c *Catalogs) putDescription(ctx context.Context, info *jetstream.ObjectInfo) error {
	body, err := json.Marshal(info)
	if err != nil {
		return err
	}
	_, err = c.js.PublishMsg(ctx, &nats.Msg{
		Subject: c.metaSubject(info.Name), Data: body,
		Header: nats.Header{jetstream.MsgRollup: []string{jetstream.MsgRollupSubject}},
	})
	return err
}

// chunkSize leaves room for a chunk's headers, and for base64 where a chunk is read at the leader.
func (c *Catalogs) chunkSize() uint32 {
	return uint32(max(1<<10, min(512<<10, c.js.Conn().MaxPayload()/2)))
}

// purge removes the messages of a subject, those below a sequence if one is given.
func (c *Catalogs) purge(ctx context.Context, subject string, below uint64) error {
	s, err := c.js.Stream(ctx, "OBJ_"+c.bucket)
	if err != nil {
		return err
	}
	opts := []jetstream.StreamPurgeOpt{jetstream.WithPurgeSubject(subject)}
	if below > 0 {
		opts = append(opts, jetstream.WithPurgeSequence(below))
	}
	return s.Purge(ctx, opts...)
}

// Stat tells from when the age of a stored catalog counts. It reads the description only: a description of other
// bytes is a [DigestError], damaged chunks are left for Get to find.
func (c *Catalogs) Stat(ctx context.Context, name string) (time.Time, error) {
	if !subjects.ValidDigest(name) {
		return time.Time{}, fmt.Errorf("%w, not %.80q", ErrName, name)
	}
	return confirmed(func(p place) (time.Time, error) {
		info, msg, err := c.describe(ctx, p, name)
		if err == nil && info.Digest != objectDigest(name) {
			err = &DigestError{Kind: "catalog", Name: name, Have: info.Digest}
		}
		return msg.at, err
	})
}

// Get reads a catalog.
func (c *Catalogs) Get(ctx context.Context, name string) (Blob, error) {
	if !subjects.ValidDigest(name) {
		return Blob{}, fmt.Errorf("%w, not %.80q", ErrName, name)
	}
	return confirmed(func(p place) (Blob, error) { return c.read(ctx, p, name) })
}

// believed is how much of what a description claims to be there gets memory before it is read.
const believed = 64 << 20

func (c *Catalogs) read(ctx context.Context, p place, name string) (Blob, error) {
	info, msg, err := c.describe(ctx, p, name)
	if err != nil {
		return Blob{}, err
	}
	blob := make([]byte, 0, min(info.Size, believed))
	for seq := uint64(1); err == nil && uint64(len(blob)) < info.Size; {
		var chunk message
		if chunk, err = c.msgs.get(ctx, p, query{Next: c.chunkSubject(info.NUID), Seq: seq}); err == nil {
			blob, seq = append(blob, chunk.data...), chunk.seq+1
		}
	}
	if err != nil && !errors.Is(err, errNoMessage) {
		return Blob{}, err
	}
	have := subjects.Digest(blob)
	switch {
	case have == name:
		return Blob{Bytes: blob, At: msg.at}, nil
	case err != nil:
		err = ErrNotFound // cut short
	default:
		err = &DigestError{Kind: "catalog", Name: name, Have: have}
	}
	if p == leader {
		// Away with it, so that every worker sees that it has to be put again; but not with what was put meanwhile.
		err = errors.Join(err, c.purge(ctx, c.metaSubject(name), msg.seq+1), c.purge(ctx, c.chunkSubject(info.NUID), 0))
	}
	return Blob{}, err
}

// describe reads an object's description; a deleted or expired object is not found.
func (c *Catalogs) describe(ctx context.Context, p place, name string) (info jetstream.ObjectInfo, msg message, err error) {
	msg, err = c.msgs.get(ctx, p, query{Last: c.metaSubject(name)})
	if err != nil {
		return info, msg, missing(err)
	}
	if err := json.Unmarshal(msg.data, &info); err != nil || info.Deleted || info.NUID == "" {
		return info, msg, ErrNotFound
	}
	if time.Since(msg.at) >= c.layout.BlobAge {
		return info, msg, ErrNotFound // its chunks are older still
	}
	return info, msg, nil
}

func (c *Catalogs) chunkSubject(object string) string { return "$O." + c.bucket + ".C." + object }

func (c *Catalogs) metaSubject(name string) string {
	return "$O." + c.bucket + ".M." + base64.URLEncoding.EncodeToString([]byte(name))
}
