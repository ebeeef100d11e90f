package durable

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"toolsearch/dispatch"
	"toolsearch/subjects"
	"toolsearch/worker/storage"
)

// stop sends a stop as a request and returns once JetStream has acknowledged it.
func (b *bus) stop(subject string) uint64 {
	b.t.Helper()
	m, err := b.nc.RequestWithContext(b.ctx, subject, []byte(`{"reason":"test"}`))
	if err != nil {
		b.t.Fatal(err)
	}
	var ack subjects.StopAck
	if err := json.Unmarshal(m.Data, &ack); err != nil || ack.Seq == 0 {
		b.t.Fatalf("the stop was not stored: %s", m.Data)
	}
	return ack.Seq
}

func (b *bus) stopCall(k dispatch.CallKey) uint64 {
	return b.stop(b.layout.Root.StopCall(k.Tenant, k.Session, k.Call))
}

func (b *bus) stopSession(k dispatch.CallKey) uint64 {
	return b.stop(b.layout.Root.StopSession(k.Tenant, k.Session))
}

// started begins a call in the background.
func (b *bus) start(c *Calls, call dispatch.Call) <-chan *dispatch.Reply {
	out := make(chan *dispatch.Reply, 1)
	go func() {
		r, err := c.Do(b.ctx, call)
		if err != nil {
			b.t.Errorf("call %s: %v", call.Key, err)
		}
		out <- r
	}()
	return out
}

func wantCodes(t *testing.T, r *dispatch.Reply, want ...string) {
	t.Helper()
	if r == nil {
		t.Fatal("no reply")
	}
	if got := codes(r); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("entries settled as %v, want %v", got, want)
	}
}

func wantEffects(t *testing.T, g *gateway, call string, indexes ...int) {
	t.Helper()
	want := []string{}
	for _, i := range indexes {
		want = append(want, fmt.Sprintf("%s/%d", call, i))
	}
	if got := g.effected(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("took effect: %v, want %v", got, want)
	}
}

// blocking makes the gateway stop before the effect of one entry until it is let go.
func (g *gateway) blocking(index int) (arrived chan struct{}, release chan struct{}) {
	arrived, release = make(chan struct{}, 16), make(chan struct{})
	g.before = func(ctx context.Context, s dispatch.Sending) {
		if s.Index == index {
			arrived <- struct{}{}
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
	}
	return arrived, release
}

func TestStopBetweenEntries(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"call", "session"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			b, g := newBus(t, storage.Layout{}), newGateway()
			arrived, release := g.blocking(1)
			c, call := b.worker(Options{Connectors: g}), batch(newKey("acme", "s1"), 5)
			reply := b.start(c, call)
			wait(t, arrived, "the second entry")
			if how == "call" {
				b.stopCall(call.Key)
			} else {
				b.stopSession(call.Key)
			}
			close(release)
			r := wait(t, reply, "the reply")
			// The entry that was on its way reports what is known of it.
			wantCodes(t, r, "ok", "ok", "INTERRUPTED", "INTERRUPTED", "INTERRUPTED")
			wantEffects(t, g, call.Key.Call, 0, 1)
		})
	}
}

func TestStopWithNoWorkerAlive(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"call", "session"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			b, g := newBus(t, storage.Layout{}), newGateway()
			accepting := b.worker(Options{Slots: -1})
			call := batch(newKey("acme", "s1"), 3)
			if _, err := accepting.Accept(b.ctx, call); err != nil {
				t.Fatal(err)
			}
			if err := accepting.Drain(b.ctx); err != nil {
				t.Fatal(err)
			}
			if how == "call" {
				b.stopCall(call.Key)
			} else {
				b.stopSession(call.Key)
			}
			c := b.worker(Options{Connectors: g})
			r, err := c.Wait(b.ctx, call.Key)
			if err != nil {
				t.Fatal(err)
			}
			wantCodes(t, r, "INTERRUPTED", "INTERRUPTED", "INTERRUPTED")
			wantEffects(t, g, call.Key.Call)
		})
	}
}

