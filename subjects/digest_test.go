package subjects_test

import (
	"strings"
	"testing"

	"toolsearch/subjects"
)

func TestDigest(t *testing.T) {
	t.Parallel()
	const empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if got := subjects.Digest(nil); got != empty {
		t.Errorf("of nothing: %s, want %s", got, empty)
	}
	if !subjects.ValidDigest(empty) {
		t.Errorf("%s is refused", empty)
	}
	for name, s := range map[string]string{
		"nothing": "", "no digits": "sha256:", "no prefix": strings.TrimPrefix(empty, "sha256:"), "one short": empty[:len(empty)-1],
		"one more": empty + "0", "capitals": "sha256:" + strings.Repeat("A", 64), "another hash": "sha512" + empty[6:],
		"something else inside": empty[:40] + "." + empty[41:], "blanks": " " + empty[:len(empty)-1],
	} {
		if subjects.ValidDigest(s) {
			t.Errorf("%s: %q is taken for a digest", name, s)
		}
	}
}
