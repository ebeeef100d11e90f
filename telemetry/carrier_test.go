package telemetry_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"pgregory.net/rapid"

	"toolsearch/telemetry"
)

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestCarrierReadsAnyCase(t *testing.T) {
	t.Parallel()
	for _, spelling := range []string{"traceparent", "Traceparent", "TRACEPARENT", "TraceParent"} {
		ctx := propagation.TraceContext{}.Extract(context.Background(), telemetry.Carrier(nats.Header{spelling: {traceparent}}))
		if got := trace.SpanContextFromContext(ctx).TraceID().String(); got != "0af7651916cd43dd8448eb211c80319c" {
			t.Errorf("%s: trace id %s", spelling, got)
		}
	}
	if got := telemetry.Carrier(nats.Header{"traceparent": {}}).Get("traceparent"); got != "" {
		t.Errorf("a header without values reads %q", got)
	}
	if got := telemetry.Carrier(nil).Get("traceparent"); got != "" {
		t.Errorf("no headers read %q", got)
	}
}

func TestCarrierWritesLowerCase(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		spell := func(key string) string {
			var b strings.Builder
			for _, c := range key {
				if rapid.Bool().Draw(t, "upper") {
					b.WriteString(strings.ToUpper(string(c)))
				} else {
					b.WriteRune(c)
				}
			}
			return b.String()
		}
		h := nats.Header{spell("traceparent"): {"old"}, spell("traceparent"): {"older"}, "Nats-Msg-Id": {"1"}}
		c := telemetry.Carrier(h)
		c.Set(spell("traceparent"), "new")
		if got := h["traceparent"]; len(h) != 2 || !slices.Equal(got, []string{"new"}) {
			t.Fatalf("headers %v", h)
		}
		if c.Get(spell("traceparent")) != "new" || c.Get(spell("nats-msg-id")) != "1" {
			t.Fatalf("headers %v do not read back", h)
		}
		keys := c.Keys()
		slices.Sort(keys)
		if !slices.Equal(keys, []string{"nats-msg-id", "traceparent"}) {
			t.Fatalf("keys %v", keys)
		}
	})
}

// Without telemetry the context that came is what goes on, to the byte.
func TestNonePassesContextOn(t *testing.T) {
	t.Parallel()
	r := telemetry.None()
	ctx := r.Extract(context.Background(), nats.Header{"TraceParent": {traceparent}, "Tracestate": {"a=b"}})
	ctx, span := r.Message(ctx, telemetry.ProcessOf("x.{tenant}"), telemetry.Message{Subject: "x.acme"})
	defer span.End()
	h := nats.Header{}
	r.Inject(ctx, h)
	if h.Get("traceparent") != traceparent || h.Get("tracestate") != "a=b" || span.IsRecording() {
		t.Errorf("headers %v", h)
	}
	if r.Measures() {
		t.Error("it measures")
	}
	r.Metrics().Processed(ctx, "search", "x", "", 0) // goes nowhere, and does not fail
}
