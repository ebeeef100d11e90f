package subjects_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"toolsearch/subjects"
)

// event publishes an event as a worker does, by claim check where it is large.
func (w *worker) event(call, index string, v any) {
	w.t.Helper()
	body, err := subjects.Marshal(v)
	if err != nil {
		w.t.Error(err)
	}
	h := nats.Header{nats.MsgIdHdr: {"acme.s1." + call + "." + index}}
	data, err := w.bodies.Pack(context.Background(), "acme", h, body)
	if err != nil {
		w.t.Error(err)
	}
	m := &nats.Msg{Subject: subjects.DefaultRoot.Result("acme", "s1", call), Header: h, Data: data}
	if err := w.nc.PublishMsg(m); err != nil {
		w.t.Error(err)
	}
}

func (w *worker) entry(call string, index int, response string) {
	w.t.Helper()
	w.event(call, fmt.Sprint(index), &subjects.EntryEvent{Event: subjects.EventEntry, CallID: call, EntryResult: subjects.EntryResult{
		Index: index, Name: "connectors__gmail__SEND", Response: json.RawMessage(response)}, Outcome: subjects.OutcomeOK, Attempts: 1, FinishedAt: time.Unix(0, 0).UTC()})
}

func (w *worker) summary(call string, n int) {
	w.t.Helper()
	w.event(call, "summary", &subjects.SummaryEvent{Event: subjects.EventSummary, CallID: call, BatchReply: batchOf(n)})
}

func batchOf(n int) subjects.BatchReply {
	b := subjects.BatchReply{SuccessCount: n, TotalCount: n}
	for i := range n {
		b.Results = append(b.Results, subjects.EntryResult{Index: i, Name: "connectors__gmail__SEND", Response: json.RawMessage(`{}`)})
	}
	return b
}

func callIDOf(t testing.TB, r *request) string {
	t.Helper()
	var c subjects.CallRequest
	if err := json.Unmarshal(r.Body, &c); err != nil {
		t.Error(err)
	}
	return c.CallID
}

func TestCallTellsEachEntryOnce(t *testing.T) {
	t.Parallel()
	s := startBus(t)
	w := startWorker(t, s)
	told := make(chan struct{}, 16)
	w.on(subjects.VerbCall, func(r *request) ([]byte, error) {
		id := callIDOf(t, r)
		w.entry(id, 0, `{}`)
		w.entry(id, 1, `"`+strings.Repeat("x", 200_000)+`"`) // by claim check
		w.entry(id, 1, `{}`)                                 // a successor publishes again
		w.entry("another-call", 2, `{}`)
		w.nc.Publish(subjects.DefaultRoot.Result("acme", "s1", id), []byte("<html>"))
		for range 2 { // a reply that overtook the large event would tell of it instead
			select {
			case <-told:
			case <-time.After(patience):
				t.Error("the events were not told")
			}
		}
		// The event of entry 2 is lost; the reply tells it.
		return subjects.MarshalModel(batchOf(3))
	})
	var got []subjects.EntryEvent
	out, err := newSession(t, s, fast).Call(inTime(t), subjects.CallRequest{Scope: subjects.Handle("x"), CallID: "c1", Arguments: json.RawMessage(`{"calls": []}`)},
		func(e subjects.EntryEvent) { got = append(got, e); told <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	if out.Batch == nil || out.CallID != "c1" || out.Batch.TotalCount != 3 || out.Mistake != nil || out.Caller != nil {
		t.Errorf("got %+v", out)
	}
	var seen []string
	for _, e := range got {
		seen = append(seen, fmt.Sprintf("%d %s %s attempts=%d", e.Index, e.CallID, e.Outcome, e.Attempts))
	}
	if want := []string{"0 c1 ok attempts=1", "1 c1 ok attempts=1", "2 c1 ok attempts=0"}; !slices.Equal(seen, want) {
		t.Errorf("told %q, want %q", seen, want)
	}
	if len(got) > 1 && len(got[1].Response) < 200_000 {
		t.Errorf("the large response came as %d bytes", len(got[1].Response))
	}
}

// Each entry is told while the call still runs: the worker of this test goes on only when it was.
func TestCallTellsWhileItRuns(t *testing.T) {
	t.Parallel()
	s := startBus(t)
	w := startWorker(t, s)
	told := make(chan int)
	w.on(subjects.VerbCall, func(r *request) ([]byte, error) {
		id := callIDOf(t, r)
		for i := range 3 {
			w.entry(id, i, `{}`)
			select {
			case got := <-told:
				if got != i {
					t.Errorf("entry %d was told when %d had settled", got, i)
				}
			case <-time.After(patience):
				t.Errorf("entry %d was not told while the call ran", i)
			}
		}
		w.summary(id, 3)
		return subjects.MarshalModel(batchOf(3))
	})
	if _, err := newSession(t, s, fast).Call(inTime(t), subjects.CallRequest{Scope: subjects.Handle("x"), Arguments: json.RawMessage(`{}`)},
		func(e subjects.EntryEvent) { told <- e.Index }); err != nil {
		t.Fatal(err)
	}
}

func TestCallCases(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, reply string
		check       func(*subjects.Called) bool
	}{
		{"the model's mistake", `{"error": "no such tool", "hint": "search"}`, func(c *subjects.Called) bool { return c.Mistake != nil && c.Mistake.Message == "no such tool" }},
		{"the caller's tool", `{"dispatch": "caller", "name": "a", "arguments": {"n": 12345678901234567890}, "parallel": true}`, func(c *subjects.Called) bool {
			return c.Caller != nil && string(c.Caller.Arguments) == `{"n": 12345678901234567890}` && c.Caller.Parallel
		}},
		{"a batch", `{"results": [], "success_count": 0, "error_count": 0, "total_count": 0}`, func(c *subjects.Called) bool { return c.Batch != nil }},
		{"accepted", `{"accepted": true, "call_id": "c", "results": "toolsearch.v1.result.acme.s1.c"}`, func(c *subjects.Called) bool { return c.Accepted != nil }},
		{"a hosted tool's object", `{"content": [], "results": [1]}`, none},
		{"a hosted tool's text", `"done"`, none},
		{"a hosted tool's error that is an object", `{"error": {"code": 1}}`, none},
		{"a hosted tool's null", `null`, none},
		{"a hosted tool's odd types", `{"dispatch": 1, "total_count": "x"}`, none},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := startBus(t)
			startWorker(t, s).on(subjects.VerbCall, func(*request) ([]byte, error) { return []byte(tc.reply), nil })
			out, err := newSession(t, s, fast).Call(inTime(t), subjects.CallRequest{Scope: subjects.Handle("x"), Arguments: json.RawMessage(`{}`)}, nil)
			if err != nil || string(out.Raw) != tc.reply || !tc.check(out) {
				t.Errorf("got %+v, %v", out, err)
			}
		})
	}
}

