package dispatch

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"toolsearch/subjects"
)

var (
	states = []State{StatePending, StateStarted, StateOK, StateError, StateInterrupted, StateUnknown, StateAbandoned}
	causes = []Cause{CauseMark, CauseTakeBack, CauseResume, CauseStop, CauseRefuse, CauseSucceed, CauseFail, CauseLose,
		CauseAbandon, CauseUnreadable, CauseReopen}
)

// The picture in the documentation of State has exactly the arrows of the table, and its ends.
func TestPictureIsTheTable(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("state.go")
	if err != nil {
		t.Fatal(err)
	}
	var drawn, table []string
	for _, m := range regexp.MustCompile(`(?m)^//\t(\w+) --> (\w+): ([\w-]+)$`).FindAllStringSubmatch(string(source), -1) {
		drawn = append(drawn, strings.Join(m[1:], " "))
	}
	for _, a := range transitions {
		table = append(table, strings.Join([]string{string(a.from), string(a.to), string(a.cause)}, " "))
	}
	slices.Sort(drawn)
	slices.Sort(table)
	if !slices.Equal(drawn, table) {
		t.Fatalf("the picture shows\n%s\nand the table holds\n%s", strings.Join(drawn, "\n"), strings.Join(table, "\n"))
	}
	for _, s := range states {
		final := !slices.ContainsFunc(transitions, func(a transition) bool { return a.from == s })
		if got := strings.Contains(string(source), "//\t"+string(s)+" --> [*]\n"); got != final {
			t.Errorf("the picture ends at %s: %t, want %t", s, got, final)
		}
	}
	if !strings.Contains(string(source), "//\t[*] --> pending\n") {
		t.Error("the picture does not begin at pending")
	}
}

// Every state and cause is in the table, each arrow once, and all that is not in it is refused and changes nothing.
func TestTransitions(t *testing.T) {
	t.Parallel()
	for _, s := range states {
		for _, c := range causes {
			n := 0
			for _, a := range transitions {
				if a.from == s && a.cause == c {
					n++
				}
			}
			next, err := s.Next(c)
			if n > 1 || (err == nil) != (n == 1) || err != nil && next != s {
				t.Errorf("%s by %s: %d arrows, next %s, %v", s, c, n, next, err)
			}
		}
		if !s.Known() || s.Settled() == (s == StatePending || s == StateStarted) {
			t.Errorf("%s: known %t, settled %t", s, s.Known(), s.Settled())
		}
	}
	for _, c := range causes {
		if !slices.ContainsFunc(transitions, func(a transition) bool { return a.cause == c }) {
			t.Errorf("%s causes nothing", c)
		}
	}
	if State("flying").Known() {
		t.Error("a state that is none is known")
	}
}

// However an entry goes, a stop never hides an effect: INTERRUPTED follows neither from a resumed entry's loss nor from
// any settled state; and nothing settled moves but what an operator reopens.
func TestNoWayHidesAnEffect(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := StatePending
		for _, c := range rapid.SliceOfN(rapid.SampledFrom(causes), 0, 30).Draw(t, "causes") {
			next, err := s.Next(c)
			if err != nil {
				continue
			}
			if s.Settled() && (s != StateAbandoned || c != CauseReopen) {
				t.Fatalf("settled %s moved by %s", s, c)
			}
			if next == StateInterrupted && c != CauseStop {
				t.Fatalf("interrupted by %s", c)
			}
			if next == StateAbandoned && s != StatePending {
				t.Fatalf("abandoned although %s", s)
			}
			s = next
		}
	})
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	for s, want := range map[State]subjects.Outcome{StatePending: "", StateStarted: "", StateOK: "ok", StateError: "error",
		StateInterrupted: "interrupted", StateUnknown: "unknown", StateAbandoned: "abandoned"} {
		if got := s.Outcome(); got != want {
			t.Errorf("%s: outcome %q, want %q", s, got, want)
		}
	}
}
