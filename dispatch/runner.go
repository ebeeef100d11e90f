package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"toolsearch/telemetry"
)

// The defaults of a [Runner].
const (
	DefaultEntryBound   = 120 * time.Second
	DefaultWatchWait    = 5 * time.Second
	DefaultMaxTakeovers = 5
	DefaultHookTimeout  = 300 * time.Second

	returnDelay = time.Second      // before a job that was handed back for a stalled watch is tried again
	farewell    = 5 * time.Second  // for the last write of a runner whose context has ended
	doneWait    = 10 * time.Second // for taking a finished job off the queue
)

// Runner runs accepted calls, one delivery at a time in each call of [Runner.Run]; those may be made side by side.
// The interfaces must be set; the rest has defaults.
type Runner struct {
	Records Records
	Watch   Watch
	Bodies  Bodies
	Events  Events
	Jobs    Jobs
	Dead    Dead
	Hooks   Hooks
	// Connectors and Hosts send an entry: to the gateway, or to a tool host on the bus.
	Connectors Sender
	Hosts      Sender
	// Line is where calls wait whose host does not allow them side by side.
	Line Line

	// AckWait is how long the queue waits for a sign of life; a third of it is the heartbeat. 0: no heartbeat.
	AckWait time.Duration
	// EntryBound is for one entry with its retries. 0: [DefaultEntryBound].
	EntryBound time.Duration
	// WatchWait is how long a mark waits for the watch to come to it. 0: [DefaultWatchWait].
	WatchWait time.Duration
	// MaxTakeovers is how many runners may die of a call before it is given up. 0: [DefaultMaxTakeovers].
	MaxTakeovers int
	// Inline bounds an outcome that the record holds itself, in bytes. 0: [DefaultInline].
	Inline int
	// MaxPayload is the largest message of the bus, in bytes. 0: 1 MiB.
	MaxPayload int
	// Now is the clock. Nil: time.Now.
	Now func() time.Time
	// Telemetry gets the spans of batches and entries, below the one of ctx, and their metrics. Nil: nothing is
	// recorded.
	Telemetry *telemetry.Recorder
	// Logger gets what an operator should know. Nil: nothing is logged.
	Logger *slog.Logger

	once sync.Once
}

// Verdict is how a run ended.
type Verdict string

// The verdicts.
const (
	VerdictDone     Verdict = "done"     // the call is settled, published and off the queue
	VerdictReturned Verdict = "returned" // handed back cleanly, for another runner
	VerdictLost     Verdict = "lost"     // another runner has it
	VerdictFailed   Verdict = "failed"   // a fault; it will be tried again, and that counts as a takeover
)

func (r *Runner) defaults() {
	r.once.Do(func() {
		if r.EntryBound == 0 {
			r.EntryBound = DefaultEntryBound
		}
		if r.WatchWait == 0 {
			r.WatchWait = DefaultWatchWait
		}
		if r.MaxTakeovers == 0 {
			r.MaxTakeovers = DefaultMaxTakeovers
		}
		if r.Inline == 0 {
			r.Inline = DefaultInline
		}
		if r.MaxPayload == 0 {
			r.MaxPayload = 1 << 20
		}
		if r.Now == nil {
			r.Now = time.Now
		}
		r.Telemetry = telemetry.OrNone(r.Telemetry)
		if r.Logger == nil {
			r.Logger = slog.New(slog.DiscardHandler)
		}
	})
}

// Run works on one delivery until its call has settled, or hands it back. When drain closes, it finishes the entry
// that is on its way and hands the rest back; when ctx ends, it hands back at once, and what was on its way is sent
// again by its successor, under the same key. It never panics.
func (r *Runner) Run(ctx context.Context, drain <-chan struct{}, d Delivery) (v Verdict) {
	r.defaults()
	stop := r.heartbeat(d.Receipt)
	defer stop()
	defer func() {
		if p := recover(); p != nil {
			r.Logger.Error("a runner panicked; the job is tried again", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			_ = d.Receipt.Return(returnDelay)
			v = VerdictFailed
		}
	}()
	job, err := DecodeJob(d.Data)
	switch {
	case errors.Is(err, errNewer):
		_ = d.Receipt.Return(returnDelay)
		return VerdictReturned
	case err != nil:
		return r.unreadableJob(ctx, d, err)
	}
	return r.runJob(ctx, drain, d, job)
}

// runJob picks the job up, until it has it, has nothing to do for it, or has lost it.
func (r *Runner) runJob(ctx context.Context, drain <-chan struct{}, d Delivery, job *Job) Verdict {
	// A job that is handed out for the first time, of a call that was never reopened, finds the record as it was made.
	// That saves a read; where it is wrong, the first write fails and nothing has happened.
	asMade := d.First && job.Generation == 0
	for {
		run := &run{Runner: r, job: job, d: d, drain: drain, log: r.Logger,
			journal: journal{records: r.Records, key: job.Key}, id: NewNonce()}
		err := run.do(ctx, asMade)
		if errors.Is(err, ErrLost) && !run.owned && asMade {
			asMade = false
			continue
		}
		return run.end(ctx, err)
	}
}

// heartbeat tells the queue that the runner lives, until the function that it returns is called.
func (r *Runner) heartbeat(receipt Receipt) (stop func()) {
	if r.AckWait <= 0 {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(r.AckWait / 3)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				_ = receipt.Working() // the next one may get through
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-done }
}
