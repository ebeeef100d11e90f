package connectors_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/baggage"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"toolsearch/connectors"
	"toolsearch/connectors/gatewaytest"
	"toolsearch/telemetry"
	"toolsearch/telemetry/telemetrytest"
)

// Each attempt has a span of its own that says how often it was sent, each wait is an event around them, and the gateway
// gets trace context and nothing of the baggage.
func TestAttemptsAreRecorded(t *testing.T) {
	t.Parallel()
	spans, reader := telemetrytest.NewSpans(), sdkmetric.NewManualReader()
	rec, err := telemetry.NewRecorder(telemetry.Options{TracerProvider: spans.Provider(),
		MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))})
	if err != nil {
		t.Fatal(err)
	}
	g, err := gatewaytest.Start(gatewaytest.Options{Tokens: map[string]string{"hush-hush-1": "acme"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	origin, err := connectors.ParseOrigin(g.URL())
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	client, err := connectors.NewClient(connectors.ClientOptions{Origin: origin, Tokens: connectors.Static{"acme": "hush-hush-1"}, Telemetry: rec,
		Observer: &connectors.Observer{Retry: func(context.Context, connectors.Attempt, *connectors.Error, time.Duration) { told++ }}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	g.Fault(gatewaytest.Fault{Kind: gatewaytest.Status, Status: 503, Route: "execute", Times: 2})
	member, err := baggage.NewMember("tenant", "acme")
	if err != nil {
		t.Fatal(err)
	}
	bag, err := baggage.New(member)
	if err != nil {
		t.Fatal(err)
	}
	ctx, span := rec.Entry(baggage.ContextWithBaggage(context.Background(), bag), telemetry.Entry{Tool: "x"})
	_, err = client.Execute(ctx, "acme", connectors.ExecuteRequest{Key: "k1",
		Calls: []connectors.ToolCall{{Connector: "mail", Tool: "MAIL_SEND_EMAIL", Arguments: []byte(`{"to":"a","subject":"b"}`)}}})
	span.End()
	if err != nil {
		t.Fatal(err)
	}
	tree := spans.Tree()
	for text, want := range map[string]int{"CLIENT POST": 3, "resend_count=1": 1, "resend_count=2": 1, "event retry.backoff attempt=1": 1,
		"event retry.backoff attempt=2": 1, "reason=503": 2, "hush": 0} {
		if got := strings.Count(tree, text); got != want {
			t.Errorf("%q is there %d times, want %d:\n%s", text, got, want, tree)
		}
	}
	if told != 2 {
		t.Errorf("the observer beside was told of %d retries", told)
	}
	traces := map[string]bool{}
	for _, r := range g.Requests() {
		if r.Header.Get("Baggage") != "" {
			t.Errorf("baggage left: %v", r.Header)
		}
		traces[r.Header.Get("traceparent")] = true
	}
	if len(traces) != 3 {
		t.Errorf("trace contexts %v, want each attempt's own", traces)
	}
	var rm metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &rm); err != nil {
		t.Fatal(err)
	}
	counts := map[string]uint64{}
	for _, sm := range rm.ScopeMetrics {
		for _, m := range sm.Metrics {
			if d, ok := m.Data.(metricdata.Histogram[float64]); ok {
				for _, p := range d.DataPoints {
					counts[m.Name] += p.Count
				}
			}
		}
	}
	if counts["toolsearch.gateway.attempt.duration"] != 3 || counts["http.client.request.duration"] != 3 {
		t.Errorf("measured %v", counts)
	}
}
