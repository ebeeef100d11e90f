//go:build unix

package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestSignalWhileReading checks that one signal ends whatever reads a file whose end never comes: here a pipe that is
// held open and that nothing is written to.
func TestSignalWhileReading(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"bench":       {"bench", "--catalog"},
		"search":      {"search", "x", "--catalog"},
		"eval":        {"eval", "--queries", "q.jsonl", "--catalog"},
		"mint":        {"token", "runtime", "--tenant", "a", "--session", "b", "--key"},
		"settings":    {"worker", "--print-config", "--config"},
		"credentials": {"stop", "--creds"},
		"worker":      {"worker", "--creds"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "pipe.json")
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
			p := launch(t, nil, append(args, path)...)
			w, err := os.OpenFile(path, os.O_WRONLY, 0) // returns once the program reads
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			if code := p.exit(); code != 130 {
				t.Errorf("exit code %d\n%s", code, p.err)
			}
		})
	}
}
