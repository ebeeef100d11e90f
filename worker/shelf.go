package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/semaphore"

	"toolsearch/catalog"
	"toolsearch/subjects"
	"toolsearch/telemetry"
	"toolsearch/worker/storage"
)

// shelf is the catalogs and scopes within reach: stored in JetStream, and as many as the budget allows in memory,
// indexed and opened.
type shelf struct {
	store struct {
		catalogs *storage.Catalogs
		scopes   *storage.Scopes
	}
	layout  storage.Layout
	limits  catalog.Limits
	recheck time.Duration
	log     *slog.Logger

	fill     *filler
	building *semaphore.Weighted // reading and indexing a catalog is CPU; more at once only take turns
	ledger   *ledger

	indexes *cache[*catalog.Catalog] // by digest, or inline and digest for one that is stored nowhere
	scopes  *cache[*catalog.Scope]   // by handle, or inline and digest of the request
	replies *cache[*assembled]       // by the digest of the request

	metrics *telemetry.Metrics
	lookups struct{ indexes, scopes, replies telemetry.Cache }
}

// assembled is a reply to assemble, as it goes out.
type assembled struct {
	body           []byte
	scope, catalog string
	// deferred tokens of definitions were kept back, and saved is what is left of them beside the bridge's own.
	deferred, saved int
}

// inline stands before the cache keys of what is stored nowhere.
const inline = "inline:"

// The parts of the budget, in eighths.
const (
	indexEighths = 5
	scopeEighths = 1
	replyEighths = 2
)

func (s *shelf) open(budget int64) {
	s.scopes = newCache[*catalog.Scope](budget/8*scopeEighths, nil)
	s.replies = newCache[*assembled](budget/8*replyEighths, nil)
	s.lookups.indexes, s.lookups.scopes, s.lookups.replies = s.metrics.Cache("indexes"), s.metrics.Cache("scopes"), s.metrics.Cache("replies")
	// A scope holds its catalog, so it leaves with it; otherwise the memory of a catalog that left would not be free.
	s.indexes = newCache[*catalog.Catalog](budget/8*indexEighths, func(string) {
		s.scopes.removeIf(func(sc *catalog.Scope) bool { return !s.holds(sc.Catalog()) })
	})
}

// holds reports whether a catalog, this very one, is in memory and counted.
func (s *shelf) holds(c *catalog.Catalog) bool {
	for _, key := range [...]string{c.Digest(), inline + c.Digest()} {
		if held, ok := s.indexes.peek(key); ok && held == c {
			return true
		}
	}
	return false
}

// ends is when a blob whose age counts from at ends.
func (s *shelf) ends(at time.Time) time.Time { return at.Add(s.layout.BlobAge) }

// index is a catalog with when it ends.
type index struct {
	catalog *catalog.Catalog
	expires time.Time
}

// build reads and indexes the tools of a request. key is where it is kept.
func (s *shelf) build(ctx context.Context, key string, tools json.RawMessage) (index, error) {
	c, expires, ok := s.indexes.get(key)
	s.lookups.indexes.Lookup(ctx, ok)
	if ok {
		return index{c, expires}, nil
	}
	// Not in one flight with a load of the same catalog: that fails where nobody has stored it yet.
	return s.index(ctx, "build", key, func(context.Context) (storage.Blob, error) {
		return storage.Blob{Bytes: tools, At: time.Now()}, nil
	})
}

// load reads and indexes a stored catalog.
func (s *shelf) load(ctx context.Context, digest string) (index, error) {
	c, expires, ok := s.indexes.get(digest)
	s.lookups.indexes.Lookup(ctx, ok)
	if ok {
		return index{c, expires}, nil
	}
	return s.index(ctx, "load", digest, func(ctx context.Context) (storage.Blob, error) {
		blob, err := s.store.catalogs.Get(ctx, digest)
		if err != nil {
			return blob, s.missing(subjects.CodeCatalogNotFound, "catalog", digest, err)
		}
		s.ledger.set(digest, blob.At, time.Now())
		return blob, nil
	})
}

