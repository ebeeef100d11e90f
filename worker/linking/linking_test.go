package linking

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"toolsearch/connectors"
	"toolsearch/connectors/gatewaytest"
	"toolsearch/subjects"
	"toolsearch/worker/embedded"
	"toolsearch/worker/storage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wait bounds what a test waits for an event that has to come.
const wait = 90 * time.Second

type bundle struct {
	t       *testing.T
	bus     *embedded.Server
	server  *gatewaytest.Gateway
	gateway *connectors.Gateway
	nc      *nats.Conn // the interface's
	cards   *nats.Subscription
}

func setup(t *testing.T) *bundle {
	t.Helper()
	return setupWith(t, embedded.Options{}, gatewaytest.Options{})
}

func setupWith(t *testing.T, o embedded.Options, g gatewaytest.Options) *bundle {
	t.Helper()
	o.Port = embedded.InProcessOnly
	bus, err := embedded.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bus.Shutdown)
	b := &bundle{t: t, bus: bus}
	if b.server, err = gatewaytest.Start(g); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.server.Close() })
	origin, err := connectors.ParseOrigin(b.server.URL())
	if err != nil {
		t.Fatal(err)
	}
	client, err := connectors.NewClient(connectors.ClientOptions{Origin: origin, Tokens: connectors.Shared("token")})
	if err != nil {
		t.Fatal(err)
	}
	if b.gateway, err = connectors.NewGateway(client, connectors.GatewayOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.gateway.Close)
	b.nc = b.dial()
	js, err := jetstream.New(b.nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := storage.Ensure(t.Context(), js, storage.Layout{}); err != nil {
		t.Fatal(err)
	}
	if b.cards, err = b.nc.SubscribeSync(subjects.DefaultRoot.SessionCards("acme", "s1")); err != nil {
		t.Fatal(err)
	}
	if err := b.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bundle) dial() *nats.Conn {
	b.t.Helper()
	nc, err := nats.Connect(b.bus.ClientURL(), b.bus.InProcess(), nats.MaxReconnects(-1))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(nc.Close)
	return nc
}

// part is the part of one worker.
type part struct {
	*Operations
	nc *nats.Conn
}

// worker starts one. Its life is over when the test is, or with kill.
func (b *bundle) worker(o Options) *part {
	b.t.Helper()
	nc := b.dial()
	js, err := jetstream.New(nc)
	if err != nil {
		b.t.Fatal(err)
	}
	if o.Gateway == nil {
		o.Gateway = b.gateway
	}
	if o.Lease == 0 {
		o.Lease = time.Minute
	}
	o.Logger = slog.New(slog.DiscardHandler)
	ops, err := New(js, nc, o)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := ops.Start(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { ops.Drain(context.Background()) })
	select {
	case <-ops.Ready():
	case <-time.After(wait):
		b.t.Fatal("the watch does not open")
	}
	return &part{ops, nc}
}

// kill ends a worker as a power cut would: it says nothing more to the bus.
func (p *part) kill() { p.nc.Close() }

func card(id string, names ...string) *connectors.Operation {
	m := &connectors.Manage{Action: connectors.ActionConnect}
	for _, n := range names {
		m.Targets = append(m.Targets, connectors.ManageTarget{Name: n})
	}
	return connectors.NewOperation(id, "acme", "s1", m, subjects.SurfaceCard, time.Now())
}

// outcome is what Do came to.
type outcome struct {
	op  *connectors.Operation
	err error
}

func (p *part) do(ctx context.Context, op *connectors.Operation) <-chan outcome {
	c := make(chan outcome, 1)
	go func() {
		got, err := p.Do(ctx, op)
		c <- outcome{got, err}
	}()
	return c
}

// shown waits for the card that says this of its targets.
func (b *bundle) shown(states string) *subjects.CardEvent {
	b.t.Helper()
	for {
		m, err := b.cards.NextMsg(wait)
		if err != nil {
			b.t.Fatalf("no card with %q: %v", states, err)
		}
		e, err := eventOf(m.Data)
		if err != nil {
			b.t.Fatal(err)
		}
		var got []string
		for _, t := range e.Targets {
			got = append(got, string(t.State))
		}
		if strings.Join(got, " ") == states {
			return e
		}
	}
}

