package screen

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"toolsearch/cmd/toolsearch/internal/table"
)

// Screen is a writer that knows whether people see it. Its methods may be called side by side.
type Screen struct {
	mu       sync.Mutex // what a connection tells comes from another goroutine
	w        io.Writer
	terminal bool
	color    bool
	width    int
}

// New looks at where w leads. environ gives the environment as os.Environ does.
func New(w io.Writer, environ func() []string) *Screen {
	s := &Screen{w: w}
	f, ok := w.(interface{ Fd() uintptr })
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return s
	}
	s.terminal = true
	if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
		s.width = width
	}
	s.color = true
	for _, e := range environ() {
		name, value, _ := strings.Cut(e, "=")
		if name == "NO_COLOR" && value != "" || name == "TERM" && value == "dumb" {
			s.color = false
		}
	}
	return s
}

// Terminal reports whether people see it as it comes.
func (s *Screen) Terminal() bool { return s.terminal }

// Width is the terminal's width in characters, 0 where there is none.
func (s *Screen) Width() int { return s.width }

// Write writes bytes as they are.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

// Println prints as fmt.Println does, without what could steer a terminal: descriptions and messages come from servers
// that nobody here has written. An error of the output is not told: there is nowhere left to tell it.
func (s *Screen) Println(a ...any) { _, _ = io.WriteString(s, harmless(fmt.Sprintln(a...))) }

// Printf prints as fmt.Printf does, harmless as [Screen.Println].
func (s *Screen) Printf(format string, a ...any) {
	_, _ = io.WriteString(s, harmless(fmt.Sprintf(format, a...)))
}

// harmless takes out control characters, but for the ends of lines, tabs and the styles of a screen, and what turns the
// direction of writing.
func harmless(text string) string {
	if !strings.ContainsFunc(text, steers) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		if code := styleAt(text[i:]); code != "" {
			b.WriteString(code)
			i += len(code)
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		if !steers(r) {
			b.WriteString(text[i : i+size])
		}
		i += size
	}
	return b.String()
}

// steers reports whether a terminal does something else with r than to show it.
func steers(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r)
}

// styleAt is the style of a screen that text begins with, "" for none.
func styleAt(text string) string {
	for _, code := range [...]string{bold, dim, green, yellow, red, reset} {
		if strings.HasPrefix(text, code) {
			return code
		}
	}
	return ""
}

// Table prints a table in the screen's width.
func (s *Screen) Table(t *table.Table) error {
	style := table.Style{Width: s.width}
	if s.color {
		style.Bold, style.Reset = bold, reset
	}
	return t.Write(s, style)
}

const (
	bold   = "\x1b[1m"
	dim    = "\x1b[2m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	red    = "\x1b[31m"
	reset  = "\x1b[0m"
)

// Bold makes a text stand out where colours show.
func (s *Screen) Bold(text string) string { return s.style(bold, text) }

// Dim makes a text stand back.
func (s *Screen) Dim(text string) string { return s.style(dim, text) }

// Good, Warn and Bad colour a text by what it tells.
func (s *Screen) Good(text string) string { return s.style(green, text) }

// Warn colours what deserves a look.
func (s *Screen) Warn(text string) string { return s.style(yellow, text) }

// Bad colours a failure.
func (s *Screen) Bad(text string) string { return s.style(red, text) }

func (s *Screen) style(code, text string) string {
	if !s.color {
		return text
	}
	return code + text + reset
}
