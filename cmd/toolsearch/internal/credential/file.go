package credential

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

// CheckUser reads a user's credentials file, as [Key.Mint] makes one, and reports what keeps it from being one. Nothing
// of the file is in the error.
func CheckUser(path string) error {
	p, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("credential: read a user's credentials, which `toolsearch token` makes: %w", err)
	}
	if token, err := nkeys.ParseDecoratedJWT(p); err != nil || token == "" {
		return fmt.Errorf("credential: %s holds no user's token", path)
	}
	if _, err := nkeys.ParseDecoratedUserNKey(p); err != nil {
		return fmt.Errorf("credential: %s holds no user's seed; use a file that `toolsearch token` made", path)
	}
	return nil
}

// ExpiredAt is when a user's credentials have ended; ok is false where they have not, have no end, or cannot be read.
func ExpiredAt(path string) (end time.Time, ok bool) {
	p, err := os.ReadFile(path)
	if err != nil {
		return end, false
	}
	token, err := nkeys.ParseDecoratedJWT(p)
	if err != nil {
		return end, false
	}
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil || claims.Expires == 0 {
		return end, false
	}
	end = time.Unix(claims.Expires, 0)
	return end, !time.Now().Before(end)
}

// WriteSecret writes a file that only its owner may read, whole or not at all. A file that is there is replaced.
func WriteSecret(path string, p []byte) error { return write(path, p, 0o600) }

func write(path string, p []byte, mode os.FileMode) error {
	// A temporary file is made with mode 0600, so there is no moment at which others could open it.
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("credential: write %s: %w", path, err)
	}
	defer os.Remove(f.Name()) // after the rename there is none
	_, err = f.Write(p)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("credential: write %s: %w", path, err)
	}
	return nil
}
