package connectors

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"toolsearch/subjects"
)

func operation(surface subjects.Surface, action Action, names ...string) *Operation {
	m := &Manage{Action: action}
	for _, n := range names {
		m.Targets = append(m.Targets, ManageTarget{Name: n, MCP: action.Local()})
	}
	return NewOperation("op1", "tenant", "s1", m, surface, time.Now())
}

func (o *Operation) states() string {
	var out []string
	for _, t := range o.Targets {
		out = append(out, string(t.State))
	}
	return strings.Join(out, " ")
}

// What each end makes of each state, and that the first end is the last.
func TestSettle(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for by, want := range map[subjects.SettledBy]string{
		subjects.SettledDeadline:   "not_connected not_connected expired connected skipped failed expired",
		subjects.SettledInterrupt:  "not_connected not_connected not_connected connected skipped failed expired",
		subjects.SettledContinue:   "not_connected not_connected not_connected connected skipped failed expired",
		subjects.SettledHandedOver: "pending starting initiated connected skipped failed expired",
	} {
		op := operation(subjects.SurfaceCard, ActionConnect, "a", "b", "c", "d", "e", "f", "g")
		for i, s := range allStates[:7] {
			op.Targets[i].State = s
		}
		op.settle(by, now)
		if op.states() != want || op.SettledBy != by {
			t.Errorf("%s: %s, want %s", by, op.states(), want)
		}
		before, _ := json.Marshal(op)
		op.settle(subjects.SettledContinue, now.Add(time.Hour))
		if a := op.Answer(subjects.AnswerRequest{Operation: "op1", Answer: subjects.AnswerSkip, Name: "a"}, now); a == nil || a.Code != subjects.RefusalUnknownOperation {
			t.Errorf("%s: a button after the end: %+v", by, a)
		}
		if after, _ := json.Marshal(op); string(after) != string(before) {
			t.Errorf("%s: changed after the end:\n%s\n%s", by, before, after)
		}
	}
	for by := range map[subjects.SettledBy]bool{subjects.SettledDeadline: true, subjects.SettledInterrupt: true} {
		op := operation(subjects.SurfaceCard, ActionConnect, "pending", "under way", "initiated")
		op.Targets[1].State, op.Targets[2].State = subjects.ConnectionStarting, subjects.ConnectionInitiated
		op.settle(by, now)
		for i, may := range []bool{false, true, false} {
			if got := op.Targets[i]; strings.Contains(got.Detail, "may have taken effect") != may {
				t.Errorf("%s: %s is told %q", by, got.Name, got.Detail)
			}
		}
	}
	local := operation(subjects.SurfaceCard, ActionAuthorize, "git")
	local.Targets[0].State = subjects.ConnectionInitiated
	if local.settle(subjects.SettledDeadline, now); local.states() != "not_connected" {
		t.Errorf("a local server at the deadline: %s", local.states())
	}
}

func TestConclude(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		surface subjects.Surface
		states  []subjects.ConnectionState
		want    subjects.SettledBy
	}{
		{subjects.SurfaceCard, []subjects.ConnectionState{"connected", "skipped", "failed"}, subjects.SettledAllResolved},
		{subjects.SurfaceCard, []subjects.ConnectionState{"connected", "initiated", "failed"}, ""},
		{subjects.SurfaceCard, []subjects.ConnectionState{"connected", "expired", "failed"}, ""},
		{subjects.SurfaceLink, []subjects.ConnectionState{"connected", "starting", "failed"}, ""},
		{subjects.SurfaceLink, []subjects.ConnectionState{"connected", "initiated", "failed"}, subjects.SettledHandedOver},
		{subjects.SurfaceLink, []subjects.ConnectionState{"connected", "connected", "failed"}, subjects.SettledAllResolved},
	} {
		op := operation(c.surface, ActionConnect, "a", "b", "c")
		for i, s := range c.states {
			op.Targets[i].State = s
		}
		if op.conclude(time.Now()); op.SettledBy != c.want {
			t.Errorf("%s %v: settled by %q, want %q", c.surface, c.states, op.SettledBy, c.want)
		}
	}
}

