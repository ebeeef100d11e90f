package credential

import (
	"fmt"
	"os"
	"path/filepath"
)

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
