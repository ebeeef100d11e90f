package durable

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"toolsearch/connectors"
	"toolsearch/connectors/gatewaytest"
	"toolsearch/dispatch"
	"toolsearch/worker/embedded"
	"toolsearch/worker/storage"
)

// oneServer is a bus of one server.
func oneServer(b *testing.B, o embedded.Options) *bus {
	b.Helper()
	o.Port = embedded.InProcessOnly
	s, err := embedded.Start(o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Shutdown)
	return &bus{t: b, server: s, layout: storage.Layout{}.WithDefaults(), ctx: context.Background()}
}

// threeServers is a bus of three servers in a cluster, with three copies of every stream.
func threeServers(b *testing.B) *bus {
	b.Helper()
	var routes []*url.URL
	var ports []int
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		ports = append(ports, port)
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprint("127.0.0.1:", port)})
	}
	x := &bus{t: b, layout: storage.Layout{Replicas: 3}.WithDefaults(), ctx: context.Background()}
	for i, port := range ports {
		s, err := server.NewServer(&server.Options{ServerName: fmt.Sprint("n", i), Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true,
			StoreDir: b.TempDir(), NoSigs: true, NoLog: true, Routes: routes,
			Cluster: server.ClusterOpts{Name: "bench", Host: "127.0.0.1", Port: port}})
		if err != nil {
			b.Fatal(err)
		}
		s.Start()
		b.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		x.urls = append(x.urls, s.ClientURL())
	}
	_, js := x.connect()
	for {
		ctx, cancel := context.WithTimeout(x.ctx, time.Second)
		_, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "READY", Subjects: []string{"ready"}, Replicas: 3})
		cancel()
		if err == nil {
			return x
		}
	}
}

// bench is a bus with a worker, a gateway over real HTTP, and a plain HTTP client that sends the same requests.
type bench struct {
	*bus
	calls  *Calls
	url    string
	client *http.Client
	keys   int
}

func newBench(b *testing.B, servers *bus) *bench {
	b.Helper()
	gateway, err := gatewaytest.Start(gatewaytest.Options{Keep: 1000, Apps: []gatewaytest.App{{Connector: "app", Tools: []gatewaytest.Tool{
		{Slug: "APP_NOTE", Run: func(context.Context, gatewaytest.Call) (any, error) { return map[string]any{"ok": true}, nil }}}}}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = gateway.Close() })
	origin, err := connectors.ParseOrigin(gateway.URL())
	if err != nil {
		b.Fatal(err)
	}
	client, err := connectors.NewClient(connectors.ClientOptions{Origin: origin, Tokens: connectors.Shared("token")})
	if err != nil {
		b.Fatal(err)
	}
	sender, err := connectors.NewGateway(client, connectors.GatewayOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Close)
	transport := connectors.NewTransport()
	b.Cleanup(transport.CloseIdleConnections)
	x := &bench{url: gateway.URL() + "/v1/connectors/execute", client: &http.Client{Transport: transport},
		bus: servers}
	x.nc, x.js = x.connect()
	ensure(b, x.ctx, x.js, x.layout)
	x.calls = x.worker(Options{Connectors: dispatch.GatewaySender(sender), Logger: slog.New(slog.DiscardHandler)})
	return x
}

func (x *bench) call(n int) dispatch.Call {
	c := dispatch.Call{Key: newKey("acme", "s1")}
	for i := range n {
		c.Payload.Entries = append(c.Payload.Entries, dispatch.CallEntry{Name: "connectors__app__NOTE",
			Arguments: json.RawMessage(`{"n":` + strconv.Itoa(i) + `}`)})
	}
	return c
}

// durable makes one call of n entries and returns how long it took.
func (x *bench) durable(n int) time.Duration {
	call := x.call(n)
	begun := time.Now()
	r, err := x.calls.Do(x.ctx, call)
	took := time.Since(begun)
	if err != nil || r.Batch.SuccessCount != n {
		x.t.Fatalf("%+v, %v", r, err)
	}
	return took
}

// plain sends the same n requests one after the other, as a client without any of this would.
func (x *bench) plain(n int) time.Duration {
	begun := time.Now()
	for i := range n {
		x.keys++
		body := fmt.Sprintf(`{"tools":[{"connector":"app","tool":"APP_NOTE","arguments":{"n":%d}}]}`, i)
		req, err := http.NewRequestWithContext(x.ctx, http.MethodPost, x.url, bytes.NewReader([]byte(body)))
		if err != nil {
			x.t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer token")
		req.Header.Set("X-Idempotency-Key", "plain-"+strconv.Itoa(x.keys))
		resp, err := x.client.Do(req)
		if err != nil {
			x.t.Fatal(err)
		}
		answer, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || !bytes.Contains(answer, []byte(`"ok":true`)) {
			x.t.Fatalf("%d %s, %v", resp.StatusCode, answer, err)
		}
	}
	return time.Since(begun)
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// BenchmarkAdded tells what a durable call adds to the gateway's own time, against a plain HTTP client that sends the
// same requests in the same run, turn by turn: added-ms/call for one entry and added-ms/entry for each further one.
func BenchmarkAdded(b *testing.B) {
	for name, start := range map[string]func(*testing.B) *bus{
		"default":        func(b *testing.B) *bus { return oneServer(b, embedded.Options{}) },
		"sync_always":    func(b *testing.B) *bus { return oneServer(b, embedded.Options{SyncAlways: true}) },
		"three_replicas": threeServers,
	} {
		b.Run(name, func(b *testing.B) {
			x := newBench(b, start(b))
			const many = 10
			for range 20 { // connections, consumers, caches
				x.durable(1)
				x.plain(1)
			}
			var one, oneAdded, manyAdded []time.Duration
			for b.Loop() {
				p, d := x.plain(1), x.durable(1)
				one, oneAdded = append(one, d), append(oneAdded, d-p)
				p, d = x.plain(many), x.durable(many)
				manyAdded = append(manyAdded, d-p)
			}
			first, all := median(oneAdded), median(manyAdded)
			ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(ms(median(one)), "ms/call")
			b.ReportMetric(ms(first), "added-ms/call")
			b.ReportMetric(ms(all-first)/(many-1), "added-ms/entry")
		})
	}
}

// BenchmarkThroughput tells how many calls of one entry a worker gets through when many wait.
func BenchmarkThroughput(b *testing.B) {
	x := newBench(b, oneServer(b, embedded.Options{}))
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			x.durable(1)
		}
	})
}
