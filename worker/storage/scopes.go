package storage

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"toolsearch/subjects"
)

// Scopes is the store of the scopes: a key-value bucket with one small message per scope, under the digest of its
// document. Its methods may be called side by side.
type Scopes struct {
	js     jetstream.JetStream
	layout Layout
	msgs   messages
	bucket string
}

// NewScopes makes the store. It asks nothing of the server.
func NewScopes(js jetstream.JetStream, l Layout) (*Scopes, error) {
	l = l.WithDefaults()
	if err := l.Validate(); err != nil {
		return nil, err
	}
	bucket := l.ScopeBucket()
	return &Scopes{js: js, layout: l, bucket: bucket, msgs: newMessages(js, "KV_"+bucket, l.ReadTimeout)}, nil
}

// Put stores a document under its handle, whether or not it is there, and returns from when its age counts.
func (s *Scopes) Put(ctx context.Context, handle string, doc []byte) (time.Time, error) {
	if have := subjects.Digest(doc); have != handle {
		return time.Time{}, fmt.Errorf("%w: these bytes are not those of %.80q", ErrName, handle)
	}
	ctx, cancel := context.WithTimeout(ctx, s.layout.WriteTimeout)
	defer cancel()
	at := time.Now()
	if _, err := s.js.Publish(ctx, s.subject(handle), doc); err != nil {
		return time.Time{}, fmt.Errorf("storage: write scope %s: %w", handle, err)
	}
	return at, nil
}

// Get reads a document.
func (s *Scopes) Get(ctx context.Context, handle string) (Blob, error) {
	if !subjects.ValidDigest(handle) {
		return Blob{}, fmt.Errorf("%w, not %.80q", ErrName, handle)
	}
	return confirmed(func(p place) (Blob, error) { return s.read(ctx, p, handle) })
}

func (s *Scopes) read(ctx context.Context, p place, handle string) (Blob, error) {
	msg, err := s.msgs.get(ctx, p, query{Last: s.subject(handle)})
	if err != nil {
		return Blob{}, missing(err)
	}
	if len(msg.data) == 0 || time.Since(msg.at) >= s.layout.BlobAge {
		return Blob{}, ErrNotFound // a delete marker is empty
	}
	if have := subjects.Digest(msg.data); have != handle {
		return Blob{}, &DigestError{Kind: "scope", Name: handle, Have: have}
	}
	return Blob{Bytes: msg.data, At: msg.at}, nil
}

// Stat tells from when the age of a stored scope counts. A scope is so small that this reads and verifies it.
func (s *Scopes) Stat(ctx context.Context, handle string) (time.Time, error) {
	blob, err := s.Get(ctx, handle)
	return blob.At, err
}

func (s *Scopes) subject(handle string) string {
	return "$KV." + s.bucket + "." + strings.TrimPrefix(handle, "sha256:")
}
