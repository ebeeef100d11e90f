package subjects

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const digestPrefix = "sha256:"

// Digest names bytes: "sha256:<hex>". Catalogs, scopes and bodies are named so.
func Digest(p []byte) string {
	sum := sha256.Sum256(p)
	return digestPrefix + hex.EncodeToString(sum[:])
}

// ValidDigest reports whether s is such a name: sha256: and 64 hex digits in lower case.
func ValidDigest(s string) bool {
	digits, ok := strings.CutPrefix(s, digestPrefix)
	return ok && len(digits) == hex.EncodedLen(sha256.Size) && strings.Trim(digits, "0123456789abcdef") == ""
}
