package durable

import (
	"context"
	"errors"
	"sync"

	"toolsearch/dispatch"
)

// The seams at which tests make faults, in front of the real JetStream.

var errInjected = errors.New("injected: no answer")

// faultyRecords can fail writes before or after they took place, and tells of each.
type faultyRecords struct {
	dispatch.Records
	// before, if it returns an error, keeps a write from being made; after takes its acknowledgement away.
	before, after func(rec *dispatch.Record) error
}

func (f *faultyRecords) Write(ctx context.Context, k dispatch.CallKey, value []byte, rev uint64, p dispatch.Phase) (uint64, error) {
	rec, _ := dispatch.DecodeRecord(value)
	if f.before != nil {
		if err := f.before(rec); err != nil {
			return 0, err
		}
	}
	seq, err := f.Records.Write(ctx, k, value, rev, p)
	if err == nil && f.after != nil {
		if err := f.after(rec); err != nil {
			return 0, err
		}
	}
	return seq, err
}

// slowWatch runs a function before a mark counts as passed.
type slowWatch struct {
	dispatch.Watch
	passing func(seq uint64)
}

func (s *slowWatch) Follow(ctx context.Context, k dispatch.CallKey, created uint64) (dispatch.Following, error) {
	f, err := s.Watch.Follow(ctx, k, created)
	if err != nil {
		return nil, err
	}
	return &slowFollowing{f, s.passing}, nil
}

type slowFollowing struct {
	dispatch.Following
	passing func(seq uint64)
}

func (s *slowFollowing) Passed(ctx context.Context, seq uint64) error {
	s.passing(seq)
	return s.Following.Passed(ctx, seq)
}

// faultyEvents can fail an event before or after it was stored.
type faultyEvents struct {
	dispatch.Events
	before, after func(ctx context.Context, id string) error
}

func (f *faultyEvents) Publish(ctx context.Context, k dispatch.CallKey, id string, body []byte, t dispatch.Trace) error {
	if f.before != nil {
		if err := f.before(ctx, id); err != nil {
			return err
		}
	}
	err := f.Events.Publish(ctx, k, id, body, t)
	if err == nil && f.after != nil {
		return f.after(ctx, id)
	}
	return err
}

// gate holds feeds back while it is shut. What is held back is delivered in order when it opens.
type gate struct {
	mu   sync.Mutex
	cond *sync.Cond
	shut bool
	held chan struct{} // holds a token once a note waits
}

func newGate() *gate {
	g := &gate{held: make(chan struct{}, 1)}
	g.cond = sync.NewCond(&g.mu)
	return g
}

func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = shut
	g.cond.Broadcast()
}

// wait waits until the gate opens, or the feed that a note came by is stopped.
func (g *gate) wait(stopped *bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.shut && !*stopped {
		select {
		case g.held <- struct{}{}:
		default:
		}
		g.cond.Wait()
	}
}

// feed puts the gate in front of a feed.
func (g *gate) feed(inner feed) feed {
	return func(ctx context.Context, from uint64, deliver func(note)) (func(), error) {
		stopped := false // of this feed alone: the watch may open another one while the gate is shut
		stop, err := inner(ctx, from, func(n note) { g.wait(&stopped); deliver(n) })
		if err != nil {
			return nil, err
		}
		return func() {
			g.mu.Lock()
			stopped = true
			g.cond.Broadcast()
			g.mu.Unlock()
			stop()
		}, nil
	}
}
