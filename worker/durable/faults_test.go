package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"toolsearch/dispatch"
	"toolsearch/subjects"
	"toolsearch/worker/storage"
)

// events reads what the result stream holds of a call, in order.
func (b *bus) events(k dispatch.CallKey) []subjects.Event {
	b.t.Helper()
	client, err := subjects.NewClient(b.nc, subjects.ClientOptions{Root: b.layout.Root})
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	for {
		out, err := replay(ctx, client.Session(k.Tenant, k.Session), k.Call)
		if err == nil {
			return out
		}
		if !errors.Is(err, &subjects.Error{Code: subjects.CodeUnavailable}) { // a large body that took a slow machine too long
			b.t.Fatal(err)
		}
	}
}

func replay(ctx context.Context, s *subjects.Session, call string) (out []subjects.Event, _ error) {
	seq, err := s.Watch(ctx, subjects.WatchOptions{Call: call, Replay: true})
	if err != nil {
		return nil, err
	}
	for ev, err := range seq {
		if err != nil {
			return nil, err
		}
		out = append(out, ev)
	}
	return out, nil
}

// stored counts the messages of a call in the result stream.
func (b *bus) stored(k dispatch.CallKey) (subjects []string) {
	b.t.Helper()
	s := &stream{js: b.js, name: b.layout.ResultsStream()}
	for seq := uint64(1); ; {
		m, err := s.next(b.ctx, b.layout.Root.Result(k.Tenant, k.Session, k.Call), seq)
		if err != nil {
			b.t.Fatal(err)
		}
		if m == nil {
			return subjects
		}
		subjects = append(subjects, strings.TrimPrefix(m.Header.Get(jetstream.MsgIDHeader), k.String()+"."))
		seq = m.Sequence + 1
	}
}

func (b *bus) wantStored(k dispatch.CallKey, want ...string) {
	b.t.Helper()
	if got := b.stored(k); fmt.Sprint(got) != fmt.Sprint(want) {
		b.t.Fatalf("events in the stream: %v, want %v", got, want)
	}
}

// queueEmpty waits until the queue holds nothing.
func (b *bus) queueEmpty() {
	b.t.Helper()
	s := &stream{js: b.js, name: b.layout.JobsStream()}
	for deadline := time.Now().Add(patience); ; {
		info, err := s.info(b.ctx)
		if err == nil && info.State.Msgs == 0 {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("the queue still holds something: %+v, %v", info, err)
		}
	}
}

// Every acknowledgement of a record's write is lost once. The runner finds its own write and goes on: no other runner
// is needed, and nothing is sent twice.
func TestLostAcknowledgements(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"after the write", "before the write"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			b, g := newBus(t, storage.Layout{}), newGateway()
			var mu sync.Mutex
			lost := map[uint64]bool{}
			once := func(rec *dispatch.Record) error {
				mu.Lock()
				defer mu.Unlock()
				if lost[rec.Write] {
					return nil
				}
				lost[rec.Write] = true
				return errInjected
			}
			c := b.worker(Options{Connectors: g, wrap: func(r *dispatch.Runner) {
				f := &faultyRecords{Records: r.Records}
				if when == "after the write" {
					f.after = once
				} else {
					f.before = once
				}
				r.Records = f
			}})
			call := batch(newKey("acme", "s1"), 3)
			wantCodes(t, b.do(c, call), "ok", "ok", "ok")
			wantEffects(t, g, call.Key.Call, 0, 1, 2)
			if n := len(g.sent()); n != 3 {
				t.Fatalf("sent %d times, want 3", n)
			}
			b.queueEmpty() // the reply comes before the last acknowledgement is missed
			mu.Lock()
			defer mu.Unlock()
			if len(lost) < 5 {
				t.Fatalf("only %d writes were put to the test", len(lost))
			}
			b.wantStored(call.Key, "0", "1", "2", "summary")
		})
	}
}

// The acknowledgement of a call's first write is lost: the acceptor knows it by its nonce.
func TestLostAcknowledgementOfCreation(t *testing.T) {
	t.Parallel()
	b, g := newBus(t, storage.Layout{}), newGateway()
	c := b.worker(Options{Connectors: g})
	var once sync.Once
	c.acceptor.Records = &faultyRecords{Records: c.records, after: func(*dispatch.Record) (err error) {
		once.Do(func() { err = errInjected })
		return err
	}}
	call := batch(newKey("acme", "s1"), 1)
	ticket, err := c.Accept(b.ctx, call)
	if err != nil || ticket.Attached {
		t.Fatalf("%+v, %v", ticket, err)
	}
	r, err := c.Wait(b.ctx, call.Key)
	if err != nil {
		t.Fatal(err)
	}
	wantCodes(t, r, "ok")
}

