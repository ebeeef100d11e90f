package subjects

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	callEvents = 256                    // events of one call that may wait for its callback
	eventGrace = 250 * time.Millisecond // how long a reply waits for events that are still on their way
)

// Called is the answer of tool_call. At most one of Mistake, Caller, Batch and Accepted is set; with none of them set,
// Raw is the own result of a hosted tool, whatever its shape.
type Called struct {
	// Raw is exactly what to hand to the model, but where Caller or Accepted is set.
	Raw []byte
	// CallID is the id under which the call was made.
	CallID string
	// Mistake is set where the call was refused before anything was sent anywhere.
	Mistake *ToolError
	// Caller is set where the tool is the caller's to run: the real name and the repaired arguments.
	Caller *CallerDispatch
	// Batch is set for a batch of connector tools.
	Batch *BatchReply
	// Accepted is set by CallAsync where the call is durable and runs.
	Accepted *Accepted
}

// NewCallID makes a call id of 128 random bits.
func NewCallID() string {
	var id [16]byte
	rand.Read(id[:]) //nolint:errcheck // documented never to fail
	return hex.EncodeToString(id[:])
}

// Call runs the model's tool_call and waits for its result. Without a CallID it makes one, so that asking again, which
// it does when a worker is gone, re-attaches to the same call and runs nothing twice.
//
// each, where it is not nil, is called once for each settled entry of a call that runs on the bus, from this
// goroutine, as soon as the entry has settled. An entry whose event was lost on the way is told from the reply, with
// 0 attempts.
//
// A context that ends leaves the call running: what it has not begun by then is not begun. [Session.StopCall] stops it.
func (s *Session) Call(ctx context.Context, r CallRequest, each func(EntryEvent)) (*Called, error) {
	r.CallID = callID(r.CallID)
	ctx, cancel := within(ctx, s.c.opts.CallTimeout)
	defer cancel()
	var events *callSubscription
	if each != nil {
		var err error
		if events, err = s.subscribeCall(r.CallID); err != nil {
			return nil, err
		}
		defer events.close()
	}

	replies := make(chan callReply, 1)
	go func() {
		a, err := s.call(ctx, &r, nil, s.c.opts.Reattach)
		replies <- callReply{a, err}
	}()
	var reply callReply
	for waiting := true; waiting; {
		select {
		case m := <-events.messages():
			events.tell(ctx, m, each)
		case reply = <-replies:
			waiting = false
		}
	}
	if reply.err != nil {
		return nil, reply.err
	}
	out := called(reply.answer, r.CallID)
	if events != nil && out.Mistake == nil && out.Caller == nil {
		events.finish(ctx, out, each)
	}
	return out, nil
}

// CallAsync hands the model's tool_call over and returns as soon as it is durable; its events tell the rest, see
// [Session.Watch]. What the front half answers at once (Mistake, Caller) comes back as it does from Call.
func (s *Session) CallAsync(ctx context.Context, r CallRequest) (*Called, error) {
	r.CallID = callID(r.CallID)
	ctx, cancel := within(ctx, s.c.opts.Timeout)
	defer cancel()
	a, err := s.call(ctx, &r, nats.Header{HeaderAsync: []string{"1"}}, s.c.opts.Reattach)
	if err != nil {
		return nil, err
	}
	return called(a, r.CallID), nil
}

type callReply struct {
	answer *answer
	err    error
}

func callID(id string) string {
	if id == "" {
		return NewCallID()
	}
	return Token(id)
}

// call asks, and asks again under the same call_id where no reply comes within patience: the worker that held the
// question may be gone, and whoever answers the next one finds the call in its record.
func (s *Session) call(ctx context.Context, r *CallRequest, h nats.Header, patience time.Duration) (a *answer, err error) {
	s.setStreak("")
	err = s.scoped(ctx, r.Scope, func(scope Scope) error {
		asked := *r
		asked.Scope = scope
		body, err := AppendCallRequest(nil, &asked)
		if err != nil {
			return err
		}
		a, err = s.ask(ctx, VerbCall, h, body, patience)
		return err
	})
	return a, err
}

// called sorts a reply into its cases.
func called(a *answer, id string) *Called {
	out := &Called{Raw: a.body, CallID: id}
	if h := a.header.Get(HeaderCall); h != "" {
		out.CallID = h
	}
	if out.Mistake = mistake(a.body); out.Mistake != nil {
		return out
	}
	var shape struct {
		Dispatch string          `json:"dispatch"`
		Name     string          `json:"name"`
		Accepted bool            `json:"accepted"`
		Subject  json.RawMessage `json:"results"`
		Success  *int            `json:"success_count"`
		Errors   *int            `json:"error_count"`
		Total    *int            `json:"total_count"`
	}
	if json.Unmarshal(a.body, &shape) != nil {
		return out
	}
	switch {
	case shape.Dispatch == "caller" && shape.Name != "":
		out.Caller = decodeAs[CallerDispatch](a.body)
	case shape.Accepted && len(shape.Subject) > 0 && shape.Subject[0] == '"':
		out.Accepted = decodeAs[Accepted](a.body)
	case shape.Success != nil && shape.Errors != nil && shape.Total != nil:
		out.Batch = decodeAs[BatchReply](a.body)
	}
	return out
}

func decodeAs[T any](body []byte) *T {
	v := new(T)
	if json.Unmarshal(body, v) != nil {
		return nil
	}
	return v
}

// callSubscription hears the events of one call. A nil one hears none.
type callSubscription struct {
	s       *Session
	sub     *nats.Subscription
	ch      chan *nats.Msg
	seen    seenEvents
	entries []int // told
	summed  bool
}

func (s *Session) subscribeCall(call string) (*callSubscription, error) {
	c := &callSubscription{s: s, ch: make(chan *nats.Msg, callEvents), seen: newSeenEvents()}
	var err error
	c.sub, err = s.c.nc.ChanSubscribe(s.c.opts.Root.Result(s.tenant, s.session, call), c.ch)
	return c, err
}

func (c *callSubscription) messages() <-chan *nats.Msg {
	if c == nil {
		return nil
	}
	return c.ch
}

func (c *callSubscription) close() { c.sub.Unsubscribe() } //nolint:errcheck // the connection may be gone by now

// tell hands a new entry to each.
func (c *callSubscription) tell(ctx context.Context, m *nats.Msg, each func(EntryEvent)) {
	ev, err := c.s.readEvent(ctx, m.Subject, m.Header, m.Data)
	if err != nil || !c.seen.first(ev) {
		return // the reply tells what an unreadable event would have told
	}
	if ev.Summary != nil {
		c.summed = true
		return
	}
	c.entries = append(c.entries, ev.Entry.Index)
	each(*ev.Entry)
}

// finish waits a little for events that the reply overtook, and tells from the reply what never came.
func (c *callSubscription) finish(ctx context.Context, out *Called, each func(EntryEvent)) {
	ctx, cancel := context.WithTimeout(ctx, eventGrace)
	defer cancel()
	for !c.complete(out.Batch) {
		select {
		case m := <-c.ch:
			c.tell(ctx, m, each)
			continue
		case <-ctx.Done():
		}
		break
	}
	if out.Batch == nil {
		return
	}
	for _, r := range out.Batch.Results {
		if !slices.Contains(c.entries, r.Index) {
			each(EntryEvent{Event: EventEntry, CallID: out.CallID, EntryResult: r, Outcome: r.Outcome()})
		}
	}
}

func (c *callSubscription) complete(b *BatchReply) bool {
	if b == nil {
		return c.summed
	}
	return len(c.entries) >= len(b.Results)
}
