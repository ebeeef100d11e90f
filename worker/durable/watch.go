package durable

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"toolsearch/dispatch"
	"toolsearch/subjects"
	"toolsearch/worker/storage"
)

// note is what the watch sees of one message: never its body.
type note struct {
	seq     uint64
	subject string
	phase   dispatch.Phase    // of a record's write
	stop    dispatch.SeenStop // of a stop
}

// feed delivers the notes from the sequence from on, in order and without a gap, until stop is called; stop returns
// when nothing more is delivered.
type feed func(ctx context.Context, from uint64, deliver func(note)) (stop func(), err error)

// watch is a worker's one view of the stream of records and stops. It replays no history: whoever follows a call
// registers first and then reads at the leader what came before.
//
// Between two openings the feed has no gap, also over a lost connection: it goes on after the last note that it
// delivered. An opening starts behind the end of the stream, so after one every call that is followed reads its stops
// again before anything counts as passed.
type watch struct {
	stream *stream
	layout storage.Layout
	feed   feed
	log    *slog.Logger
	// onRecord is told of every write of a record, in the watch's own goroutine.
	onRecord func(dispatch.CallKey, dispatch.Phase)

	mu      sync.Mutex
	pos     uint64                             // the sequence of the last note
	stop    func()                             // of the open feed; nil before the first opening
	serial  int                                // counts openings
	follows map[string]map[*following]struct{} // by "<tenant>.<session>"
	recent  recentStops
	waits   map[dispatch.CallKey]map[chan struct{}]struct{}
}

var _ dispatch.Watch = (*watch)(nil)

func newWatch(s *stream, l storage.Layout, log *slog.Logger) *watch {
	w := &watch{stream: s, layout: l, log: log, onRecord: func(dispatch.CallKey, dispatch.Phase) {},
		follows: map[string]map[*following]struct{}{}, waits: map[dispatch.CallKey]map[chan struct{}]struct{}{}}
	w.feed = w.consume
	return w
}

// open starts the feed behind what the stream holds now, in place of an earlier one.
func (w *watch) open(ctx context.Context) error {
	w.close()
	info, err := w.stream.info(ctx)
	if err != nil {
		return err
	}
	last := info.State.LastSeq
	w.mu.Lock()
	w.pos = last
	w.recent = recentStops{} // it may be another stream, with other sequences
	w.serial++
	serial := w.serial
	for _, group := range w.follows {
		for f := range group {
			f.verified = false
		}
	}
	w.mu.Unlock()
	stop, err := w.feed(ctx, last+1, func(n note) { w.deliver(serial, n) })
	if err != nil {
		return fmt.Errorf("durable: watch: %w", err)
	}
	w.mu.Lock()
	w.stop = stop
	unsure := w.unverified()
	for _, group := range w.waits {
		for c := range group {
			signal(c)
		}
	}
	w.mu.Unlock()
	for _, f := range unsure {
		if err := f.verify(ctx); err != nil {
			return err // it opens again
		}
	}
	return nil
}

// unverified lists the calls whose stops must be read again. w.mu is held.
func (w *watch) unverified() []*following {
	var out []*following
	for _, group := range w.follows {
		for f := range group {
			if !f.verified {
				out = append(out, f)
			}
		}
	}
	return out
}

