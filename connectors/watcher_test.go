package connectors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"toolsearch/connectors/gatewaytest"
	"toolsearch/subjects"
)

// handClock is a clock that a test moves. Its timers fire when the time has come to them.
type handClock struct {
	mu     sync.Mutex
	now    time.Time
	timers map[int]*handTimer
	next   int
	armed  chan struct{} // closed and renewed with each new timer
}

type handTimer struct {
	at time.Time
	c  chan time.Time
}

func newHandClock() *handClock {
	return &handClock{now: time.Now(), timers: map[int]*handTimer{}, armed: make(chan struct{})}
}

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *handClock) NewTimer(d time.Duration) (<-chan time.Time, func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	id, t := c.next, &handTimer{at: c.now.Add(d), c: make(chan time.Time, 1)}
	if d <= 0 {
		t.c <- c.now
	} else {
		c.timers[id] = t
	}
	close(c.armed)
	c.armed = make(chan struct{})
	return t.c, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.timers, id)
	}
}

// advance moves the time and fires what is due.
func (c *handClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	for id, t := range c.timers {
		if !t.at.After(c.now) {
			delete(c.timers, id)
			t.c <- c.now
		}
	}
}

// await waits until a timer is set that fires after exactly d.
func (c *handClock) await(t *testing.T, d time.Duration) {
	t.Helper()
	limit := time.After(20 * time.Second)
	for {
		c.mu.Lock()
		armed, found := c.armed, false
		for _, timer := range c.timers {
			found = found || timer.at.Equal(c.now.Add(d))
		}
		c.mu.Unlock()
		if found {
			return
		}
		select {
		case <-armed:
		case <-limit:
			t.Fatalf("no timer of %s was set", d)
		}
	}
}

// memoryJournal is a journal in memory.
type memoryJournal struct {
	mu     sync.Mutex
	op     *Operation
	writes []string // the states after each write
}

func (j *memoryJournal) Update(_ context.Context, change func(*Operation) error) (*Operation, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	op := j.op.Clone()
	if err := change(op); errors.Is(err, ErrUnchanged) {
		return j.op.Clone(), nil
	} else if err != nil {
		return nil, err
	}
	if last := op.states(); len(j.writes) == 0 || j.writes[len(j.writes)-1] != last {
		j.writes = append(j.writes, last)
	}
	j.op = op
	return op.Clone(), nil
}

// watching is one watcher at work.
type watching struct {
	t       *testing.T
	server  *gatewaytest.Gateway
	gateway *Gateway
	clock   *handClock
	journal *memoryJournal
	local   LocalServers
	changes chan *Operation
	stop    chan struct{}
	cards   chan *subjects.CardEvent
	done    chan error
	settled *Operation
}

func watchOver(t *testing.T, op *Operation, prepare ...func(*watching)) *watching {
	t.Helper()
	server, err := gatewaytest.Start(gatewaytest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	w := &watching{t: t, server: server, clock: newHandClock(), journal: &memoryJournal{op: op}, changes: make(chan *Operation, 1),
		stop: make(chan struct{}), cards: make(chan *subjects.CardEvent, 100), done: make(chan error, 1)}
	op.Deadline, op.Runner = w.clock.Now().Add(OperationBound), "me"
	client, err := NewClient(ClientOptions{Origin: mustOrigin(t, server.URL()), Tokens: Shared("tok")})
	if err != nil {
		t.Fatal(err)
	}
	if w.gateway, err = NewGateway(client, GatewayOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.gateway.Close)
	for _, p := range prepare {
		p(w)
	}
	w.begin()
	return w
}

func (w *watching) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	w.t.Cleanup(func() { cancel(); <-ended })
	op := w.journal.op.Clone()
	go func() {
		defer close(ended)
		// No whole second, so that no test takes a beat for a tick.
		watcher := &Watcher{Gateway: w.gateway, Local: w.local, Clock: w.clock, Beat: 4500 * time.Millisecond}
		var err error
		w.settled, err = watcher.Run(ctx, op, Watch{Runner: "me", Journal: w.journal, Changes: w.changes, Stop: w.stop,
			Show: func(o *Operation) { w.cards <- o.Event() }})
		w.done <- err
	}()
}