// A runner that was paused where it hurts most wakes after another one took over and finished. It must not write, send
// or publish anything more.
func TestRunnerWakesAfterTakeover(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"while sending", "before the mark counts", "before settling", "before an event"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			b, first, second := newBus(t, storage.Layout{}), newGateway(), newGateway()
			asleep, wake := make(chan struct{}, 16), make(chan struct{})
			var slept atomic.Bool
			sleep := func() {
				if slept.CompareAndSwap(false, true) {
					asleep <- struct{}{}
					<-wake
				}
			}
			ended := make(chan dispatch.Verdict, 16)
			o := Options{Connectors: first, Slots: 1, AckWait: shortAckWait, verdict: func(v dispatch.Verdict) { ended <- v }}
			o.wrap = func(r *dispatch.Runner) {
				r.AckWait = 0 // a paused process sends no sign of life
				switch where {
				case "while sending":
					first.answer = func(context.Context, dispatch.Sending) dispatch.Sent { sleep(); return okay(`{"late":true}`) }
				case "before the mark counts":
					r.Watch = &slowWatch{Watch: r.Watch, passing: func(uint64) { sleep() }}
				case "before settling":
					r.Records = &faultyRecords{Records: r.Records, before: func(rec *dispatch.Record) error {
						if rec.Entries[0].State == dispatch.StateOK {
							sleep()
						}
						return nil
					}}
				case "before an event":
					r.Events = &faultyEvents{Events: r.Events, before: func(context.Context, string) error { sleep(); return nil }}
				}
			}
			paused := b.worker(o)
			call := batch(newKey("acme", "s1"), 3)
			if _, err := paused.Accept(b.ctx, call); err != nil {
				t.Fatal(err)
			}
			wait(t, asleep, "the first runner to fall asleep")
			firstSends := len(first.sent())
			heir := b.worker(Options{Connectors: second, Slots: 1, AckWait: o.AckWait})
			r, err := heir.Wait(b.ctx, call.Key)
			if err != nil {
				t.Fatal(err)
			}
			wantCodes(t, r, "ok", "ok", "ok")
			before := b.record(call.Key)
			b.queueEmpty()
			close(wake)
			if v := wait(t, ended, "the first runner to end"); v != dispatch.VerdictLost {
				t.Fatalf("the first runner ended as %s, want lost", v)
			}
			// A runner whose announcer alone is paused has gone on meanwhile, which was right.
			if n := len(first.sent()); n != firstSends && where != "before an event" {
				t.Fatalf("the first runner sent %d entries after it had lost the call", n-firstSends)
			}
			after, _ := json.Marshal(b.record(call.Key))
			if was, _ := json.Marshal(before); string(was) != string(after) {
				t.Fatalf("the record changed from\n%s to\n%s", was, after)
			}
			b.wantStored(call.Key, "0", "1", "2", "summary")
			// What may have been sent before the pause was sent again under the same key.
			if s := second.sent(); where != "before the mark counts" && len(s) > 0 {
				a, c := first.sent()[0], s[0]
				if c.Index == 0 && (a.IdempotencyKey("x") != c.IdempotencyKey("x") || !c.Repeat) {
					t.Fatal("the successor did not repeat the entry under the first runner's key")
				}
			}
		})
	}
}