func none(c *subjects.Called) bool {
	return c.Mistake == nil && c.Caller == nil && c.Batch == nil && c.Accepted == nil
}

// A worker that dies with the question is asked again under the same id; the caller's deadline stays the first one.
func TestCallReattaches(t *testing.T) {
	t.Parallel()
	s := startBus(t)
	w := startWorker(t, s)
	var mu sync.Mutex
	var ids, deadlines []string
	w.on(subjects.VerbCall, func(r *request) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		ids, deadlines = append(ids, callIDOf(t, r)), append(deadlines, r.Header.Get(subjects.HeaderDeadline))
		if r.N < 3 {
			return nil, nil
		}
		return subjects.MarshalModel(batchOf(1))
	})
	o := fast
	o.Reattach = 50 * time.Millisecond
	out, err := newSession(t, s, o).Call(inTime(t), subjects.CallRequest{Scope: subjects.Handle("x"), Arguments: json.RawMessage(`{}`)}, nil)
	if err != nil || out.Batch == nil {
		t.Fatalf("%+v, %v", out, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(ids) < 3 || ids[0] == "" || ids[0] != out.CallID || len(slices.Compact(ids)) != 1 {
		t.Errorf("asked under %v, told %s", ids, out.CallID)
	}
	if deadlines[0] == "" || len(slices.Compact(deadlines)) != 1 {
		t.Errorf("deadlines %v, want one", deadlines)
	}
}

func TestCallEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := startBus(t)
	w := startWorker(t, s)
	ctx, cancel := context.WithCancelCause(inTime(t))
	cause := errors.New("the turn is over")
	w.on(subjects.VerbCall, func(r *request) ([]byte, error) {
		w.entry(callIDOf(t, r), 0, `{}`)
		return nil, nil
	})
	_, err := newSession(t, s, fast).Call(ctx, subjects.CallRequest{Scope: subjects.Handle("x"), Arguments: json.RawMessage(`{}`)},
		func(subjects.EntryEvent) { cancel(cause) })
	if !errors.Is(err, cause) {
		t.Errorf("got %v, want the cause", err)
	}
}

func TestCallAsync(t *testing.T) {
	t.Parallel()
	s := startBus(t)
	w := startWorker(t, s)
	w.on(subjects.VerbCall, func(r *request) ([]byte, error) {
		if r.Header.Get(subjects.HeaderAsync) != "1" {
			t.Errorf("headers %v", r.Header)
		}
		id := callIDOf(t, r)
		return subjects.Marshal(subjects.Accepted{Accepted: true, CallID: id, Results: subjects.DefaultRoot.Result("acme", "s1", id)})
	})
	session := newSession(t, s, fast)
	out, err := session.CallAsync(inTime(t), subjects.CallRequest{Scope: subjects.Handle("x"), CallID: "no token", Arguments: json.RawMessage(`{}`)})
	if err != nil || out.Accepted == nil || out.CallID != "b64-bm8gdG9rZW4" || out.Accepted.Results != "toolsearch.v1.result.acme.s1.b64-bm8gdG9rZW4" {
		t.Errorf("got %+v, %v", out, err)
	}
}

