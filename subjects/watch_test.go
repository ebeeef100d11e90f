package subjects_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"toolsearch/subjects"
)

func describeEvent(ev subjects.Event) string {
	if ev.Summary != nil {
		return fmt.Sprintf("%s summary of %d, generation %d", ev.CallID, ev.Summary.TotalCount, ev.Generation)
	}
	return fmt.Sprintf("%s %d, generation %d", ev.CallID, ev.Entry.Index, ev.Generation)
}

// story is published by a worker whose successor publishes again, and by an operator who reopens the call.
func story(w *worker) {
	w.entry("c1", 0, `{}`)
	w.entry("c2", 0, `"`+strings.Repeat("x", 100_000)+`"`) // by claim check
	w.entry("c1", 1, `{}`)
	w.entry("c1", 0, `{}`)
	w.entry("c1", 1, `{}`)
	w.summary("c1", 2)
	w.summary("c1", 2)
	w.event("c1", "0.1", &subjects.EntryEvent{Event: subjects.EventEntry, CallID: "c1", Generation: 1,
		EntryResult: subjects.EntryResult{Index: 0, Response: []byte("{}")}, FinishedAt: time.Unix(0, 0).UTC()})
	w.summary("c2", 1)
}

var storyOnce = []string{
	"c1 0, generation 0", "c2 0, generation 0", "c1 1, generation 0", "c1 summary of 2, generation 0", "c1 0, generation 1", "c2 summary of 1, generation 0",
}