// card waits for a card on which the targets stand like this.
func (w *watching) card(states string) *subjects.CardEvent {
	w.t.Helper()
	limit := time.After(20 * time.Second)
	for {
		select {
		case e := <-w.cards:
			var got []string
			for _, t := range e.Targets {
				got = append(got, string(t.State))
			}
			if strings.Join(got, " ") == states {
				return e
			}
		case <-limit:
			w.t.Fatalf("no card with %q; writes %v", states, w.journal.writes)
		}
	}
}

func (w *watching) end(by subjects.SettledBy, states string) {
	w.t.Helper()
	select {
	case err := <-w.done:
		if err != nil || w.settled.SettledBy != by || w.settled.states() != states {
			w.t.Fatalf("%v, settled by %q with %s; want %q with %s", err, w.settled.SettledBy, w.settled.states(), by, states)
		}
	case <-time.After(20 * time.Second):
		w.t.Fatalf("it does not end; writes %v", w.journal.writes)
	}
}

// tick lets a second pass, once the watcher waits for it.
func (w *watching) tick() {
	w.t.Helper()
	w.clock.await(w.t, watchTick)
	w.clock.advance(watchTick)
}

func (w *watching) press(answer, name string) {
	w.t.Helper()
	op, err := w.journal.Update(context.Background(), func(o *Operation) error {
		if r := o.Answer(subjects.AnswerRequest{Operation: o.ID, Answer: answer, Name: name}, w.clock.Now()); r != nil {
			return fmt.Errorf("%s", r.Message)
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.changes <- op
}

func (w *watching) count(route gatewaytest.Route) (n int) {
	for _, r := range w.server.Requests() {
		if r.Route == route {
			n++
		}
	}
	return n
}

// Two apps: the user connects one and skips the other. One start for both, one read per live target and second.
func TestTwoAppsOfWhichOneIsSkipped(t *testing.T) {
	t.Parallel()
	w := watchOver(t, operation(subjects.SurfaceCard, ActionReconnect, "chat", "mail"), func(w *watching) {
		w.server.Link(gatewaytest.Anyone, "mail", false)
	})
	card := w.card("initiated initiated")
	if card.Targets[0].ConnectURL == "" || card.Targets[1].ConnectURL == "" {
		t.Fatalf("card %+v", card)
	}
	w.tick()
	w.clock.await(t, watchTick)
	if n := w.count("account"); n != 2 {
		t.Errorf("%d reads at first, want one for each app", n)
	}
	w.press(subjects.AnswerSkip, "mail")
	w.card("initiated skipped")
	if err := gatewaytest.Consent(t.Context(), card.Targets[0].ConnectURL, true); err != nil {
		t.Fatal(err)
	}
	w.clock.advance(watchTick)
	w.end(subjects.SettledAllResolved, "connected skipped")
	if reads, starts := w.count("account"), w.count("connections"); reads != 3 || starts != 1 {
		t.Errorf("%d reads and %d starts, want 3 and 1", reads, starts)
	}
	if note := w.settled.Outcome().Note; note != noteSkipped {
		t.Error(note)
	}
}

// The gateway's words for an account, and what they make of a target.
func TestAccountStatuses(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]string{"active": "connected", "failed": "failed", "revoked": "failed", "inactive": "failed",
		"expired": "expired", "pending": "initiated"} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			w := watchOver(t, operation(subjects.SurfaceCard, ActionConnect, "chat"))
			w.card("initiated")
			w.clock.await(t, watchTick)
			w.server.SetAccount(gatewaytest.Anyone, "chat", "", status, "because")
			w.clock.advance(watchTick)
			if want == "initiated" {
				w.clock.await(t, watchTick)
				close(w.stop)
				w.end(subjects.SettledInterrupt, "not_connected")
				return
			}
			card := w.card(want)
			if status != "active" && card.Targets[0].Detail != "because" {
				t.Errorf("detail %q", card.Targets[0].Detail)
			}
			if want != "expired" {
				w.end(subjects.SettledAllResolved, want)
				return
			}
			w.press(subjects.AnswerRetry, "chat") // a new link, under the same operation
			w.card("initiated")
			w.press(subjects.AnswerContinue, "")
			w.end(subjects.SettledContinue, "not_connected")
			if n := w.count("connections"); n != 2 {
				t.Errorf("%d starts, want 2", n)
			}
		})
	}
}

