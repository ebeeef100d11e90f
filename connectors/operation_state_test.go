package connectors

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"toolsearch/subjects"
)

var (
	allStates = []subjects.ConnectionState{subjects.ConnectionPending, subjects.ConnectionStarting, subjects.ConnectionInitiated,
		subjects.ConnectionConnected, subjects.ConnectionSkipped, subjects.ConnectionFailed, subjects.ConnectionExpired,
		subjects.ConnectionNotConnected}
	allCauses = []MoveCause{CauseMark, CauseBegin, CauseFind, CauseConnect, CauseFail, CauseLose, CauseResume, CauseExpire,
		CauseTimeOut, CauseSkip, CauseRetry, CauseClose}
	allActors = []Actor{ActorWatcher, ActorUser, ActorClock, ActorSettle}
)

// The picture in the documentation and the table are the same, arrow for arrow.
func TestMovesAreThoseOfThePicture(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("operation_state.go")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]string{"": "", " (c)": subjects.KindHosted, " (m)": subjects.KindMCP}
	var drawn []move
	for _, m := range regexp.MustCompile(`(?m)^//\t(\w+) --> (\w+): (\w+) (\w+)( \([cm]\))?$`).FindAllStringSubmatch(string(source), -1) {
		// An expired target is a connector's alone, so its arrows are too.
		drawn = append(drawn, move{subjects.ConnectionState(m[1]), MoveCause(m[4]), Actor(m[3]), subjects.ConnectionState(m[2]), kinds[m[5]]})
	}
	text := func(list []move) []string {
		var out []string
		for _, m := range list {
			out = append(out, strings.Join([]string{string(m.from), string(m.cause), string(m.by), string(m.to), m.kind}, " "))
		}
		slices.Sort(out)
		return out
	}
	if !slices.Equal(text(drawn), text(moves)) {
		t.Errorf("drawn\n%s\ntable\n%s", strings.Join(text(drawn), "\n"), strings.Join(text(moves), "\n"))
	}
}

// Every change of state, by everybody, for every kind: what is in the table happens, and nothing else does.
func TestEveryMove(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{subjects.KindHosted, subjects.KindMCP} {
		for _, from := range allStates {
			for _, c := range allCauses {
				for _, by := range allActors {
					i := slices.IndexFunc(moves, func(m move) bool {
						return m.from == from && m.cause == c && m.by == by && (m.kind == "" || m.kind == kind)
					})
					target := Target{Kind: kind, State: from, ConnectURL: "u"}
					err := target.move(c, by)
					var refused *MoveError
					switch {
					case i < 0 && (!errors.As(err, &refused) || target.State != from):
						t.Errorf("%s: %s by the %s from %s: state %s, error %v", kind, c, by, from, target.State, err)
					case i >= 0 && (err != nil || target.State != moves[i].to):
						t.Errorf("%s: %s by the %s from %s: state %s, error %v", kind, c, by, from, target.State, err)
					case i >= 0 && (target.ConnectURL != "") != (target.State == subjects.ConnectionInitiated):
						t.Errorf("%s: %s from %s leaves the link %q", kind, c, from, target.ConnectURL)
					}
				}
			}
		}
	}
}

// What the rules promise, read from the table itself.
func TestMovesKeepTheirPromises(t *testing.T) {
	t.Parallel()
	for _, m := range moves {
		switch {
		case m.to == subjects.ConnectionConnected && m.by != ActorWatcher:
			t.Errorf("%+v: only the watcher may say that a target is connected", m)
		case m.from == subjects.ConnectionConnected || m.from == subjects.ConnectionSkipped || m.from == subjects.ConnectionNotConnected:
			t.Errorf("%+v leaves a state that is the end", m)
		case m.to == subjects.ConnectionNotConnected && m.by != ActorSettle:
			t.Errorf("%+v: not_connected is stamped at the end alone", m)
		case m.to == subjects.ConnectionExpired && m.kind != subjects.KindHosted:
			t.Errorf("%+v: local servers do not expire", m)
		case m.to == subjects.ConnectionStarting && m.from == subjects.ConnectionStarting && m.kind == subjects.KindHosted:
			t.Errorf("%+v: a start is not repeated", m)
		}
	}
}
