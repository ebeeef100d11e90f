package telemetry

import (
	"context"
	"sync/atomic"

	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// failures counts exports that failed, once there are metrics to count with: spans may flow before.
type failures struct{ metrics atomic.Pointer[Metrics] }

func (f *failures) report(m *Metrics) { f.metrics.Store(m) }

func (f *failures) note(ctx context.Context, signal string, err error) {
	if m := f.metrics.Load(); m != nil && err != nil {
		m.exportFailed(ctx, signal)
	}
}

// spanExporter counts what its exporter could not send.
type spanExporter struct {
	sdktrace.SpanExporter
	failed *failures
}

func (e spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	e.failed.note(ctx, "traces", err)
	return err
}

// logExporter counts what its exporter could not send.
type logExporter struct {
	sdklog.Exporter
	failed *failures
}

func (e logExporter) Export(ctx context.Context, records []sdklog.Record) error {
	err := e.Exporter.Export(ctx, records)
	e.failed.note(ctx, "logs", err)
	return err
}
