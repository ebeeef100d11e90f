package bench_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"toolsearch/catalog"
	"toolsearch/cmd/toolsearch/internal/bench"
	"toolsearch/cmd/toolsearch/internal/config"
	"toolsearch/cmd/toolsearch/internal/node"
	"toolsearch/cmd/toolsearch/internal/sample"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// setup starts a worker and connects client and echo.
func setup(t *testing.T, change func(*config.Settings)) (client, echo *nats.Conn) {
	t.Helper()
	s := config.Default()
	s.Embedded.Dir, s.Embedded.Port = "", 0
	change(&s)
	n, err := node.Start(t.Context(), s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Drain(context.Background()); err != nil {
			t.Error(err)
		}
	})
	<-n.Ready()
	dial := func() *nats.Conn {
		nc, err := nats.Connect(n.URL())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	return dial(), dial()
}

func TestRun(t *testing.T) {
	t.Parallel()
	client, echo := setup(t, func(*config.Settings) {})
	last := 0.0
	r, err := bench.Run(t.Context(), bench.Options{
		Tools: sample.JSON(sample.Sized(60)), Client: client, Echo: echo, Bus: "test", Duration: 600 * time.Millisecond, Queries: 500,
		Progress: func(part float64, what string) {
			if part < last || part > 1 || what == "" {
				t.Errorf("progress went from %v to %v (%q)", last, part, what)
			}
			last = part
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if last != 1 {
		t.Errorf("progress ended at %v", last)
	}
	if r.Tools != 60 || r.Queries != 500 || r.InFlight != 32 || r.Bus != "test" {
		t.Errorf("the run is described as %+v", r)
	}
	for name, v := range map[string]float64{
		"p50_ratio": r.P50Ratio, "rate_ratio": r.RateRatio, "assemble_ratio": r.AssembleRatio, "search p50": r.Search.P50,
		"search p99": r.Search.P99 - r.Search.P50, "echo rate": r.Echo.Rate, "search rate": r.Search.Rate, "cpu": r.SearchCPU,
		"possible": r.PossibleRate, "request bytes": r.RequestBytes, "reply bytes": r.ReplyBytes, "assemble bytes": float64(r.AssembleReplyBytes),
	} {
		if !(v > 0) {
			t.Errorf("%s is %v", name, v)
		}
	}
	if got := 1 / (1/r.Echo.Rate + r.SearchCPU/1e6/float64(r.Cores)); got != r.PossibleRate || r.RateRatio != r.Search.Rate/got {
		t.Errorf("the rate's formula does not hold: %+v", r)
	}
}

func TestRunRefusesAnotherConfiguration(t *testing.T) {
	t.Parallel()
	client, echo := setup(t, func(s *config.Settings) { s.ToolSearch.Listing = catalog.Off })
	_, err := bench.Run(t.Context(), bench.Options{Tools: sample.JSON(sample.Sized(20)), Client: client, Echo: echo, Duration: time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "configuration") {
		t.Errorf("got %v", err)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	client, echo := setup(t, func(*config.Settings) {})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := bench.Run(ctx, bench.Options{Tools: sample.JSON(sample.Sized(20)), Client: client, Echo: echo, Duration: time.Hour,
		Progress: func(float64, string) { cancel() }})
	if err == nil {
		t.Error("it went on")
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	if _, err := bench.Run(t.Context(), bench.Options{}); err == nil {
		t.Error("it runs without tools and connections")
	}
}
