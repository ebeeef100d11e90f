package table

import (
	"io"
	"strings"
	"unicode"

	"github.com/rivo/uniseg"
)

// Table is a header and rows. The zero value has no columns.
type Table struct {
	head []string
	rows [][]string
}

// Style says how a table is written.
type Style struct {
	// Width is the terminal's, in characters; 0 cuts nothing.
	Width int
	// Bold is written before the header and Reset after it; empty for plain text.
	Bold, Reset string
}

// New makes a table with a header.
func New(head ...string) *Table { return &Table{head: head} }

// Row adds a row. Missing cells are empty, surplus ones are dropped.
func (t *Table) Row(cells ...string) {
	row := make([]string, len(t.head))
	for i := range row {
		if i < len(cells) {
			row[i] = clean(cells[i])
		}
	}
	t.rows = append(t.rows, row)
}

// Len is the number of rows.
func (t *Table) Len() int { return len(t.rows) }

const gap = 2

// Write prints the header and the rows.
func (t *Table) Write(w io.Writer, s Style) error {
	widths := t.widths(s.Width)
	var b strings.Builder
	b.WriteString(s.Bold)
	line(&b, t.head, widths)
	b.WriteString(s.Reset)
	b.WriteByte('\n')
	for _, row := range t.rows {
		line(&b, row, widths)
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// widths measures the columns; the last is cut to what the others leave of width, but never below its header or 20.
func (t *Table) widths(width int) []int {
	out := make([]int, len(t.head))
	sum := 0
	for i, h := range t.head {
		out[i] = uniseg.StringWidth(h)
		for _, row := range t.rows {
			out[i] = max(out[i], uniseg.StringWidth(row[i]))
		}
		if i < len(t.head)-1 {
			sum += out[i] + gap
		}
	}
	if last := len(out) - 1; width > 0 && last >= 0 {
		least := max(20, uniseg.StringWidth(t.head[last]))
		out[last] = min(out[last], max(width-sum, least))
	}
	return out
}

func line(b *strings.Builder, cells []string, widths []int) {
	pad := 0
	for i, c := range cells {
		if c = Cut(c, widths[i]); c != "" {
			b.WriteString(strings.Repeat(" ", pad))
			b.WriteString(c)
			pad = 0
		}
		pad += widths[i] - uniseg.StringWidth(c) + gap
	}
}

// Cut shortens s to a width in terminal characters; what was cut is marked with an ellipsis.
func Cut(s string, width int) string {
	if uniseg.StringWidth(s) <= width {
		return s
	}
	var b strings.Builder
	used, state := 0, -1
	for rest := s; rest != ""; {
		var c string
		var w int
		c, rest, w, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if used+w > width-1 {
			break
		}
		b.WriteString(c)
		used += w
	}
	return strings.TrimRight(b.String(), " ") + "…"
}

// clean makes one line of a cell: white space becomes single spaces and what steers a terminal disappears.
func clean(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return -1
		}
		return r
	}, s)
}