// index fills the cache of indexes, once at a time for each way.
func (s *shelf) index(ctx context.Context, way, key string, read func(context.Context) (storage.Blob, error)) (index, error) {
	v, err := s.fill.do(ctx, way+" "+key, func(ctx context.Context) (any, error) {
		if c, expires, ok := s.indexes.get(key); ok {
			return index{c, expires}, nil
		}
		blob, err := read(ctx)
		if err != nil {
			return nil, err
		}
		if err := s.building.Acquire(ctx, 1); err != nil {
			return nil, err
		}
		defer s.building.Release(1)
		began := time.Now()
		c, err := catalog.Build(blob.Bytes, s.limits)
		if err != nil {
			return nil, err
		}
		s.metrics.Indexed(ctx, time.Since(began), c.Len())
		x := index{c, s.ends(blob.At)}
		if !s.indexes.add(key, c, c.Size(), x.expires) {
			s.log.Warn("a catalog is too large to be kept in memory and is read again for each request; raise CacheBytes",
				"catalog", c.Digest(), "bytes", c.Size())
		}
		return x, nil
	})
	if err != nil {
		return index{}, err
	}
	return v.(index), nil
}

// opened is a scope with when it ends.
type opened struct {
	scope   *catalog.Scope
	expires time.Time
}

// scope opens the scope of a handle, whoever it belongs to.
func (s *shelf) scope(ctx context.Context, handle string) (opened, error) {
	sc, expires, ok := s.scopes.get(handle)
	s.lookups.scopes.Lookup(ctx, ok)
	if ok {
		s.indexes.touch(sc.Catalog().Digest())
		return opened{sc, expires}, nil
	}
	v, err := s.fill.do(ctx, "scope "+handle, func(ctx context.Context) (any, error) {
		if sc, expires, ok := s.scopes.get(handle); ok {
			return opened{sc, expires}, nil
		}
		return s.openScope(ctx, handle)
	})
	if err != nil {
		return opened{}, err
	}
	return v.(opened), nil
}

func (s *shelf) openScope(ctx context.Context, handle string) (opened, error) {
	blob, err := s.store.scopes.Get(ctx, handle)
	if err != nil {
		return opened{}, s.missing(subjects.CodeScopeNotFound, "scope", handle, err)
	}
	s.ledger.set(handle, blob.At, time.Now())
	doc, err := catalog.ParseScopeDocument(blob.Bytes)
	if err != nil {
		s.log.Warn("a stored scope cannot be read", "scope", handle, "error", err)
		return opened{}, err
	}
	x, err := s.load(ctx, doc.Catalog)
	if err != nil {
		// To whoever holds the scope, its catalog is a part of it.
		var e *subjects.Error
		if errors.As(err, &e) && e.Code == subjects.CodeCatalogNotFound {
			gone := *e
			gone.Code, gone.Message = subjects.CodeScopeNotFound, "the scope's catalog has expired or is damaged; assemble again"
			return opened{}, &gone
		}
		return opened{}, err
	}
	sc, err := catalog.OpenScope(x.catalog, doc)
	if err != nil {
		return opened{}, err
	}
	o := opened{sc, earlier(s.ends(blob.At), x.expires)}
	s.keepScope(handle, o)
	return o, nil
}

// keepScope keeps an opened scope as long as its catalog is kept.
func (s *shelf) keepScope(key string, o opened) {
	if s.scopes.add(key, o.scope, o.scope.Size(), o.expires) && !s.holds(o.scope.Catalog()) {
		s.scopes.remove(key)
	}
}

// blob is something to be stored under the digest of its bytes.
type blob struct {
	name  string
	bytes func() []byte
	stat  func(ctx context.Context, name string) (time.Time, error)
	put   func(ctx context.Context, name string, bytes []byte) (time.Time, error)
	keep  func(at time.Time) // tells the cache that the blob now lives from at
}

func (s *shelf) catalogBlob(c *catalog.Catalog) blob {
	return blob{
		name: c.Digest(), bytes: func() []byte { return c.Raw() },
		stat: s.store.catalogs.Stat, put: s.store.catalogs.Put,
		keep: func(at time.Time) { s.indexes.until(c.Digest(), s.ends(at)) },
	}
}

func (s *shelf) scopeBlob(sc *catalog.Scope) blob {
	return blob{
		name: sc.Handle(), bytes: sc.Document,
		stat: s.store.scopes.Stat, put: s.store.scopes.Put,
		keep: func(time.Time) {}, // a scope also ends with its catalog; the assemble that renews both keeps it anew
	}
}

