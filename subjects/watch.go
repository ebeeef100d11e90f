package subjects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// seenCalls is how many calls are remembered to drop an event that comes again.
const seenCalls = 1024

// Event is one message of a result subject: Entry, or Summary.
type Event struct {
	Entry   *EntryEvent
	Summary *SummaryEvent
	// CallID and Generation are those of the event.
	CallID     string
	Generation int
	// Header holds the trace context of the work that made the event.
	Header nats.Header
	// Raw is the event's body as it came.
	Raw []byte
}

// WatchOptions says which events [Session.Watch] gives. The zero value is every event of the session from now on.
type WatchOptions struct {
	// Call limits the events to one call, and ends them with its summary. A call that was reopened has a summary for each
	// generation: with Replay they go on to that of the last which is kept.
	Call string
	// Replay gives first what is still kept of the past (an hour), and loses nothing while the connection is gone. It
	// needs permission to make a consumer on the result stream.
	Replay bool
}

// Watch gives the events of the session's calls as entries settle. It is subscribed when it returns, so nothing is
// missed between that and the first step of the loop. Each event comes once, in order within its call. An error that
// comes with an empty Event is told and the loop may go on, but for one that ends it: the context's, or a closed
// connection's. The subscription ends with the loop or with ctx, whichever is first.
func (s *Session) Watch(ctx context.Context, o WatchOptions) (iter.Seq2[Event, error], error) {
	subject := s.c.opts.Root.SessionResults(s.tenant, s.session)
	if o.Call != "" {
		subject = s.c.opts.Root.Result(s.tenant, s.session, Token(o.Call))
	}
	open := s.watchPlain
	if o.Replay {
		open = s.watchStream
	}
	src, err := open(ctx, subject)
	if err != nil {
		return nil, err
	}
	release := context.AfterFunc(ctx, src.close)
	return func(yield func(Event, error) bool) {
		defer src.close()
		defer release()
		seen := newSeenEvents()
		var last lastGeneration
		for {
			ev, more, err := src.next(ctx)
			if err != nil && ctx.Err() != nil {
				err = ctx.Err() // whose end closes the source, which may be told first
			}
			switch {
			case err != nil:
				if fatal := watchEnds(ctx, err); !yield(Event{}, err) || fatal {
					return
				}
			case seen.first(ev):
				last.take(ev)
				if !yield(ev, nil) {
					return
				}
			}
			if o.Call != "" && last.over && !more {
				return
			}
		}
	}, nil
}

// lastGeneration follows the generations of one call.
type lastGeneration struct {
	generation int
	over       bool // its summary came
}

func (l *lastGeneration) take(ev Event) {
	if ev.Generation > l.generation {
		l.generation, l.over = ev.Generation, false
	}
	l.over = l.over || ev.Summary != nil && ev.Generation == l.generation
}

// eventSource is where events come from.
type eventSource struct {
	// next gives the next event, and whether another one is there already.
	next  func(context.Context) (ev Event, more bool, err error)
	close func()
}

func (s *Session) watchPlain(ctx context.Context, subject string) (*eventSource, error) {
	sub, err := s.c.nc.SubscribeSync(subject)
	if err != nil {
		return nil, fmt.Errorf("subjects: watch: %w", err)
	}
	if err := s.c.subscribed(ctx, sub); err != nil {
		sub.Unsubscribe() //nolint:errcheck // the other error came first
		return nil, fmt.Errorf("subjects: watch: %w", err)
	}
	return &eventSource{
		close: func() { sub.Unsubscribe() }, //nolint:errcheck // it may be closed already
		next: func(ctx context.Context) (Event, bool, error) {
			m, err := sub.NextMsgWithContext(ctx)
			if err != nil {
				return Event{}, false, err
			}
			ev, err := s.readEvent(ctx, m.Subject, m.Header, m.Data)
			return ev, false, err
		},
	}, nil
}

