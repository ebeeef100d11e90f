package telemetry_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"toolsearch/telemetry"
)

// measured is a recorder whose metrics a test reads.
func measured(t *testing.T) (*telemetry.Metrics, func() []metricdata.Metrics) {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	r, err := telemetry.NewRecorder(telemetry.Options{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))})
	if err != nil {
		t.Fatal(err)
	}
	return r.Metrics(), func() []metricdata.Metrics {
		var rm metricdata.ResourceMetrics
		if err := reader.Collect(t.Context(), &rm); err != nil {
			t.Fatal(err)
		}
		if len(rm.ScopeMetrics) != 1 {
			t.Fatalf("%d scopes", len(rm.ScopeMetrics))
		}
		return rm.ScopeMetrics[0].Metrics
	}
}

// everything records with each instrument once.
func everything(t *testing.T, m *telemetry.Metrics) {
	t.Helper()
	ctx := context.Background()
	m.Processed(ctx, "search", "x", "INTERNAL", time.Millisecond)
	m.Waited(ctx, "search", time.Millisecond)
	m.Searched(ctx, time.Millisecond, telemetry.RemoteOK, []int{0, 3})
	m.Indexed(ctx, time.Millisecond, 10)
	m.Executed(ctx, time.Second, "ok", "", "mail")
	m.Interrupted(ctx, -time.Second) // a clock that differs
	m.Asked(ctx, time.Second, "allow")
	m.Attempted(ctx, "execute", "429", 429, time.Second)
	m.Retried(ctx, "execute", "429")
	m.Settled(ctx, "error", "TOOL_ERROR", "mail")
	m.OperationSettled(ctx, "all_resolved", "card", 40*time.Second)
	m.WatchRound(ctx, 30*time.Second)
	m.AccountsAsked(ctx, "list", "unreachable", time.Second)
	m.Built(ctx, telemetry.Build{Version: "1"})
	stop, err := m.Observe(func(context.Context) telemetry.Figures {
		return telemetry.Figures{Ready: true, Pools: []telemetry.PoolFigures{{Name: "queries", Running: 1, Places: 2, Depth: 3}},
			Caches: []telemetry.CacheFigures{{Name: "indexes", Bytes: 1, Limit: 2, Entries: 3}},
			Bus:    telemetry.BusFigures{Connected: true}, Queue: &telemetry.QueueFigures{Jobs: 4, Limit: 5, Oldest: time.Minute}}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
}

// The SDK's own bounds are for milliseconds: a histogram in seconds that has them puts everything into one bucket.
func TestEveryHistogramHasItsBounds(t *testing.T) {
	t.Parallel()
	m, collect := measured(t)
	everything(t, m)
	want := map[string][]float64{
		"messaging.process.duration":          {0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10},
		"gen_ai.execute_tool.duration":        {0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300},
		"toolsearch.hook.duration":            {0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300},
		"toolsearch.gateway.attempt.duration": {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60},
		"toolsearch.operation.duration":       {0.1, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 90, 120, 180, 240, 300},
		"toolsearch.watch.parked.duration":    {0.1, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 90, 120, 180, 240, 300},
	}
	sdk := []float64{0, 5, 10, 25, 50, 75, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10000}
	seen := 0
	check := func(name string, unit string, bounds []float64) {
		seen++
		if slices.Equal(bounds, sdk) {
			t.Errorf("%s has the SDK's bounds", name)
		}
		if w, ok := want[name]; ok && !slices.Equal(bounds, w) {
			t.Errorf("%s has the bounds %v, want %v", name, bounds, w)
		}
		if strings.HasSuffix(name, ".duration") && unit != "s" {
			t.Errorf("%s is in %q", name, unit)
		}
		delete(want, name)
	}
	for _, metric := range collect() {
		switch d := metric.Data.(type) {
		case metricdata.Histogram[float64]:
			check(metric.Name, metric.Unit, d.DataPoints[0].Bounds)
		case metricdata.Histogram[int64]:
			check(metric.Name, metric.Unit, d.DataPoints[0].Bounds)
		}
	}
	if len(want) > 0 || seen < 10 {
		t.Errorf("%d histograms; not seen: %v", seen, want)
	}
}

// A counter that appears with its first event has no increase that an alert could see.
func TestCountersBeginAtZero(t *testing.T) {
	t.Parallel()
	_, collect := measured(t)
	got := map[string]int{}
	for _, metric := range collect() {
		if d, ok := metric.Data.(metricdata.Sum[int64]); ok {
			got[metric.Name] = len(d.DataPoints)
		}
	}
	for _, name := range []string{"toolsearch.calls.abandoned", "toolsearch.takeovers", "toolsearch.nats.slow_consumers", "toolsearch.nats.disconnects",
		"toolsearch.telemetry.export.failures", "toolsearch.gateway.rate_limited", "toolsearch.entries", "toolsearch.search.queries",
		"toolsearch.operations.opened", "toolsearch.operations.settled", "toolsearch.operation.targets", "toolsearch.operation.answers",
		"toolsearch.operation.takeovers", "toolsearch.watch.rounds"} {
		if got[name] == 0 {
			t.Errorf("%s is not there before its first event", name)
		}
	}
}

// A model chooses names freely. A connector counts under its own only once it has answered, and a hundred do at most.
func TestConnectorsAreBounded(t *testing.T) {
	t.Parallel()
	m, collect := measured(t)
	ctx := context.Background()
	m.Settled(ctx, "error", "TOOL_NOT_FOUND", "invented")
	m.Settled(ctx, "ok", "", "mail")
	m.Settled(ctx, "error", "PROVIDER_ERROR", "mail")
	for i := range 300 {
		m.Settled(ctx, "ok", "", fmt.Sprintf("c%d", i))
	}
	labels := map[string]bool{}
	for _, metric := range collect() {
		if metric.Name != "toolsearch.entries" {
			continue
		}
		for _, p := range metric.Data.(metricdata.Sum[int64]).DataPoints {
			v, _ := p.Attributes.Value("toolsearch.connector")
			labels[v.AsString()] = true
		}
	}
	if labels["invented"] || !labels["mail"] || !labels["other"] || len(labels) != 101 {
		t.Errorf("%d labels: %v", len(labels), labels)
	}
}

func TestGauges(t *testing.T) {
	t.Parallel()
	m, collect := measured(t)
	m.BreakerMoved(context.Background(), "closed", "open")
	m.BreakerMoved(context.Background(), "open", "half_open")
	everything(t, m)
	for _, metric := range collect() {
		switch metric.Name {
		case "toolsearch.queue.oldest.age":
			metricdatatest.AssertEqual(t, metricdata.Gauge[float64]{DataPoints: []metricdata.DataPoint[float64]{{Value: 60}}},
				metric.Data.(metricdata.Gauge[float64]), metricdatatest.IgnoreTimestamp())
		case "toolsearch.worker.ready":
			metricdatatest.AssertEqual(t, metricdata.Gauge[int64]{DataPoints: []metricdata.DataPoint[int64]{{Value: 1}}},
				metric.Data.(metricdata.Gauge[int64]), metricdatatest.IgnoreTimestamp())
		case "toolsearch.gateway.breakers":
			for _, p := range metric.Data.(metricdata.Sum[int64]).DataPoints {
				state, _ := p.Attributes.Value("toolsearch.state")
				if want := map[string]int64{"open": 0, "half_open": 1}[state.AsString()]; p.Value != want {
					t.Errorf("breakers %s: %d, want %d", state.AsString(), p.Value, want)
				}
			}
		}
	}
}

func TestBuildKnowsItself(t *testing.T) {
	t.Parallel()
	b := telemetry.ReadBuild("1.2.3")
	if b.Version != "1.2.3" || !strings.HasPrefix(b.Go, "go1.") || !strings.Contains(b.Platform, "/") {
		t.Errorf("%+v", b)
	}
}