func TestEntryResultOutcome(t *testing.T) {
	t.Parallel()
	for c, want := range map[subjects.EntryCode]subjects.Outcome{
		"": subjects.OutcomeOK, subjects.EntryInterrupted: subjects.OutcomeInterrupted, subjects.EntryOutcomeUnknown: subjects.OutcomeUnknown,
		subjects.EntryAbandoned: subjects.OutcomeAbandoned, subjects.EntryDenied: subjects.OutcomeError, subjects.EntryDeadlineExceeded: subjects.OutcomeError,
	} {
		r := subjects.EntryResult{}
		if c != "" {
			r.Error = &subjects.EntryError{Code: c}
		}
		if got := r.Outcome(); got != want {
			t.Errorf("%q: %s, want %s", c, got, want)
		}
	}
}

// storeStops makes the stream that holds stops, as a worker does.
func storeStops(t testing.TB, nc *nats.Conn) jetstream.Stream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	st, err := js.CreateStream(inTime(t), jetstream.StreamConfig{Name: "CALLS", Subjects: []string{subjects.DefaultRoot.Stops()}, MaxMsgsPerSubject: 1})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func TestStop(t *testing.T) {
	t.Parallel()
	s := startBus(t)
	nc := connect(t, s)
	st := storeStops(t, nc)
	session := newSession(t, s, fast)
	first, err := session.Stop(inTime(t), "user pressed stop")
	if err != nil || first.Stream != "CALLS" || first.Seq != 1 {
		t.Fatalf("got %+v, %v", first, err)
	}
	second, err := session.StopCall(inTime(t), "c 1", "")
	if err != nil || second.Seq != 2 {
		t.Fatalf("got %+v, %v", second, err)
	}
	for seq, want := range map[uint64][2]string{
		1: {"toolsearch.v1.stop.acme.s1", `{"reason":"user pressed stop"}`},
		2: {"toolsearch.v1.stop.acme.s1.b64-YyAx", `{}`},
	} {
		m, err := st.GetMsg(inTime(t), seq)
		if err != nil || m.Subject != want[0] || string(m.Data) != want[1] || m.Header.Get(nats.MsgIdHdr) == "" {
			t.Errorf("stored %+v, %v; want %v", m, err, want)
		}
	}
	if _, err := session.StopCall(inTime(t), "", ""); err == nil {
		t.Error("a call without an id was stopped")
	}
}

// A stop that is asked again because its acknowledgement was lost is stored once: a later sequence would cover calls
// that came in between.
func TestStopIsStoredOnce(t *testing.T) {
	t.Parallel()
	s := startBus(t)
	nc := connect(t, s)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	st, err := js.CreateStream(inTime(t), jetstream.StreamConfig{Name: "BEHIND", Subjects: []string{"behind"}})
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	if _, err := nc.Subscribe(subjects.DefaultRoot.Stops(), func(m *nats.Msg) {
		ack, err := js.PublishMsg(context.Background(), &nats.Msg{Subject: "behind", Header: m.Header, Data: m.Data})
		if err != nil {
			t.Error(err)
			return
		}
		if asked.Add(1) == 1 { // stored, and the acknowledgement does not arrive
			m.Respond([]byte(`{"error":{"code":503,"description":"no quorum"}}`))
			return
		}
		m.Respond(fmt.Appendf(nil, `{"stream":"BEHIND","seq":%d}`, ack.Sequence))
	}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	ack, err := newSession(t, s, fast).Stop(inTime(t), "")
	if err != nil || ack.Seq != 1 || asked.Load() != 2 {
		t.Errorf("asked %d times: %+v, %v", asked.Load(), ack, err)
	}
	if info, err := st.Info(inTime(t)); err != nil || info.State.Msgs != 1 {
		t.Errorf("stored %d times, %v", info.State.Msgs, err)
	}
}

func TestStopRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer string
		want   subjects.Code
	}{
		"nobody stores stops":  {"", subjects.CodeUnavailable},
		"JetStream refuses":    {`{"error":{"code":400,"err_code":10060,"description":"expected sequence"}}`, subjects.CodeInternal},
		"JetStream is away":    {`{"error":{"code":503,"description":"no leader"}}`, subjects.CodeUnavailable},
		"not JetStream":        {`{"ok":true}`, subjects.CodeInternal},
		"not even an envelope": {`<html>`, subjects.CodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startBus(t)
			nc := connect(t, s)
			if tc.answer != "" {
				if _, err := nc.Subscribe(subjects.DefaultRoot.Stops(), func(m *nats.Msg) { m.Respond([]byte(tc.answer)) }); err != nil {
					t.Fatal(err)
				}
				if err := nc.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			o := fast
			o.Retries = 1
			if ack, err := newSession(t, s, o).Stop(inTime(t), ""); code(err) != tc.want {
				t.Errorf("got %+v, %v; want %s", ack, err, tc.want)
			}
		})
	}
}
