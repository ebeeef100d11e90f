package connectors

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"toolsearch/subjects"
)

// shift is a watcher's time with one operation. Only its own goroutine touches the fields; workers send findings.
type shift struct {
	w     *Watcher
	watch Watch
	op    *Operation
	clock Clock
	work  context.Context // of the workers

	workers sync.WaitGroup
	found   chan finding
	shown   int  // the last Seq that was shown
	resumed bool // what an earlier watcher had started was looked at
	reads   bool // a round of reads is due
	reading bool
	tick    <-chan time.Time
	untick  func()
}

// finding is what a worker learned of one attempt of a target, or that a round of reads is over.
type finding struct {
	name, alias string
	attempt     int
	cause       MoveCause
	apply       func(*Target) // sets what comes with the move; may be nil

	round *Round
}

// bare is a finding without what came with it, which is too much to be kept. A link that cannot be kept is none.
func (f finding) bare() finding {
	f.apply = nil
	if f.cause == CauseBegin {
		f.cause, f.apply = CauseFail, func(t *Target) { t.Detail = detailLongLink }
	}
	return f
}

func (s *shift) run(ctx context.Context) (*Operation, error) {
	deadline, undo := s.clock.NewTimer(s.op.Deadline.Sub(s.clock.Now()))
	defer undo()
	defer func() {
		if s.untick != nil {
			s.untick()
		}
	}()
	beat, unbeat := s.clock.NewTimer(orDefault(s.w.Beat, DefaultBeat))
	defer func() { unbeat() }()
	for {
		s.show()
		if s.op.Settled() {
			return s.op, nil
		}
		if isClosed(s.watch.Stop) {
			if err := s.settle(ctx, subjects.SettledInterrupt); err != nil {
				return s.op, err
			}
			continue
		}
		if err := s.proceed(ctx); err != nil {
			return s.op, err
		}
		s.show()
		if s.op.Settled() {
			continue
		}
		var err error
		select {
		case f := <-s.found:
			err = s.take(ctx, f)
		case op := <-s.watch.Changes:
			if op != nil && op.ID == s.op.ID && op.Seq > s.op.Seq {
				if op.Runner != s.watch.Runner && !op.Settled() {
					return s.op, ErrOperationLost
				}
				before := s.op
				s.op = op
				s.tell(ctx, before)
			}
		case <-s.watch.Stop:
			err = s.settle(ctx, subjects.SettledInterrupt)
		case <-deadline:
			err = s.settle(ctx, subjects.SettledDeadline)
		case <-s.tick:
			s.tick, s.reads = nil, true
		case <-beat:
			beat, unbeat = s.clock.NewTimer(orDefault(s.w.Beat, DefaultBeat))
			err = s.update(ctx, func(*Operation) error { return nil })
		case <-ctx.Done():
			return s.op, context.Cause(ctx)
		}
		if err != nil {
			return s.op, err
		}
	}
}

func (s *shift) show() {
	if s.op.Seq > s.shown && s.watch.Show != nil {
		s.shown = s.op.Seq
		s.watch.Show(s.op)
	}
}

// update changes the operation, if it is still this watcher's and open.
func (s *shift) update(ctx context.Context, change func(*Operation) error) error {
	before := s.op
	op, err := s.watch.Journal.Update(ctx, func(o *Operation) error {
		switch {
		case o.ID != before.ID:
			return ErrOperationLost
		case o.Settled():
			return ErrUnchanged
		case o.Runner != s.watch.Runner:
			return ErrOperationLost
		}
		return change(o)
	})
	if err != nil {
		return err
	}
	s.op = op
	s.tell(ctx, before)
	return nil
}

// tell lets the observer know which targets have moved.
func (s *shift) tell(ctx context.Context, before *Operation) {
	if s.w.Observer == nil || s.w.Observer.Moved == nil {
		return
	}
	for i := range s.op.Targets {
		if from, t := before.Targets[i].State, &s.op.Targets[i]; from != t.State {
			s.w.Observer.Moved(ctx, s.op.WithoutLinks(), TargetMove{Name: t.Name, Kind: t.Kind, From: from, To: t.State})
		}
	}
}

func (s *shift) settle(ctx context.Context, by subjects.SettledBy) error {
	return s.update(ctx, func(o *Operation) error {
		o.settle(by, s.clock.Now())
		return nil
	})
}

// proceed begins what is to be done now: starts that nobody has asked for yet, and reads whose time has come.
func (s *shift) proceed(ctx context.Context) error {
	if !s.resumed {
		s.resumed = true
		if err := s.resume(ctx); err != nil || s.op.Settled() {
			return err
		}
	}
	if s.has(subjects.ConnectionPending) {
		if err := s.start(ctx); err != nil {
			return err
		}
	}
	switch {
	case s.reading || !s.op.Card() || !s.has(subjects.ConnectionInitiated):
	case s.reads:
		s.reads, s.reading = false, true
		op := s.op.Clone()
		s.spawn(nil, func() { s.read(op) })
	case s.tick == nil: // the first link: its user needs a moment
		s.arm(watchTick)
	}
	return nil
}

