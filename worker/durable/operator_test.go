package durable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"toolsearch/dispatch"
	"toolsearch/subjects"
	"toolsearch/worker/storage"
)

// A call whose runners die each time is given up: what was marked started is unknown, what was not is abandoned, and
// an operator can have the abandoned entries tried again, under the same keys.
func TestDeadlyCallIsGivenUpAndReopened(t *testing.T) {
	t.Parallel()
	b := newBus(t, storage.Layout{})
	const bound = 2
	accepting := b.worker(Options{Slots: -1, AckWait: shortAckWait})
	call := batch(newKey("acme", "s1"), 4)
	if _, err := accepting.Accept(b.ctx, call); err != nil {
		t.Fatal(err)
	}
	keys := map[int]string{}
	for range bound + 1 {
		g := newGateway()
		arrived, _ := g.blocking(1)
		dying := b.worker(Options{Connectors: g, Slots: 1, AckWait: shortAckWait, MaxTakeovers: bound})
		wait(t, arrived, "the deadly entry")
		for _, s := range g.sent() {
			if k := s.IdempotencyKey(s.Name); keys[s.Index] == "" {
				keys[s.Index] = k
			} else if keys[s.Index] != k {
				t.Fatalf("entry %d was sent under another key", s.Index)
			}
		}
		kill(dying)
	}
	g := newGateway()
	heir := b.worker(Options{Connectors: g, Slots: 1, AckWait: shortAckWait, MaxTakeovers: bound})
	r, err := heir.Wait(b.ctx, call.Key)
	if err != nil {
		t.Fatal(err)
	}
	wantCodes(t, r, "ok", "OUTCOME_UNKNOWN", "ABANDONED", "ABANDONED")
	if len(g.sent()) != 0 {
		t.Fatal("something ran beyond the bound")
	}
	b.queueEmpty()
	b.wantStored(call.Key, "0", "1", "2", "3", "summary")
	if outcomes := fmt.Sprint(outcomesOf(b.events(call.Key))); outcomes != "[ok unknown abandoned abandoned]" {
		t.Fatal(outcomes)
	}

	list, err := heir.Jobs(b.ctx, "acme", 0)
	if err != nil || len(list.Jobs) != 1 || list.Jobs[0].Place != PlaceDead || list.Jobs[0].Key != call.Key || len(list.Jobs[0].Names) != 4 {
		t.Fatalf("%+v, %v", list, err)
	}
	info, err := heir.Show(b.ctx, call.Key)
	if err != nil || info.Dead == nil || info.Record == nil || info.Record.Takeovers != bound+1 {
		t.Fatalf("%+v, %v", info, err)
	}

	generation, err := heir.Retry(b.ctx, call.Key)
	if err != nil || generation != 1 {
		t.Fatalf("%d, %v", generation, err)
	}
	r, err = heir.Wait(b.ctx, call.Key)
	if err != nil {
		t.Fatal(err)
	}
	wantCodes(t, r, "ok", "OUTCOME_UNKNOWN", "ok", "ok")
	wantEffects(t, g, call.Key.Call, 2, 3)
	b.queueEmpty()
	b.wantStored(call.Key, "0", "1", "2", "3", "summary", "2.g1", "3.g1", "summary.g1")
	nonce := b.record(call.Key).Nonce
	for _, s := range g.sent() {
		if s.IdempotencyKey(s.Name) != dispatch.IdempotencyKey(nonce, s.Index, s.Name) || s.Repeat {
			t.Fatalf("entry %d was reopened under another key, or as a repeat", s.Index)
		}
	}
	s := &stream{js: b.js, name: b.layout.ResultsStream()}
	m, err := s.last(b.ctx, b.layout.Root.Result("acme", "s1", call.Key.Call))
	if err != nil || m == nil || !bytes.Contains(m.Data, []byte(`"generation":1`)) {
		t.Fatalf("the reopened call's summary carries no generation: %s %v", m.Data, err)
	}
	if _, err := heir.Retry(b.ctx, call.Key); !errors.Is(err, dispatch.ErrNotFound) {
		t.Fatalf("a second retry: %v", err)
	}
	// A repeated call is answered from the record of the last generation.
	wantCodes(t, b.do(heir, call), "ok", "OUTCOME_UNKNOWN", "ok", "ok")
}