func TestTheDeadline(t *testing.T) {
	t.Parallel()
	w := watchOver(t, operation(subjects.SurfaceCard, ActionConnect, "chat", "mail"))
	w.card("initiated connected")
	gate := gatewaytest.NewGate() // a read that would never end
	defer gate.Open()
	w.clock.await(t, watchTick)
	w.server.Fault(gatewaytest.Fault{Kind: gatewaytest.Slow, Route: "account", Gate: gate})
	w.clock.advance(watchTick)
	<-gate.Reached()
	w.clock.advance(OperationBound)
	w.end(subjects.SettledDeadline, "expired connected")
}

// A 429 is about the user: no target is read again before the time that it asks for.
func TestTooManyRequestsParkAllTargets(t *testing.T) {
	t.Parallel()
	w := watchOver(t, operation(subjects.SurfaceCard, ActionReconnect, "chat", "mail", "files"), func(w *watching) {
		for _, app := range []string{"mail", "files"} {
			w.server.Link(gatewaytest.Anyone, app, false)
		}
		w.server.Fault(gatewaytest.Fault{Kind: gatewaytest.RateLimit, RetryAfter: 17 * time.Second, Route: "account", Times: 1})
	})
	w.card("initiated initiated initiated")
	w.tick()
	w.clock.await(t, 17*time.Second)
	if n := w.count("account"); n != 1 {
		t.Errorf("%d reads, want the one that was refused: it ends the round", n)
	}
	w.clock.advance(16 * time.Second)
	w.clock.await(t, time.Second)
	if n := w.count("account"); n != 1 {
		t.Errorf("%d reads while parked", n)
	}
	w.clock.advance(time.Second)
	w.clock.await(t, watchTick)
	if n := w.count("account"); n != 4 {
		t.Errorf("%d reads after the park, want 4", n)
	}
	close(w.stop)
	w.end(subjects.SettledInterrupt, "not_connected not_connected not_connected")
}

// A gateway that dies while it is watched costs nothing but time.
func TestAGatewayThatDiesInBetween(t *testing.T) {
	t.Parallel()
	w := watchOver(t, operation(subjects.SurfaceCard, ActionConnect, "chat"))
	card := w.card("initiated")
	w.clock.await(t, watchTick)
	before := 0
	for _, f := range []gatewaytest.Fault{{Kind: gatewaytest.Drop}, {Kind: gatewaytest.Status, Status: 503}, {Kind: gatewaytest.HTML},
		{Kind: gatewaytest.Status, Status: 404, Body: `{"error":"connection_not_found"}`}, {Kind: gatewaytest.Status, Status: 401}, {Kind: gatewaytest.HalfBody}} {
		f.Route, f.Times = "account", 1
		w.server.Fault(f)
		w.tick()
		w.clock.await(t, watchTick)
		n := w.count("account")
		if n != before+1 {
			t.Fatalf("%s: %d reads, %d before", f.Kind, n, before)
		}
		before = n
	}
	if err := gatewaytest.Consent(t.Context(), card.Targets[0].ConnectURL, true); err != nil {
		t.Fatal(err)
	}
	w.clock.advance(watchTick)
	w.end(subjects.SettledAllResolved, "connected")
}

// A start is sent once, whatever becomes of it; the user may ask for another.
func TestAStartIsNeverRepeated(t *testing.T) {
	t.Parallel()
	for _, f := range []gatewaytest.Fault{{Kind: gatewaytest.Drop}, {Kind: gatewaytest.Drop, AfterEffect: true}, {Kind: gatewaytest.Status, Status: 503},
		{Kind: gatewaytest.RateLimit}, {Kind: gatewaytest.Status, Status: 401}, {Kind: gatewaytest.Status, Status: 403}, {Kind: gatewaytest.Status, Status: 404},
		{Kind: gatewaytest.Status, Status: 409}, {Kind: gatewaytest.HTML}} {
		w := watchOver(t, operation(subjects.SurfaceCard, ActionConnect, "chat"), func(w *watching) {
			f.Route = "connections"
			w.server.Fault(f)
		})
		w.end(subjects.SettledAllResolved, "failed")
		if n := w.count("connections"); n != 1 || w.settled.Targets[0].Detail == "" {
			t.Errorf("%s %d: %d starts, detail %q", f.Kind, f.Status, n, w.settled.Targets[0].Detail)
		}
	}
}