func (s *Session) watchStream(ctx context.Context, subject string) (*eventSource, error) {
	setup, cancel := within(ctx, s.c.opts.Timeout)
	defer cancel()
	setup, release := untilRefused(setup, s.c.nc, ofStream(s.c.opts.ResultsStream))
	defer release()
	consumer, err := s.c.js.OrderedConsumer(setup, s.c.opts.ResultsStream, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{subject}, DeliverPolicy: jetstream.DeliverAllPolicy,
	})
	if refused := causeRefused(setup); err != nil && refused != nil {
		err = refused
	}
	if err != nil {
		return nil, fmt.Errorf("subjects: watch: the stream %s cannot be replayed: %w", s.c.opts.ResultsStream, err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		return nil, fmt.Errorf("subjects: watch: %w", err)
	}
	return &eventSource{
		close: messages.Stop,
		next: func(ctx context.Context) (Event, bool, error) {
			m, err := messages.Next(jetstream.NextContext(ctx))
			if err != nil {
				return Event{}, false, err
			}
			at, err := m.Metadata()
			if err != nil {
				return Event{}, false, err // cannot be: it comes from a consumer
			}
			ev, err := s.readEvent(ctx, m.Subject(), m.Headers(), m.Data())
			return ev, at.NumPending > 0, err
		},
	}, nil
}

// watchEnds reports whether nothing more can come.
func watchEnds(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrBadSubscription) ||
		errors.Is(err, jetstream.ErrMsgIteratorClosed) || errors.Is(err, nats.ErrPermissionViolation)
}

// readEvent reads one message of a result subject. An event carries its id. What does not is no event, whatever its body
// says: anybody may name this subject as where a worker should send the reply to a request, and a hosted tool's reply may
// look like anything.
func (s *Session) readEvent(ctx context.Context, subject string, h nats.Header, data []byte) (Event, error) {
	call := strings.TrimPrefix(subject, strings.TrimSuffix(s.c.opts.Root.Results(), ">"))
	if !strings.HasPrefix(h.Get(nats.MsgIdHdr), call+".") {
		return Event{}, fmt.Errorf("subjects: the message on %s is no event: it does not carry the id of one", subject)
	}
	body, err := s.c.bodies.Unpack(ctx, s.tenant, h, data)
	if err != nil {
		return Event{}, err
	}
	var head struct {
		Event      string `json:"event"`
		CallID     string `json:"call_id"`
		Generation int    `json:"generation"`
	}
	if err := json.Unmarshal(body, &head); err != nil {
		return Event{}, fmt.Errorf("subjects: the event on %s is not of the contract: %w", subject, err)
	}
	ev := Event{CallID: head.CallID, Generation: head.Generation, Header: h, Raw: body}
	switch head.Event {
	case EventEntry:
		ev.Entry = new(EntryEvent)
		err = json.Unmarshal(body, ev.Entry)
	case EventSummary:
		ev.Summary = new(SummaryEvent)
		err = json.Unmarshal(body, ev.Summary)
	default:
		err = fmt.Errorf("unknown event %q", head.Event)
	}
	if err != nil {
		return Event{}, fmt.Errorf("subjects: the event on %s is not of the contract: %w", subject, err)
	}
	return ev, nil
}

// seenEvents drops what came before: a successor publishes again what its predecessor may have published.
type seenEvents struct {
	calls *lru.Cache[callGeneration, map[int]struct{}]
}

type callGeneration struct {
	call       string
	generation int
}

func newSeenEvents() seenEvents {
	calls, err := lru.New[callGeneration, map[int]struct{}](seenCalls)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return seenEvents{calls}
}

// first reports whether ev comes for the first time, by call, index and generation.
func (s seenEvents) first(ev Event) bool {
	key := callGeneration{ev.CallID, ev.Generation}
	told, ok := s.calls.Get(key)
	if !ok {
		told = map[int]struct{}{}
		s.calls.Add(key, told)
	}
	index := -1 // the summary
	if ev.Entry != nil {
		index = ev.Entry.Index
	}
	if _, again := told[index]; again {
		return false
	}
	told[index] = struct{}{}
	return true
}
