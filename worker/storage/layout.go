package storage

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"toolsearch/subjects"
)

// Layout says where and for how long things are kept. The zero value is the layout of the contract on one server with
// file storage. All workers of an installation must use the same.
type Layout struct {
	// Root is the root of the subjects. Empty: [subjects.DefaultRoot]. Another root has streams and buckets of its
	// own, whose names end in a suffix made from it.
	Root subjects.Root
	// Replicas of each stream, 1 to 5. 0: 1. Three on separate machines survive the loss of one.
	Replicas int
	// Storage of each stream. The zero value is file storage; memory storage loses everything with the server.
	Storage jetstream.StorageType
	// BlobAge is how long a catalog or a scope lives after it was last put. 0: 48 hours.
	BlobAge time.Duration
	// RenewAfter is the age from which an assemble puts a blob again; BlobAge-RenewAfter is what a handle is good for
	// at the least. 0: half of BlobAge.
	RenewAfter time.Duration
	// ResultAge is how long the events of a call can be replayed. 0: 1 hour.
	ResultAge time.Duration
	// RecordAge is how long a call's record outlives the call; a repeated call id is answered from it. 0: 24 hours.
	RecordAge time.Duration
	// StopAge is how long a stop holds. 0: 48 hours.
	StopAge time.Duration
	// DeadAge is how long a job that was given up is kept for an operator. 0: 7 days.
	DeadAge time.Duration
	// ReadTimeout bounds one step of a read. 0: 2 s.
	ReadTimeout time.Duration
	// WriteTimeout bounds the writing of one blob. 0: 30 s.
	WriteTimeout time.Duration
}

// WithDefaults fills the fields that are zero.
func (l Layout) WithDefaults() Layout {
	if l.Root == "" {
		l.Root = subjects.DefaultRoot
	}
	if l.Replicas == 0 {
		l.Replicas = 1
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&l.BlobAge, 48 * time.Hour},
		{&l.ResultAge, time.Hour},
		{&l.RecordAge, 24 * time.Hour},
		{&l.StopAge, 48 * time.Hour},
		{&l.DeadAge, 7 * 24 * time.Hour},
		{&l.ReadTimeout, 2 * time.Second},
		{&l.WriteTimeout, 30 * time.Second},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if l.RenewAfter == 0 {
		l.RenewAfter = l.BlobAge / 2
	}
	return l
}

// Validate names the first field that cannot be used.
func (l Layout) Validate() error {
	l = l.WithDefaults()
	if err := l.Root.Validate(); err != nil {
		return fmt.Errorf("storage: Layout.Root: %w", err)
	}
	if l.Replicas < 1 || l.Replicas > 5 {
		return fmt.Errorf("storage: Layout.Replicas is %d; use 1 to 5", l.Replicas)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
		least time.Duration
	}{
		{"BlobAge", l.BlobAge, time.Second},
		{"RenewAfter", l.RenewAfter, time.Millisecond},
		{"ResultAge", l.ResultAge, time.Second},
		{"RecordAge", l.RecordAge, time.Second},
		{"StopAge", l.StopAge, time.Second},
		{"DeadAge", l.DeadAge, time.Second},
		{"ReadTimeout", l.ReadTimeout, time.Millisecond},
		{"WriteTimeout", l.WriteTimeout, time.Millisecond},
	} {
		if d.value < d.least {
			return fmt.Errorf("storage: Layout.%s is %s; use %s or more", d.name, d.value, d.least)
		}
	}
	if l.RenewAfter >= l.BlobAge {
		return fmt.Errorf("storage: Layout.RenewAfter is %s; it must be less than BlobAge, %s", l.RenewAfter, l.BlobAge)
	}
	return nil
}

// CatalogBucket is the object store of the catalogs.
func (l Layout) CatalogBucket() string { return l.Name("TOOLSEARCH_CATALOGS") }

// ScopeBucket is the key-value bucket of the scopes.
func (l Layout) ScopeBucket() string { return l.Name("TOOLSEARCH_SCOPES") }

// Name is the name of a stream or a bucket under this layout's root: base as it is under the default root, and with
// a suffix of the root's text and digest under any other, so that no two roots share one.
func (l Layout) Name(base string) string {
	root := string(l.WithDefaults().Root)
	if root == string(subjects.DefaultRoot) {
		return base
	}
	sum := sha256.Sum256([]byte(root))
	return base + "_" + strings.ReplaceAll(root, ".", "_") + "_" + hex.EncodeToString(sum[:4])
}

// Streams declares every stream of the layout, the buckets' included, in the order in which [Ensure] makes them. The
// buckets of claim-check bodies are not among them: there is one per tenant, made when it is first needed.
func (l Layout) Streams() []jetstream.StreamConfig {
	l = l.WithDefaults()
	catalogs, scopes := l.CatalogBucket(), l.ScopeBucket()
	streams := []jetstream.StreamConfig{
		{
			// An object store, readable as one by any client.
			Name:        "OBJ_" + catalogs,
			Description: "Catalogs of tool definitions, each named by the SHA-256 of its bytes.",
			Subjects:    []string{"$O." + catalogs + ".C.>", "$O." + catalogs + ".M.>"},
			MaxAge:      l.BlobAge,
			Storage:     l.Storage,
			Replicas:    l.Replicas,
			Discard:     jetstream.DiscardNew,
			Compression: jetstream.S2Compression,
			AllowRollup: true,
			AllowDirect: true,
		},
		{
			// A key-value bucket: a scope is one small message.
			Name:              "KV_" + scopes,
			Description:       "Scopes, each named by the SHA-256 of its document.",
			Subjects:          []string{"$KV." + scopes + ".>"},
			MaxMsgsPerSubject: 1,
			MaxAge:            l.BlobAge,
			Storage:           l.Storage,
			Replicas:          l.Replicas,
			Discard:           jetstream.DiscardNew,
			Compression:       jetstream.S2Compression,
			AllowRollup:       true,
			DenyDelete:        true,
			AllowDirect:       true,
		},
	}
	return append(streams, CallStreams(l)...)
}
