package durable

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"toolsearch/dispatch"
	"toolsearch/subjects"
	"toolsearch/worker/storage"
)

func TestRepeatedCallAttaches(t *testing.T) {
	t.Parallel()
	b, g := newBus(t, storage.Layout{}), newGateway()
	arrived, release := g.blocking(0)
	one, other := b.worker(Options{Connectors: g}), b.worker(Options{Connectors: g})
	call := batch(newKey("acme", "s1"), 2)
	first := b.start(one, call)
	wait(t, arrived, "the first entry")
	second := b.start(other, call)
	ticket, err := other.Accept(b.ctx, call)
	if err != nil || !ticket.Attached {
		t.Fatalf("%+v, %v", ticket, err)
	}
	close(release)
	a, c := wait(t, first, "the first reply"), wait(t, second, "the second reply")
	x, _ := a.MarshalModel()
	y, _ := c.MarshalModel()
	if string(x) != string(y) {
		t.Fatalf("the replies differ:\n%s\n%s", x, y)
	}
	wantEffects(t, g, call.Key.Call, 0, 1)
	// Also when all is over and the events are gone.
	s, err := b.js.Stream(b.ctx, b.layout.ResultsStream())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(b.ctx); err != nil {
		t.Fatal(err)
	}
	z, _ := b.do(other, call).MarshalModel()
	if string(x) != string(z) {
		t.Fatalf("a later reply differs: %s", z)
	}
	wantEffects(t, g, call.Key.Call, 0, 1)
	b.wantStored(call.Key)
}

func TestFirstCallerGone(t *testing.T) {
	t.Parallel()
	b, g := newBus(t, storage.Layout{}), newGateway()
	arrived, release := g.blocking(0)
	c, call := b.worker(Options{Connectors: g}), batch(newKey("acme", "s1"), 2)
	ctx, leave := context.WithCancel(b.ctx)
	gone := make(chan error, 1)
	go func() { _, err := c.Do(ctx, call); gone <- err }()
	wait(t, arrived, "the first entry")
	leave()
	if err := wait(t, gone, "the caller to leave"); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	again := b.start(c, call)
	close(release)
	wantCodes(t, wait(t, again, "the reply"), "ok", "ok")
	wantEffects(t, g, call.Key.Call, 0, 1)
}

func TestConflict(t *testing.T) {
	t.Parallel()
	b, g := newBus(t, storage.Layout{}), newGateway()
	c, call := b.worker(Options{Connectors: g}), batch(newKey("acme", "s1"), 2)
	b.do(c, call)
	same := batch(call.Key, 2)
	same.Payload.Deadline = time.Now().Add(time.Hour) // another way to ask for the same
	same.Payload.Entries[0].Arguments = json.RawMessage(` { "n" : 0 } `)
	b.do(c, same)
	for what, other := range map[string]func(*dispatch.Payload){
		"arguments": func(p *dispatch.Payload) { p.Entries[1].Arguments = json.RawMessage(`{"n":2}`) },
		"name":      func(p *dispatch.Payload) { p.Entries[1].Name += "X" },
		"fewer":     func(p *dispatch.Payload) { p.Entries = p.Entries[:1] },
	} {
		another := batch(call.Key, 2)
		other(&another.Payload)
		if _, err := c.Accept(b.ctx, another); !errors.Is(err, &subjects.Error{Code: subjects.CodeCallConflict}) {
			t.Fatalf("another payload (%s): %v, want CALL_CONFLICT", what, err)
		}
	}
	// The same id in another session is another call.
	elsewhere := batch(dispatch.CallKey{Tenant: "acme", Session: "s2", Call: call.Key.Call}, 1)
	wantCodes(t, b.do(c, elsewhere), "ok")
}

// Of many that send the same call at once, to several workers, one creates it.
func TestManyAcceptTheSameCall(t *testing.T) {
	t.Parallel()
	b, g := newBus(t, storage.Layout{}), newGateway()
	workers := []*Calls{b.worker(Options{Connectors: g}), b.worker(Options{Connectors: g})}
	call := batch(newKey("acme", "s1"), 2)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if r, err := workers[i%2].Do(b.ctx, call); err != nil || len(codes(r)) != 2 {
				t.Errorf("%v, %v", r, err)
			}
		})
	}
	wg.Wait()
	wantEffects(t, g, call.Key.Call, 0, 1)
	b.queueEmpty()
	b.wantStored(call.Key, "0", "1", "summary")
}

// jobsDown is a queue that does not answer. asked, if it is set, is told of each question.
type jobsDown struct {
	dispatch.Jobs
	asked func()
}

func (j jobsDown) Publish(context.Context, dispatch.CallKey, string, []byte, dispatch.Trace) error {
	if j.asked != nil {
		j.asked()
	}
	return errInjected
}