func (b *bundle) settled(c <-chan outcome, by subjects.SettledBy, states string) *connectors.Operation {
	b.t.Helper()
	select {
	case got := <-c:
		if got.err != nil {
			b.t.Fatal(got.err)
		}
		var s []string
		for _, t := range got.op.Targets {
			s = append(s, string(t.State))
		}
		if got.op.SettledBy != by || strings.Join(s, " ") != states {
			b.t.Fatalf("settled by %q with %v, want %q with %q", got.op.SettledBy, s, by, states)
		}
		return got.op
	case <-time.After(wait):
		b.t.Fatal("it is not settled")
	}
	return nil
}

func (b *bundle) starts() (n int) {
	for _, r := range b.server.Requests() {
		if r.Route == "connections" {
			n++
		}
	}
	return n
}

func (b *bundle) consent(e *subjects.CardEvent, i int) {
	b.t.Helper()
	if err := gatewaytest.Consent(b.t.Context(), e.Targets[i].ConnectURL, true); err != nil {
		b.t.Fatal(err)
	}
}

// A worker that dies while it watches: another goes on, the user connects, and whoever asks again under the same id is
// told. The link was made once.
func TestAWorkerThatDiesWhileItWatches(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.worker(Options{Lease: 300 * time.Millisecond})
	lost, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := first.do(lost, card("op1", "chat"))
	e := b.shown("initiated")
	var taken sync.WaitGroup
	taken.Add(1)
	second := b.worker(Options{Lease: 300 * time.Millisecond, Observer: &connectors.OperationObserver{
		TakenOver: func(context.Context, *connectors.Operation) { taken.Done() }}})
	first.kill()
	taken.Wait()
	again := second.do(t.Context(), card("op1", "chat"))
	b.consent(e, 0)
	b.settled(again, subjects.SettledAllResolved, "connected")
	if n := b.starts(); n != 1 {
		t.Errorf("%d starts, want 1", n)
	}
	cancel()
	if got := <-asked; got.err == nil {
		t.Errorf("the dead worker answered: %+v", got.op)
	}
	// And it is told again, long after.
	b.settled(second.do(t.Context(), card("op1", "chat")), subjects.SettledAllResolved, "connected")
}

// A worker that leaves in order hands its operations back, and another goes on at once, whatever the lease.
func TestADrainHandsOperationsBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, second := b.worker(Options{}), b.worker(Options{})
	waiting, leave := context.WithCancel(t.Context())
	asked := second.do(waiting, card("op1", "chat")) // it watches, too, for it opened it
	e := b.shown("initiated")
	if err := second.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	joined := first.do(t.Context(), card("op1", "chat"))
	b.consent(e, 0)
	b.settled(joined, subjects.SettledAllResolved, "connected")
	leave()
	if got := <-asked; got.err == nil && !got.op.Settled() {
		t.Errorf("%+v", got.op)
	}
	if n := b.starts(); n != 1 {
		t.Errorf("%d starts, want 1", n)
	}
}

// However many ask at once, one operation is open in a session; the others are told which. Another session has its own.
func TestOneOpenOperationPerSession(t *testing.T) {
	t.Parallel()
	b := setup(t)
	parts := []*part{b.worker(Options{}), b.worker(Options{})}
	const many = 8
	results := make(chan outcome, many)
	for i := range many {
		go func() {
			op, err := parts[i%2].Do(t.Context(), card(fmt.Sprintf("op%d", i), "chat"))
			results <- outcome{op, err}
		}()
	}
	open := ""
	for range many - 1 {
		got := <-results
		var busy *BusyError
		if !errors.As(got.err, &busy) {
			t.Fatalf("%+v, %v", got.op, got.err)
		}
		if open != "" && open != busy.Open.ID {
			t.Errorf("%s and %s are open", open, busy.Open.ID)
		}
		open = busy.Open.ID
		if text := connectors.TextBusy(busy.Open); !strings.Contains(text, open) || !strings.Contains(text, "Nothing was done") {
			t.Error(text)
		}
	}
	other := card("op1", "mail")
	other.Session = "s2"
	b.settled(parts[0].do(t.Context(), other), subjects.SettledAllResolved, "connected")
	if _, err := parts[0].Answer(t.Context(), "acme", "s1", subjects.AnswerRequest{Operation: open, Answer: subjects.AnswerContinue}); err != nil {
		t.Fatal(err)
	}
	if got := <-results; got.err != nil || got.op.ID != open || got.op.SettledBy != subjects.SettledContinue {
		t.Errorf("%+v, %v", got.op, got.err)
	}
	// The session is free again.
	b.settled(parts[1].do(t.Context(), card("next", "mail")), subjects.SettledAllResolved, "connected")
	if n := b.starts(); n != 3 {
		t.Errorf("%d starts, want 3", n)
	}
}

