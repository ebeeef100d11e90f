package linking

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"toolsearch/connectors"
	"toolsearch/subjects"
)

// chronicle is an observer that writes down what it is told.
type chronicle struct {
	t       *testing.T
	mu      sync.Mutex
	lines   []string
	settled chan time.Duration
}

func (c *chronicle) write(o *connectors.Operation, format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, fmt.Sprintf(format, args...))
	for _, t := range o.Targets {
		if t.ConnectURL != "" || t.Instruction != "" {
			c.t.Errorf("%q comes with a link", c.lines[len(c.lines)-1])
		}
	}
}

func (c *chronicle) observer() *connectors.OperationObserver {
	c.settled = make(chan time.Duration, 10)
	return &connectors.OperationObserver{
		Opened:    func(_ context.Context, o *connectors.Operation) { c.write(o, "opened %s", o.ID) },
		TakenOver: func(_ context.Context, o *connectors.Operation) { c.write(o, "taken over %s", o.ID) },
		Moved: func(_ context.Context, o *connectors.Operation, m connectors.TargetMove) {
			c.write(o, "%s %s to %s", m.Name, m.From, m.To)
		},
		Answered: func(_ context.Context, o *connectors.Operation, answer, refusal string) {
			c.write(o, "answer %s %s", answer, refusal)
		},
		Settled: func(_ context.Context, o *connectors.Operation, took time.Duration) {
			c.write(o, "settled by %s", o.SettledBy)
			c.settled <- took
		},
	}
}

// An observer is told of all that happens, whoever did it, and once: a button that was pressed at another worker is a
// move at the one that watches. It is given no link.
func TestAnObserverIsToldOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var here, there chronicle
	here.t, there.t = t, t
	watcher := b.worker(Options{Observer: here.observer()})
	other := b.worker(Options{Observer: there.observer()})
	asked := watcher.do(t.Context(), card("op1", "chat"))
	b.shown("initiated")
	if n := watcher.Watching(); n != 1 {
		t.Errorf("%d operations are watched, want 1", n)
	}
	press := func(answer, name string, accepted bool) {
		t.Helper()
		r, err := other.Answer(t.Context(), "acme", "s1", subjects.AnswerRequest{Operation: "op1", Answer: answer, Name: name})
		if err != nil || r.Accepted != accepted {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	press(subjects.AnswerRetry, "chat", true)
	b.shown("initiated")
	press(subjects.AnswerRetry, "none", false)
	press(subjects.AnswerSkip, "chat", true)
	b.settled(asked, subjects.SettledAllResolved, "skipped")
	select {
	case took := <-here.settled:
		if took < 0 || took > wait {
			t.Errorf("it took %s", took)
		}
	case <-time.After(wait):
		t.Fatal("its end was not told")
	}
	if err := watcher.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"opened op1", "chat pending to starting", "chat starting to initiated", "chat initiated to pending",
		"chat pending to starting", "chat starting to initiated", "chat initiated to skipped", "settled by all_resolved"}
	if !slices.Equal(here.lines, want) {
		t.Errorf("told %q, want %q", here.lines, want)
	}
	if want := []string{"answer retry ", "answer retry " + subjects.RefusalUnknownTarget, "answer skip "}; !slices.Equal(there.lines, want) {
		t.Errorf("the other was told %q, want %q", there.lines, want)
	}
	if n := watcher.Watching(); n != 0 {
		t.Errorf("%d operations are watched after the end", n)
	}
}