// An acceptor that dies between the record and the job leaves a record without a job; the repeated call mends it.
func TestAcceptorDiesBeforeTheJob(t *testing.T) {
	t.Parallel()
	b, g := newBus(t, storage.Layout{}), newGateway()
	c, call := b.worker(Options{Connectors: g}), batch(newKey("acme", "s1"), 2)
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	broken := *c.acceptor
	broken.Jobs = jobsDown{asked: cancel}
	if _, err := broken.Accept(ctx, call); !errors.Is(err, &subjects.Error{Code: subjects.CodeUnavailable}) {
		t.Fatalf("%v, want UNAVAILABLE", err)
	}
	wantCodes(t, b.do(c, call), "ok", "ok")
	wantEffects(t, g, call.Key.Call, 0, 1)
}

// A queue that is full refuses with OVERLOADED, and leaves no record behind that would wait for ever.
func TestQueueFull(t *testing.T) {
	t.Parallel()
	b := newBus(t, storage.Layout{})
	c := b.worker(Options{Slots: -1})
	for _, cfg := range storage.CallStreams(b.layout) {
		if cfg.Name == b.layout.JobsStream() {
			cfg.MaxMsgs = 1
			if _, err := b.js.UpdateStream(b.ctx, cfg); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := c.Accept(b.ctx, batch(newKey("acme", "s1"), 1)); err != nil {
		t.Fatal(err)
	}
	refused := batch(newKey("acme", "s1"), 1)
	_, err := c.Accept(b.ctx, refused)
	var typed *subjects.Error
	if !errors.As(err, &typed) || typed.Code != subjects.CodeOverloaded || typed.RetryAfter == 0 {
		t.Fatalf("%v, want OVERLOADED with a hint", err)
	}
	if _, err := c.Show(b.ctx, refused.Key); !errors.Is(err, dispatch.ErrNotFound) {
		t.Fatalf("a record was left behind: %v", err)
	}
}

func TestBadCalls(t *testing.T) {
	t.Parallel()
	b := newBus(t, storage.Layout{})
	c := b.worker(Options{Slots: -1})
	for what, test := range map[string]struct {
		change func(*dispatch.Call)
		code   subjects.Code
	}{
		"tenant":     {func(c *dispatch.Call) { c.Key.Tenant = "a.b" }, subjects.CodeBadRequest},
		"session":    {func(c *dispatch.Call) { c.Key.Session = "" }, subjects.CodeBadRequest},
		"call":       {func(c *dispatch.Call) { c.Key.Call = "*" }, subjects.CodeBadRequest},
		"no entries": {func(c *dispatch.Call) { c.Payload.Entries = nil }, subjects.CodeBadRequest},
		"two hosted": {func(c *dispatch.Call) { c.Payload.Host = "h" }, subjects.CodeBadRequest},
		"not JSON":   {func(c *dispatch.Call) { c.Payload.Entries[0].Arguments = json.RawMessage(`{`) }, subjects.CodeBadRequest},
		"many":       {func(c *dispatch.Call) { c.Payload.Entries = make([]dispatch.CallEntry, 1000) }, subjects.CodeTooLarge},
		"huge names": {func(c *dispatch.Call) { c.Payload.Entries[0].Name = string(make([]byte, 1<<20)) }, subjects.CodeTooLarge},
	} {
		call := batch(newKey("acme", "s1"), 2)
		test.change(&call)
		if _, err := c.Accept(b.ctx, call); !errors.Is(err, &subjects.Error{Code: test.code}) {
			t.Errorf("%s: %v, want %s", what, err, test.code)
		}
	}
	if _, err := c.Wait(b.ctx, newKey("acme", "s1")); !errors.Is(err, dispatch.ErrNotFound) {
		t.Errorf("waiting for nothing: %v", err)
	}
}

// An open record outlives the age of its stream; a stop does not.
func TestOpenRecordOutlivesTheStreamsAge(t *testing.T) {
	t.Parallel()
	b, g := newBus(t, storage.Layout{StopAge: time.Second, RecordAge: 5 * time.Second}), newGateway()
	arrived, release := g.blocking(0)
	c, call := b.worker(Options{Connectors: g}), batch(newKey("acme", "s1"), 1)
	reply := b.start(c, call)
	wait(t, arrived, "the first entry")
	other := dispatch.CallKey{Tenant: "acme", Session: "s2"}
	b.stopSession(other)
	s := &stream{js: b.js, name: b.layout.CallsStream()}
	gone := func(subject string) bool {
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
			if m, err := s.last(b.ctx, subject); err == nil && m == nil {
				return true
			}
		}
		return false
	}
	if !gone(b.layout.Root.StopSession(other.Tenant, other.Session)) {
		t.Fatal("the stop does not age")
	}
	if _, _, err := c.records.Read(b.ctx, call.Key); err != nil {
		t.Fatalf("the open record is gone: %v", err)
	}
	close(release)
	wantCodes(t, wait(t, reply, "the reply"), "ok")
	if !gone(b.layout.RecordSubject(call.Key.String())) {
		t.Fatal("the record of a published call does not expire")
	}
}