func TestStopOfCallBeforeTheCall(t *testing.T) {
	t.Parallel()
	b, g := newBus(t, storage.Layout{}), newGateway()
	c, call := b.worker(Options{Connectors: g}), batch(newKey("acme", "s1"), 2)
	b.stopCall(call.Key)
	wantCodes(t, b.do(c, call), "INTERRUPTED", "INTERRUPTED")
	wantEffects(t, g, call.Key.Call)
}

func TestStopsThatDoNotCover(t *testing.T) {
	t.Parallel()
	b, g := newBus(t, storage.Layout{}), newGateway()
	arrived, release := g.blocking(0)
	c := b.worker(Options{Connectors: g})
	key := newKey("acme", "s1")
	b.stopSession(key) // before the call was accepted
	reply := b.start(c, batch(key, 2))
	wait(t, arrived, "the first entry")
	b.stopSession(dispatch.CallKey{Tenant: "acme", Session: "s2"})
	b.stopSession(dispatch.CallKey{Tenant: "other", Session: "s1"})
	b.stopCall(dispatch.CallKey{Tenant: "acme", Session: "s1", Call: "another"})
	b.stopCall(dispatch.CallKey{Tenant: "acme", Session: "s2", Call: key.Call})
	close(release)
	wantCodes(t, wait(t, reply, "the reply"), "ok", "ok")
}

func TestStopCannotWipeTheJournal(t *testing.T) {
	t.Parallel()
	b, g := newBus(t, storage.Layout{}), newGateway()
	arrived, release := g.blocking(0)
	c, call := b.worker(Options{Connectors: g}), batch(newKey("acme", "s1"), 2)
	reply := b.start(c, call)
	wait(t, arrived, "the first entry")
	// A rollup of the whole stream would take every record with it.
	m := nats.NewMsg(b.layout.Root.StopSession("evil", "s"))
	m.Header.Set("Nats-Rollup", "all")
	if _, err := b.nc.RequestMsgWithContext(b.ctx, m); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.records.Read(b.ctx, call.Key); err != nil {
		t.Fatalf("the record is gone: %v", err)
	}
	close(release)
	wantCodes(t, wait(t, reply, "the reply"), "ok", "ok")
}

// A stop that was acknowledged before an entry was marked must keep it from being sent, however late the watch is.
func TestHeldBackWatchSendsNothingAfterAcknowledgedStop(t *testing.T) {
	t.Parallel()
	b, g, gate := newBus(t, storage.Layout{}), newGateway(), newGate()
	arrived, release := g.blocking(0)
	marked := make(chan struct{}, 4)
	c := b.worker(Options{Connectors: g, feed: gate.feed, wrap: func(r *dispatch.Runner) {
		r.Records = &faultyRecords{Records: r.Records, after: func(rec *dispatch.Record) error {
			if rec.Entries[1].State == dispatch.StateStarted {
				marked <- struct{}{}
			}
			return nil
		}}
	}})
	call := batch(newKey("acme", "s1"), 3)
	reply := b.start(c, call)
	wait(t, arrived, "the first entry")
	gate.set(true)
	b.stopSession(call.Key)
	close(release)
	wait(t, marked, "the mark of the second entry")
	wait(t, gate.held, "the watch to have something to hold back")
	gate.set(false)
	wantCodes(t, wait(t, reply, "the reply"), "ok", "INTERRUPTED", "INTERRUPTED")
	wantEffects(t, g, call.Key.Call, 0)
	if n := len(g.sent()); n != 1 {
		t.Fatalf("%d entries were sent after the stop was acknowledged, want none but the first", n)
	}
}

