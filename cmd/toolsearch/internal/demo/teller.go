package demo

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"toolsearch/cmd/toolsearch/internal/screen"
	"toolsearch/cmd/toolsearch/internal/table"
	"toolsearch/subjects"
)

// teller prints for the reader. Scenes and events tell side by side.
type teller struct {
	mu     sync.Mutex
	out    *screen.Screen
	scenes int
	since  time.Time // the scene's begin
}

const width = 100

// scene begins a part.
func (t *teller) scene(title string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.scenes > 0 {
		t.out.Println()
	}
	t.out.Println(t.out.Bold(fmt.Sprintf("%d. %s", t.scenes, title)))
	t.scenes++
	t.since = time.Now()
}

// text explains, wrapped to the width.
func (t *teller) text(s string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range wrap(s, width) {
		t.out.Println(l)
	}
}

// line prints one line as it is.
func (t *teller) line(s string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.out.Println(s)
}

// model shows what the model wrote.
func (t *teller) model(tool, arguments string) {
	t.line(t.out.Dim("model  > ") + tool + " " + arguments)
}

// result shows what the model gets, cut to some lines.
func (t *teller) result(text string, lines int) {
	all := wrap(text, width-9)
	for i, l := range all {
		if i == lines {
			t.line(t.out.Dim("         ... "+strconv.Itoa(len(all)-lines)) + t.out.Dim(" more lines"))
			return
		}
		head := "         "
		if i == 0 {
			head = "result < "
		}
		t.line(t.out.Dim(head) + l)
	}
}

// event shows an entry that has settled.
func (t *teller) event(e subjects.EntryEvent) {
	word := string(e.Outcome)
	if e.Outcome == subjects.OutcomeOK {
		word = t.out.Good(word)
	} else {
		word = t.out.Warn(word)
	}
	text := string(e.Response)
	if e.Error != nil {
		text = string(e.Error.Code)
	}
	t.line(fmt.Sprintf("%s%d  %s%s  %s  %s  %s", t.out.Dim("event  < entry "), e.Index, word,
		strings.Repeat(" ", max(0, len("interrupted")-len(e.Outcome))), t.clock(), e.Name, table.Cut(text, 32)))
}

// clock is the time since the scene began.
func (t *teller) clock() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.out.Dim(fmt.Sprintf("+%.2fs", time.Since(t.since).Seconds()))
}

// wrap breaks a text into lines of at most n characters, at spaces where there are any.
func wrap(s string, n int) []string {
	var out []string
	for paragraph := range strings.SplitSeq(strings.TrimRight(s, "\n"), "\n") {
		line := ""
		for word := range strings.FieldsSeq(paragraph) {
			if line != "" && len([]rune(line))+1+len([]rune(word)) > n {
				out, line = append(out, line), ""
			}
			if line != "" {
				line += " "
			}
			line += word
		}
		out = append(out, line)
	}
	return out
}

// number writes n with separators.
func number(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// indented writes JSON for reading.
func indented(raw []byte) string {
	var members subjects.Ordered[json.RawMessage]
	if json.Unmarshal(raw, &members) != nil {
		return string(raw)
	}
	var b strings.Builder
	for _, m := range members {
		fmt.Fprintf(&b, "%s: %s\n", m.Key, m.Value)
	}
	return b.String()
}
