package dispatch

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

// No text is longer than the bound, whatever the model wrote, and each says that nothing was run.
func TestTextsAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 100_000)
	why := errors.New(long)
	for name, text := range map[string]string{
		"calls":     textCallsJSON(why),
		"arguments": textEntryArgumentsJSON(3, why),
		"hook":      textArgumentsJSON(long, why),
		"object":    textArgumentsObject(long),
		"batch":     textLocalBatch(12, long),
		"missing":   textMissing(long, strings.Split(strings.Repeat("é,", 5000), ",")),
		"invalid":   textInvalid(long, "arguments."+long, "type", long),
	} {
		if n := utf8.RuneCountInString(text); n > MaxErrorText+utf8.RuneCountInString(textCut) {
			t.Errorf("%s has %d characters", name, n)
		}
		if !utf8.ValidString(text) {
			t.Errorf("%s is cut inside a character", name)
		}
	}
	if s := Bounded(strings.Repeat("é", MaxErrorText)); strings.HasSuffix(s, textCut) {
		t.Error("a text of just the bound is cut")
	}
	if s := Bounded(strings.Repeat("é", MaxErrorText+1)); s != strings.Repeat("é", MaxErrorText)+textCut {
		t.Error("a text over the bound is not cut there")
	}
}

func TestClipDetail(t *testing.T) {
	t.Parallel()
	if got := clipDetail(" a \n\t b "); got != "a b" {
		t.Errorf("%q", got)
	}
	if s := strings.Repeat("x", 600); clipDetail(s) != s {
		t.Error("600 characters are cut")
	}
	if s := strings.Repeat("x", 601); clipDetail(s) != s[:597]+"..." {
		t.Error("601 characters are not cut to 600")
	}
}
