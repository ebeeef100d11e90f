package telemetry_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"toolsearch/telemetry"
	"toolsearch/telemetry/telemetrytest"
)

// quietly takes away what the environment of the test says of telemetry.
func quietly(t *testing.T) {
	for _, v := range []string{"OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_LOGS_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
		"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_PROPAGATORS", "OTEL_SDK_DISABLED", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"} {
		t.Setenv(v, "")
	}
}

// start makes the recorder of a process as a program does.
func start(t *testing.T, c telemetry.Config) (*telemetry.Providers, *telemetry.Recorder) {
	t.Helper()
	p, err := telemetry.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	r, err := telemetry.NewRecorder(telemetry.Options{TracerProvider: p.Tracers, MeterProvider: p.Meters, Propagator: p.Propagator})
	if err != nil {
		t.Fatal(err)
	}
	return p, r
}

func TestSilentWithoutTheEnvironment(t *testing.T) {
	quietly(t)
	check := func(t *testing.T) {
		p, r := start(t, telemetry.Config{})
		if p.Tracers != nil || p.Meters != nil || p.Loggers != nil || p.Metrics != nil || p.Exporting() || r.Measures() {
			t.Errorf("%+v", p)
		}
		if err := p.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	}
	t.Run("unset", check)
	t.Run("none", func(t *testing.T) {
		for _, signal := range []string{"TRACES", "METRICS", "LOGS"} {
			t.Setenv("OTEL_"+signal+"_EXPORTER", "none")
		}
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
		check(t)
	})
	t.Run("disabled", func(t *testing.T) {
		t.Setenv("OTEL_SDK_DISABLED", "true")
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
		check(t)
	})
}

func TestUnknownExporterIsTold(t *testing.T) {
	quietly(t)
	t.Setenv("OTEL_TRACES_EXPORTER", "carrier-pigeon")
	if _, err := telemetry.Start(t.Context(), telemetry.Config{}); err == nil || !strings.Contains(err.Error(), "traces") {
		t.Errorf("error %v", err)
	}
}

// All three signals reach a receiver over either protocol, under one trace id, by the environment alone.
func TestExportByTheEnvironment(t *testing.T) {
	for protocol, endpoint := range map[string]func(*telemetrytest.Receiver) string{
		"grpc":          func(r *telemetrytest.Receiver) string { return r.GRPC },
		"http/protobuf": func(r *telemetrytest.Receiver) string { return r.HTTP },
	} {
		t.Run(protocol, func(t *testing.T) {
			quietly(t)
			receiver := telemetrytest.NewReceiver(t)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint(receiver))
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
			t.Setenv("OTEL_SERVICE_NAME", "renamed")
			p, r := start(t, telemetry.Config{Version: "1.2.3", Instance: "w1", Environment: "test"})
			ctx, span := r.Message(t.Context(), telemetry.ProcessOf("x.{tenant}"), telemetry.Message{})
			r.Metrics().Processed(ctx, "search", "x.{tenant}", "", time.Millisecond)
			telemetry.NewLogger(telemetry.LogOptions{Provider: p.Loggers}).InfoContext(ctx, "a line")
			id := telemetry.TraceID(ctx)
			span.End()
			if err := p.Shutdown(context.Background()); err != nil {
				t.Fatal(err)
			}
			spans, logs := receiver.Spans(), receiver.Logs()
			if len(spans) != 1 || spans[0].Name != "process x.{tenant}" || spans[0].TraceID != id || spans[0].Service != "renamed" {
				t.Errorf("spans %+v, want one of trace %s", spans, id)
			}
			if len(logs) != 1 || logs[0].Body != "a line" || logs[0].TraceID != id {
				t.Errorf("logs %+v", logs)
			}
			for _, m := range []string{"messaging.process.duration", "toolsearch.build.info", "go.goroutine.count"} {
				if !receiver.Metric(m) {
					t.Errorf("no metric %s", m)
				}
			}
		})
	}
}

// An exporter that cannot send is counted, for an alert.
func TestExportFailuresAreCounted(t *testing.T) {
	quietly(t)
	gone := httptest.NewServer(nil)
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", gone.URL+"/v1/traces")
	t.Setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", gone.URL+"/v1/logs")
	p, r := start(t, telemetry.Config{Scrape: true})
	defer gone.Close()
	_, span := r.Message(t.Context(), telemetry.ProcessOf("x"), telemetry.Message{})
	span.End()
	telemetry.NewLogger(telemetry.LogOptions{Provider: p.Loggers}).Info("a line")
	for _, flush := range []any{p.Tracers, p.Loggers} {
		_ = flush.(interface{ ForceFlush(context.Context) error }).ForceFlush(t.Context()) // 404, which is not tried again
	}
	text := scrape(t, p, "")
	for _, signal := range []string{"traces", "logs"} {
		if want := `toolsearch_telemetry_export_failures_total{toolsearch_signal="` + signal + `"} 1`; !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	_ = p.Shutdown(t.Context())
}

func scrape(t *testing.T, p *telemetry.Providers, accept string) string {
	t.Helper()
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Accept", accept)
	p.Metrics.ServeHTTP(w, r)
	if w.Code != 200 {
		t.Fatalf("scrape: %d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// A histogram's buckets lead to the trace of one of its samples.
func TestExemplarsJoinTheTrace(t *testing.T) {
	quietly(t)
	receiver := telemetrytest.NewReceiver(t)
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", receiver.HTTP+"/v1/traces")
	p, r := start(t, telemetry.Config{Scrape: true})
	ctx, span := r.Message(t.Context(), telemetry.ProcessOf("x"), telemetry.Message{})
	r.Metrics().Processed(ctx, "search", "x", "", time.Millisecond)
	span.End()
	text := scrape(t, p, "application/openmetrics-text; version=1.0.0")
	if want := `trace_id="` + telemetry.TraceID(ctx) + `"`; !strings.Contains(text, want) {
		t.Errorf("no exemplar %s in\n%s", want, text)
	}
	if strings.Contains(scrape(t, p, ""), "trace_id") {
		t.Error("the plain format cannot hold exemplars")
	}
	if err := p.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}

// What a process is called and where it runs is told; its command line and its user are not.
func TestResource(t *testing.T) {
	quietly(t)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=from-env")
	p, _ := start(t, telemetry.Config{Scrape: true, Version: "1.2.3", Instance: "w1", Environment: "given"})
	text := scrape(t, p, "")
	for _, want := range []string{`service_name="toolsearch"`, `service_version="1.2.3"`, `service_instance_id="w1"`, `deployment_environment_name="from-env"`,
		`host_name=`, `process_pid=`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	for _, not := range []string{"process_command", "process_owner", "otel_scope"} {
		if strings.Contains(text, not) {
			t.Errorf("%s is told", not)
		}
	}
	for range 2 {
		if err := p.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	}
}
