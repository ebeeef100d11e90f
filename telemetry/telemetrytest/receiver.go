package telemetrytest

import (
	"context"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Span is a span as it came over the wire.
type Span struct {
	Service, Name, TraceID, SpanID, ParentID string
}

// Log is a log record as it came over the wire.
type Log struct {
	Service, Body, TraceID string
}

// Receiver takes OTLP over gRPC and HTTP and keeps what comes.
type Receiver struct {
	coltrace.UnimplementedTraceServiceServer
	// GRPC and HTTP are its endpoints, as OTEL_EXPORTER_OTLP_ENDPOINT has them.
	GRPC, HTTP string

	mu      sync.Mutex
	spans   []Span
	logs    []Log
	metrics map[string]bool
}

// NewReceiver starts a receiver that ends with the test.
func NewReceiver(t testing.TB) *Receiver {
	t.Helper()
	r := &Receiver{metrics: map[string]bool{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	coltrace.RegisterTraceServiceServer(s, r)
	collogs.RegisterLogsServiceServer(s, logService{r: r})
	colmetrics.RegisterMetricsServiceServer(s, metricService{r: r})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l) // ends with Stop
	}()
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/traces", receive(func() *coltrace.ExportTraceServiceRequest { return new(coltrace.ExportTraceServiceRequest) }, r.takeSpans))
	mux.HandleFunc("/v1/logs", receive(func() *collogs.ExportLogsServiceRequest { return new(collogs.ExportLogsServiceRequest) }, r.takeLogs))
	mux.HandleFunc("/v1/metrics", receive(func() *colmetrics.ExportMetricsServiceRequest { return new(colmetrics.ExportMetricsServiceRequest) }, r.takeMetrics))
	h := httptest.NewServer(mux)
	t.Cleanup(func() { s.Stop(); <-done; h.Close() })
	r.GRPC, r.HTTP = "http://"+l.Addr().String(), h.URL
	return r
}

// receive answers one path of OTLP over HTTP. The empty answer is a whole one.
func receive[T proto.Message](empty func() T, take func(T)) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		m := empty()
		if err == nil {
			err = proto.Unmarshal(body, m)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		take(m)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}
}

// Spans are those that have come.
func (r *Receiver) Spans() []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Span(nil), r.spans...)
}

// Logs are those that have come.
func (r *Receiver) Logs() []Log {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Log(nil), r.logs...)
}

// Metric reports whether a metric of that name has come.
func (r *Receiver) Metric(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.metrics[name]
}

// Export takes spans over gRPC.
func (r *Receiver) Export(_ context.Context, m *coltrace.ExportTraceServiceRequest) (*coltrace.ExportTraceServiceResponse, error) {
	r.takeSpans(m)
	return &coltrace.ExportTraceServiceResponse{}, nil
}

type logService struct {
	collogs.UnimplementedLogsServiceServer
	r *Receiver
}

// Export takes logs over gRPC.
func (s logService) Export(_ context.Context, m *collogs.ExportLogsServiceRequest) (*collogs.ExportLogsServiceResponse, error) {
	s.r.takeLogs(m)
	return &collogs.ExportLogsServiceResponse{}, nil
}

type metricService struct {
	colmetrics.UnimplementedMetricsServiceServer
	r *Receiver
}

// Export takes metrics over gRPC.
func (s metricService) Export(_ context.Context, m *colmetrics.ExportMetricsServiceRequest) (*colmetrics.ExportMetricsServiceResponse, error) {
	s.r.takeMetrics(m)
	return &colmetrics.ExportMetricsServiceResponse{}, nil
}

func (r *Receiver) takeSpans(m *coltrace.ExportTraceServiceRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rs := range m.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				r.spans = append(r.spans, Span{Service: service(rs.GetResource().GetAttributes()), Name: s.Name,
					TraceID: hex.EncodeToString(s.TraceId), SpanID: hex.EncodeToString(s.SpanId), ParentID: hex.EncodeToString(s.ParentSpanId)})
			}
		}
	}
}

func (r *Receiver) takeLogs(m *collogs.ExportLogsServiceRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rl := range m.ResourceLogs {
		for _, sl := range rl.ScopeLogs {
			for _, l := range sl.LogRecords {
				r.logs = append(r.logs, Log{Service: service(rl.GetResource().GetAttributes()), Body: l.GetBody().GetStringValue(),
					TraceID: hex.EncodeToString(l.TraceId)})
			}
		}
	}
}

func (r *Receiver) takeMetrics(m *colmetrics.ExportMetricsServiceRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rm := range m.ResourceMetrics {
		for _, sm := range rm.ScopeMetrics {
			for _, metric := range sm.Metrics {
				r.metrics[metric.Name] = true
			}
		}
	}
}

func service(attrs []*commonpb.KeyValue) string {
	for _, a := range attrs {
		if a.Key == "service.name" {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}
