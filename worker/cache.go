package worker

import (
	"math"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// cache holds values by key, bounded in bytes: what was used least goes first. An entry ends at its own time, that of
// the stored blob it was made from. A value that alone is over the budget is not kept.
type cache[V any] struct {
	budget int64
	evict  func(key string) // told of each entry that leaves, outside the lock; may be nil

	mu    sync.Mutex
	lru   *simplelru.LRU[string, *entry[V]]
	bytes int64
	gone  []string // keys that left under the lock that is held
}

type entry[V any] struct {
	value   V
	size    int64
	expires time.Time
}

// entryOverhead is what an entry takes besides its value: key, list and map.
const entryOverhead = 256

func newCache[V any](budget int64, evict func(key string)) *cache[V] {
	c := &cache[V]{budget: budget, evict: evict}
	lru, err := simplelru.NewLRU[string](math.MaxInt, func(key string, e *entry[V]) {
		c.bytes -= e.size
		c.gone = append(c.gone, key)
	})
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	c.lru = lru
	return c
}

// get returns the value under key and when it ends.
func (c *cache[V]) get(key string) (v V, expires time.Time, ok bool) {
	c.mu.Lock()
	e, ok := c.lru.Get(key)
	if ok && !time.Now().Before(e.expires) {
		c.lru.Remove(key)
		ok = false
	}
	gone := c.takeGone()
	c.mu.Unlock()
	c.tell(gone)
	if !ok {
		return v, expires, false
	}
	return e.value, e.expires, true
}

// add keeps a value, and reports whether it did.
func (c *cache[V]) add(key string, v V, size int64, expires time.Time) bool {
	size += entryOverhead + int64(len(key))
	if size > c.budget {
		return false
	}
	c.mu.Lock()
	if old, ok := c.lru.Peek(key); ok {
		c.bytes -= old.size // replaced in place, which tells nobody
	}
	c.lru.Add(key, &entry[V]{value: v, size: size, expires: expires})
	c.bytes += size
	for c.bytes > c.budget {
		c.lru.RemoveOldest()
	}
	gone := c.takeGone()
	c.mu.Unlock()
	c.tell(gone)
	return true
}

// until sets when an entry ends.
func (c *cache[V]) until(key string, expires time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.lru.Peek(key); ok {
		// A new entry, since readers of the old one hold no lock.
		c.lru.Add(key, &entry[V]{value: e.value, size: e.size, expires: expires})
	}
}

// remove drops an entry.
func (c *cache[V]) remove(key string) {
	c.mu.Lock()
	c.lru.Remove(key)
	gone := c.takeGone()
	c.mu.Unlock()
	c.tell(gone)
}

// removeIf drops the entries whose value is not wanted any more.
func (c *cache[V]) removeIf(unwanted func(V) bool) {
	c.mu.Lock()
	for _, key := range c.lru.Keys() {
		if e, ok := c.lru.Peek(key); ok && unwanted(e.value) {
			c.lru.Remove(key)
		}
	}
	gone := c.takeGone()
	c.mu.Unlock()
	c.tell(gone)
}

// peek returns the value under key without marking it as used.
func (c *cache[V]) peek(key string) (v V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.lru.Peek(key)
	if !ok {
		return v, false
	}
	return e.value, true
}

// touch marks an entry as used, and reports whether it is there.
func (c *cache[V]) touch(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.lru.Get(key)
	return ok
}

// usage is the number of entries and their bytes.
func (c *cache[V]) usage() (entries int, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lru.Len(), c.bytes
}

func (c *cache[V]) takeGone() []string {
	gone := c.gone
	c.gone = nil
	return gone
}

func (c *cache[V]) tell(gone []string) {
	if c.evict == nil {
		return
	}
	for _, key := range gone {
		c.evict(key)
	}
}
