package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"toolsearch/catalog"
	"toolsearch/catalog/catalogtest"
	"toolsearch/subjects"
	"toolsearch/worker/embedded"
)

// benchBus is a bus that is reached through a socket, as a real one is, with a worker and a bare echo on it.
type benchBus struct {
	*bundle
	echo string // answers with as many bytes as the first header's value says
}

func benchSetup(b *testing.B, o Options) *benchBus {
	b.Helper()
	bus, err := embedded.Start(embedded.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(bus.Shutdown)
	x := &benchBus{bundle: &bundle{t: b, bus: bus, log: &logBook{}}, echo: "bench.echo"}
	dial := func(name string) *nats.Conn {
		nc, err := Connect(context.Background(), ConnectOptions{URLs: []string{bus.ClientURL()}, Name: name})
		if err != nil {
			b.Fatal(err)
		}
		return nc
	}
	w, err := New(dial("worker"), o)
	if err != nil {
		b.Fatal(err)
	}
	if err := w.Start(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = w.Drain(context.Background()) })
	await(b, w.Ready(), "the worker")
	x.w, x.nc = w, dial("client")
	b.Cleanup(x.nc.Close)
	return x
}

// serveEcho answers with size bytes, on a connection of its own like the worker's.
func (x *benchBus) serveEcho(size int) {
	x.t.Helper()
	nc, err := Connect(context.Background(), ConnectOptions{URLs: []string{x.bus.ClientURL()}, Name: "echo"})
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(nc.Close)
	body := []byte(strings.Repeat("x", size))
	if _, err := nc.Subscribe(x.echo, func(m *nats.Msg) { _ = m.Respond(body) }); err != nil {
		x.t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		x.t.Fatal(err)
	}
}

// median asks n times, one at a time, and returns the median time of an answer.
func (x *benchBus) median(n int, subject string, body func(i int) []byte) time.Duration {
	x.t.Helper()
	took := make([]time.Duration, n)
	for i := range took {
		began := time.Now()
		m, err := x.nc.Request(subject, body(i), wait)
		took[i] = time.Since(began)
		if err != nil || m.Header.Get(subjects.HeaderError) != "" {
			x.t.Fatalf("%v: %s", err, m.Data)
		}
	}
	slices.Sort(took)
	return took[n/2]
}

// inTurns takes the medians of two subjects, a short while each in turn, so that what else the machine does falls on
// both, and returns the median of each one's medians.
func (x *benchBus) inTurns(a, b string, body func(i int) []byte) (time.Duration, time.Duration) {
	const rounds, each = 41, 100
	var as, bs []time.Duration
	for i := range rounds {
		in := func(k int) []byte { return body(i*each + k) }
		as = append(as, x.median(each, a, in))
		bs = append(bs, x.median(each, b, in))
	}
	slices.Sort(as)
	slices.Sort(bs)
	return as[rounds/2], bs[rounds/2]
}

// rate asks n times, many at a time, and returns answers per second.
func (x *benchBus) rate(n, inFlight int, subject string, body func(i int) []byte) float64 {
	x.t.Helper()
	var next atomic.Int64
	var done sync.WaitGroup
	began := time.Now()
	for range inFlight {
		done.Go(func() {
			for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
				if _, err := x.nc.Request(subject, body(i), wait); err != nil {
					x.t.Error(err)
					return
				}
			}
		})
	}
	done.Wait()
	return float64(n) / time.Since(began).Seconds()
}

