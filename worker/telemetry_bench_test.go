package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"toolsearch/catalog/catalogtest"
	"toolsearch/subjects"
	"toolsearch/telemetry"
)

// BenchmarkTracedSearch measures what telemetry costs a search over the bus: none at all, traced and not sampled, traced
// and sampled, each with metrics where it is traced. The three take turns, request by request, so that what else the
// machine does falls on all of them. Each request carries the trace context of its requester, with the decision that is
// measured. The figures are medians of the round trip; cost is their ratio to "off" in percent above it.
func BenchmarkTracedSearch(b *testing.B) {
	exporter := &countingExporter{}
	tracers := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	b.Cleanup(func() { _ = tracers.Shutdown(context.Background()) })
	on, err := telemetry.NewRecorder(telemetry.Options{TracerProvider: tracers, MeterProvider: meters})
	if err != nil {
		b.Fatal(err)
	}
	off := traced(b, nil)
	watched := traced(b, on)
	const n = 3000
	kinds := []struct {
		name   string
		x      *tracedSearch
		header nats.Header
	}{
		{"off", off, nil},
		{"unsampled", watched, nats.Header{"traceparent": {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"}}},
		{"sampled", watched, nats.Header{"traceparent": {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}}},
	}
	for b.Loop() {
		took := make([][]time.Duration, len(kinds))
		for i := range n {
			for j := range kinds {
				k := (i + j) % len(kinds) // each goes first as often as the others
				took[k] = append(took[k], kinds[k].x.once(b, i, kinds[k].header))
			}
		}
		base := median(took[0])
		for k, kind := range kinds {
			m := median(took[k])
			b.ReportMetric(float64(m)/1e3, kind.name+"_µs")
			if k > 0 {
				b.ReportMetric(100*(float64(m)/float64(base)-1), kind.name+"_cost_%")
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	if exporter.spans.Load() == 0 {
		b.Error("nothing was sampled")
	}
}

// tracedSearch is a worker on a bus of its own, and what to ask it.
type tracedSearch struct {
	*benchBus
	scope string
	tools []catalogtest.Element
}

func traced(b *testing.B, rec *telemetry.Recorder) *tracedSearch {
	b.Helper()
	s := &tracedSearch{benchBus: benchSetup(b, Options{TenantShare: 1, Telemetry: rec}), tools: catalogtest.Generated(1000)}
	var reply subjects.AssembleReply
	if err := json.Unmarshal(ok(b, s.ask(subjects.VerbAssemble, fmt.Sprintf(`{"tools":%s}`, catalogtest.Array(s.tools)))), &reply); err != nil {
		b.Fatal(err)
	}
	s.scope = reply.Scope
	for i := range 300 { // connections, caches and pools are warm
		s.once(b, i, nil)
	}
	return s
}

// once asks the i-th query and returns how long the answer took.
func (s *tracedSearch) once(b *testing.B, i int, h nats.Header) time.Duration {
	words := strings.Split(s.tools[(i*7919)%len(s.tools)].Name(), "_")
	body := []byte(search(s.scope, strings.Join(words[len(words)-3:], " ")+fmt.Sprintf(" %d", i)))
	m := &nats.Msg{Subject: subjects.DefaultRoot.Request("acme", "s1", subjects.VerbSearch), Header: h, Data: body}
	began := time.Now()
	reply, err := s.nc.RequestMsg(m, wait)
	took := time.Since(began)
	if err != nil || reply.Header.Get(subjects.HeaderError) != "" {
		b.Fatalf("%v: %s", err, reply.Data)
	}
	return took
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// countingExporter takes spans as fast as they come.
type countingExporter struct {
	tracetest.NoopExporter
	spans atomic.Int64
}

func (e *countingExporter) ExportSpans(_ context.Context, s []sdktrace.ReadOnlySpan) error {
	e.spans.Add(int64(len(s)))
	return nil
}
