package worker

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// ledger is what this worker knows to be stored: from when each blob's age counts, and when that was last seen to be
// so. It lets a repeated assemble answer without asking the server.
type ledger struct {
	mu  sync.Mutex
	lru *simplelru.LRU[string, note]
}

type note struct {
	at   time.Time // the blob's age counts from here
	seen time.Time // the server said so then
}

// ledgerNotes bounds the ledger; a note takes some 200 bytes.
const ledgerNotes = 32 << 10

func newLedger() *ledger {
	lru, err := simplelru.NewLRU[string, note](ledgerNotes, nil)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	return &ledger{lru: lru}
}

func (l *ledger) get(name string) (note, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lru.Get(name)
}

func (l *ledger) set(name string, at, seen time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lru.Add(name, note{at: at, seen: seen})
}

// forget strikes a blob that turned out to be missing or damaged.
func (l *ledger) forget(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lru.Remove(name)
}

// clear strikes all: after a reconnect the server may be another one.
func (l *ledger) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lru.Purge()
}