// A worker dies at each step of a call's settling; its successor completes what is missing. Each entry takes effect
// once, and each event is stored once and in order.
func TestDeathAtEachStep(t *testing.T) {
	t.Parallel()
	steps := map[string]func(r *dispatch.Runner, die func()){
		"after the first mark": func(r *dispatch.Runner, die func()) {
			r.Records = &faultyRecords{Records: r.Records, after: func(rec *dispatch.Record) error {
				if rec.Entries[0].State == dispatch.StateStarted {
					die()
				}
				return nil
			}}
		},
		"after an entry settled": func(r *dispatch.Runner, die func()) {
			r.Records = &faultyRecords{Records: r.Records, after: func(rec *dispatch.Record) error {
				if rec.Entries[1].State == dispatch.StateOK {
					die()
				}
				return nil
			}}
		},
		"before the first event": func(r *dispatch.Runner, die func()) {
			r.Events = &faultyEvents{Events: r.Events, before: func(context.Context, string) error { die(); return errInjected }}
		},
		"after the first event": func(r *dispatch.Runner, die func()) {
			r.Events = &faultyEvents{Events: r.Events, after: func(context.Context, string) error { die(); return errInjected }}
		},
		"before the summary": func(r *dispatch.Runner, die func()) {
			r.Events = &faultyEvents{Events: r.Events, before: func(_ context.Context, id string) error {
				if strings.HasSuffix(id, "summary") {
					die()
					return errInjected
				}
				return nil
			}}
		},
		"after the summary": func(r *dispatch.Runner, die func()) {
			r.Events = &faultyEvents{Events: r.Events, after: func(_ context.Context, id string) error {
				if strings.HasSuffix(id, "summary") {
					die()
				}
				return nil
			}}
		},
		"before it counts as published": func(r *dispatch.Runner, die func()) {
			r.Records = &faultyRecords{Records: r.Records, before: func(rec *dispatch.Record) error {
				if rec.Published {
					die()
					return errInjected
				}
				return nil
			}}
		},
		"after it counts as published": func(r *dispatch.Runner, die func()) {
			r.Records = &faultyRecords{Records: r.Records, after: func(rec *dispatch.Record) error {
				if rec.Published {
					die()
				}
				return nil
			}}
		},
	}
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, g := newBus(t, storage.Layout{}), newGateway()
			died := make(chan struct{})
			var once sync.Once
			var dying *Calls
			ready := make(chan struct{})
			o := Options{Connectors: g, Slots: 1, AckWait: shortAckWait}
			o.wrap = func(r *dispatch.Runner) {
				r.AckWait = 0
				step(r, func() { once.Do(func() { <-ready; kill(dying); close(died) }) })
			}
			dying = b.worker(o)
			close(ready)
			accepting := b.worker(Options{Slots: -1, AckWait: o.AckWait})
			call := batch(newKey("acme", "s1"), 3)
			if _, err := accepting.Accept(b.ctx, call); err != nil {
				t.Fatal(err)
			}
			wait(t, died, "the worker to die")
			heir := b.worker(Options{Connectors: g, Slots: 1, AckWait: o.AckWait})
			r, err := heir.Wait(b.ctx, call.Key)
			if err != nil {
				t.Fatal(err)
			}
			wantCodes(t, r, "ok", "ok", "ok")
			wantEffects(t, g, call.Key.Call, 0, 1, 2)
			b.queueEmpty()
			b.wantStored(call.Key, "0", "1", "2", "summary")
		})
	}
}

// Ten entries with 200 KiB of result each: the record stays small, every event and the summary arrive whole.
func TestTenLargeResults(t *testing.T) {
	t.Parallel()
	b, g := newBus(t, storage.Layout{}), newGateway()
	large := func(i int) string { return fmt.Sprintf(`{"i":%d,"text":%q}`, i, strings.Repeat("x", 200<<10)) }
	g.answer = func(_ context.Context, s dispatch.Sending) dispatch.Sent { return okay(large(s.Index)) }
	c, call := b.worker(Options{Connectors: g}), batch(newKey("acme", "s1"), 10)
	reply := b.do(c, call)
	for i, e := range reply.Batch.Results {
		if string(e.Response) != large(i) {
			t.Fatalf("entry %d came back as %d bytes", i, len(e.Response))
		}
	}
	value, _, err := c.records.Read(b.ctx, call.Key)
	if err != nil {
		t.Fatal(err)
	}
	if len(value) > 64<<10 {
		t.Fatalf("the record takes %d bytes", len(value))
	}
	evs := b.events(call.Key)
	if len(evs) != 11 || evs[10].Summary == nil {
		t.Fatalf("%d events, want 10 and the summary", len(evs))
	}
	for i, ev := range evs[:10] {
		if ev.Entry == nil || ev.Entry.Index != i || string(ev.Entry.Response) != large(i) {
			t.Fatalf("event %d is not that of its entry", i)
		}
		if string(evs[10].Summary.Results[i].Response) != large(i) {
			t.Fatalf("line %d of the summary is not its entry's", i)
		}
	}
	body, err := reply.MarshalModel()
	if err != nil || len(body) < 10*200<<10 {
		t.Fatalf("the reply takes %d bytes: %v", len(body), err)
	}
}

// Arguments over the inline bound travel by body, for a runner on any worker.
func TestLargeArguments(t *testing.T) {
	t.Parallel()
	b, g := newBus(t, storage.Layout{}), newGateway()
	c := b.worker(Options{Connectors: g})
	call := batch(newKey("acme", "s1"), 1)
	call.Payload.Entries[0].Arguments = json.RawMessage(`{"text":"` + strings.Repeat("y", 5<<20) + `"}`)
	wantCodes(t, b.do(c, call), "ok")
	if got := g.sent()[0].Arguments; string(got) != string(call.Payload.Entries[0].Arguments) {
		t.Fatalf("%d bytes of arguments arrived", len(got))
	}
}

