package durable

import (
	"context"
	"strings"
	"testing"
	"time"

	"toolsearch/dispatch"
	"toolsearch/worker/storage"
)

// A worker that drains finishes the entry that is on its way and hands the rest to another; no takeover is counted.
func TestDrainHandsBack(t *testing.T) {
	t.Parallel()
	b, g := newBus(t, storage.Layout{}), newGateway()
	arrived, release := g.blocking(1)
	leaving, call := b.worker(Options{Connectors: g, Slots: 1}), batch(newKey("acme", "s1"), 3)
	if _, err := leaving.Accept(b.ctx, call); err != nil {
		t.Fatal(err)
	}
	wait(t, arrived, "the second entry")
	drained := make(chan error, 1)
	go func() { drained <- leaving.Drain(b.ctx) }()
	wait(t, leaving.drain, "the drain to begin")
	close(release)
	if err := wait(t, drained, "the drain to end"); err != nil {
		t.Fatal(err)
	}
	rec := b.record(call.Key)
	if !rec.Returned || rec.Entries[1].State != dispatch.StateOK || rec.Entries[2].State != dispatch.StatePending {
		t.Fatalf("handed back as %+v", rec)
	}
	b.wantStored(call.Key, "0", "1") // finished work shows at once
	second := newGateway()
	r, err := b.worker(Options{Connectors: second}).Wait(b.ctx, call.Key)
	if err != nil {
		t.Fatal(err)
	}
	wantCodes(t, r, "ok", "ok", "ok")
	wantEffects(t, second, call.Key.Call, 2)
	if rec := b.record(call.Key); rec.Takeovers != 0 {
		t.Fatalf("%d takeovers", rec.Takeovers)
	}
	b.wantStored(call.Key, "0", "1", "2", "summary")
	if err := leaving.Drain(b.ctx); err != nil { // again
		t.Fatal(err)
	}
}

// When the time to drain is over, what is on its way is handed back with its mark; its successor repeats it under the
// same key.
func TestDrainIsBounded(t *testing.T) {
	t.Parallel()
	b, g := newBus(t, storage.Layout{}), newGateway()
	arrived, _ := g.blocking(0)
	leaving, call := b.worker(Options{Connectors: g, Slots: 1}), batch(newKey("acme", "s1"), 2)
	if _, err := leaving.Accept(b.ctx, call); err != nil {
		t.Fatal(err)
	}
	wait(t, arrived, "the first entry")
	over, cancel := context.WithTimeout(b.ctx, 20*time.Millisecond)
	defer cancel()
	if err := leaving.Drain(over); err == nil {
		t.Fatal("the drain does not tell that its time was over")
	}
	rec := b.record(call.Key)
	if !rec.Returned || rec.Entries[0].State != dispatch.StateStarted {
		t.Fatalf("handed back as %+v", rec)
	}
	second := newGateway()
	r, err := b.worker(Options{Connectors: second}).Wait(b.ctx, call.Key)
	if err != nil {
		t.Fatal(err)
	}
	wantCodes(t, r, "ok", "ok")
	s := second.sent()
	if len(s) != 2 || !s[0].Repeat || s[1].Repeat || s[0].IdempotencyKey("x") != g.sent()[0].IdempotencyKey("x") {
		t.Fatal("the successor did not repeat the entry under the same key")
	}
	if rec := b.record(call.Key); rec.Takeovers != 0 || rec.Entries[0].Attempts != 2 {
		t.Fatalf("takeovers %d, attempts %d", rec.Takeovers, rec.Entries[0].Attempts)
	}
}

func TestDrainBeforeStart(t *testing.T) {
	t.Parallel()
	b := newBus(t, storage.Layout{})
	c, err := New(b.js, b.nc, Options{Layout: b.layout})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Drain(b.ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Start(b.ctx); err == nil {
		t.Fatal("a drained worker started")
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	b := newBus(t, storage.Layout{})
	for field, o := range map[string]Options{"Slots": {Slots: -2}, "TenantSlots": {TenantSlots: -1}, "AckWait": {AckWait: -1},
		"EntryBound": {EntryBound: -1}, "HostPatience": {HostPatience: -1}, "WatchWait": {WatchWait: -1}, "Sweep": {Sweep: -1},
		"MaxTakeovers": {MaxTakeovers: -1}, "Layout.Replicas": {Layout: storage.Layout{Replicas: 9}}} {
		if _, err := New(b.js, b.nc, o); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := New(nil, nil, Options{}); err == nil {
		t.Error("no connection was accepted")
	}
}
