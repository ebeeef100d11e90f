//go:build unix

package embedded

import (
	"errors"
	"os"
	"syscall"
)

// dirLock is an advisory lock on a file in the folder. The system drops it with the process, so a crash leaves none.
type dirLock struct{ f *os.File }

func lockDir(path string) (*dirLock, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errLocked
		}
		return nil, err
	}
	return &dirLock{f}, nil
}

func (l *dirLock) release() { _ = l.f.Close() }