func keepResults(t testing.TB, w *worker) {
	t.Helper()
	js, err := jetstream.New(w.nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(inTime(t), jetstream.StreamConfig{Name: subjects.ResultsStream, Subjects: []string{subjects.DefaultRoot.Results()}, MaxAge: time.Hour, Duplicates: time.Hour}); err != nil {
		t.Fatal(err)
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		o      subjects.WatchOptions
		before bool // publish before the watch begins
		want   []string
	}{
		"a session":         {subjects.WatchOptions{}, false, storyOnce},
		"a session, replay": {subjects.WatchOptions{Replay: true}, true, storyOnce},
		"one call":          {subjects.WatchOptions{Call: "c1"}, false, []string{storyOnce[0], storyOnce[2], storyOnce[3]}},
		"one call, replay":  {subjects.WatchOptions{Call: "c2", Replay: true}, true, []string{storyOnce[1], storyOnce[5]}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startBus(t)
			w := startWorker(t, s)
			keepResults(t, w)
			session := newSession(t, s, fast)
			if tc.before {
				story(w)
				if err := w.nc.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			events, err := session.Watch(inTime(t), tc.o)
			if err != nil {
				t.Fatal(err)
			}
			if !tc.before {
				story(w)
			}
			var got []string
			for ev, err := range events {
				if err != nil {
					t.Fatal(err)
				}
				if len(ev.Raw) == 0 || ev.Header == nil {
					t.Errorf("%s without its body or its headers", describeEvent(ev))
				}
				if got = append(got, describeEvent(ev)); len(got) == len(storyOnce) {
					break
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got  %q,\nwant %q", got, tc.want)
			}
		})
	}
}

func TestWatchEnds(t *testing.T) {
	t.Parallel()
	for _, replay := range []bool{false, true} {
		t.Run(fmt.Sprintf("replay %v", replay), func(t *testing.T) {
			t.Parallel()
			s := startBus(t)
			w := startWorker(t, s)
			keepResults(t, w)
			ctx, cancel := context.WithCancel(inTime(t))
			defer cancel()
			events, err := newSession(t, s, fast).Watch(ctx, subjects.WatchOptions{Replay: replay})
			if err != nil {
				t.Fatal(err)
			}
			for i, body := range []string{"<html>", `{"event":"party"}`} {
				id := nats.Header{nats.MsgIdHdr: {fmt.Sprintf("acme.s1.c1.%d", 8+i)}}
				w.nc.PublishMsg(&nats.Msg{Subject: subjects.DefaultRoot.Result("acme", "s1", "c1"), Header: id, Data: []byte(body)})
			}
			// An event in looks alone, as a reply that somebody else had sent here.
			w.nc.Publish(subjects.DefaultRoot.Result("acme", "s1", "c1"), []byte(`{"event":"entry","call_id":"c1","index":0,"name":"n","response":{}}`))
			w.entry("c1", 0, `{}`)
			var steps []string
			for ev, err := range events {
				switch {
				case ev.Entry != nil:
					steps = append(steps, "entry")
					cancel()
				case errors.Is(err, context.Canceled):
					steps = append(steps, "end")
				default:
					steps = append(steps, "unreadable")
				}
			}
			if want := []string{"unreadable", "unreadable", "unreadable", "entry", "end"}; !slices.Equal(steps, want) {
				t.Errorf("got %v, want %v", steps, want)
			}
		})
	}
}

// TestWatchEndsWithItsContext checks that a loop hears of its context's end, and not of what that closed.
func TestWatchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := startBus(t)
	keepResults(t, startWorker(t, s))
	nc := connect(t, s)
	client, err := subjects.NewClient(nc, fast)
	if err != nil {
		t.Fatal(err)
	}
	for _, replay := range []bool{false, true} {
		for range 20 { // which of the two is told is a matter of chance
			ctx, cancel := context.WithCancel(inTime(t))
			events, err := client.Session("acme", "s1").Watch(ctx, subjects.WatchOptions{Replay: replay})
			open := nc.NumSubscriptions()
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			for nc.NumSubscriptions() == open {
				runtime.Gosched()
			}
			for _, err := range events {
				if !errors.Is(err, context.Canceled) {
					t.Errorf("replay %v: got %v", replay, err)
				}
			}
		}
	}
}

func TestWatchWithoutAStream(t *testing.T) {
	t.Parallel()
	session := newSession(t, startBus(t), fast)
	if _, err := session.Watch(inTime(t), subjects.WatchOptions{Replay: true}); err == nil || !strings.Contains(err.Error(), subjects.ResultsStream) {
		t.Errorf("got %v, want an error that names the stream", err)
	}
	// A watch that is never ranged over ends with its context, and leaves nothing behind (goleak sees to it).
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if _, err := session.Watch(ctx, subjects.WatchOptions{}); err != nil {
		t.Error(err)
	}
}

// TestWatchFollowsToTheLastGeneration replays calls that an operator reopened: one that is over again, one that still
// runs when the watch begins, and one whose first summary was published twice.
func TestWatchFollowsToTheLastGeneration(t *testing.T) {
	t.Parallel()
	s := startBus(t)
	w := startWorker(t, s)
	keepResults(t, w)
	session := newSession(t, s, fast)
	again := func(call string, generation int) {
		w.event(call, fmt.Sprintf("0.%d", generation), &subjects.EntryEvent{Event: subjects.EventEntry, CallID: call, Generation: generation,
			EntryResult: subjects.EntryResult{Index: 0, Response: []byte("{}")}, FinishedAt: time.Unix(0, 0).UTC()})
	}
	over := func(call string, generation int) {
		w.event(call, fmt.Sprintf("summary.%d", generation), &subjects.SummaryEvent{Event: subjects.EventSummary, CallID: call,
			Generation: generation, BatchReply: batchOf(1)})
	}
	for _, call := range []string{"over", "runs", "twice"} {
		w.entry(call, 0, `{}`)
		w.summary(call, 1)
	}
	again("over", 1)
	over("over", 1)
	again("over", 2)
	over("over", 2)
	again("runs", 1)
	w.event("twice", "summary.again", &subjects.SummaryEvent{Event: subjects.EventSummary, CallID: "twice", BatchReply: batchOf(1)})
	// A stream stores in order, so all of it is there once one more message is.
	if _, err := w.nc.RequestWithContext(inTime(t), subjects.DefaultRoot.Result("acme", "s1", "last"), nil); err != nil {
		t.Fatal(err)
	}
	for call, want := range map[string][]string{
		"over": {"over 0, generation 0", "over summary of 1, generation 0", "over 0, generation 1", "over summary of 1, generation 1",
			"over 0, generation 2", "over summary of 1, generation 2"},
		"runs":  {"runs 0, generation 0", "runs summary of 1, generation 0", "runs 0, generation 1", "runs summary of 1, generation 1"},
		"twice": {"twice 0, generation 0", "twice summary of 1, generation 0"},
	} {
		events, err := session.Watch(inTime(t), subjects.WatchOptions{Call: call, Replay: true})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for ev, err := range events {
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, describeEvent(ev)); call == "runs" && len(got) == 3 {
				over("runs", 1) // only now
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("got  %q,\nwant %q", got, want)
		}
	}
}