func outcomesOf(evs []subjects.Event) (out []subjects.Outcome) {
	for _, e := range evs {
		if e.Entry != nil {
			out = append(out, e.Entry.Outcome)
		}
	}
	return out
}

// A retry whose answer was lost may be repeated: it is queued once.
func TestRepeatedRetry(t *testing.T) {
	t.Parallel()
	b := newBus(t, storage.Layout{})
	accepting := b.worker(Options{Slots: -1, AckWait: shortAckWait})
	call := batch(newKey("acme", "s1"), 2)
	if _, err := accepting.Accept(b.ctx, call); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		g := newGateway()
		arrived, _ := g.blocking(0)
		dying := b.worker(Options{Connectors: g, Slots: 1, AckWait: shortAckWait, MaxTakeovers: 1})
		wait(t, arrived, "the deadly entry")
		kill(dying)
	}
	o := Options{AckWait: shortAckWait, MaxTakeovers: 1, Slots: 1}
	last := b.worker(o)
	if _, err := last.Wait(b.ctx, call.Key); err != nil {
		t.Fatal(err)
	}
	if err := last.Drain(b.ctx); err != nil {
		t.Fatal(err)
	}
	reopener := *accepting.reopener
	reopener.Jobs = jobsDown{}
	if _, err := reopener.Reopen(b.ctx, call.Key); !errors.Is(err, errInjected) {
		t.Fatalf("%v, want the injected fault", err)
	}
	for range 2 { // the second finds the letter gone, or queues nothing new
		if g, err := accepting.Retry(b.ctx, call.Key); err == nil && g != 1 || err != nil && !errors.Is(err, dispatch.ErrNotFound) {
			t.Fatalf("generation %d, %v", g, err)
		}
	}
	g := newGateway()
	o.Connectors = g
	r, err := b.worker(o).Wait(b.ctx, call.Key)
	if err != nil {
		t.Fatal(err)
	}
	wantCodes(t, r, "OUTCOME_UNKNOWN", "ok")
	wantEffects(t, g, call.Key.Call, 1)
	b.queueEmpty()
}

func TestNothingToReopen(t *testing.T) {
	t.Parallel()
	b, g := newBus(t, storage.Layout{}), newGateway()
	c, call := b.worker(Options{Connectors: g}), batch(newKey("acme", "s1"), 1)
	b.do(c, call)
	b.queueEmpty() // the reply comes before the job is off the queue
	if _, err := c.Retry(b.ctx, call.Key); !errors.Is(err, dispatch.ErrNotFound) {
		t.Fatalf("%v", err)
	}
	if _, err := c.Show(b.ctx, newKey("acme", "s1")); !errors.Is(err, dispatch.ErrNotFound) {
		t.Fatalf("%v", err)
	}
	list, err := c.Jobs(b.ctx, "", 0)
	if err != nil || len(list.Jobs) != 0 {
		t.Fatalf("%+v, %v", list, err)
	}
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	if _, err := c.Jobs(ctx, "", 0); err == nil {
		t.Fatal("no error for a context that has ended")
	}
}

func TestJobsLists(t *testing.T) {
	t.Parallel()
	b := newBus(t, storage.Layout{})
	c := b.worker(Options{Slots: -1})
	for _, tenant := range []string{"a", "a", "b"} {
		if _, err := c.Accept(b.ctx, batch(newKey(tenant, "s1"), 1)); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		tenant string
		limit  int
		n      int
		more   bool
	}{{"", 0, 3, false}, {"a", 0, 2, false}, {"b", 0, 1, false}, {"c", 0, 0, false}, {"", 2, 2, true}} {
		list, err := c.Jobs(b.ctx, test.tenant, test.limit)
		if err != nil || len(list.Jobs) != test.n || list.More != test.more {
			t.Errorf("tenant %q, limit %d: %+v, %v", test.tenant, test.limit, list, err)
		}
	}
}
