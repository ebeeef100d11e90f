package worker

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// ledger is what this worker knows to be stored: from when each blob's age counts, and when that was last seen to be
// so. It lets a repeated assemble answer without asking the server. A note holds for one connection only: after a
// reconnect the server may be another, with other streams.
type ledger struct {
	connection func() uint64 // counts reconnects

	mu  sync.Mutex
	lru *simplelru.LRU[string, note]
}

type note struct {
	at   time.Time // the blob's age counts from here
	seen time.Time // the server said so then

	connection uint64
}

// ledgerNotes bounds the ledger; a note takes some 200 bytes.
const ledgerNotes = 32 << 10

func newLedger(connection func() uint64) *ledger {
	lru, err := simplelru.NewLRU[string, note](ledgerNotes, nil)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	return &ledger{connection: connection, lru: lru}
}

func (l *ledger) get(name string) (note, bool) {
	l.mu.Lock()
	n, ok := l.lru.Get(name)
	l.mu.Unlock()
	return n, ok && n.connection == l.connection()
}

func (l *ledger) set(name string, at, seen time.Time) {
	n := note{at: at, seen: seen, connection: l.connection()}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lru.Add(name, n)
}

// forget strikes a blob that turned out to be missing or damaged.
func (l *ledger) forget(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lru.Remove(name)
}
