package linking

import (
	"testing"

	"toolsearch/connectors/gatewaytest"
	"toolsearch/subjects"
)

// stop stops a call of the session, as anybody may who sends to the subject, and returns when the server has it.
func (b *bundle) stop(subject string) {
	b.t.Helper()
	if _, err := b.nc.Request(subject, nil, wait); err != nil {
		b.t.Fatal(err)
	}
}

// A stop ends an operation whatever its targets are at, changes nothing of what has come to its end, and nothing that
// comes in afterwards changes the operation again.
func TestAStopInEveryState(t *testing.T) {
	t.Parallel()
	root := subjects.DefaultRoot
	anyone := gatewaytest.Anyone
	for name, c := range map[string]struct {
		reach func(b *bundle, p *part) // brings the operation of chat and mail where it is stopped
		want  string
	}{
		"initiated": {func(b *bundle, _ *part) { b.shown("initiated initiated") }, "not_connected not_connected"},
		"skipped": {func(b *bundle, p *part) {
			b.shown("initiated initiated")
			b.press(p, subjects.AnswerSkip, "chat")
		}, "skipped not_connected"},
		"expired": {func(b *bundle, _ *part) {
			b.shown("initiated initiated")
			b.server.SetAccount(anyone, "chat", "", "expired", "")
			b.shown("expired initiated")
		}, "expired not_connected"},
		"failed": {func(b *bundle, _ *part) {
			b.shown("initiated initiated")
			b.server.SetAccount(anyone, "chat", "", "failed", "no")
			b.shown("failed initiated")
		}, "failed not_connected"},
		"connected": {func(b *bundle, _ *part) {
			b.consent(b.shown("initiated initiated"), 0)
			b.shown("connected initiated")
		}, "connected not_connected"},
		"pending again": {func(b *bundle, p *part) {
			b.shown("initiated initiated")
			gate := b.hold("connections")
			b.press(p, subjects.AnswerRetry, "chat")
			b.reached(gate)
		}, "not_connected not_connected"},
		"after a retry": {func(b *bundle, p *part) {
			b.shown("initiated initiated")
			b.press(p, subjects.AnswerRetry, "chat")
			b.shown("initiated initiated")
		}, "not_connected not_connected"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.server.Link(anyone, "mail", false)
			p := b.worker(Options{})
			asked := p.do(t.Context(), card("op1", "chat", "mail"))
			c.reach(b, p)
			b.stop(root.StopCall("acme", "s1", "op1"))
			op := b.settled(asked, subjects.SettledInterrupt, c.want)
			b.stop(root.StopSession("acme", "s1")) // again, and too late
			for _, target := range op.Targets {
				if target.ConnectURL != "" {
					t.Errorf("%s keeps a link", target.Name)
				}
			}
			// What the user still does in a browser is the account's, and no longer the operation's.
			b.server.SetAccount(anyone, "chat", "", "active", "")
			again := b.settled(p.do(t.Context(), card("op1", "chat", "mail")), subjects.SettledInterrupt, c.want)
			if again.Seq != op.Seq {
				t.Errorf("it changed after its end: %d, then %d", op.Seq, again.Seq)
			}
			// The session is free.
			b.settled(p.do(t.Context(), card("next", "calendar")), subjects.SettledAllResolved, "connected")
		})
	}
}

// A stop while the first start is on its way, with a card and without one: the gateway is not waited for.
func TestAStopDuringTheStart(t *testing.T) {
	t.Parallel()
	for _, surface := range []subjects.Surface{subjects.SurfaceCard, subjects.SurfaceLink} {
		t.Run(string(surface), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			gate := b.hold("connections")
			p := b.worker(Options{})
			op := card("op1", "chat")
			op.Surface = surface
			asked := p.do(t.Context(), op)
			b.reached(gate)
			b.stop(subjects.DefaultRoot.StopSession("acme", "s1"))
			b.settled(asked, subjects.SettledInterrupt, "not_connected")
		})
	}
}

// A stop of an operation that has handed its links over comes too late for it.
func TestAStopAfterTheLinks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.worker(Options{})
	op := card("op1", "chat")
	op.Surface = subjects.SurfaceLink
	first := b.settled(p.do(t.Context(), op), subjects.SettledHandedOver, "initiated")
	b.stop(subjects.DefaultRoot.StopCall("acme", "s1", "op1"))
	op = card("op1", "chat")
	op.Surface = subjects.SurfaceLink
	again := b.settled(p.do(t.Context(), op), subjects.SettledHandedOver, "initiated")
	if again.Targets[0].ConnectURL != first.Targets[0].ConnectURL {
		t.Error("the link is another one")
	}
}

// Two sessions of one user link the same app at once: each has its own card, and one consent is seen by both.
func TestTwoSessionsLinkTheSameApp(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, second := b.worker(Options{}), b.worker(Options{})
	theirs, err := b.nc.SubscribeSync(subjects.DefaultRoot.SessionCards("acme", "s2"))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	other := card("op1", "chat") // the same id, in another session
	other.Session = "s2"
	one, two := first.do(t.Context(), card("op1", "chat")), second.do(t.Context(), other)
	e := b.shown("initiated")
	b.cards = theirs
	b.shown("initiated")
	b.stop(subjects.DefaultRoot.StopCall("acme", "s3", "op1")) // nobody's
	b.consent(e, 0)
	b.settled(one, subjects.SettledAllResolved, "connected")
	b.settled(two, subjects.SettledAllResolved, "connected")
	if n := b.starts(); n != 2 {
		t.Errorf("%d starts", n)
	}
}

// hold keeps the next request to a route at the gateway until the test is over.
func (b *bundle) hold(route string) *gatewaytest.Gate {
	gate := gatewaytest.NewGate()
	b.t.Cleanup(gate.Open)
	b.server.Fault(gatewaytest.Fault{Kind: gatewaytest.Slow, Route: route, Gate: gate, Times: 1})
	return gate
}

func (b *bundle) reached(gate *gatewaytest.Gate) {
	b.t.Helper()
	select {
	case <-gate.Reached():
	case <-b.t.Context().Done():
		b.t.Fatal("the gateway was not asked")
	}
}

// press presses a button of the session's card, which must be taken.
func (b *bundle) press(p *part, answer, name string) {
	b.t.Helper()
	r, err := p.Answer(b.t.Context(), "acme", "s1", subjects.AnswerRequest{Operation: "op1", Answer: answer, Name: name})
	if err != nil || !r.Accepted {
		b.t.Fatalf("%+v, %v", r, err)
	}
}