// A start that was sent, and whose answer does not say what became of it, may have taken effect. The model is told so, and
// to ask how the app stands; one that was not sent, or was refused, is told as what it is.
func TestAStartThatMayHaveTakenEffect(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault  gatewaytest.Fault
		closed bool
		may    bool
	}{
		"lost":                     {gatewaytest.Fault{Kind: gatewaytest.Drop}, false, true},
		"lost after the effect":    {gatewaytest.Fault{Kind: gatewaytest.Drop, AfterEffect: true}, false, true},
		"broken off":               {gatewaytest.Fault{Kind: gatewaytest.HalfBody}, false, true},
		"never":                    {gatewaytest.Fault{Kind: gatewaytest.Silent}, false, true},
		"failed":                   {gatewaytest.Fault{Kind: gatewaytest.Status, Status: 503}, false, true},
		"timed out":                {gatewaytest.Fault{Kind: gatewaytest.Status, Status: 408}, false, true},
		"a page":                   {gatewaytest.Fault{Kind: gatewaytest.HTML}, false, true},
		"an answer about nothing":  {gatewaytest.Fault{Kind: gatewaytest.Status, Status: 200, Body: `{}`}, false, true},
		"an answer of other shape": {gatewaytest.Fault{Kind: gatewaytest.Status, Status: 200, Body: `{"results":5}`}, false, true},
		"refused":                  {gatewaytest.Fault{Kind: gatewaytest.Status, Status: 400}, false, false},
		"expired":                  {gatewaytest.Fault{Kind: gatewaytest.Status, Status: 401}, false, false},
		"not served":               {gatewaytest.Fault{Kind: gatewaytest.Status, Status: 404}, false, false},
		"too many":                 {gatewaytest.Fault{Kind: gatewaytest.RateLimit}, false, false},
		"nobody there":             {closed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := watchOver(t, operation(subjects.SurfaceLink, ActionConnect, "chat"), func(w *watching) {
				client, err := NewClient(ClientOptions{Origin: mustOrigin(t, w.server.URL()), Tokens: Shared("tok"),
					Timeouts: Timeouts{Connections: 500 * time.Millisecond}})
				if err != nil {
					t.Fatal(err)
				}
				if w.gateway, err = NewGateway(client, GatewayOptions{}); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(w.gateway.Close)
				if c.closed {
					w.server.Close()
					return
				}
				c.fault.Route = "connections"
				w.server.Fault(c.fault)
			})
			w.end(subjects.SettledAllResolved, "failed")
			detail := w.settled.Outcome().Targets[0].Detail
			if may := strings.Contains(detail, "may have taken effect") && strings.Contains(detail, `{"action": "status"}`); may != c.may {
				t.Errorf("the model is told %q", detail)
			}
		})
	}
}

// What an earlier watcher had on its way fails, and is not sent again.
func TestASuccessorDoesNotStartAgain(t *testing.T) {
	t.Parallel()
	op := operation(subjects.SurfaceCard, ActionConnect, "chat", "files", "mail")
	op.Targets[0].State = subjects.ConnectionStarting
	w := watchOver(t, op)
	w.end(subjects.SettledAllResolved, "failed connected connected")
	for _, r := range w.server.Requests() {
		if strings.Contains(string(r.Body), "chat") {
			t.Errorf("the lost start was sent again: %s", r.Body)
		}
	}
	if w.settled.Targets[0].Detail != detailLost {
		t.Error(w.settled.Targets[0].Detail)
	}
}

// Without a card the operation ends with its links, and nothing is read.
func TestLinksAreHandedOverAtOnce(t *testing.T) {
	t.Parallel()
	w := watchOver(t, operation(subjects.SurfaceLink, ActionConnect, "chat", "mail", "none", "vault"))
	w.end(subjects.SettledHandedOver, "initiated connected failed failed")
	out := w.settled.Outcome()
	if out.Status != "initiated" || out.Targets[0].ConnectURL == "" || out.Note != noteLinks || w.count("account") != 0 {
		t.Errorf("%+v", out)
	}
}

