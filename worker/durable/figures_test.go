package durable

import (
	"context"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"toolsearch/telemetry"
	"toolsearch/worker/storage"
)

// measured is a recorder and a way to read one counter of it, added up over the points that have the attribute.
func measured(t *testing.T) (*telemetry.Recorder, func(name, key, value string) int64) {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	rec, err := telemetry.NewRecorder(telemetry.Options{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))})
	if err != nil {
		t.Fatal(err)
	}
	return rec, func(name, key, value string) (sum int64) {
		var rm metricdata.ResourceMetrics
		if err := reader.Collect(context.Background(), &rm); err != nil {
			t.Fatal(err)
		}
		for _, sm := range rm.ScopeMetrics {
			for _, m := range sm.Metrics {
				d, ok := m.Data.(metricdata.Sum[int64])
				if !ok || m.Name != name {
					continue
				}
				for _, p := range d.DataPoints {
					if v, has := p.Attributes.Value(attribute.Key(key)); key == "" || has && v.String() == value {
						sum += p.Value
					}
				}
			}
		}
		return sum
	}
}

// A call that kills its runners is counted as it is taken over and given up, and so is what its entries came to; what
// an earlier runner settled is not counted again.
func TestFiguresOfAnAbandonedCall(t *testing.T) {
	t.Parallel()
	b := newBus(t, storage.Layout{})
	call := batch(newKey("acme", "s1"), 3)
	accepting := b.worker(Options{Slots: -1, AckWait: shortAckWait})
	if _, err := accepting.Accept(b.ctx, call); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		g := newGateway()
		arrived, _ := g.blocking(1)
		dying := b.worker(Options{Connectors: g, Slots: 1, AckWait: shortAckWait, MaxTakeovers: 1})
		wait(t, arrived, "the deadly entry")
		kill(dying)
	}
	rec, count := measured(t)
	heir := b.worker(Options{Connectors: newGateway(), Slots: 1, AckWait: shortAckWait, MaxTakeovers: 1, Telemetry: rec})
	r, err := heir.Wait(b.ctx, call.Key)
	if err != nil {
		t.Fatal(err)
	}
	wantCodes(t, r, "ok", "OUTCOME_UNKNOWN", "ABANDONED")
	b.queueEmpty()
	if err := heir.Drain(b.ctx); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		name, key, value string
		n                int64
	}{
		{"toolsearch.takeovers", "", "", 1},
		{"toolsearch.calls.abandoned", "", "", 1},
		{"toolsearch.job.deliveries", "toolsearch.redelivered", "true", 1},
		{"toolsearch.job.deliveries", "toolsearch.redelivered", "false", 0},
		{"toolsearch.runs", "toolsearch.verdict", "done", 1},
		{"toolsearch.entries", "toolsearch.outcome", "ok", 0},
		{"toolsearch.entries", "toolsearch.outcome", "unknown", 1},
		{"toolsearch.entries", "toolsearch.outcome", "abandoned", 1},
	} {
		if got := count(want.name, want.key, want.value); got != want.n {
			t.Errorf("%s %s=%s: %d, want %d", want.name, want.key, want.value, got, want.n)
		}
	}
	s, err := heir.readQueue(b.ctx)
	if err != nil || s.Letters != 1 || s.Jobs != 0 || !s.first.IsZero() {
		t.Errorf("the queue is told as %+v, %v", s, err)
	}
}

// What waits is told as waiting, with the age of the oldest; what nobody may read is told as unknown.
func TestFiguresOfTheQueue(t *testing.T) {
	t.Parallel()
	b := newBus(t, storage.Layout{})
	c := b.worker(Options{Slots: -1})
	for range 2 {
		if _, err := c.Accept(b.ctx, batch(newKey("acme", "s1"), 1)); err != nil {
			t.Fatal(err)
		}
	}
	if c.Queue() != nil {
		t.Error("the figures are there before anybody asked")
	}
	s, err := c.readQueue(b.ctx)
	if err != nil || s.Jobs != 2 || s.Pending != 2 || s.AckPending != 0 || s.first.IsZero() {
		t.Fatalf("%+v, %v", s, err)
	}
	c.figures.queue.Store(s)
	if q := c.Queue(); q.Oldest <= 0 || q.Oldest > time.Hour || q.Jobs != 2 {
		t.Errorf("%+v", q)
	}
	if busy, slots := c.Runners(); busy != 0 || slots != 0 {
		t.Errorf("%d of %d runners", busy, slots)
	}
}