// BenchmarkSearchOverTheBus compares a search with a bare echo of the same sizes in the same run: distinct queries over
// 1,000 tools. echo_ratio is of the medians with one in flight, rate_ratio with 32 in flight of the rate that the echo's
// and the search's own CPU together allow.
func BenchmarkSearchOverTheBus(b *testing.B) {
	x := benchSetup(b, Options{TenantShare: 1})
	tools := catalogtest.Generated(1000)
	var reply subjects.AssembleReply
	body := fmt.Sprintf(`{"tools":%s}`, catalogtest.Array(tools))
	if err := json.Unmarshal(ok(b, x.ask(subjects.VerbAssemble, body)), &reply); err != nil {
		b.Fatal(err)
	}
	subject := subjects.DefaultRoot.Request("acme", "s1", subjects.VerbSearch)
	query := func(i int) []byte {
		words := strings.Split(tools[(i*7919)%len(tools)].Name(), "_")
		return []byte(search(reply.Scope, strings.Join(words[len(words)-3:], " ")))
	}
	m, err := x.nc.Request(subject, query(1), wait)
	if err != nil {
		b.Fatal(err)
	}
	x.serveEcho(len(m.Data))
	cpu := searchCPU(b, tools, query)

	for b.Loop() {
		echo, found := x.inTurns(x.echo, subject, query)
		b.ReportMetric(float64(echo)/1e3, "echo_µs")
		b.ReportMetric(float64(found)/1e3, "search_µs")
		b.ReportMetric(float64(found)/float64(echo), "echo_ratio")
		const n = 2000
		echoRate := x.rate(5*n, 32, x.echo, query)
		searchRate := x.rate(5*n, 32, subject, query)
		possible := 1 / (1/echoRate + cpu.Seconds()/2)
		b.ReportMetric(echoRate, "echo/s")
		b.ReportMetric(searchRate, "search/s")
		b.ReportMetric(searchRate/possible, "rate_ratio")
		b.ReportMetric(float64(cpu)/1e3, "search_cpu_µs")
	}
	b.ReportMetric(0, "ns/op")
}

// searchCPU is what a search costs without the bus.
func searchCPU(b *testing.B, tools []catalogtest.Element, query func(i int) []byte) time.Duration {
	b.Helper()
	c, err := catalog.Build(catalogtest.Array(tools), catalog.Limits{})
	if err != nil {
		b.Fatal(err)
	}
	sc, err := catalog.NewScope(c, catalog.Owner{Tenant: "acme", Session: "s1"}, &subjects.AssembleRequest{}, catalog.DefaultConfig(), nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	const n = 5000
	var out []byte
	began := time.Now()
	for i := range n {
		r, err := decodeBridge(query(i))
		if err != nil {
			b.Fatal(err)
		}
		q, err := sc.ParseSearch(r.Arguments)
		if err != nil {
			b.Fatal(err)
		}
		out = sc.Search(q, nil).AppendModel(out[:0])
	}
	return time.Since(began) / n
}

// BenchmarkAssembleStored compares an assemble that names a stored catalog with a bare echo of the same sizes.
func BenchmarkAssembleStored(b *testing.B) {
	x := benchSetup(b, Options{TenantShare: 1})
	reply := x.assemble(1000)
	subject := subjects.DefaultRoot.Request("acme", "s1", subjects.VerbAssemble)
	body := []byte(fmt.Sprintf(`{"catalog":%q}`, reply.Catalog))
	request := func(int) []byte { return body }
	m, err := x.nc.Request(subject, body, wait)
	if err != nil {
		b.Fatal(err)
	}
	x.serveEcho(len(m.Data))
	for b.Loop() {
		echo, assembled := x.inTurns(x.echo, subject, request)
		b.ReportMetric(float64(echo)/1e3, "echo_µs")
		b.ReportMetric(float64(assembled)/1e3, "assemble_µs")
		b.ReportMetric(float64(assembled)/float64(echo), "echo_ratio")
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkRequest is the worker's own part of a search, without the bus: admission, decoding, search, encoding.
func BenchmarkRequest(b *testing.B) {
	x := benchSetup(b, Options{Logger: slog.New(slog.DiscardHandler)})
	reply := x.assemble(1000)
	r := &request{worker: x.w, endpoint: x.w.endpoint(subjects.VerbSearch), tenant: "acme", session: "s1",
		body: []byte(search(reply.Scope, "order number 17")), reply: &buffer{}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := x.w.search(context.Background(), r); err != nil {
			b.Fatal(err)
		}
	}
}
