package dispatch

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	"toolsearch/subjects"
)

// CallKey names one call: its tenant, its session and the caller's own id within that session. Each is a subject token.
type CallKey struct {
	Tenant  string `json:"tenant"`
	Session string `json:"session"`
	Call    string `json:"call"`
}

// String is "<tenant>.<session>.<call>", the name of the call's record.
func (k CallKey) String() string { return k.Tenant + "." + k.Session + "." + k.Call }

// Validate reports a part that is no token.
func (k CallKey) Validate() error {
	for _, p := range [...]struct{ field, value string }{{"tenant", k.Tenant}, {"session", k.Session}, {"call_id", k.Call}} {
		if !subjects.ValidToken(p.value) {
			return &subjects.Error{Code: subjects.CodeBadRequest, Details: map[string]any{"field": p.field},
				Message: fmt.Sprintf("%s must be 1 to %d of A-Z a-z 0-9 _ -", p.field, subjects.MaxToken)}
		}
	}
	return nil
}

// NewNonce makes the random part of a call's idempotency keys: 128 bits, in hex.
func NewNonce() string {
	var b [16]byte
	rand.Read(b[:]) // never fails; it ends the program instead
	return hex.EncodeToString(b[:])
}

// IdempotencyKey is what a gateway or a host is given so that an entry takes effect at most once: the SHA-256, in hex,
// over the call's nonce, the entry's index and the slug under which it is sent. It is the same on every retry and for
// every runner. Another slug of the same entry has another key, since it is another request.
func IdempotencyKey(nonce string, index int, slug string) string {
	h := sha256.New()
	// NUL stands in neither of the first two parts, so no two triples read the same.
	h.Write([]byte(nonce + "\x00" + strconv.Itoa(index) + "\x00" + slug))
	return hex.EncodeToString(h.Sum(nil))
}