// reconnect repairs what is broken; force starts over what works too.
func TestReconnect(t *testing.T) {
	t.Parallel()
	w := watchOver(t, operation(subjects.SurfaceLink, ActionReconnect, "chat", "mail"))
	w.end(subjects.SettledHandedOver, "initiated connected")
	if bodies := w.bodies("connections"); len(bodies) != 1 || bodies[0] != `{"connectors":["chat"],"reinitiate":true,"op":"op1"}` {
		t.Errorf("%v", bodies)
	}
	op := operation(subjects.SurfaceLink, ActionReconnect, "chat", "mail")
	op.Force = true
	op.Targets[1].Alias = "work"
	w = watchOver(t, op)
	w.end(subjects.SettledHandedOver, "initiated initiated")
	want := []string{`{"connectors":["chat"],"reinitiate":true,"op":"op1"}`, `{"connectors":["mail"],"reinitiate":true,"alias":"work","op":"op1"}`}
	if bodies := w.bodies("connections"); !slices.Equal(bodies, want) || w.count("list") != 0 {
		t.Errorf("%v", bodies)
	}
}

func (w *watching) bodies(route gatewaytest.Route) (out []string) {
	for _, r := range w.server.Requests() {
		if r.Route == route {
			out = append(out, string(r.Body))
		}
	}
	return out
}

// Another worker that took the operation is noticed, and left alone.
func TestALostOperation(t *testing.T) {
	t.Parallel()
	w := watchOver(t, operation(subjects.SurfaceCard, ActionConnect, "chat"))
	w.card("initiated")
	w.journal.mu.Lock()
	w.journal.op.Runner = "another"
	w.journal.mu.Unlock()
	w.clock.await(t, watchTick)
	w.clock.advance(DefaultBeat)
	select {
	case err := <-w.done:
		if !errors.Is(err, ErrOperationLost) || w.settled.Settled() {
			t.Errorf("%v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it goes on")
	}
}

// localServers is a host in this process; what its tools do is up to the test.
type localServers func(ctx context.Context, r LocalRequest) (*LocalAnswer, error)

func (f localServers) Ask(ctx context.Context, r LocalRequest) (*LocalAnswer, error) {
	return f(ctx, r)
}

// A fault in the work on one target is that target's failure.
func TestAPanicFailsItsTarget(t *testing.T) {
	t.Parallel()
	host := localServers(func(_ context.Context, r LocalRequest) (*LocalAnswer, error) {
		if r.Name == "sick" {
			panic("a fault")
		}
		return &LocalAnswer{State: subjects.ConnectionConnected}, nil
	})
	op := operation(subjects.SurfaceCard, ActionAuthorize, "git", "sick")
	for i := range op.Targets {
		op.Targets[i].Host = "laptop"
	}
	w := watchOver(t, op, func(w *watching) { w.local = host })
	w.end(subjects.SettledAllResolved, "connected failed")
}

// Local servers: one installs at once, one needs its user in a browser, one fails, one has no host.
func TestLocalServers(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	ready := false
	keys := map[string]bool{}
	host := localServers(func(_ context.Context, r LocalRequest) (*LocalAnswer, error) {
		mu.Lock()
		defer mu.Unlock()
		keys[r.Key] = true
		switch {
		case r.Name == "git":
			return &LocalAnswer{State: subjects.ConnectionConnected, Tools: []byte(`["a"]`)}, nil
		case r.Name == "sick":
			return nil, &subjects.ToolError{Message: "no such server"}
		case r.Action == "authorize" || !ready:
			return &LocalAnswer{State: subjects.ConnectionInitiated, ConnectURL: "http://127.0.0.1/ok"}, nil
		}
		return &LocalAnswer{State: subjects.ConnectionConnected}, nil
	})
	op := operation(subjects.SurfaceCard, ActionAuthorize, "git", "web", "sick", "nowhere")
	for i := range op.Targets[:3] {
		op.Targets[i].Host = "laptop"
	}
	w := watchOver(t, op, func(w *watching) { w.local = host })
	if card := w.card("connected initiated failed failed"); card.Targets[1].ConnectURL == "" || card.Targets[3].Detail != textNoHost {
		t.Errorf("%+v", card)
	}
	w.clock.await(t, watchTick)
	mu.Lock()
	ready = true
	mu.Unlock()
	w.clock.advance(localTick)
	w.end(subjects.SettledAllResolved, "connected connected failed failed")
	if string(w.settled.Outcome().Targets[0].Tools) != `["a"]` || w.count("connections") != 0 || len(keys) < 4 {
		t.Errorf("%+v, %d keys", w.settled.Outcome(), len(keys))
	}
}
