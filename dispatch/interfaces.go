package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"toolsearch/subjects"
)

// Errors that an implementation of the interfaces below returns, alone or wrapped.
var (
	// ErrNotFound is a record, a body or a dead job that is not there.
	ErrNotFound = errors.New("dispatch: not found")
	// ErrClosed is a bus that this process has left for good; trying again would not help.
	ErrClosed = errors.New("dispatch: the connection to the bus is closed")
	// ErrTooLarge is a body or an event over what the store or the bus takes at all; trying again would not help.
	ErrTooLarge = errors.New("dispatch: too large to be stored")
	// ErrQueueFull is a job that was certainly not stored, because the queue holds as many as it may.
	ErrQueueFull = errors.New("dispatch: the queue of calls is full")
	// ErrLost is a record that another runner has written since; whoever gets it stops, sends and publishes nothing
	// more.
	ErrLost = errors.New("dispatch: another runner has taken the call over")
)

// Records stores the journal records, one value for each call.
type Records interface {
	// Write stores value if the record stands at revision rev, 0 for none at all, and returns its new revision, which
	// is a sequence of the one stream that holds records and stops. An error says nothing about whether it was stored.
	Write(ctx context.Context, k CallKey, value []byte, rev uint64, p Phase) (uint64, error)
	// Read returns the record and its revision as the stream's leader has them. [ErrNotFound] is certain.
	Read(ctx context.Context, k CallKey) (value []byte, rev uint64, err error)
	// Remove takes a record away if it still stands at revision rev.
	Remove(ctx context.Context, k CallKey, rev uint64) error
}

// Watch sees every stop and every write of a record, in the order of their sequence.
type Watch interface {
	// Follow registers a call whose record was created at the sequence created, and then reads the stops that came
	// before. No stop falls between the two.
	Follow(ctx context.Context, k CallKey, created uint64) (Following, error)
	// Await tells of each write that announces the call as published, and whenever the watch cannot be sure to have
	// seen all. Whoever is told reads the record. cancel must be called.
	Await(k CallKey) (published <-chan struct{}, cancel func())
}

// Following is a call that a [Watch] follows.
type Following interface {
	// Passed waits until the watch has come to the call's own write at seq: every stop with a lower sequence that
	// covers the call has then closed Stopped. [ErrLost] if it has seen a later write of the record.
	Passed(ctx context.Context, seq uint64) error
	// Stopped is closed once a stop that covers the call has been seen.
	Stopped() <-chan struct{}
	// StoppedBy tells of that stop; the zero value before Stopped is closed.
	StoppedBy() SeenStop
	// Close ends it.
	Close()
}

// SeenStop is a stop as the bus has it.
type SeenStop struct {
	// At is when the server stored it.
	At    time.Time
	Trace Trace
}

// Bodies stores what is too big for a message, per tenant, named by its content.
type Bodies interface {
	Put(ctx context.Context, tenant string, body []byte) (BodyRef, error)
	// Get returns the body; [ErrNotFound] if it is gone, incomplete or not what its digest says.
	Get(ctx context.Context, tenant string, ref BodyRef) ([]byte, error)
}

// Events publishes what settles.
type Events interface {
	// Publish stores one event on the call's result subject. The same id within the stream's window is stored once.
	// It returns when the event is stored for certain.
	Publish(ctx context.Context, k CallKey, id string, body []byte, t Trace) error
}

// Jobs is the queue that accepted calls wait in.
type Jobs interface {
	// Publish stores a job for certain; the same id within the queue's window is stored once. [ErrQueueFull] is
	// certain.
	Publish(ctx context.Context, k CallKey, id string, job []byte, t Trace) error
	// Exists reports whether the job of that sequence still stands in the queue.
	Exists(ctx context.Context, seq uint64) (bool, error)
}

// Dead keeps the jobs that were given up, for an operator.
type Dead interface {
	// Bury keeps one letter for a call, in place of an earlier one.
	Bury(ctx context.Context, k CallKey, letter []byte, t Trace) error
	// Exhume returns the letter of a call and its sequence, or [ErrNotFound].
	Exhume(ctx context.Context, k CallKey) (letter []byte, seq uint64, err error)
	// Remove takes the letter of that sequence away.
	Remove(ctx context.Context, seq uint64) error
}

// Hooks reaches a session's policy.
type Hooks interface {
	// Pre asks before an entry runs and waits as long as ctx allows. Any error, nobody being there included, is a
	// denial.
	Pre(ctx context.Context, k CallKey, q *subjects.HookRequest, t Trace) (*subjects.HookReply, error)
	// Post tells of a settled entry; nobody waits for it.
	Post(ctx context.Context, k CallKey, event []byte, t Trace) error
}

// Line keeps calls apart that must not run side by side.
type Line interface {
	// Enter waits for the one place at a host, as long as ctx allows. leave must be called, once.
	Enter(ctx context.Context, tenant, host string) (leave func(), err error)
}

// Sender sends one entry to what runs it, with its retries. It returns no Go error: the outcome says all.
type Sender interface {
	Send(ctx context.Context, s Sending) Sent
}

// Sending is one entry on its way.
type Sending struct {
	Key       CallKey
	Index     int
	Name      string
	Arguments json.RawMessage
	// Host is the tool host that runs it; empty for connectors.
	Host    string
	Surface subjects.Surface
	// IdempotencyKey is the entry's key for a slug (for a host: the tool's name).
	IdempotencyKey func(slug string) string
	// Repeat says that an earlier attempt, by any runner, may have arrived: a 409 is then OUTCOME_UNKNOWN.
	Repeat bool
	// Stop ends a wait between attempts and forbids the next; it does not cut an attempt that is on its way.
	Stop <-chan struct{}
	// Bound is for the entry with all its retries.
	Bound time.Duration
	// Deadline is the caller's, zero if there is none; what has started may finish after it.
	Deadline time.Time
	Trace    Trace
}

// Sent is what came of a [Sending].
type Sent struct {
	EntryOutcome
	// Outcome is ok, error or unknown; or interrupted, for an entry that was certainly not sent because a stop came
	// first.
	Outcome subjects.Outcome
	// Attempts is how often it was sent.
	Attempts int
	// Cut says that ctx was cancelled before the outcome was final. Nothing settles: another runner goes on under the
	// same key.
	Cut bool
}

// Trace is the W3C trace context that a message follows from; it is carried along and not read.
type Trace struct{ Parent, State string }

// Delivery is a job as the queue handed it out.
type Delivery struct {
	Data     []byte
	Sequence uint64
	// First says that the queue had not handed it out before. It is a hint that saves a read.
	First   bool
	Trace   Trace
	Receipt Receipt
}

// Receipt tells the queue what becomes of a delivery.
type Receipt interface {
	// Working says that the runner is alive.
	Working() error
	// Done takes the job off the queue and waits until that is certain.
	Done(ctx context.Context) error
	// Return gives the job to another runner after a delay.
	Return(delay time.Duration) error
}
