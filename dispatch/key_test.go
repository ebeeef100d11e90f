package dispatch

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"toolsearch/subjects"
)

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte("00ff\x0012\x00GMAIL_SEND"))
	if got, want := IdempotencyKey("00ff", 12, "GMAIL_SEND"), hex.EncodeToString(sum[:]); got != want {
		t.Fatalf("%s, want %s: a changed key would let an entry take effect twice across an upgrade", got, want)
	}
}

// Another nonce, index or slug is another key, however the parts would run together.
func TestIdempotencyKeysDiffer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		type triple struct {
			nonce string
			index int
			slug  string
		}
		draw := func(label string) triple {
			return triple{rapid.StringMatching(`[0-9a-f]{0,4}`).Draw(t, label+" nonce"), rapid.IntRange(0, 30).Draw(t, label+" index"),
				rapid.StringMatching(`[0-9A-Z_\x00]{0,4}`).Draw(t, label+" slug")}
		}
		a, b := draw("a"), draw("b")
		if ka, kb := IdempotencyKey(a.nonce, a.index, a.slug), IdempotencyKey(b.nonce, b.index, b.slug); (a == b) != (ka == kb) {
			t.Fatalf("%+v and %+v: %s and %s", a, b, ka, kb)
		}
	})
}

func TestNonces(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		n := NewNonce()
		if len(n) != 32 || seen[n] {
			t.Fatalf("nonce %q", n)
		}
		seen[n] = true
	}
}

func TestCallKeys(t *testing.T) {
	t.Parallel()
	k := CallKey{"acme", "s-1", "call_2"}
	if err := k.Validate(); err != nil || k.String() != "acme.s-1.call_2" {
		t.Fatal(k, err)
	}
	for field, bad := range map[string]CallKey{"tenant": {"", "s", "c"}, "session": {"t", "a.b", "c"}, "call_id": {"t", "s", ">"}} {
		var e *subjects.Error
		if err := bad.Validate(); !errors.As(err, &e) || e.Code != subjects.CodeBadRequest || e.Details["field"] != field {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
