package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"

	"toolsearch/dispatch"
	"toolsearch/subjects"
	"toolsearch/telemetry"
)

// Codes of a host's error that say more than that the tool failed.
const (
	hostOverloaded = "OVERLOADED"        // nothing ran
	hostLeaving    = "UNAVAILABLE"       // nothing ran: the host is stopping
	hostDeadline   = "DEADLINE_EXCEEDED" // nothing ran
	hostUnknown    = "OUTCOME_UNKNOWN"   // the host itself lost the answer
)

// The texts of hosted tools, for a model.
const (
	textHostAway    = "The host of this tool is not there, so it was not run. Go on without it, or try once more later."
	textHostBusy    = "The host of this tool is busy, so it was not run. Try once more later."
	textHostSilent  = "The host of this tool did not answer in time. The tool may have run; check its effect before calling it again."
	textHostLost    = "The host of this tool lost the answer. The tool may have run; check its effect before calling it again."
	textHostGone    = "The host of this tool is gone. The tool may have run before; check its effect before calling it again."
	textHostReply   = "The host of this tool answered with something that is no result. The tool may have run; check its effect before calling it again."
	textHostFailed  = "The tool failed, and its host does not say why."
	textHostRequest = "This call could not be put into a message, so it was not run."
)

// hosts sends entries to tool hosts on the bus.
type hosts struct {
	nc    *nats.Conn
	root  subjects.Root
	store *subjects.Bodies
	spans *spans
	// patience is how long a host that is not there is asked again.
	patience time.Duration
}

var _ dispatch.Sender = (*hosts)(nil)

// Send asks the host until there is an answer. Asking again is safe, since the key is the same: it is done where
// nobody was there, for a while, or the host refused for lack of room. A host that got the request and then fell
// silent leaves the outcome unknown.
func (h *hosts) Send(ctx context.Context, s dispatch.Sending) dispatch.Sent {
	run := ctx
	ctx, cancel := context.WithTimeout(run, s.Bound)
	defer cancel()
	m, err := h.request(ctx, s)
	if err != nil {
		sent := failed(subjects.EntryToolError, textHostRequest, 0)
		sent.Cut = run.Err() != nil
		return sent
	}
	pause := backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond),
		backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0))
	present := time.Now() // when the host was last known to be there
	for attempt := 1; ; attempt++ {
		sent, again := h.asked(ctx, m, s, attempt)
		wait := pause.NextBackOff()
		if !away(sent) {
			present = time.Now()
		} else if time.Since(present)+wait > h.patience {
			again = false
		}
		if again {
			h.spans.retry(ctx, wait, attempt, sent)
		}
		if !again || !waitToRetry(ctx, s.Stop, wait) {
			sent.Cut = run.Err() != nil && (again || sent.Outcome == subjects.OutcomeUnknown)
			return sent
		}
	}
}

// away reports whether nobody was there to be asked.
func away(s dispatch.Sent) bool {
	return s.Error != nil && (s.Error.Message == textHostAway || s.Error.Message == textHostGone)
}

// waitToRetry waits before the next attempt; false if there must be none.
func waitToRetry(ctx context.Context, stop <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-stop:
	case <-ctx.Done():
	}
	return false
}

func (h *hosts) request(ctx context.Context, s dispatch.Sending) (*nats.Msg, error) {
	deadline, _ := ctx.Deadline()
	body, err := subjects.Marshal(subjects.HostRequest{CallID: s.Key.Call, Index: s.Index, Name: s.Name, Arguments: s.Arguments,
		IdempotencyKey: s.IdempotencyKey(s.Name), Deadline: deadline.UTC()})
	if err != nil {
		return nil, err
	}
	header := traceHeader(s.Trace)
	header[subjects.HeaderCall] = []string{s.Key.Call}
	data, err := h.store.Pack(ctx, s.Key.Tenant, header, body)
	if err != nil {
		return nil, err
	}
	return &nats.Msg{Subject: h.root.Host(s.Key.Tenant, s.Host, subjects.HostCall), Header: header, Data: data}, nil
}

