package demo

import (
	"os"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"toolsearch/cmd/toolsearch/internal/screen"
	"toolsearch/subjects"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWrap(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		in   string
		want []string
	}{
		{"", []string{""}},
		{"one two three", []string{"one two", "three"}},
		{"longerthanthat x\n", []string{"longerthanthat", "x"}},
		{"a\n\nb", []string{"a", "", "b"}},
		{"äöü äöü äöü", []string{"äöü äöü", "äöü"}},
	} {
		if got := wrap(test.in, 8); !slices.Equal(got, test.want) {
			t.Errorf("wrap(%q) = %q, want %q", test.in, got, test.want)
		}
	}
}

func TestTeller(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	say := &teller{out: screen.New(&b, os.Environ)}
	say.scene("First")
	say.model("tool_search", `{"queries": []}`)
	say.result(strings.Repeat("word ", 100), 2)
	say.event(subjects.EntryEvent{EntryResult: subjects.EntryResult{Index: 1, Name: "x", Error: &subjects.EntryError{Code: subjects.EntryInterrupted}},
		Outcome: subjects.OutcomeInterrupted})
	lines := strings.Split(b.String(), "\n")
	if len(lines) != 7 || lines[0] != "0. First" || lines[1] != `model  > tool_search {"queries": []}` ||
		!strings.HasPrefix(lines[2], "result < word") || !strings.HasSuffix(lines[4], "more lines") ||
		!strings.HasPrefix(lines[5], "event  < entry 1  interrupted  +0.") || !strings.HasSuffix(lines[5], "x  INTERRUPTED") {
		t.Errorf("told:\n%s", b.String())
	}
}

func TestIndented(t *testing.T) {
	t.Parallel()
	if got := indented([]byte(`{"error": "x", "parameters": {"a": 1}}`)); got != "error: \"x\"\nparameters: {\"a\": 1}\n" {
		t.Errorf("got %q", got)
	}
	if got := indented([]byte("no JSON")); got != "no JSON" {
		t.Errorf("got %q", got)
	}
}
