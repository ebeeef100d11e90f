package table_test

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"toolsearch/cmd/toolsearch/internal/table"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func sample() *table.Table {
	t := table.New("QUERY", "TOOL", "DESCRIPTION")
	t.Row("create issue", "mcp__gitnest__create_issue", "Opens an issue\nin a   repository.")
	t.Row("予定", "mcp__almanac__create_event", "Enters an event in a calendar and tells every guest about it.")
	t.Row("", "mcp__parley__send", "\x1b[31mSends a message.")
	t.Row("nothing")
	return t
}

func TestWrite(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		style table.Style
		want  string
	}{
		"whole": {table.Style{}, `
QUERY         TOOL                        DESCRIPTION
create issue  mcp__gitnest__create_issue  Opens an issue in a repository.
予定          mcp__almanac__create_event  Enters an event in a calendar and tells every guest about it.
              mcp__parley__send           [31mSends a message.
nothing
`},
		"cut": {table.Style{Width: 70, Bold: "<", Reset: ">"}, `
<QUERY         TOOL                        DESCRIPTION>
create issue  mcp__gitnest__create_issue  Opens an issue in a reposit…
予定          mcp__almanac__create_event  Enters an event in a calend…
              mcp__parley__send           [31mSends a message.
nothing
`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b strings.Builder
			if err := sample().Write(&b, test.style); err != nil {
				t.Fatal(err)
			}
			if got := "\n" + b.String(); got != test.want {
				t.Errorf("got:%s\nwant:%s", got, test.want)
			}
		})
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		in    string
		width int
		want  string
	}{
		{"abc", 3, "abc"},
		{"abcd", 3, "ab…"},
		{"ab cd", 4, "ab…"},
		{"予定表", 5, "予定…"},
		{"", 0, ""},
	} {
		if got := table.Cut(test.in, test.width); got != test.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", test.in, test.width, got, test.want)
		}
	}
}