// A watch that does not come to the mark in time takes the mark back; nothing is sent and no takeover is counted.
func TestStalledWatchHandsBack(t *testing.T) {
	t.Parallel()
	b, g, gate := newBus(t, storage.Layout{}), newGateway(), newGate()
	returned := make(chan *dispatch.Record, 4)
	c := b.worker(Options{Connectors: g, feed: gate.feed, WatchWait: 20 * time.Millisecond, Sweep: 20 * time.Millisecond, wrap: func(r *dispatch.Runner) {
		r.Records = &faultyRecords{Records: r.Records, after: func(rec *dispatch.Record) error {
			if rec.Returned {
				select {
				case returned <- rec:
				default:
				}
			}
			return nil
		}}
	}})
	gate.set(true)
	call := batch(newKey("acme", "s1"), 2)
	reply := b.start(c, call)
	rec := wait(t, returned, "the job to be handed back")
	if rec.Entries[0].State != dispatch.StatePending || rec.Takeovers != 0 {
		t.Fatalf("handed back as %+v", rec)
	}
	if len(g.sent()) != 0 {
		t.Fatal("something was sent although the watch stood still")
	}
	gate.set(false)
	wantCodes(t, wait(t, reply, "the reply"), "ok", "ok")
	if rec := b.record(call.Key); rec.Takeovers != 0 {
		t.Fatalf("%d takeovers were counted for clean hand-backs", rec.Takeovers)
	}
}

// record reads a call's record as it stands.
func (b *bus) record(k dispatch.CallKey) *dispatch.Record {
	b.t.Helper()
	r := &records{stream: &stream{js: b.js, name: b.layout.CallsStream()}, layout: b.layout}
	value, _, err := r.Read(b.ctx, k)
	if err != nil {
		b.t.Fatal(err)
	}
	rec, err := dispatch.DecodeRecord(value)
	if err != nil {
		b.t.Fatal(err)
	}
	return rec
}

// A stop during a backoff wait ends the wait; the entry reports its last outcome and the rest is not sent.
func TestStopDuringBackoff(t *testing.T) {
	t.Parallel()
	b, g := newBus(t, storage.Layout{}), newGateway()
	waiting := make(chan struct{})
	g.answer = func(ctx context.Context, s dispatch.Sending) dispatch.Sent {
		close(waiting)
		select {
		case <-s.Stop:
			return failed(subjects.EntryProviderError, "the gateway said 503", 2)
		case <-ctx.Done():
			return dispatch.Sent{Cut: true}
		}
	}
	c, call := b.worker(Options{Connectors: g}), batch(newKey("acme", "s1"), 2)
	reply := b.start(c, call)
	wait(t, waiting, "the wait between attempts")
	b.stopSession(call.Key)
	wantCodes(t, wait(t, reply, "the reply"), "PROVIDER_ERROR", "INTERRUPTED")
	if rec := b.record(call.Key); rec.Entries[0].Attempts != 2 || rec.Entries[1].Attempts != 0 {
		t.Fatalf("attempts %d and %d, want 2 and 0", rec.Entries[0].Attempts, rec.Entries[1].Attempts)
	}
}

// kill ends a worker as a killed process would: its connection goes, and what it was at gets no further.
func kill(c *Calls) {
	c.nc.Close()
	c.cut(fmt.Errorf("killed"))
}

// A successor that finds an entry marked started and a stop that covers it sends nothing, and does not claim that
// nothing happened.
func TestStopAfterDeathIsUnknown(t *testing.T) {
	t.Parallel()
	b, g := newBus(t, storage.Layout{}), newGateway()
	arrived, _ := g.blocking(0)
	o := Options{Connectors: g, Slots: 1, AckWait: shortAckWait}
	accepting := b.worker(Options{Slots: -1, AckWait: o.AckWait})
	dying, call := b.worker(o), batch(newKey("acme", "s1"), 3)
	if _, err := accepting.Accept(b.ctx, call); err != nil {
		t.Fatal(err)
	}
	wait(t, arrived, "the first entry")
	kill(dying)
	b.stopSession(call.Key)
	second := newGateway()
	o.Connectors = second
	heir := b.worker(o)
	r, err := heir.Wait(b.ctx, call.Key)
	if err != nil {
		t.Fatal(err)
	}
	wantCodes(t, r, "OUTCOME_UNKNOWN", "INTERRUPTED", "INTERRUPTED")
	if len(second.sent()) != 0 {
		t.Fatal("the successor sent something after the stop")
	}
}
