package command

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"toolsearch/cmd/toolsearch/internal/config"
	"toolsearch/cmd/toolsearch/internal/screen"
)

// told is a writer that hands on each text.
type told chan string

func (w told) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}

// TestBusErrorsAreWarnings checks that what goes wrong on the connection of a verb is told as everything else is.
func TestBusErrorsAreWarnings(t *testing.T) {
	t.Parallel()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, MaxSubs: 1})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server did not start")
	}
	errs := make(told, 16)
	none := func() []string { return nil }
	a := &app{Surroundings: Surroundings{Err: errs}, out: screen.New(io.Discard, none), err: screen.New(errs, none)}
	nc, err := a.connect(t.Context(), config.NATS{URL: "nats://" + s.Addr().String()}, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for _, subject := range []string{"one", "too.many"} {
		if _, err := nc.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case text := <-errs:
		if !strings.HasPrefix(text, "warning: NATS reports:") || !strings.Contains(text, "maximum subscriptions") {
			t.Errorf("told %q", text)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("nothing is told")
	}
}
