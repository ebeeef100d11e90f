package storage

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// ErrNotFound says that a blob was never stored or has expired. It is only returned after the leader of the stream
// was asked.
var ErrNotFound = errors.New("storage: not found")

// ErrName says that a text is not the name of a blob.
var ErrName = errors.New("storage: a blob is named sha256: and 64 lower-case hex digits")

// DigestError says that the bytes under a name are not the bytes of that name. It matches [ErrNotFound], since the blob
// as it was put is gone, and putting it again heals it.
type DigestError struct {
	Kind string // "catalog" or "scope"
	Name string // the name that was asked for
	Have string // the name of the bytes that were found
}

func (e *DigestError) Error() string {
	return fmt.Sprintf("storage: the stored bytes of %s %s are those of %s; it must be put again", e.Kind, e.Name, e.Have)
}

// Is matches [ErrNotFound].
func (e *DigestError) Is(target error) bool { return target == ErrNotFound }

// objectDigest is how an object store writes the digest that name holds.
func objectDigest(name string) string {
	sum, err := hex.DecodeString(strings.TrimPrefix(name, "sha256:"))
	if err != nil {
		return ""
	}
	return "SHA-256=" + base64.URLEncoding.EncodeToString(sum)
}
