package durable

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"toolsearch/dispatch"
	"toolsearch/subjects"
	"toolsearch/worker/storage"
)

// policy answers a session's pre hook and keeps what it was asked.
type policy struct {
	mu    sync.Mutex
	asked []subjects.HookRequest
}

func (b *bus) policy(tenant, session string, answer func(q subjects.HookRequest) string) *policy {
	b.t.Helper()
	p := &policy{}
	_, err := b.nc.Subscribe(b.layout.Root.Hook(tenant, session, subjects.HookPre), func(m *nats.Msg) {
		var q subjects.HookRequest
		if err := json.Unmarshal(m.Data, &q); err != nil {
			b.t.Error(err)
		}
		p.mu.Lock()
		p.asked = append(p.asked, q)
		p.mu.Unlock()
		if a := answer(q); a != "" {
			_ = m.Respond([]byte(a))
		}
	})
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.nc.Flush(); err != nil {
		b.t.Fatal(err)
	}
	return p
}

func (p *policy) requests() []subjects.HookRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]subjects.HookRequest(nil), p.asked...)
}

func hooked(k dispatch.CallKey, n int, h subjects.Hooks) dispatch.Call {
	c := batch(k, n)
	c.Payload.Hooks, c.Payload.Surface = h, subjects.SurfaceSide
	return c
}

func TestPolicyDecides(t *testing.T) {
	t.Parallel()
	b, g := newBus(t, storage.Layout{}), newGateway()
	p := b.policy("acme", "s1", func(q subjects.HookRequest) string {
		return [...]string{
			`{"decision":"allow"}`,
			`{"decision":"deny","reason":"Not on Sundays."}`,
			`{"decision":"rewrite","arguments":{"to":"safe@example.com"}}`,
			`{"decision":"rewrite","arguments":[1]}`,
			`{"decision":"perhaps"}`,
			`gibberish`,
		}[q.Index]
	})
	c, call := b.worker(Options{Connectors: g}), hooked(newKey("acme", "s1"), 6, subjects.Hooks{Pre: true})
	r := b.do(c, call)
	wantCodes(t, r, "ok", "DENIED", "ok", "DENIED", "DENIED", "DENIED")
	if m := r.Batch.Results[1].Error.Message; !strings.Contains(m, "Not on Sundays.") {
		t.Fatalf("the reason is lost: %s", m)
	}
	wantEffects(t, g, call.Key.Call, 0, 2)
	if got := string(g.sent()[1].Arguments); got != `{"to":"safe@example.com"}` {
		t.Fatalf("sent with %s", got)
	}
	for i, q := range p.requests() {
		if q.Index != i || q.CallID != call.Key.Call || q.Surface != subjects.SurfaceSide ||
			q.Name != call.Payload.Entries[i].Name || string(q.Arguments) != string(call.Payload.Entries[i].Arguments) {
			t.Fatalf("request %d: %+v", i, q)
		}
	}
}

func TestSilentOrAbsentPolicyDenies(t *testing.T) {
	t.Parallel()
	b, g := newBus(t, storage.Layout{}), newGateway()
	b.policy("acme", "silent", func(subjects.HookRequest) string { return "" })
	c := b.worker(Options{Connectors: g})
	wantCodes(t, b.do(c, hooked(newKey("acme", "silent"), 1, subjects.Hooks{Pre: true, TimeoutMS: 20})), "DENIED")
	wantCodes(t, b.do(c, hooked(newKey("acme", "nobody"), 2, subjects.Hooks{Pre: true})), "DENIED", "DENIED")
	if len(g.sent()) != 0 {
		t.Fatal("something was sent without leave")
	}
}

