package durable

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"toolsearch/dispatch"
	"toolsearch/subjects"
	"toolsearch/worker/storage"
)

// A tenant whose calls hang does not keep another one waiting, however many it has queued.
func TestSlowTenantDoesNotStarveAnother(t *testing.T) {
	t.Parallel()
	b, g := newBus(t, storage.Layout{}), newGateway()
	arrived, release := make(chan struct{}, 100), make(chan struct{})
	g.before = func(ctx context.Context, s dispatch.Sending) {
		if s.Key.Tenant == "slow" {
			arrived <- struct{}{}
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
	}
	c := b.worker(Options{Connectors: g, Slots: 4, TenantSlots: 3})
	var replies []<-chan *dispatch.Reply
	for range 30 {
		call := batch(newKey("slow", "s1"), 1)
		if _, err := c.Accept(b.ctx, call); err != nil {
			t.Fatal(err)
		}
		replies = append(replies, b.start(c, call))
	}
	for range 3 {
		wait(t, arrived, "the slow tenant to take what it may")
	}
	begun := time.Now()
	for range 100 {
		wantCodes(t, b.do(c, batch(newKey("quick", "s1"), 1)), "ok")
	}
	if d := time.Since(begun); d > time.Minute { // a second each, or more, where a question about the slow tenant hangs
		t.Fatalf("100 quick calls took %s beside the slow tenant", d)
	}
	select {
	case <-arrived:
		t.Fatal("the slow tenant has more than its bound")
	default:
	}
	close(release)
	for _, r := range replies {
		wantCodes(t, wait(t, r, "a slow reply"), "ok")
	}
}

// Tenants take turns: with one place, a tenant that queued first does not have all of its calls run first.
func TestTenantsTakeTurns(t *testing.T) {
	t.Parallel()
	b, g := newBus(t, storage.Layout{}), newGateway()
	accepting := b.worker(Options{Slots: -1})
	var calls []dispatch.Call
	for _, tenant := range []string{"one", "two", "three"} {
		for range 20 {
			call := batch(newKey(tenant, "s"), 1)
			if _, err := accepting.Accept(b.ctx, call); err != nil {
				t.Fatal(err)
			}
			calls = append(calls, call)
		}
	}
	c := b.worker(Options{Connectors: g, Slots: 1})
	for _, call := range calls {
		if _, err := c.Wait(b.ctx, call.Key); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]int{}
	for i, s := range g.sent() {
		seen[s.Key.Tenant]++
		if i == 39 { // two thirds; a question may lapse on a busy server, and costs its tenant a turn
			for tenant, n := range seen {
				if n < 7 {
					t.Errorf("of the first 40 calls tenant %s had %d: %v", tenant, n, seen)
				}
			}
		}
	}
}

// A job of which no wake-up told, and a tenant's consumer that is gone, are found by looking.
func TestMissedWakeUps(t *testing.T) {
	t.Parallel()
	b, g := newBus(t, storage.Layout{}), newGateway()
	accepting := b.worker(Options{Slots: -1})
	var calls []dispatch.Call
	for range 3 {
		call := batch(newKey("acme", "s1"), 1)
		if _, err := accepting.Accept(b.ctx, call); err != nil {
			t.Fatal(err)
		}
		calls = append(calls, call)
	}
	if err := b.js.DeleteConsumer(b.ctx, b.layout.JobsStream(), "tenant-acme"); err != nil {
		t.Fatal(err)
	}
	c := b.worker(Options{Connectors: g, Sweep: 20 * time.Millisecond})
	for _, call := range calls {
		r, err := c.Wait(b.ctx, call.Key)
		if err != nil {
			t.Fatal(err)
		}
		wantCodes(t, r, "ok")
	}
	// The consumer goes while the worker believes in it.
	if err := b.js.DeleteConsumer(b.ctx, b.layout.JobsStream(), "tenant-acme"); err != nil {
		t.Fatal(err)
	}
	wantCodes(t, b.do(c, batch(newKey("acme", "s1"), 1)), "ok")
}

// Many calls queued for one worker all end, each with one effect per entry.
func TestManyQueued(t *testing.T) {
	t.Parallel()
	n := 2000
	switch {
	case os.Getenv("TOOLSEARCH_CHAOS") == "long":
		n = 10_000
	case testing.Short():
		n = 200
	}
	b, g := newBus(t, storage.Layout{}), newGateway()
	accepting := b.worker(Options{Slots: -1})
	calls := make([]dispatch.Call, n)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := w; i < n; i += 8 {
				calls[i] = batch(newKey(fmt.Sprintf("tenant-%d", i%5), fmt.Sprintf("s-%d", i%50)), 1)
				_, err := accepting.Accept(b.ctx, calls[i])
				for errors.Is(err, &subjects.Error{Code: subjects.CodeUnavailable}) && b.ctx.Err() == nil { // by a slow machine
					_, err = accepting.Accept(b.ctx, calls[i])
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	c := b.worker(Options{Connectors: g})
	for _, call := range calls {
		r, err := c.Wait(b.ctx, call.Key)
		if err != nil {
			t.Fatal(err)
		}
		wantCodes(t, r, "ok")
	}
	if got := len(g.effected()); got != n {
		t.Fatalf("%d effects of %d calls", got, n)
	}
	b.queueEmpty()
}