func (w *watch) close() {
	w.mu.Lock()
	stop := w.stop
	w.stop = nil
	w.serial++ // what the old feed still delivers is dropped
	w.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// run keeps the watch open until ctx ends, and opens it again where it stands still although the stream goes on: a
// stream that was restored or lost its end has lower sequences than the feed waits for.
func (w *watch) run(ctx context.Context, every time.Duration, opened func()) {
	defer w.close()
	t := time.NewTicker(every)
	defer t.Stop()
	open, behind := false, uint64(0)
	for {
		if !open {
			if err := w.open(ctx); err == nil {
				open, behind = true, 0
				opened()
			} else if ctx.Err() == nil {
				w.log.WarnContext(ctx, "the watch over stops and records cannot be opened yet", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if open {
			open, behind = w.healthy(ctx, behind)
		}
	}
}

// healthy compares the watch with the stream: it must not be ahead, nor stand at the same place behind it for two
// rounds. behind is one more than that place, 0 if it is not behind.
func (w *watch) healthy(ctx context.Context, before uint64) (ok bool, behind uint64) {
	w.mu.Lock()
	pos := w.pos
	w.mu.Unlock()
	info, err := w.stream.info(ctx)
	if err != nil {
		return true, 0 // the connection is down; the feed goes on by itself when it is back
	}
	switch last := info.State.LastSeq; {
	case last < pos:
		w.log.WarnContext(ctx, "the stream of records ends before what was seen of it; the watch starts anew",
			"seen", pos, "last", last)
		return false, 0
	case last == pos:
		return true, 0
	case before == pos+1:
		w.log.WarnContext(ctx, "the watch over stops and records stands still; it starts anew", "seen", pos, "last", last)
		return false, 0
	}
	return true, pos + 1
}

// consume is the feed of production: an ordered consumer of headers.
func (w *watch) consume(ctx context.Context, from uint64, deliver func(note)) (func(), error) {
	ctx, cancel := context.WithTimeout(ctx, 5*apiWait)
	defer cancel()
	c, err := w.stream.js.OrderedConsumer(ctx, w.stream.name, jetstream.OrderedConsumerConfig{
		// By sequence, not "new": the consumer is made again after a lost connection, and before its first message
		// "new" would mean new since then.
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       from,
		HeadersOnly:       true,
		InactiveThreshold: 30 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	cc, err := c.Consume(func(m jetstream.Msg) {
		meta, err := m.Metadata()
		if err != nil {
			return // no message of a consumer
		}
		deliver(note{seq: meta.Sequence.Stream, subject: m.Subject(), phase: dispatch.Phase(m.Headers().Get(headerState)),
			stop: dispatch.SeenStop{At: meta.Timestamp, Trace: traceOf(m.Headers())}})
	}, jetstream.PullMaxMessages(1000), jetstream.PullHeartbeat(time.Second),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			w.log.Debug("the watch's consumer is made again", "error", err)
		}))
	if err != nil {
		return nil, err
	}
	return func() { cc.Stop(); <-cc.Closed() }, nil
}

// deliver takes in one note.
func (w *watch) deliver(serial int, n note) {
	if key, ok := w.recordKey(n.subject); ok {
		if w.record(serial, key, n) {
			w.onRecord(key, n.phase)
		}
		return
	}
	stop, err := w.layout.Root.Parse(n.subject)
	w.mu.Lock()
	defer w.mu.Unlock()
	if serial != w.serial {
		return
	}
	w.pos = n.seq
	if err != nil || stop.Family != subjects.FamilyStop {
		return // a stop of nothing
	}
	w.recent.add(n)
	for f := range w.follows[stop.Tenant+"."+stop.Session] {
		if dispatch.StopCovers(stop, n.seq, f.key, f.created) {
			f.halt(n.stop)
		}
	}
}

// recall tells a call that is being registered of a stop that the watch has seen lately. The leader is asked too; but
// one that was just elected may not have caught up with what it has acknowledged before. w.mu is held.
func (w *watch) recall(f *following) {
	root := w.layout.Root
	for _, subject := range stopsOf(root, f.key) {
		n, ok := w.recent.get(subject)
		if !ok {
			continue
		}
		if stop, err := root.Parse(subject); err == nil && dispatch.StopCovers(stop, n.seq, f.key, f.created) {
			f.halt(n.stop)
		}
	}
}

// stopsOf are the subjects of the stops that can cover a call: its session's and its own.
func stopsOf(root subjects.Root, k dispatch.CallKey) [2]string {
	return [2]string{root.StopSession(k.Tenant, k.Session), root.StopCall(k.Tenant, k.Session, k.Call)}
}

const (
	recentAge  = time.Minute
	recentMost = 20_000
)

// recentStops remembers the stops of the last minute or two, within a bound.
type recentStops struct {
	now, before map[string]note
	since       time.Time
}

func (r *recentStops) add(n note) {
	if r.now == nil || len(r.now) >= recentMost || time.Since(r.since) > recentAge {
		r.now, r.before, r.since = map[string]note{}, r.now, time.Now()
	}
	r.now[n.subject] = n
}

func (r *recentStops) get(subject string) (note, bool) {
	n, ok := r.now[subject]
	if !ok {
		n, ok = r.before[subject]
	}
	return n, ok
}

// record takes in a record's write.
func (w *watch) record(serial int, key dispatch.CallKey, n note) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if serial != w.serial {
		return false
	}
	w.pos = n.seq
	for f := range w.follows[key.Tenant+"."+key.Session] {
		if f.key == key {
			f.seen = n.seq
			f.turn()
		}
	}
	if n.phase == dispatch.PhasePublished {
		for c := range w.waits[key] {
			signal(c)
		}
	}
	return true
}

func (w *watch) recordKey(subject string) (dispatch.CallKey, bool) {
	rest, ok := strings.CutPrefix(subject, w.layout.RecordSubject(""))
	k, parsed := parseKey(rest)
	return k, ok && parsed
}

// parseKey reads "<tenant>.<session>.<call>".
func parseKey(s string) (dispatch.CallKey, bool) {
	t := strings.Split(s, ".")
	if len(t) != 3 {
		return dispatch.CallKey{}, false
	}
	return dispatch.CallKey{Tenant: t[0], Session: t[1], Call: t[2]}, true
}

func (w *watch) Follow(ctx context.Context, k dispatch.CallKey, created uint64) (dispatch.Following, error) {
	f := &following{w: w, key: k, created: created, turned: make(chan struct{}), stopped: make(chan struct{})}
	group := k.Tenant + "." + k.Session
	w.mu.Lock()
	if w.follows[group] == nil {
		w.follows[group] = map[*following]struct{}{}
	}
	w.follows[group][f] = struct{}{}
	w.recall(f)
	w.mu.Unlock()
	if err := f.verify(ctx); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (w *watch) Await(k dispatch.CallKey) (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waits[k] == nil {
		w.waits[k] = map[chan struct{}]struct{}{}
	}
	w.waits[k][c] = struct{}{}
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.waits[k], c)
		if len(w.waits[k]) == 0 {
			delete(w.waits, k)
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// following is a call that the watch follows. Its fields below key are guarded by the watch's lock.
type following struct {
	w       *watch
	key     dispatch.CallKey
	created uint64

	seen     uint64        // the call's last write that was seen
	verified bool          // the stops before the watch's opening have been read
	turned   chan struct{} // closed and renewed whenever seen or verified changes
	stopped  chan struct{}
	halted   bool
	by       dispatch.SeenStop // what halted it
}

// turn wakes whoever waits for a change. The watch's lock is held.
func (f *following) turn() {
	close(f.turned)
	f.turned = make(chan struct{})
}

// halt tells the call's runner of a stop. The watch's lock is held.
func (f *following) halt(by dispatch.SeenStop) {
	if !f.halted {
		f.halted, f.by = true, by
		close(f.stopped)
	}
}

// verify reads the stops that came before the call was registered. What is stored after these reads, the watch sees.
func (f *following) verify(ctx context.Context) error {
	root := f.w.layout.Root
	f.w.mu.Lock()
	serial := f.w.serial
	f.w.mu.Unlock()
	type answer struct {
		covers bool
		stop   dispatch.SeenStop
		err    error
	}
	answers := make(chan answer, 2)
	for _, subject := range stopsOf(root, f.key) {
		go func() {
			m, err := f.w.stream.last(ctx, subject)
			if err != nil || m == nil {
				answers <- answer{err: err}
				return
			}
			stop, err := root.Parse(m.Subject)
			answers <- answer{err: err, covers: err == nil && dispatch.StopCovers(stop, m.Sequence, f.key, f.created),
				stop: dispatch.SeenStop{At: m.Time, Trace: traceOf(m.Header)}}
		}()
	}
	a, b := <-answers, <-answers
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	for _, found := range [...]answer{a, b} {
		if found.covers {
			f.halt(found.stop)
		}
	}
	if a.err != nil {
		return a.err
	}
	if b.err != nil {
		return b.err
	}
	if serial == f.w.serial { // otherwise the watch was opened again meanwhile, and reads them itself
		f.verified = true
		f.turn()
	}
	return nil
}

func (f *following) Passed(ctx context.Context, seq uint64) error {
	for {
		f.w.mu.Lock()
		seen, verified, turned := f.seen, f.verified, f.turned
		f.w.mu.Unlock()
		switch {
		case seen > seq:
			return dispatch.ErrLost
		case seen == seq && verified:
			return nil
		}
		select {
		case <-turned:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (f *following) Stopped() <-chan struct{} { return f.stopped }

func (f *following) StoppedBy() dispatch.SeenStop {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	return f.by
}

func (f *following) Close() {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	group := f.key.Tenant + "." + f.key.Session
	delete(f.w.follows[group], f)
	if len(f.w.follows[group]) == 0 {
		delete(f.w.follows, group)
	}
}