// assure makes certain that a blob is stored and young enough to be relied on, and returns from when its age counts.
// What is known is not asked; what is missing, damaged or old is put again.
func (s *shelf) assure(ctx context.Context, b blob) (time.Time, error) {
	if n, ok := s.ledger.get(b.name); ok && s.young(n.at) {
		return n.at, nil
	}
	v, err := s.fill.do(ctx, "store "+b.name, func(ctx context.Context) (any, error) { return s.storeBlob(ctx, b) })
	if err != nil {
		return time.Time{}, err
	}
	return v.(time.Time), nil
}

func (s *shelf) storeBlob(ctx context.Context, b blob) (time.Time, error) {
	at, err := b.stat(ctx, b.name)
	switch {
	case err == nil && s.young(at):
		s.ledger.set(b.name, at, time.Now())
		b.keep(at)
		return at, nil
	case err != nil && !errors.Is(err, storage.ErrNotFound):
		return time.Time{}, outOfReach(err)
	}
	var bad *storage.DigestError
	if errors.As(err, &bad) {
		s.log.Error("stored bytes do not match their name; they are put again", "kind", bad.Kind, "name", b.name, "error", err)
	}
	s.ledger.forget(b.name)
	at, err = b.put(ctx, b.name, b.bytes())
	if err != nil {
		return time.Time{}, outOfReach(err)
	}
	s.ledger.set(b.name, at, time.Now())
	b.keep(at)
	return at, nil
}

func (s *shelf) young(at time.Time) bool { return time.Since(at) < s.layout.RenewAfter }

// reply returns an assembled reply that may be sent again: both its blobs are known to be stored and young. If that was
// last seen some time ago, it is looked up behind the request, and mended if need be.
func (s *shelf) reply(key string) (*assembled, bool) {
	a, _, ok := s.replies.get(key)
	if !ok {
		return nil, false
	}
	seen := time.Now()
	for _, name := range [...]string{a.scope, a.catalog} {
		n, ok := s.ledger.get(name)
		if !ok || !s.young(n.at) {
			return nil, false
		}
		seen = earlier(seen, n.seen)
	}
	if time.Since(seen) > s.recheck {
		s.lookAgain(key, a)
	}
	return a, true
}

// lookAgain checks the blobs of a reply that was just sent again. Bytes that are not at hand are left to the next
// assemble, which then goes the whole way.
func (s *shelf) lookAgain(key string, a *assembled) {
	s.fill.behind("check "+key, func(ctx context.Context) (any, error) {
		c, _, haveCatalog := s.indexes.get(a.catalog)
		sc, _, haveScope := s.scopes.get(a.scope)
		if !haveCatalog || !haveScope {
			s.replies.remove(key)
			return nil, nil
		}
		_, err := s.storeBlob(ctx, s.catalogBlob(c))
		if err == nil {
			_, err = s.storeBlob(ctx, s.scopeBlob(sc))
		}
		if err != nil {
			s.log.Warn("a stored blob could not be checked", "scope", a.scope, "catalog", a.catalog, "error", err)
		}
		return nil, nil
	})
}

// missing tells a read that failed: NOT_FOUND with the given code, told apart where the bytes were damaged, or
// UNAVAILABLE.
func (s *shelf) missing(code subjects.Code, kind, name string, err error) error {
	var bad *storage.DigestError
	switch {
	case errors.As(err, &bad):
		s.ledger.forget(name)
		s.log.Error("stored bytes do not match their name; they are refused", "kind", kind, "name", name, "error", err)
		return &subjects.Error{Code: code, Err: err, Details: map[string]any{"reason": "digest_mismatch"},
			Message: fmt.Sprintf("the stored %s is damaged and was refused; assemble again, with the tools, to mend it", kind)}
	case errors.Is(err, storage.ErrNotFound):
		s.ledger.forget(name)
		return &subjects.Error{Code: code, Err: err,
			Message: fmt.Sprintf("the %s has expired or was never stored; assemble again", kind)}
	}
	return outOfReach(err)
}

func outOfReach(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return &subjects.Error{Code: subjects.CodeUnavailable, Message: "storage is out of reach; try again", Err: err}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
