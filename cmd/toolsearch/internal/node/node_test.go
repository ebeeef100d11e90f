package node

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"toolsearch/cmd/toolsearch/internal/config"
	"toolsearch/connectors"
	"toolsearch/subjects"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

func settings() config.Settings {
	s := config.Default()
	s.Embedded.Dir, s.Embedded.Port = "", 0
	return s
}

func TestStartAndDrain(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := settings()
	s.Root = "other.root"
	n, err := Start(ctx, s, quiet)
	if err != nil {
		t.Fatal(err)
	}
	<-n.Ready()
	nc, err := nats.Connect(n.URL(), subjects.ConnectOptions("t", "s")...)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	client, err := subjects.NewClient(nc, subjects.ClientOptions{Root: "other.root"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Session("t", "s").Assemble(ctx, &subjects.AssembleRequest{Tools: []byte("[]")}); err != nil {
		t.Error(err)
	}
	gone := nc.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	for range 2 {
		if err := n.Drain(ctx); err != nil {
			t.Errorf("drain: %v", err)
		}
	}
	select {
	case <-gone:
	case <-time.After(90 * time.Second):
		t.Error("the server of the node lives on after its drain")
	}
}

// TestStartFails checks that what cannot start says why, and that nothing is left (goleak would find it).
func TestStartFails(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() }) // after the subtests, which run side by side
	_, port, err := net.SplitHostPort(taken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		change func(*config.Settings)
		want   string
	}{
		"port taken": {func(s *config.Settings) { s.Embedded.Port, _ = strconv.Atoi(port) }, port},
		"folder":     {func(s *config.Settings) { s.Embedded.Dir = filepath.Join("node_test.go", "x") }, "folder"},
		"origin":     {func(s *config.Settings) { s.Connectors.Origin = "ftp://x" }, "tools.connectors.origin"},
		"replicas":   {func(s *config.Settings) { s.Store.Replicas = 9 }, "Replicas"},
		"creds":      {func(s *config.Settings) { s.NATS.URL, s.NATS.Creds = "nats://127.0.0.1:1", "none.creds" }, "none.creds"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := settings()
			test.change(&s)
			n, err := Start(context.Background(), s, quiet)
			if err == nil {
				_ = n.Drain(context.Background())
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v does not say %q", err, test.want)
			}
		})
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		s    config.Connectors
		want connectors.Tokens
	}{
		{config.Connectors{}, nil},
		{config.Connectors{Token: "a"}, connectors.Shared("a")},
		{config.Connectors{Token: "a", TokenDir: "d"}, connectors.Dir("d")},
	} {
		if got := tokens(test.s); got != test.want {
			t.Errorf("tokens of %+v are %T", test.s, got)
		}
	}
	if _, ok := tokens(config.Connectors{TokenEnv: "X", Token: "a"}).(connectors.Env); !ok {
		t.Error("token_env does not go before token")
	}
	if _, ok := tokens(config.Connectors{OAuth: config.OAuth{TokenURL: "https://id.example"}, TokenDir: "d"}).(*connectors.OAuth); !ok {
		t.Error("oauth does not go first")
	}
}

func TestGatewayIsOptional(t *testing.T) {
	t.Parallel()
	for _, s := range []config.Connectors{{Enabled: true}, {Enabled: false, Origin: "http://127.0.0.1:1"}} {
		if g, err := gateway(s, quiet, nil); g != nil || err != nil {
			t.Errorf("%+v: %v, %v", s, g, err)
		}
	}
}
