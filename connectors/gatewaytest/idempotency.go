package gatewaytest

import (
	"crypto/sha256"
	"sync"
	"time"
)

// keepKeys is how long the store honours a key.
const keepKeys = 24 * time.Hour

// store remembers what became of each idempotency key of each tenant.
type store struct {
	mu    sync.Mutex
	keys  map[string]*kept
	swept time.Time
}

// kept is one key: the body that it stands for, and its answer once that is there.
type kept struct {
	body   [sha256.Size]byte
	answer []byte
	since  time.Time
}

// claim is what the store says of a request.
type claim int

const (
	fresh    claim = iota // nobody used the key: run, then finish
	finished              // the stored answer stands
	running               // the first request with the key is not finished
	another               // the key stands for another body
)

func (s *store) claim(tenant, key string, body []byte) (claim, []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.sweep(now)
	id, sum := tenant+"\x00"+key, sha256.Sum256(body)
	k, ok := s.keys[id]
	switch {
	case !ok:
		if s.keys == nil {
			s.keys = make(map[string]*kept)
		}
		s.keys[id] = &kept{body: sum, since: now}
		return fresh, nil
	case k.body != sum:
		return another, nil
	case k.answer == nil:
		return running, nil
	}
	return finished, k.answer
}

func (s *store) finish(tenant, key string, answer []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.keys[tenant+"\x00"+key]; k != nil {
		k.answer = answer
	}
}

// sweep forgets old keys, at most once an hour.
func (s *store) sweep(now time.Time) {
	if now.Sub(s.swept) < time.Hour {
		return
	}
	s.swept = now
	for id, k := range s.keys {
		if now.Sub(k.since) > keepKeys {
			delete(s.keys, id)
		}
	}
}
