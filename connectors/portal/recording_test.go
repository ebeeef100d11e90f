package portal_test

import (
	"context"
	"strings"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"toolsearch/connectors"
	"toolsearch/connectors/gatewaytest"
	"toolsearch/connectors/portal"
	"toolsearch/telemetry"
	"toolsearch/telemetry/telemetrytest"
)

// Each request has a span that says whether it was sent before and never what with, and is counted by its route and what
// went wrong: an answer that cannot be used is a failure, a caller that left is none of the service's.
func TestRequestsAreRecorded(t *testing.T) {
	t.Parallel()
	b := setup(t, gatewaytest.PortalOptions{}, nil)
	spans, reader := telemetrytest.NewSpans(), sdkmetric.NewManualReader()
	rec, err := telemetry.NewRecorder(telemetry.Options{TracerProvider: spans.Provider(),
		MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))})
	if err != nil {
		t.Fatal(err)
	}
	origin, err := connectors.ParseOrigin(b.service.URL())
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	c, err := portal.New(portal.Options{Origin: origin, Tokens: connectors.Static{"acme": "hush-hush"}, Telemetry: rec,
		Observer: func(context.Context, string, time.Duration, portal.Kind) { told++ }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	b.service.Fault(gatewaytest.Fault{Kind: gatewaytest.Status, Status: 200, Body: "<html>"})
	list, err := c.List(t.Context(), "acme", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Disconnect(t.Context(), "acme", list.Items[0].ConnectionID); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Disconnect(t.Context(), "acme", list.Items[0].ConnectionID); err == nil {
		t.Fatal("it was disconnected twice")
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	if _, err := c.List(left, "acme", ""); err == nil {
		t.Fatal("it was listed for nobody")
	}
	tree := spans.Tree()
	for text, want := range map[string]int{"CLIENT GET": 3, "resend_count=1": 1, "CLIENT DELETE": 2, "status_code=404": 1, "hush": 0} {
		if got := strings.Count(tree, text); got != want {
			t.Errorf("%q is there %d times, want %d:\n%s", text, got, want, tree)
		}
	}
	if told != 5 {
		t.Errorf("the observer was told of %d requests", told)
	}
	counted := map[string]uint64{}
	var rm metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &rm); err != nil {
		t.Fatal(err)
	}
	for _, sm := range rm.ScopeMetrics {
		for _, m := range sm.Metrics {
			if m.Name != "toolsearch.accounts.request.duration" {
				continue
			}
			for _, p := range m.Data.(metricdata.Histogram[float64]).DataPoints {
				route, _ := p.Attributes.Value("toolsearch.route")
				code, _ := p.Attributes.Value("error.type")
				counted[strings.TrimSpace(route.AsString()+" "+code.AsString())] = p.Count
			}
		}
	}
	for what, want := range map[string]uint64{"list unreachable": 1, "list": 1, "list canceled": 1, "disconnect": 1, "disconnect refused": 1} {
		if counted[what] != want {
			t.Errorf("%s is counted %d times, want %d: %v", what, counted[what], want, counted)
		}
	}
}
