package telemetrytest

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// Spans keeps the spans of a provider in memory.
type Spans struct {
	exporter *tracetest.InMemoryExporter
	provider *sdktrace.TracerProvider
	masked   map[attribute.Key]bool

	mu   sync.Mutex
	open map[trace.SpanID]string
}

// masks are the attributes whose values differ from run to run.
var masks = []attribute.Key{"toolsearch.queue.wait", "delay", "server.port", "url.full", "messaging.message.body.size",
	"toolsearch.catalog.digest", "network.peer.port", "toolsearch.watch.reads"}

// NewSpans makes a provider that samples everything and keeps it. Values under the keys of mask are not drawn, beside
// those that always differ.
func NewSpans(mask ...string) *Spans {
	s := &Spans{exporter: tracetest.NewInMemoryExporter(), open: map[trace.SpanID]string{}, masked: map[attribute.Key]bool{}}
	for _, k := range masks {
		s.masked[k] = true
	}
	for _, k := range mask {
		s.masked[attribute.Key(k)] = true
	}
	s.provider = sdktrace.NewTracerProvider(sdktrace.WithSyncer(s.exporter), sdktrace.WithSpanProcessor(watcher{s}))
	return s
}

// Provider is the provider whose spans are kept.
func (s *Spans) Provider() trace.TracerProvider { return s.provider }

// Ended are the spans that have ended, in the order in which they did.
func (s *Spans) Ended() tracetest.SpanStubs { return s.exporter.GetSpans() }

// Open names the spans that were started and have not ended.
func (s *Spans) Open() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, name := range s.open {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// watcher keeps account of what is open.
type watcher struct{ s *Spans }

func (w watcher) OnStart(_ context.Context, span sdktrace.ReadWriteSpan) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	w.s.open[span.SpanContext().SpanID()] = span.Name()
}

func (w watcher) OnEnd(span sdktrace.ReadOnlySpan) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	delete(w.s.open, span.SpanContext().SpanID())
}

func (watcher) Shutdown(context.Context) error   { return nil }
func (watcher) ForceFlush(context.Context) error { return nil }

// Tree draws all spans that have ended: each line is indented below its parent's.
func (s *Spans) Tree() string {
	stubs := s.Ended()
	names := map[trace.SpanID]string{}
	children := map[trace.SpanID][]tracetest.SpanStub{}
	for _, stub := range stubs {
		names[stub.SpanContext.SpanID()] = stub.Name
	}
	for _, stub := range stubs {
		parent := stub.Parent.SpanID()
		if _, known := names[parent]; !known {
			parent = trace.SpanID{}
		}
		children[parent] = append(children[parent], stub)
	}
	return s.draw(children, names, trace.SpanID{}, "")
}

// draw draws the spans below a parent. An id of zero stands for what has no parent here.
func (s *Spans) draw(children map[trace.SpanID][]tracetest.SpanStub, names map[trace.SpanID]string, parent trace.SpanID, indent string) string {
	var texts []string
	for _, stub := range children[parent] {
		var b strings.Builder
		from := ""
		if parent == (trace.SpanID{}) && stub.Parent.IsValid() {
			from = " (parent elsewhere)"
		}
		fmt.Fprintf(&b, "%s%s %s%s\n", indent, strings.ToUpper(stub.SpanKind.String()), stub.Name, from)
		for _, line := range s.details(stub, names) {
			fmt.Fprintf(&b, "%s    %s\n", indent, line)
		}
		b.WriteString(s.draw(children, names, stub.SpanContext.SpanID(), indent+"  "))
		texts = append(texts, b.String())
	}
	sort.Strings(texts)
	return strings.Join(texts, "")
}

func (s *Spans) details(stub tracetest.SpanStub, names map[trace.SpanID]string) []string {
	lines := s.attributes(stub.Attributes)
	for _, e := range stub.Events {
		lines = append(lines, "event "+e.Name+" "+strings.Join(s.attributes(e.Attributes), " "))
	}
	for _, l := range stub.Links {
		to, known := names[l.SpanContext.SpanID()]
		if !known {
			to = "elsewhere"
		}
		lines = append(lines, "link "+strings.Join(s.attributes(l.Attributes), " ")+" to "+to)
	}
	if stub.Status.Code.String() != "Unset" {
		lines = append(lines, "status "+stub.Status.Code.String()+" "+stub.Status.Description)
	}
	return lines
}

func (s *Spans) attributes(attrs []attribute.KeyValue) []string {
	attrs = slices.Clone(attrs)
	slices.SortFunc(attrs, func(a, b attribute.KeyValue) int { return strings.Compare(string(a.Key), string(b.Key)) })
	out := make([]string, len(attrs))
	for i, a := range attrs {
		value := a.Value.String()
		if s.masked[a.Key] {
			value = "<varies>"
		}
		out[i] = string(a.Key) + "=" + value
	}
	return out
}
