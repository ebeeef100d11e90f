package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/trace"

	"toolsearch/telemetry"
)

// kept keeps log records.
type kept struct{ records []sdklog.Record }

func (k *kept) OnEmit(_ context.Context, r *sdklog.Record) error {
	k.records = append(k.records, r.Clone())
	return nil
}
func (*kept) Enabled(context.Context, sdklog.EnabledParameters) bool { return true }
func (*kept) Shutdown(context.Context) error                         { return nil }
func (*kept) ForceFlush(context.Context) error                       { return nil }

func inTrace() context.Context {
	return telemetry.None().Extract(context.Background(), map[string][]string{"traceparent": {traceparent}})
}

func TestLogCarriesTheTrace(t *testing.T) {
	t.Parallel()
	for _, asJSON := range []bool{true, false} {
		var b bytes.Buffer
		log := telemetry.NewLogger(telemetry.LogOptions{Writer: &b, JSON: asJSON})
		log.Info("outside", "n", 1)
		if strings.Contains(b.String(), "trace_id") {
			t.Errorf("a line outside a trace: %s", b.String())
		}
		b.Reset()
		log.With("a", 1).InfoContext(inTrace(), "inside")
		for _, want := range []string{"0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "trace_id", "span_id"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("no %s in %s", want, b.String())
			}
		}
		if asJSON && !json.Valid(b.Bytes()) {
			t.Errorf("no JSON: %s", b.String())
		}
		b.Reset()
		if log.Debug("hidden"); b.Len() > 0 {
			t.Error("debug is logged by default")
		}
	}
	telemetry.NewLogger(telemetry.LogOptions{}).Info("to nobody")
}

// addressed writes a secret by itself, as an address of a server does.
type addressed struct{ u *url.URL }

func (a addressed) String() string { return a.u.String() }

func (a addressed) LogValue() slog.Value { return slog.StringValue(a.u.String()) }

// No way of giving a secret to the log gets it out of it, at either end.
func TestLogHoldsNoSecret(t *testing.T) {
	t.Parallel()
	for _, asJSON := range []bool{true, false} {
		var b bytes.Buffer
		exported := &kept{}
		log := telemetry.NewLogger(telemetry.LogOptions{Writer: &b, JSON: asJSON, Level: slog.LevelDebug,
			Provider: sdklog.NewLoggerProvider(sdklog.WithProcessor(exported))})
		for _, s := range secrets {
			log.Info("a text "+s, "text", s, "error", errors.New("failed with "+s), slog.Group("g", "deep", s), "list", []string{s},
				"bytes", map[string]string{"x": s})
			log.With("before", s).WithGroup("g").Debug("with", "k", s)
		}
		u, err := url.Parse("nats://user:hunter2pass@bus:4222")
		if err != nil {
			t.Fatal(err)
		}
		log.Warn("an address", "url", addressed{u}, "plain", u)
		log.Error("by name", "token", "hunter2pass", "password", "hunter2pass", slog.Group("oauth", "client_secret", "hunter2pass"),
			"authorization", map[string]string{"a": "hunter2pass"})
		text := b.String()
		for _, r := range exported.records {
			text += r.Body().String()
			r.WalkAttributes(func(kv attribute.KeyValue) bool { text += " " + kv.Value.String(); return true })
		}
		if len(exported.records) < 2*len(secrets) {
			t.Fatalf("%d records were exported", len(exported.records))
		}
		for _, s := range append(secrets, "nats://x:hunter2pass@x") {
			if strings.Contains(text, revealing(s)) {
				t.Errorf("json %v: %q is in the log:\n%.2000s", asJSON, revealing(s), text)
			}
		}
		if !strings.Contains(text, "[redacted]") {
			t.Error("nothing was taken out")
		}
	}
}

func TestLogBelowItsLevelIsNotExported(t *testing.T) {
	t.Parallel()
	exported := &kept{}
	log := telemetry.NewLogger(telemetry.LogOptions{Level: slog.LevelWarn, Provider: sdklog.NewLoggerProvider(sdklog.WithProcessor(exported))})
	log.Info("no")
	log.WarnContext(inTrace(), "yes")
	if len(exported.records) != 1 || exported.records[0].TraceID().String() != trace.SpanContextFromContext(inTrace()).TraceID().String() {
		t.Errorf("%d records", len(exported.records))
	}
}
