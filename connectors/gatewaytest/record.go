package gatewaytest

import (
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Request is one request as it came.
type Request struct {
	Number int       `json:"number"` // from 1, in the order of arrival
	At     time.Time `json:"at"`
	Method string    `json:"method"`
	Path   string    `json:"path"`            // as sent, not decoded
	Query  string    `json:"query,omitempty"` // as sent
	Route  Route     `json:"route"`           // "" for an unknown path
	Tenant string    `json:"tenant,omitempty"`
	// Authorization is the header as sent. It is in no JSON.
	Authorization string          `json:"-"`
	Header        http.Header     `json:"-"`
	Key           string          `json:"idempotency_key,omitempty"`
	Slugs         []string        `json:"slugs,omitempty"`
	Body          json.RawMessage `json:"body,omitempty"` // nil if there was none or it is no JSON
	Fault         Kind            `json:"fault,omitempty"`
}

// Effect is one run of a tool that changes something.
type Effect struct {
	Number    int             `json:"number"` // from 1, in the order in which they took place
	At        time.Time       `json:"at"`
	Tenant    string          `json:"tenant"`
	Key       string          `json:"idempotency_key,omitempty"`
	Slug      string          `json:"slug"`
	Arguments json.RawMessage `json:"arguments"`
}

// maxKeptBytes bounds the bodies and arguments that are kept, beside the number of them.
const maxKeptBytes = 64 << 20

// history keeps the newest of what it is given, and lets a caller wait for more.
type history[T any] struct {
	keep int
	size func(T) int

	mu     sync.Mutex
	items  []T
	bytes  int
	number int
	more   chan struct{} // closed at the next one
}

// add numbers and keeps one; make is called with its number.
func (h *history[T]) add(make func(number int) T) T {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.number++
	it := make(h.number)
	h.items = append(h.items, it)
	h.bytes += h.size(it)
	for len(h.items) > h.keep || h.bytes > maxKeptBytes && len(h.items) > 1 {
		h.bytes -= h.size(h.items[0])
		h.items = h.items[1:]
	}
	if h.more != nil {
		close(h.more)
		h.more = nil
	}
	return it
}

func (h *history[T]) all() []T {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.items)
}

func (h *history[T]) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.number
}

// reached returns nil once there were n, and before that a channel that is closed at the next one.
func (h *history[T]) reached(n int) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.number >= n {
		return nil
	}
	if h.more == nil {
		h.more = make(chan struct{})
	}
	return h.more
}
