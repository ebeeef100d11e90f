package embedded

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, o Options) *Server {
	t.Helper()
	o.StartTimeout = time.Minute
	s, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	return s
}

// keep stores one message in a stream of a server, or reads how many there are.
func messages(t *testing.T, s *Server, publish int) uint64 {
	t.Helper()
	nc, err := nats.Connect(s.ClientURL(), s.InProcess(), nats.Timeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})
	if err != nil {
		t.Fatal(err)
	}
	for range publish {
		if _, err := js.Publish(ctx, "s", []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	info, err := stream.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return info.State.Msgs
}

func TestFolder(t *testing.T) {
	t.Parallel()
	t.Run("named is kept and read again", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		first := start(t, Options{Dir: dir})
		messages(t, first, 3)
		first.Shutdown()
		if got := messages(t, start(t, Options{Dir: dir}), 0); got != 3 {
			t.Fatalf("after a restart the stream holds %d messages, want 3", got)
		}
	})
	t.Run("own is removed", func(t *testing.T) {
		t.Parallel()
		s := start(t, Options{})
		messages(t, s, 1)
		s.Shutdown()
		if _, err := os.Stat(s.Dir()); !os.IsNotExist(err) {
			t.Fatalf("the folder is still there: %v", err)
		}
	})
	t.Run("in use is refused", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		start(t, Options{Dir: dir})
		_, err := Start(Options{Dir: dir})
		if err == nil || !strings.Contains(err.Error(), "in use") {
			t.Fatalf("a second server on one folder: %v", err)
		}
	})
	t.Run("no folder", func(t *testing.T) {
		t.Parallel()
		file := t.TempDir() + "/file"
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Start(Options{Dir: file + "/below"})
		if err == nil || !strings.Contains(err.Error(), "choose one that can be written") {
			t.Fatalf("a folder below a file: %v", err)
		}
	})
}

func TestListen(t *testing.T) {
	t.Parallel()
	t.Run("loopback", func(t *testing.T) {
		t.Parallel()
		if s := start(t, Options{}); !strings.HasPrefix(s.ClientURL(), "nats://127.0.0.1:") {
			t.Fatalf("listens on %q", s.ClientURL())
		}
	})
	t.Run("port taken", func(t *testing.T) {
		t.Parallel()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		_, err = Start(Options{Port: l.Addr().(*net.TCPAddr).Port})
		if err == nil || !strings.Contains(err.Error(), "choose another port") {
			t.Fatalf("a taken port: %v", err)
		}
	})
	t.Run("in process only", func(t *testing.T) {
		t.Parallel()
		s := start(t, Options{Port: InProcessOnly})
		if s.ClientURL() != "" {
			t.Fatalf("listens on %q", s.ClientURL())
		}
		messages(t, s, 1)
	})
	t.Run("bad options", func(t *testing.T) {
		t.Parallel()
		for field, o := range map[string]Options{
			"Port":         {Port: 70000},
			"MaxPayload":   {MaxPayload: -1},
			"StartTimeout": {StartTimeout: -1},
		} {
			if _, err := Start(o); err == nil || !strings.Contains(err.Error(), "Options."+field) {
				t.Errorf("%s: %v", field, err)
			}
		}
	})
}

func TestShutdownTwice(t *testing.T) {
	t.Parallel()
	s := start(t, Options{})
	s.Shutdown()
	s.Shutdown()
	if nc, err := nats.Connect(s.ClientURL(), s.InProcess()); err == nil { // its port may be somebody else's by now
		nc.Close()
		t.Fatal("the server still answers")
	}
}

func TestLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	b := &bridge{log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	b.Noticef("a %d", 1)
	b.Warnf("b")
	b.Errorf("c")
	b.Debugf("d")
	b.Tracef("e")
	b.Fatalf("f %s", "g")
	if got := strings.Count(out.String(), logMessage); got != 6 {
		t.Fatalf("%d lines of 6:\n%s", got, out.String())
	}
	if b.fatal() != "f g" {
		t.Fatalf("fatal text %q", b.fatal())
	}
}
