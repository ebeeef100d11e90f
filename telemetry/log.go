package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"go.opentelemetry.io/contrib/bridges/otelslog"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/trace"
)

// LogOptions configure [NewLogger].
type LogOptions struct {
	// Writer gets the lines; nil: they go nowhere.
	Writer io.Writer
	// JSON writes lines as JSON, otherwise as text.
	JSON bool
	// Level is the least that is logged; nil is info.
	Level slog.Leveler
	// Provider also gets the records, for an exporter; nil: none does.
	Provider log.LoggerProvider
}

// NewLogger makes the logger of a process. Each line carries trace_id and span_id where the context of the call has
// them, and no secret: attributes are cleaned by their names and their forms before any handler sees them.
func NewLogger(o LogOptions) *slog.Logger {
	if o.Writer == nil {
		o.Writer = io.Discard
	}
	ho := &slog.HandlerOptions{Level: o.Level}
	var out slog.Handler
	if o.JSON {
		out = slog.NewJSONHandler(o.Writer, ho)
	} else {
		out = slog.NewTextHandler(o.Writer, ho)
	}
	out = tracing{out}
	if o.Provider != nil {
		// The bridge takes the trace from the context by itself.
		exported := otelslog.NewHandler(Scope, otelslog.WithLoggerProvider(o.Provider), otelslog.WithSchemaURL(SchemaURL))
		out = slog.NewMultiHandler(out, leveled{exported, o.Level})
	}
	return slog.New(discreet{out})
}

// tracing adds the ids of the context's span to a line.
type tracing struct{ slog.Handler }

func (h tracing) Handle(ctx context.Context, r slog.Record) error {
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", sc.TraceID().String()), slog.String("span_id", sc.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h tracing) WithAttrs(a []slog.Attr) slog.Handler { return tracing{h.Handler.WithAttrs(a)} }
func (h tracing) WithGroup(name string) slog.Handler   { return tracing{h.Handler.WithGroup(name)} }

// leveled gives a handler that has no level of its own the one of the log.
type leveled struct {
	slog.Handler
	level slog.Leveler
}

func (h leveled) Enabled(ctx context.Context, l slog.Level) bool {
	least := slog.LevelInfo
	if h.level != nil {
		least = h.level.Level()
	}
	return l >= least && h.Handler.Enabled(ctx, l)
}

func (h leveled) WithAttrs(a []slog.Attr) slog.Handler {
	return leveled{h.Handler.WithAttrs(a), h.level}
}
func (h leveled) WithGroup(name string) slog.Handler {
	return leveled{h.Handler.WithGroup(name), h.level}
}

// discreet takes secrets out of records.
type discreet struct{ slog.Handler }

func (h discreet) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level, Redact(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(cleanAttr(a))
		return true
	})
	return h.Handler.Handle(ctx, out)
}

func (h discreet) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = cleanAttr(a)
	}
	return discreet{h.Handler.WithAttrs(clean)}
}

func (h discreet) WithGroup(name string) slog.Handler { return discreet{h.Handler.WithGroup(name)} }

// cleanAttr is an attribute without secrets. Values that write themselves are written here, so that nothing gets past.
func cleanAttr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	if SecretField(a.Key) && v.Kind() == slog.KindString && v.String() != "" {
		return slog.String(a.Key, redacted)
	}
	switch v.Kind() {
	case slog.KindString:
		return slog.String(a.Key, Redact(v.String()))
	case slog.KindGroup:
		group := v.Group()
		clean := make([]slog.Attr, len(group))
		for i, g := range group {
			clean[i] = cleanAttr(g)
		}
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(clean...)}
	case slog.KindAny:
		return slog.Attr{Key: a.Key, Value: cleanAny(a.Key, v.Any())}
	}
	return slog.Attr{Key: a.Key, Value: v}
}

func cleanAny(key string, v any) slog.Value {
	switch v := v.(type) {
	case nil:
		return slog.AnyValue(nil)
	case []string:
		clean := make([]string, len(v))
		for i, s := range v {
			clean[i] = Redact(s)
		}
		return slog.AnyValue(clean)
	}
	if SecretField(key) {
		return slog.StringValue(redacted)
	}
	return slog.StringValue(Redact(fmt.Sprintf("%+v", v)))
}