func (s *shift) has(state subjects.ConnectionState) bool {
	return slices.ContainsFunc(s.op.Targets, func(t Target) bool { return t.State == state })
}

// resume looks at what an earlier watcher left: starts whose answer is lost fail, for a start is not repeated; a local
// server is asked again under its key.
func (s *shift) resume(ctx context.Context) error {
	if !s.has(subjects.ConnectionStarting) {
		return nil
	}
	err := s.update(ctx, func(o *Operation) error {
		for i := range o.Targets {
			t := &o.Targets[i]
			if t.State != subjects.ConnectionStarting {
				continue
			}
			if t.move(CauseLose, ActorWatcher) == nil {
				t.Detail = detailLost
			} else if err := t.move(CauseResume, ActorWatcher); err != nil {
				return err
			}
		}
		o.Seq++
		o.conclude(s.clock.Now())
		return nil
	})
	if err == nil && !s.op.Settled() {
		s.begin(func(t *Target) bool { return t.State == subjects.ConnectionStarting })
	}
	return err
}

// start marks what is pending, so that a successor knows that it may have been sent, and then sends it.
func (s *shift) start(ctx context.Context) error {
	marked := map[[2]string]bool{}
	err := s.update(ctx, func(o *Operation) error {
		clear(marked)
		for i := range o.Targets {
			t := &o.Targets[i]
			if t.State != subjects.ConnectionPending {
				continue
			}
			if err := t.move(CauseMark, ActorWatcher); err != nil {
				return err
			}
			marked[[2]string{t.Name, t.Alias}] = true
		}
		if len(marked) == 0 {
			return ErrUnchanged // a button was faster
		}
		o.Seq++
		return nil
	})
	if err == nil && !s.op.Settled() {
		s.begin(func(t *Target) bool { return marked[[2]string{t.Name, t.Alias}] })
	}
	return err
}

// begin sends what is starting: the apps one request after the other, the local servers side by side.
func (s *shift) begin(which func(*Target) bool) {
	var hosted []Target
	op := s.op.Clone()
	for _, t := range op.Targets {
		switch {
		case t.State != subjects.ConnectionStarting || !which(&t):
		case t.Kind == subjects.KindMCP:
			s.spawn([]Target{t}, func() { s.askLocal(s.work, op, t, string(op.Action), op.key(&t)) })
		default:
			hosted = append(hosted, t)
		}
	}
	if len(hosted) > 0 {
		s.spawn(hosted, func() { s.mint(op, hosted) })
	}
}

// spawn runs a worker. A fault of its own fails the targets that it was to start, and nothing else.
func (s *shift) spawn(starting []Target, do func()) {
	starting = slices.Clone(starting)
	s.workers.Go(func() {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if s.w.Logger != nil {
				s.w.Logger.Error("a worker of an operation panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			}
			for i := range starting {
				s.failed(&starting[i], detailLost)
			}
		}()
		do()
	})
}

// send hands a finding to the shift, unless that has ended.
func (s *shift) send(f finding) {
	select {
	case s.found <- f:
	case <-s.work.Done():
	}
}

func (s *shift) findingOf(t *Target, c MoveCause, apply func(*Target)) finding {
	return finding{name: t.Name, alias: t.Alias, attempt: t.Attempt, cause: c, apply: apply}
}

func (s *shift) failed(t *Target, detail string) {
	s.send(s.findingOf(t, CauseFail, func(t *Target) { t.Detail = detail }))
}

// take writes a finding down. What belongs to an earlier attempt, or to a target that was moved meanwhile, is dropped.
func (s *shift) take(ctx context.Context, f finding) error {
	if f.round != nil {
		s.reading = false
		s.arm(max(f.round.Parked, watchTick))
		if s.w.Observer != nil && s.w.Observer.Round != nil {
			told := *f.round
			told.Parked = min(told.Parked, max(s.op.Deadline.Sub(s.clock.Now()), 0))
			s.w.Observer.Round(ctx, s.op.WithoutLinks(), told)
		}
		return nil
	}
	err := s.update(ctx, func(o *Operation) error {
		t := o.target(f.name, f.alias)
		if t == nil || t.Attempt != f.attempt || t.move(f.cause, ActorWatcher) != nil {
			return ErrUnchanged
		}
		t.Detail = ""
		if f.apply != nil {
			f.apply(t)
		}
		o.Seq++
		o.conclude(s.clock.Now())
		return nil
	})
	if errors.Is(err, ErrOperationTooLarge) && f.apply != nil {
		return s.take(ctx, f.bare())
	}
	return err
}

func (s *shift) arm(d time.Duration) {
	if s.untick != nil {
		s.untick()
	}
	s.tick, s.untick = s.clock.NewTimer(d)
}
