package command_test

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"toolsearch/cmd/toolsearch/internal/command"
)

// listening takes a port and gives its address.
func listening(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// TestStartExitCodes checks that a start which cannot be sorts its reason by one rule: a wrong command line,
// configuration or file is 2, something taken or out of reach is 3.
func TestStartExitCodes(t *testing.T) {
	t.Parallel()
	garbage := filepath.Join(t.TempDir(), "garbage.pem")
	if err := os.WriteFile(garbage, []byte("neither a key nor a certificate\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	taken := listening(t)
	_, port, _ := net.SplitHostPort(taken)
	worker := func(args ...string) []string {
		return append([]string{"worker", "--log-level", "error", "--port", "0", "--dir", filepath.Join(t.TempDir(), "streams")}, args...)
	}
	for name, test := range map[string]struct {
		args []string
		code int
		err  string
	}{
		"creds garbage":     {worker("--creds", garbage), command.ExitUsage, "--creds"},
		"creds missing":     {worker("--creds", "none.creds"), command.ExitUsage, "none.creds"},
		"creds a folder":    {worker("--creds", t.TempDir()), command.ExitUsage, "--creds"},
		"nkey garbage":      {worker("--nkey", garbage), command.ExitUsage, "--nkey"},
		"authority garbage": {worker("--tls-ca", garbage), command.ExitUsage, "--tls-ca"},
		"authority missing": {worker("--tls-ca", "none.pem"), command.ExitUsage, "none.pem"},
		"certificate":       {worker("--tls-cert", garbage, "--tls-key", garbage), command.ExitUsage, "--tls-cert"},
		"two logins":        {worker("--creds", "x", "--nkey", "y"), command.ExitUsage, "--creds"},
		"folder is a file":  {worker("--dir", garbage), command.ExitUsage, garbage},
		"configuration":     {worker("--config", garbage), command.ExitUsage, garbage},
		"port taken":        {worker("--port", port), command.ExitRefused, "--nats nats://" + taken},
		"admin taken":       {worker("--admin", taken), command.ExitRefused, "admin.addr"},
		"ask authority":     {[]string{"stop", "--tls-ca", garbage, "--nats", bus}, command.ExitUsage, "--tls-ca"},
		"ask creds":         {[]string{"watch", "--creds", garbage, "--nats", bus}, command.ExitUsage, "--creds"},
		"bus address":       {[]string{"worker", "--nats", "http://x"}, command.ExitUsage, "nats://"},
		"bus address asked": {[]string{"search", "mail", "--sample", "--nats", "foo://x"}, command.ExitUsage, "nats://"},
		"gateway taken":     {[]string{"gateway", "--addr", taken}, command.ExitRefused, taken},
		"gateway address":   {[]string{"gateway", "--addr", "nonsense"}, command.ExitUsage, "--addr"},
		"gateway accounts":  {[]string{"gateway", "--addr", "127.0.0.1:0", "--accounts", "127.0.0.1:70000"}, command.ExitUsage, "--accounts"},
		"accounts taken":    {[]string{"gateway", "--addr", "127.0.0.1:0", "--accounts", taken}, command.ExitRefused, taken},
		"no worker to ask":  {[]string{"health", "--admin", "127.0.0.1:1"}, command.ExitRefused, "no worker answers"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := run(t, "", test.args...)
			if got.code != test.code || !strings.Contains(got.err, test.err) {
				t.Errorf("exit code %d, want %d with %q; err: %s", got.code, test.code, test.err, got.err)
			}
		})
	}
}

// TestWrongAddressIsReplaced checks that an address which cannot be one is told and replaced, and ends nothing.
func TestWrongAddressIsReplaced(t *testing.T) {
	t.Parallel()
	got := run(t, "", "worker", "--gateway", "ftp://x", "--admin", "nowhere", "--print-config")
	if got.code != command.ExitFound {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
	for _, flag := range []string{"--gateway", "--admin"} {
		if !strings.Contains(got.err, "warning: "+flag) {
			t.Errorf("%s is not warned about: %s", flag, got.err)
		}
	}
	for _, value := range []string{"ftp://", "nowhere"} {
		if strings.Contains(got.out, value) {
			t.Errorf("%s is in force:\n%s", value, got.out)
		}
	}
}

// lines is a writer whose lines can be waited for.
type lines struct {
	mu    sync.Mutex
	text  string
	wrote chan struct{} // closed and made anew with each write
}

func newLines() *lines { return &lines{wrote: make(chan struct{})} }

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text += string(p)
	close(l.wrote)
	l.wrote = make(chan struct{})
	return len(p), nil
}

func (l *lines) await(t *testing.T, part string) string {
	t.Helper()
	late := time.After(90 * time.Second)
	for {
		l.mu.Lock()
		text, wrote := l.text, l.wrote
		l.mu.Unlock()
		if strings.Contains(text, part) {
			return text
		}
		select {
		case <-wrote:
		case <-late:
			t.Fatalf("no %q in %s", part, text)
		}
	}
}

// TestStartTellsItsStory checks that the log tells in order what a worker with a server of its own does.
func TestStartTellsItsStory(t *testing.T) {
	t.Parallel()
	log, end := newLines(), make(chan os.Signal, 1)
	done := make(chan int)
	go func() {
		done <- command.Main(command.Surroundings{In: strings.NewReader(""), Out: io.Discard, Err: log, Signals: end,
			Environ: func() []string { return nil }}, []string{"worker", "--port", "0", "--dir", t.TempDir()})
	}()
	text := log.await(t, "the worker is ready")
	at := -1
	for _, step := range []string{"started a NATS server of its own", "connected to NATS", "the worker is ready"} {
		next := strings.Index(text, step)
		if next <= at {
			t.Errorf("%q is not in its place:\n%s", step, text)
		}
		at = next
	}
	end <- os.Interrupt
	if code := <-done; code != command.ExitFound {
		t.Errorf("exit code %d", code)
	}
}