// What has settled shows while the policy of the next entry takes its time; a stop ends the wait.
func TestStopWhilePolicyThinks(t *testing.T) {
	t.Parallel()
	b, g := newBus(t, storage.Layout{}), newGateway()
	thinking := make(chan struct{}, 1)
	b.policy("acme", "s1", func(q subjects.HookRequest) string {
		if q.Index == 0 {
			return `{"decision":"allow"}`
		}
		thinking <- struct{}{}
		return ""
	})
	first := make(chan struct{})
	if _, err := b.nc.Subscribe(b.layout.Root.SessionResults("acme", "s1"), func(m *nats.Msg) {
		if strings.Contains(string(m.Data), `"index":0`) && strings.Contains(string(m.Data), `"event":"entry"`) {
			close(first)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := b.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	c, call := b.worker(Options{Connectors: g}), hooked(newKey("acme", "s1"), 3, subjects.Hooks{Pre: true})
	reply := b.start(c, call)
	wait(t, thinking, "the policy to be asked about the second entry")
	wait(t, first, "the event of the first entry")
	b.stopSession(call.Key)
	wantCodes(t, wait(t, reply, "the reply"), "ok", "INTERRUPTED", "INTERRUPTED")
	wantEffects(t, g, call.Key.Call, 0)
}

// A successor sends the arguments of the started mark, and does not ask the policy about that entry again.
func TestSuccessorKeepsRewrittenArguments(t *testing.T) {
	t.Parallel()
	for _, size := range []int{10, 100 << 10} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			b, g := newBus(t, storage.Layout{}), newGateway()
			rewritten := `{"text":"` + strings.Repeat("r", size) + `"}`
			p := b.policy("acme", "s1", func(q subjects.HookRequest) string {
				return `{"decision":"rewrite","arguments":` + rewritten + `}`
			})
			arrived, _ := g.blocking(0)
			o := Options{Connectors: g, Slots: 1, AckWait: shortAckWait}
			accepting := b.worker(Options{Slots: -1, AckWait: o.AckWait})
			dying, call := b.worker(o), hooked(newKey("acme", "s1"), 1, subjects.Hooks{Pre: true})
			if _, err := accepting.Accept(b.ctx, call); err != nil {
				t.Fatal(err)
			}
			wait(t, arrived, "the entry")
			kill(dying)
			second := newGateway()
			o.Connectors = second
			r, err := b.worker(o).Wait(b.ctx, call.Key)
			if err != nil {
				t.Fatal(err)
			}
			wantCodes(t, r, "ok")
			if s := second.sent(); len(s) != 1 || string(s[0].Arguments) != rewritten || !s[0].Repeat {
				t.Fatalf("sent %d times, or with other arguments, or as a first attempt", len(s))
			}
			if n := len(p.requests()); n != 1 {
				t.Fatalf("the policy was asked %d times", n)
			}
		})
	}
}

func TestPostHook(t *testing.T) {
	t.Parallel()
	b, g := newBus(t, storage.Layout{}), newGateway()
	got := make(chan subjects.EntryEvent, 8)
	if _, err := b.nc.Subscribe(b.layout.Root.Hook("acme", "s1", subjects.HookPost), func(m *nats.Msg) {
		var ev subjects.EntryEvent
		if err := json.Unmarshal(m.Data, &ev); err != nil {
			t.Error(err)
		}
		got <- ev
	}); err != nil {
		t.Fatal(err)
	}
	if err := b.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	c, call := b.worker(Options{Connectors: g}), hooked(newKey("acme", "s1"), 2, subjects.Hooks{Post: true})
	b.do(c, call)
	for i := range 2 {
		ev := wait(t, got, "the report of an entry")
		if ev.Index != i || ev.Outcome != subjects.OutcomeOK || ev.CallID != call.Key.Call || string(ev.Response) != fmt.Sprintf(`{"did":%d}`, i) {
			t.Fatalf("%+v", ev)
		}
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	b, g := newBus(t, storage.Layout{}), newGateway()
	var mu sync.Mutex
	now := time.Now()
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	g.before = func(_ context.Context, s dispatch.Sending) {
		if s.Index == 1 { // the deadline passes while it is on its way: it finishes
			mu.Lock()
			now = now.Add(time.Hour)
			mu.Unlock()
		}
	}
	c, call := b.worker(Options{Connectors: g, Now: clock}), batch(newKey("acme", "s1"), 4)
	call.Payload.Deadline = now.Add(time.Minute)
	wantCodes(t, b.do(c, call), "ok", "ok", "DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED")
	wantEffects(t, g, call.Key.Call, 0, 1)
}

// A deadline that passes while the policy thinks settles the entry as too late, not as denied.
func TestDeadlineWhilePolicyThinks(t *testing.T) {
	t.Parallel()
	b, g := newBus(t, storage.Layout{}), newGateway()
	b.policy("acme", "s1", func(subjects.HookRequest) string { return "" })
	c, call := b.worker(Options{Connectors: g}), hooked(newKey("acme", "s1"), 1, subjects.Hooks{Pre: true})
	call.Payload.Deadline = time.Now().Add(50 * time.Millisecond)
	wantCodes(t, b.do(c, call), "DEADLINE_EXCEEDED")
	if len(g.sent()) != 0 {
		t.Fatal("sent after its deadline")
	}
}

// An entry that was refused at the door keeps its error, also when its siblings are stopped, and its event comes in
// order.
func TestRefusedEntryKeepsItsError(t *testing.T) {
	t.Parallel()
	b, g := newBus(t, storage.Layout{}), newGateway()
	c, call := b.worker(Options{Connectors: g}), batch(newKey("acme", "s1"), 3)
	call.Payload.Entries[1].Refused = &subjects.EntryError{Code: subjects.EntryToolNotFound, Message: "no such form"}
	wantCodes(t, b.do(c, call), "ok", "TOOL_NOT_FOUND", "ok")
	b.wantStored(call.Key, "0", "1", "2", "summary")
	wantEffects(t, g, call.Key.Call, 0, 2)
	stopped := batch(newKey("acme", "s1"), 3)
	stopped.Payload.Entries[1].Refused = call.Payload.Entries[1].Refused
	b.stopCall(stopped.Key)
	wantCodes(t, b.do(c, stopped), "INTERRUPTED", "TOOL_NOT_FOUND", "INTERRUPTED")
}