// A link is on the card until the card is over, in the model's outcome only where there is no card.
func TestLinksAreForTheUserAlone(t *testing.T) {
	t.Parallel()
	const link = "https://gateway.example.org/connect/secret"
	for _, surface := range []subjects.Surface{subjects.SurfaceCard, subjects.SurfaceLink} {
		op := operation(surface, ActionConnect, "chat")
		op.Targets[0].State, op.Targets[0].ConnectURL, op.Targets[0].ConnectionID = subjects.ConnectionInitiated, link, "ca_1"
		if e := op.Event(); e.Targets[0].ConnectURL != link || e.Event != subjects.EventCard {
			t.Errorf("%s: card %+v", surface, e)
		}
		op.conclude(time.Now())
		op.settle(subjects.SettledContinue, time.Now())
		outcome, err := subjects.MarshalModel(op.Outcome())
		if err != nil {
			t.Fatal(err)
		}
		if got, want := strings.Contains(string(outcome), link), surface == subjects.SurfaceLink; got != want {
			t.Errorf("%s: outcome %s", surface, outcome)
		}
		if strings.Contains(string(outcome), "ca_1") {
			t.Errorf("%s: the outcome holds a connection id: %s", surface, outcome)
		}
		if e := op.Event(); e.Targets[0].ConnectURL != "" || e.Event != subjects.EventCardSettled {
			t.Errorf("%s: card after the end %+v", surface, e)
		}
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	now := time.Now()
	op := operation(subjects.SurfaceCard, ActionConnect, "chat", "mail")
	op.Targets[0].State, op.Targets[0].ConnectionID = subjects.ConnectionFailed, "ca_1"
	op.Targets[1].State = subjects.ConnectionConnected
	press := func(answer, name string) string {
		r := op.Answer(subjects.AnswerRequest{Operation: "op1", Answer: answer, Name: name}, now)
		if r == nil {
			return ""
		}
		return r.Code
	}
	for _, c := range []struct{ answer, name, refusal, states string }{
		{"skip", "none", subjects.RefusalUnknownTarget, "failed connected"},
		{"skip", "mail", subjects.RefusalNotNow, "failed connected"},
		{"retry", "mail", subjects.RefusalNotNow, "failed connected"},
		{"retry", "chat", "", "pending connected"},
		{"retry", "chat", subjects.RefusalNotNow, "pending connected"},
		{"skip", "chat", "", "skipped connected"},
	} {
		if got := press(c.answer, c.name); got != c.refusal || op.states() != c.states {
			t.Errorf("%s %s: %q, states %s", c.answer, c.name, got, op.states())
		}
	}
	if op.Targets[0].Attempt != 2 || op.SettledBy != subjects.SettledAllResolved {
		t.Errorf("attempt %d, settled by %q", op.Targets[0].Attempt, op.SettledBy)
	}
}

func TestDecodeOperation(t *testing.T) {
	t.Parallel()
	op := operation(subjects.SurfaceCard, ActionConnect, "chat")
	p, err := subjects.Marshal(op)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := DecodeOperation(p); err != nil || again.ID != op.ID || !again.Deadline.Equal(op.Deadline) || again.Digest != op.Digest {
		t.Errorf("%+v, %v", again, err)
	}
	for _, bad := range []string{``, `[]`, `{"v":1,"op_id":"x"}`, strings.Replace(string(p), `"v":1`, `"v":0`, 1)} {
		if _, err := DecodeOperation([]byte(bad)); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
	for _, newer := range []string{`{"v":9}`, `{"v":2,"targets":"in a shape that is not known here"}`} {
		if _, err := DecodeOperation([]byte(newer)); !errors.Is(err, ErrOperationVersion) {
			t.Errorf("%s: %v", newer, err)
		}
	}
}