// asked is attempt inside its span.
func (h *hosts) asked(ctx context.Context, m *nats.Msg, s dispatch.Sending, attempt int) (out dispatch.Sent, again bool) {
	ctx, span := h.spans.send(ctx, h.spans.requestHost, s.Key, m)
	defer span.End()
	out, again = h.attempt(ctx, m, s, attempt)
	if out.Error != nil {
		telemetry.Fail(span, string(out.Error.Code), true)
	}
	return out, again
}

// attempt asks once; again says that nothing ran and that asking again may help.
func (h *hosts) attempt(ctx context.Context, m *nats.Msg, s dispatch.Sending, attempt int) (sent dispatch.Sent, again bool) {
	answer, err := h.nc.RequestMsgWithContext(ctx, m)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		if s.Repeat { // an earlier runner may have reached it while it was there
			return unknown(textHostGone, attempt), true
		}
		return failed(subjects.EntryToolError, textHostAway, attempt), true
	case err != nil:
		return unknown(textHostSilent, attempt), false
	}
	data, err := h.store.Unpack(ctx, s.Key.Tenant, answer.Header, answer.Data)
	if err != nil {
		return unknown(textHostLost, attempt), false
	}
	var reply subjects.HostReply
	if subjects.CheckForeign(data) != nil || json.Unmarshal(data, &reply) != nil || (reply.Error == nil) == (reply.Result == nil) {
		return unknown(textHostReply, attempt), false
	}
	if reply.Error == nil {
		return dispatch.Sent{Outcome: subjects.OutcomeOK, EntryOutcome: dispatch.EntryOutcome{Response: reply.Result}, Attempts: attempt}, false
	}
	switch reply.Error.Code {
	case hostOverloaded, hostLeaving:
		if s.Repeat {
			return unknown(textHostLost, attempt), true
		}
		return failed(subjects.EntryToolError, textHostBusy, attempt), true
	case hostUnknown:
		return unknown(textHostLost, attempt), false
	case hostDeadline:
		if s.Repeat {
			return unknown(textHostLost, attempt), false
		}
		return failed(subjects.EntryDeadlineExceeded, dispatch.Bounded(reply.Error.Message), attempt), false
	}
	message := reply.Error.Message
	if message == "" {
		message = textHostFailed
	}
	return failed(subjects.EntryToolError, dispatch.Bounded(message), attempt), false
}

func failed(code subjects.EntryCode, message string, attempts int) dispatch.Sent {
	return outcome(subjects.OutcomeError, code, message, attempts)
}

func unknown(message string, attempts int) dispatch.Sent {
	return outcome(subjects.OutcomeUnknown, subjects.EntryOutcomeUnknown, message, attempts)
}

func outcome(o subjects.Outcome, code subjects.EntryCode, message string, attempts int) dispatch.Sent {
	return dispatch.Sent{Outcome: o, Attempts: attempts,
		EntryOutcome: dispatch.EntryOutcome{Error: &subjects.EntryError{Code: code, Message: message}}}
}

// line lets one call at a time through to each host of each tenant, in no particular order.
type line struct {
	mu     sync.Mutex
	places map[[2]string]*place
}

// place is the one place at a host; it exists while somebody has it or waits for it.
type place struct {
	free  chan struct{} // holds the place while nobody has it
	users int
}

var _ dispatch.Line = (*line)(nil)

func (l *line) Enter(ctx context.Context, tenant, host string) (leave func(), err error) {
	key := [2]string{tenant, host}
	l.mu.Lock()
	if l.places == nil {
		l.places = map[[2]string]*place{}
	}
	p := l.places[key]
	if p == nil {
		p = &place{free: make(chan struct{}, 1)}
		p.free <- struct{}{}
		l.places[key] = p
	}
	p.users++
	l.mu.Unlock()
	release := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if p.users--; p.users == 0 {
			delete(l.places, key)
		}
	}
	select {
	case <-p.free:
		return func() { p.free <- struct{}{}; release() }, nil
	case <-ctx.Done():
		release()
		return nil, fmt.Errorf("durable: waiting in line at host %s: %w", host, context.Cause(ctx))
	}
}
