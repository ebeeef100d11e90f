package connectors

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"toolsearch/subjects"
)

// The pace of an operation.
const (
	watchTick     = time.Second      // between two rounds of reads of the gateway's accounts
	localTick     = 5 * time.Second  // the same for local servers
	localWait     = 30 * time.Second // for a local server where nobody waits on a card
	longestRead   = 10 * time.Second
	DefaultBeat   = 5 * time.Second // between two signs of life of a watcher
	localUnsure   = "The host of local servers did not answer in time; check there what became of it."
	actionStatusW = "status"
)

// The most bytes of a link and of a local server's list of tools. All ten targets of an operation, with their words, must
// fit into one message: its record.
const (
	maxLink  = 8 << 10
	maxTools = 32 << 10
)

// ErrOperationLost says that another worker has the operation.
var ErrOperationLost = errors.New("connectors: another worker has the operation")

// ErrOperationTooLarge says that the bus takes no message of the operation's size.
var ErrOperationTooLarge = errors.New("connectors: the operation is too large to be kept")

// ErrUnchanged is what a change returns that has nothing to write.
var ErrUnchanged = errors.New("connectors: nothing to change")

// Journal is where one operation is kept.
type Journal interface {
	// Update reads the operation, lets change alter it and stores it by compare-and-set, as often as others write in
	// between, unless it has become too large ([ErrOperationTooLarge]). It returns the operation as it stands. [ErrUnchanged] from change writes nothing and is no error; any
	// other error of change ends it.
	Update(ctx context.Context, change func(*Operation) error) (*Operation, error)
}

// OperationObserver is told what becomes of operations, for metrics and spans. Every field may be nil, and so may the
// observer. Its functions must not block. They are given operations [Operation.WithoutLinks], and never a token.
type OperationObserver struct {
	// Opened is called by the worker that opened it, TakenOver by each that takes it over.
	Opened, TakenOver func(ctx context.Context, o *Operation)
	// Moved is called for each target that changed its state, whoever moved it, by the worker that watches it.
	Moved func(ctx context.Context, o *Operation, m TargetMove)
	// Round is called after each round of reads of the targets that wait for their user.
	Round func(ctx context.Context, o *Operation, r Round)
	// Answered is called for each button of a card, by the worker that heard of it. refusal is the code of the one that
	// changed nothing, "" for one that did.
	Answered func(ctx context.Context, o *Operation, answer, refusal string)
	// Settled is called by the worker that watched it to its end, with the time since it was opened.
	Settled func(ctx context.Context, o *Operation, took time.Duration)
}

// TargetMove is a target that changed its state.
type TargetMove struct {
	Name, Kind string
	From, To   subjects.ConnectionState
}

// Round is what came of one round of reads.
type Round struct {
	// Reads is how many targets were asked about.
	Reads int
	// Failed names why the last one that could not be read could not: a status or a code of ours. "": all were read.
	Failed string
	// Parked is how long the gateway is left alone because it asked for that, at most until the deadline. 0: it did not.
	Parked time.Duration
}

// Watcher drives operations: it asks for their links and reads the gateway until each target is resolved.
type Watcher struct {
	Gateway *Gateway     // nil: connectors are switched off
	Local   LocalServers // nil: there are no local servers
	Clock   Clock        // nil: the machine's
	// Beat is how often an operation is written although nothing changes, to show that its watcher lives. 0: [DefaultBeat].
	Beat     time.Duration
	Observer *OperationObserver
	Logger   *slog.Logger
}

// Watch is one run of a watcher over one operation.
type Watch struct {
	Runner  string // of this run; the operation must be its own
	Journal Journal
	// Show is called with the operation whenever it changed, to be shown to the user.
	Show func(*Operation)
	// Changes brings the operation as others wrote it, the buttons among them.
	Changes <-chan *Operation
	// Stop is closed by a stop that covers the operation.
	Stop <-chan struct{}
}

// Run watches an operation to its end and returns it settled. When ctx ends before, the operation is left as it is and
// the error is ctx's; [ErrOperationLost] if another worker took it.
//
// A start is sent once. A read that is under way ends with the operation, whatever ended it.
func (w *Watcher) Run(ctx context.Context, op *Operation, r Watch) (*Operation, error) {
	s := &shift{w: w, watch: r, op: op, clock: w.Clock, found: make(chan finding)}
	if s.clock == nil {
		s.clock = machineClock{}
	}
	work, cancel := context.WithCancel(ctx)
	defer s.workers.Wait()
	defer cancel()
	s.work = work
	return s.run(ctx)
}
