package screen_test

import (
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"toolsearch/cmd/toolsearch/internal/screen"
	"toolsearch/cmd/toolsearch/internal/table"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPlainWhereNobodyLooks(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	s := screen.New(&b, os.Environ)
	s.Println(s.Bold("a"), s.Dim("b"), s.Good("c"), s.Warn("d"), s.Bad("e"))
	tb := table.New("X", "Y")
	tb.Row("1", strings.Repeat("long ", 50))
	if err := s.Table(tb); err != nil {
		t.Fatal(err)
	}
	if s.Terminal() || s.Width() != 0 || strings.Contains(b.String(), "\x1b") || strings.Contains(b.String(), "…") {
		t.Errorf("not plain: %q", b.String())
	}
	if !strings.HasPrefix(b.String(), "a b c d e\n") {
		t.Errorf("got %q", b.String())
	}
}

func TestFileIsNoTerminal(t *testing.T) {
	t.Parallel()
	f, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if screen.New(f, os.Environ).Terminal() {
		t.Error("a file is taken for a terminal")
	}
}

// What servers write cannot steer the terminal that shows it; the screen's own styles pass.
func TestControlsAreTakenOut(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	s := screen.New(&b, os.Environ)
	s.Println("\x1b[2Ja\x1b]0;t\x07", "\u009b2Jb\u202ec", "\x1b[31mred\x1b[0m\tü\r")
	s.Printf("%s|%d\n", "\x00\x1b[1mbold\x1b[0m\x08", 7)
	want := "[2Ja]0;t 2Jbc \x1b[31mred\x1b[0m\tü\n\x1b[1mbold\x1b[0m|7\n"
	if b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}
