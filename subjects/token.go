package subjects

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
)

// MaxToken is the longest subject token, in characters, that stands for a tenant, a session, a call or a host.
const MaxToken = 64

// ValidToken reports whether s can stand in a subject as it is: 1 to 64 of A-Z a-z 0-9 _ -.
func ValidToken(s string) bool {
	if len(s) == 0 || len(s) > MaxToken {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// Token turns any id into a subject token. An id that is a token already is returned unchanged; any other becomes
// "b64-" and the unpadded base64url of its bytes, or, where that would pass [MaxToken], "sha-" and the first 40 hex
// digits of its SHA-256.
func Token(id string) string {
	if ValidToken(id) {
		return id
	}
	if t := "b64-" + base64.RawURLEncoding.EncodeToString([]byte(id)); id != "" && len(t) <= MaxToken {
		return t
	}
	sum := sha256.Sum256([]byte(id))
	return "sha-" + hex.EncodeToString(sum[:])[:40]
}
