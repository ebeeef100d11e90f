package telemetry_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"toolsearch/telemetry"
	"toolsearch/telemetry/telemetrytest"
)

// A watch of five minutes tells once what is new: not each read, and not each failure of the same kind.
func TestAWatchIsSparse(t *testing.T) {
	t.Parallel()
	spans := telemetrytest.NewSpans()
	rec, err := telemetry.NewRecorder(telemetry.Options{TracerProvider: spans.Provider()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, span := rec.Linking(t.Context(), telemetry.Linking{ID: "op1", Session: "s1", Action: "connect", Surface: "card", Targets: 1})
	if telemetry.LinkingOf(ctx) != span || telemetry.LinkingOf(t.Context()) != nil {
		t.Error("the span is not found under its context alone")
	}
	for range 100 {
		span.Round(1, "", 0)
	}
	for range 100 {
		span.Round(1, "503", 0)
	}
	span.Round(1, "429", 30*time.Second)
	span.Round(1, "", 0)
	span.Round(1, "503", 0)
	span.Moved(strings.Repeat("long", 1000), "connector", "starting", "initiated")
	span.Settled("deadline", 0, 1)
	span.End("done")
	tree := spans.Tree()
	for text, want := range map[string]int{"event watch.unread reason=503": 2, "event watch.unread reason=429": 1, "event watch.parked": 1,
		"event target.moved": 1, "toolsearch.watch.parked=30": 1, "error.type=deadline": 1, "status": 0} {
		if got := strings.Count(tree, text); got != want {
			t.Errorf("%q is there %d times, want %d:\n%.4000s", text, got, want, tree)
		}
	}
	if len(tree) > 4000 {
		t.Errorf("a model's name is not bounded: %d bytes", len(tree))
	}
	var nobody *telemetry.LinkingSpan // outside of a watch
	nobody.Round(1, "x", time.Second)
	nobody.Moved("a", "b", "c", "d")
	nobody.Settled("deadline", 1, 1)
	nobody.End("done")
}

// What became of it decides whether somebody has to look.
func TestTheStatusOfAWatch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		by           string // "": it was not settled
		failed       int
		verdict      string
		code, status string
	}{
		"all resolved": {by: "all_resolved", verdict: "done"},
		"a failure":    {by: "all_resolved", failed: 1, verdict: "done", code: "failed", status: "failed"},
		"a stop":       {by: "interrupt", verdict: "done", code: "interrupted"},
		"returned":     {verdict: "returned"},
		"lost":         {verdict: "lost", code: "lost"},
		"a panic":      {verdict: "failed", code: "failed", status: "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spans := telemetrytest.NewSpans()
			rec, err := telemetry.NewRecorder(telemetry.Options{TracerProvider: spans.Provider()})
			if err != nil {
				t.Fatal(err)
			}
			_, span := rec.Linking(t.Context(), telemetry.Linking{})
			if c.by != "" {
				span.Settled(c.by, c.failed, 0)
			}
			span.End(c.verdict)
			tree := spans.Tree()
			if got := strings.Contains(tree, "error.type=") || strings.Contains(tree, "status Error"); got != (c.code != "") {
				t.Errorf("marked: %v\n%s", got, tree)
			}
			if c.code != "" && !strings.Contains(tree, "error.type="+c.code) || c.status != "" && !strings.Contains(tree, "status Error "+c.status) {
				t.Errorf("want %q and status %q\n%s", c.code, c.status, tree)
			}
		})
	}
}

// What is asked again and again has no span; it is measured and carries the context of the span around it.
func TestWithoutSpans(t *testing.T) {
	t.Parallel()
	carried := make(chan string, 2)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { carried <- r.Header.Get("Traceparent") }))
	t.Cleanup(server.Close)
	spans, reader := telemetrytest.NewSpans(), sdkmetric.NewManualReader()
	rec, err := telemetry.NewRecorder(telemetry.Options{TracerProvider: spans.Provider(),
		MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))})
	if err != nil {
		t.Fatal(err)
	}
	base := &http.Transport{}
	client := &http.Client{Transport: rec.Transport(base)}
	t.Cleanup(client.CloseIdleConnections)
	ctx, span := rec.Linking(t.Context(), telemetry.Linking{})
	quiet := telemetry.WithoutSpans(ctx)
	get := func(ctx context.Context) string {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return <-carried
	}
	aloud, silent := get(ctx), get(quiet)
	own := nats.Header{}
	rec.Inject(ctx, own)
	if silent == "" || silent != own.Get("traceparent") || aloud == silent {
		t.Errorf("carried %q with a span and %q without; that around them is %q", aloud, silent, own.Get("traceparent"))
	}
	_, message := rec.Message(quiet, telemetry.RequestOf("a.{tenant}"), telemetry.Message{Subject: "a.b"})
	if message.IsRecording() {
		t.Error("a message has a span")
	}
	message.End()
	span.End("done")
	if n := len(spans.Ended()); n != 2 {
		t.Errorf("%d spans, want the watch and one request:\n%s", n, spans.Tree())
	}
	var rm metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &rm); err != nil {
		t.Fatal(err)
	}
	for _, sm := range rm.ScopeMetrics {
		for _, m := range sm.Metrics {
			if d, ok := m.Data.(metricdata.Histogram[float64]); ok && m.Name == "http.client.request.duration" && d.DataPoints[0].Count != 2 {
				t.Errorf("%d requests were measured", d.DataPoints[0].Count)
			}
		}
	}
}