// The buttons work at any worker, and each refusal says why.
func TestButtonsAtAnyWorker(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server.Link(gatewaytest.Anyone, "mail", false)
	watcher, other := b.worker(Options{}), b.worker(Options{})
	press := func(answer, name string) *subjects.AnswerReply {
		t.Helper()
		r, err := other.Answer(t.Context(), "acme", "s1", subjects.AnswerRequest{Operation: "op1", Answer: answer, Name: name})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := press(subjects.AnswerSkip, "chat"); r.Accepted || r.Refusal.Code != subjects.RefusalUnknownOperation {
		t.Errorf("no card: %+v", r)
	}
	asked := watcher.do(t.Context(), card("op1", "chat", "mail"))
	first := b.shown("initiated initiated")
	if now, err := other.Current(t.Context(), "acme", "s1"); err != nil || now.Card == nil || now.Card.Targets[0].ConnectURL != first.Targets[0].ConnectURL {
		t.Errorf("%+v, %v", now, err)
	}
	if r := press(subjects.AnswerRetry, "none"); r.Accepted || r.Refusal.Code != subjects.RefusalUnknownTarget {
		t.Errorf("no such target: %+v", r)
	}
	if r := press(subjects.AnswerRetry, "chat"); !r.Accepted || r.Card.Targets[0].State != subjects.ConnectionPending {
		t.Errorf("retry: %+v", r)
	}
	e := b.shown("initiated initiated")
	if r := press(subjects.AnswerSkip, "mail"); !r.Accepted {
		t.Errorf("skip: %+v", r)
	}
	b.consent(e, 0)
	op := b.settled(asked, subjects.SettledAllResolved, "connected skipped")
	if text, _ := subjects.MarshalModel(op.Outcome()); strings.Contains(string(text), "/connect/") {
		t.Errorf("the outcome holds a link: %s", text)
	}
	if e := b.shown("connected skipped"); e.Event != subjects.EventCardSettled {
		t.Errorf("%+v", e)
	}
	if b.starts() != 2 {
		t.Errorf("%d starts, want the first and the user's retry", b.starts())
	}
}

// Stops: of the call, before and after it began; of the session, after it began; and one that came before is none.
func TestStops(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.worker(Options{})
	root := subjects.DefaultRoot
	stop := func(subject string) {
		t.Helper()
		if _, err := b.nc.Request(subject, nil, wait); err != nil { // JetStream acknowledges
			t.Fatal(err)
		}
	}
	stop(root.StopSession("acme", "s1"))
	for i, subject := range []string{root.StopSession("acme", "s1"), root.StopCall("acme", "s1", "op1")} {
		asked := p.do(t.Context(), card(fmt.Sprintf("op%d", i), "chat"))
		b.shown("initiated")
		stop(root.StopSession("acme", "s2"))
		stop(root.StopCall("acme", "s1", "another"))
		stop(subject)
		op := b.settled(asked, subjects.SettledInterrupt, "not_connected")
		if !strings.Contains(op.Outcome().Note, "stopped") {
			t.Error(op.Outcome().Note)
		}
	}
	before := b.starts()
	stop(root.StopCall("acme", "s1", "op9"))
	b.settled(p.do(t.Context(), card("op9", "chat")), subjects.SettledInterrupt, "not_connected")
	if b.starts() != before {
		t.Error("a link was made after the stop")
	}
}

// The same id with other targets is a conflict; the same again is joined.
func TestTheSameIDAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.worker(Options{})
	asked := p.do(t.Context(), card("op1", "chat"))
	b.shown("initiated")
	if _, err := p.Do(t.Context(), card("op1", "mail")); !errors.Is(err, &subjects.Error{Code: subjects.CodeCallConflict}) {
		t.Errorf("other targets: %v", err)
	}
	joined := p.do(t.Context(), card("op1", "chat"))
	if _, err := p.Answer(t.Context(), "acme", "s1", subjects.AnswerRequest{Operation: "op1", Answer: subjects.AnswerContinue}); err != nil {
		t.Fatal(err)
	}
	b.settled(asked, subjects.SettledContinue, "not_connected")
	b.settled(joined, subjects.SettledContinue, "not_connected")
	short, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Do(short, card("op2", "chat")); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that has gone: %v", err)
	}
}

