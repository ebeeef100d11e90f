package toolhost

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"toolsearch/subjects"
)

// keyTable remembers the answers of one process, by idempotency key.
type keyTable struct {
	age      time.Duration
	maxKeys  int
	maxBytes int64
	now      func() time.Time

	mu      sync.Mutex
	entries map[[32]byte]*keyEntry
	order   *list.List // of *keyEntry, in the order of their claims
	answers *list.List // of *keyEntry that hold an answer, in the order they settled
	bytes   int64      // of answers
}

// keyEntry is one key: running until done is closed, then answered.
type keyEntry struct {
	key, fingerprint [32]byte
	since            time.Time
	done             chan struct{}
	progress         atomic.Int32 // waiting, begun or expired

	// Guarded by the table.
	table           *keyTable
	reply           *subjects.HostReply // nil while the tool runs
	dropped         bool                // reply is not the key's answer
	claimed, answer *list.Element       // places in order and answers; answer is nil without one
}

// How far a key's own request has come: its deadline and the begin of its tool exclude each other.
const (
	waiting int32 = iota
	begun
	expired
)

// forgotten stands for an answer that was too old or too large to be kept.
var forgotten = unknown("this idempotency_key ran before and its answer is no longer kept; nothing was run again")

func newKeyTable(age time.Duration, maxKeys int, maxBytes int64) *keyTable {
	return &keyTable{age: age, maxKeys: maxKeys, maxBytes: maxBytes, now: time.Now,
		entries: map[[32]byte]*keyEntry{}, order: list.New(), answers: list.New()}
}

// fingerprint is what must be equal for two requests to be the same.
func fingerprint(r *subjects.HostRequest) [32]byte {
	p, _ := json.Marshal([]any{r.Name, r.Arguments}) // arguments were decoded as JSON: they encode again, compact
	return sha256.Sum256(p)
}

// claim gives the entry of a key, and whether it is the caller's to run. nil is a key that belongs to another request.
func (t *keyTable) claim(key string, print [32]byte) (e *keyEntry, mine bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire()
	k := sha256.Sum256([]byte(key))
	if e = t.entries[k]; e != nil {
		if e.fingerprint != print {
			return nil, false
		}
		return e, false
	}
	e = &keyEntry{key: k, fingerprint: print, since: t.now(), done: make(chan struct{}), table: t}
	e.claimed = t.order.PushBack(e)
	t.entries[k] = e
	return e, true
}

// settle gives every holder of the key its answer, and keeps it within the bounds.
func (t *keyTable) settle(e *keyEntry, reply *subjects.HostReply) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.reply = reply
	e.answer = t.answers.PushBack(e)
	t.bytes += size(reply)
	close(e.done)
	for t.bytes > t.maxBytes && t.answers.Len() > 1 {
		t.forget(t.answers.Front().Value.(*keyEntry), forgotten)
	}
	t.removeWhile(func(*keyEntry) bool { return len(t.entries) > t.maxKeys })
}

// drop gives every holder an answer that is not the key's: nothing ran, and the key may be used again.
func (t *keyTable) drop(e *keyEntry, reply *subjects.HostReply) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.reply, e.dropped = reply, true
	close(e.done)
	t.remove(e)
}

// forget replaces an answer; the key stays.
func (t *keyTable) forget(e *keyEntry, by *subjects.HostReply) {
	if e.answer != nil {
		t.bytes -= size(e.reply)
		t.answers.Remove(e.answer)
		e.answer = nil
	}
	e.reply = by
}

func (t *keyTable) remove(e *keyEntry) {
	t.forget(e, e.reply)
	t.order.Remove(e.claimed)
	delete(t.entries, e.key)
}

// expire drops the keys that are past their age.
func (t *keyTable) expire() {
	now := t.now()
	t.removeWhile(func(e *keyEntry) bool { return now.Sub(e.since) >= t.age })
}

// removeWhile removes from the oldest on as long as old holds, but for keys that run.
func (t *keyTable) removeWhile(old func(*keyEntry) bool) {
	for el := t.order.Front(); el != nil; {
		e := el.Value.(*keyEntry)
		el = el.Next()
		if !old(e) {
			return
		}
		if e.reply != nil {
			t.remove(e)
		}
	}
}

func size(r *subjects.HostReply) int64 {
	if r == nil {
		return 0
	}
	n := int64(len(r.Result))
	if r.Error != nil {
		n += int64(len(r.Error.Code) + len(r.Error.Message))
	}
	return n
}

// begin claims the right to run the tool; it fails where the deadline was first.
func (e *keyEntry) begin() bool { return e.progress.CompareAndSwap(waiting, begun) }

// waitOwn gives the owner's reply: the answer, or why it does not wait for it any longer.
func (e *keyEntry) waitOwn(ctx context.Context) *subjects.HostReply {
	select {
	case <-e.done:
		reply, _ := e.answered()
		return reply
	case <-ctx.Done():
	}
	if e.progress.CompareAndSwap(waiting, expired) {
		return notBegun()
	}
	return stillRuns(ctx)
}

// wait gives the answer of a key that another request runs. nil: that one was dropped, so the key is free again.
func (e *keyEntry) wait(ctx context.Context) *subjects.HostReply {
	select {
	case <-e.done:
		if reply, dropped := e.answered(); !dropped {
			return reply
		}
		return nil
	case <-ctx.Done():
		return stillRuns(ctx)
	}
}

func (e *keyEntry) answered() (reply *subjects.HostReply, dropped bool) {
	e.table.mu.Lock()
	defer e.table.mu.Unlock()
	return e.reply, e.dropped
}

func stillRuns(ctx context.Context) *subjects.HostReply {
	if errors.Is(context.Cause(ctx), ErrStopped) {
		return unknown("the host was stopped while the tool ran; what it did is not known")
	}
	return unknown("the tool still runs past the deadline; the same idempotency_key asks for its answer later")
}