// A record that cannot be read gets its call a clear outcome; the job is kept for an operator, and the worker goes on.
func TestUnreadableRecord(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"garbage", "wrong states", "gone"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			b, g := newBus(t, storage.Layout{}), newGateway()
			accepting := b.worker(Options{Slots: -1})
			call := batch(newKey("acme", "s1"), 2)
			if _, err := accepting.Accept(b.ctx, call); err != nil {
				t.Fatal(err)
			}
			subject := b.layout.RecordSubject(call.Key.String())
			switch how {
			case "garbage":
				_, err := b.js.Publish(b.ctx, subject, []byte("\x00not json"))
				if err != nil {
					t.Fatal(err)
				}
			case "wrong states":
				if _, err := b.js.Publish(b.ctx, subject, []byte(`{"v":1,"nonce":"n","entries":[{"name":"x","state":"flying"}]}`)); err != nil {
					t.Fatal(err)
				}
			case "gone":
				_, rev, err := accepting.records.Read(b.ctx, call.Key)
				if err != nil {
					t.Fatal(err)
				}
				if err := accepting.records.Remove(b.ctx, call.Key, rev); err != nil {
					t.Fatal(err)
				}
			}
			c := b.worker(Options{Connectors: g})
			b.queueEmpty()
			r, err := c.Wait(b.ctx, call.Key)
			if err != nil {
				t.Fatal(err)
			}
			wantCodes(t, r, "OUTCOME_UNKNOWN", "OUTCOME_UNKNOWN")
			wantEffects(t, g, call.Key.Call)
			b.wantStored(call.Key, "0", "1", "summary")
			info, err := c.Show(b.ctx, call.Key)
			if err != nil || info.Dead == nil || info.Dead.Job == nil {
				t.Fatalf("nothing is kept for an operator: %+v, %v", info, err)
			}
			wantCodes(t, b.do(c, batch(newKey("acme", "s1"), 1)), "ok")
		})
	}
}

// A message of the queue that is no job is kept for an operator and does not stand in the way.
func TestUnreadableJob(t *testing.T) {
	t.Parallel()
	b, g := newBus(t, storage.Layout{}), newGateway()
	c := b.worker(Options{Connectors: g})
	if _, err := b.js.Publish(b.ctx, b.layout.Root.Job("acme", "s1"), []byte("not a job")); err != nil {
		t.Fatal(err)
	}
	wantCodes(t, b.do(c, batch(newKey("acme", "s1"), 1)), "ok")
	b.queueEmpty()
	list, err := c.Jobs(b.ctx, "", 0)
	if err != nil || len(list.Jobs) != 1 || !list.Jobs[0].Unreadable || list.Jobs[0].Place != PlaceDead {
		t.Fatalf("%+v, %v", list, err)
	}
}

// A sender that panics costs its entry its outcome, and nothing else.
func TestSenderPanics(t *testing.T) {
	t.Parallel()
	b, g := newBus(t, storage.Layout{}), newGateway()
	g.answer = func(_ context.Context, s dispatch.Sending) dispatch.Sent {
		if s.Index == 0 {
			panic("boom")
		}
		return okay(`1`)
	}
	c := b.worker(Options{Connectors: g})
	wantCodes(t, b.do(c, batch(newKey("acme", "s1"), 2)), "OUTCOME_UNKNOWN", "ok")
}

// The same job twice in the queue, beyond its window of duplicates, is run once.
func TestDuplicateJob(t *testing.T) {
	t.Parallel()
	b, g := newBus(t, storage.Layout{}), newGateway()
	arrived, release := g.blocking(0)
	c := b.worker(Options{Connectors: g})
	call := batch(newKey("acme", "s1"), 2)
	reply := b.start(c, call)
	wait(t, arrived, "the first entry")
	s := &stream{js: b.js, name: b.layout.JobsStream()}
	m, err := s.last(b.ctx, b.layout.Root.Job("acme", "s1"))
	if err != nil || m == nil {
		t.Fatal(m, err)
	}
	again, err := b.js.Publish(b.ctx, m.Subject, m.Data)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; {
		stands, err := c.jobs.Exists(b.ctx, again.Sequence)
		if err == nil && !stands {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the duplicate stays in the queue")
		}
	}
	close(release)
	wantCodes(t, wait(t, reply, "the reply"), "ok", "ok")
	if rec := b.record(call.Key); rec.Takeovers != 0 || rec.Job != m.Sequence {
		t.Fatalf("takeovers %d, job %d", rec.Takeovers, rec.Job)
	}
	if n := len(g.sent()); n != 2 {
		t.Fatalf("sent %d times, want 2", n)
	}
	b.queueEmpty()
}