// What is more than the bus takes in one message is left out, and the operation comes to its end: here two links, of
// which one can be kept.
func TestAnOperationThatIsTooLarge(t *testing.T) {
	t.Parallel()
	link := "https://x.example/" + strings.Repeat("x", 5<<10)
	b := setupWith(t, embedded.Options{MaxPayload: 8 << 10}, gatewaytest.Options{Answers: []gatewaytest.Answer{{Status: 200,
		Body: json.RawMessage(`{"results":[{"connector":"chat","status":"initiated","connectUrl":"` + link + `"},{"connector":"mail","status":"initiated","connectUrl":"` + link + `"}]}`)}}})
	op := card("op1", "chat", "mail")
	op.Surface = subjects.SurfaceLink
	got := b.settled(b.worker(Options{}).do(t.Context(), op), subjects.SettledHandedOver, "initiated failed")
	if got.Targets[0].ConnectURL != link || got.Targets[1].Detail == "" {
		t.Errorf("%+v", got.Targets)
	}
}

// The deadline comes for an operation that nobody watched for a while, at whoever takes it over.
// What a newer worker wrote is left to it, and told at once; what nobody can read is no operation.
func TestARecordThatCannotBeRead(t *testing.T) {
	b := setup(t)
	p := b.worker(Options{})
	for name, tc := range map[string]struct {
		record string
		code   subjects.Code
	}{
		"of a newer version": {`{"v":9,"targets":7}`, subjects.CodeUnavailable},
		"no record":          {`garbage`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			subject := storage.Layout{}.WithDefaults().OperationSubject("acme", "s1")
			if _, err := b.js().Publish(t.Context(), subject, []byte(tc.record)); err != nil {
				t.Fatal(err)
			}
			m := &connectors.Manage{Action: connectors.ActionConnect, Targets: []connectors.ManageTarget{{Name: "chat"}}}
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			out := <-p.do(ctx, connectors.NewOperation("call-1", "acme", "s1", m, subjects.SurfaceLink, time.Now()))
			if tc.code != "" && !errors.Is(out.err, &subjects.Error{Code: tc.code}) || tc.code == "" && out.err != nil {
				t.Errorf("got %v", out.err)
			}
		})
	}
}

func TestADeadlineThatPassedUnwatched(t *testing.T) {
	t.Parallel()
	b := setup(t)
	old := card("op1", "chat")
	old.Deadline, old.Runner = time.Now().Add(-time.Second), "gone"
	old.Targets[0].State, old.Targets[0].ConnectURL = subjects.ConnectionInitiated, "http://x"
	r := &records{js: b.js(), layout: storage.Layout{}.WithDefaults()}
	if _, own, err := r.open(t.Context(), key{"acme", "s1"}, old, time.Now); err != nil || !own {
		t.Fatal(own, err)
	}
	b.worker(Options{Lease: 100 * time.Millisecond})
	b.shown("expired")
}

func (b *bundle) js() jetstream.JetStream {
	js, err := jetstream.New(b.nc)
	if err != nil {
		b.t.Fatal(err)
	}
	return js
}

func TestOptions(t *testing.T) {
	t.Parallel()
	if _, err := New(nil, nil, Options{}); err == nil {
		t.Error("made without a connection")
	}
	b := setup(t)
	if _, err := New(b.js(), b.nc, Options{Lease: time.Nanosecond}); err == nil {
		t.Error("made with a lease of a nanosecond")
	}
	p := b.worker(Options{})
	if err := p.Start(t.Context()); err == nil {
		t.Error("started twice")
	}
	for range 2 {
		if err := p.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func eventOf(p []byte) (*subjects.CardEvent, error) {
	e := new(subjects.CardEvent)
	return e, json.Unmarshal(p, e)
}
