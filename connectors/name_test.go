package connectors

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSlugsUpperCaseIsFullUnicode(t *testing.T) {
	t.Parallel()
	for connector, want := range map[string]string{"straße": "STRASSE_X", "ﬁle": "FILE_X", "ñandú": "ÑANDÚ_X", "my app": "MY APP_X", "gmail": "GMAIL_X"} {
		if got := (Name{connector, "X"}).Slugs()[0]; got != want {
			t.Errorf("%q: got %q, want %q", connector, got, want)
		}
	}
	if got := FormatName("straße", "STRASSE_GO"); got != "connectors__straße__GO" {
		t.Errorf("got %q", got)
	}
}

func TestNameRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		connector := rapid.StringMatching(`_?[a-zA-Z0-9 éß]([a-zA-Z0-9 é]|_[a-z])*`).Draw(t, "connector")
		tool := rapid.StringMatching(`[A-Za-z0-9_]+`).Draw(t, "tool")
		n := Name{connector, tool}
		got, ok := ParseName(n.String())
		if !ok || got != n {
			t.Fatalf("%q parses to %v %v", n.String(), got, ok)
		}
		slugs := n.Slugs()
		if slugs[0] == slugs[1] {
			t.Fatalf("the slugs of %v are equal", n)
		}
		// The prefixed slug leads back to the name, which is why it is the one that is kept of twins.
		if FormatName(connector, slugs[0]) != n.String() {
			t.Fatalf("%q formats to %q, want %q", slugs[0], FormatName(connector, slugs[0]), n.String())
		}
	})
}

func FuzzParseName(f *testing.F) {
	for _, s := range []string{"", "connectors__", "connectors__a__b", "connectors__a__b__c", "connectors____x", "connectors___a__b", "Connectors__a__b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, ok := ParseName(s)
		if !ok {
			return
		}
		if n.String() != s || !IsName(s) || n.Connector == "" || n.Tool == "" || strings.Contains(n.Connector, "__") && !strings.HasPrefix(n.Connector, "_") {
			t.Fatalf("%q parses to %+v", s, n)
		}
		n.Slugs()
		FormatName(n.Connector, n.Tool)
	})
}
