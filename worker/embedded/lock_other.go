//go:build !unix

package embedded

import "os"

// dirLock only keeps the file open: there is no lock here that a crash would not leave behind.
type dirLock struct{ f *os.File }

func lockDir(path string) (*dirLock, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return &dirLock{f}, nil
}

func (l *dirLock) release() { _ = l.f.Close() }
