package subjects_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
	"toolsearch/subjects"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is more than any step of a test needs, on however slow a machine.
const patience = 90 * time.Second

// startBus runs a NATS server with JetStream in this process until the test ends.
func startBus(t testing.TB, change ...func(*server.Options)) *server.Server {
	t.Helper()
	o := &server.Options{DontListen: true, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true, MaxPayload: 64 << 10, AuthTimeout: patience.Seconds()}
	for _, c := range change {
		c(o)
	}
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(patience) {
		t.Fatal("the NATS server is not ready")
	}
	return s
}

// connect makes a connection that ends with the test.
func connect(t testing.TB, s *server.Server, o ...nats.Option) *nats.Conn {
	t.Helper()
	closed := make(chan struct{})
	nc, err := nats.Connect("", append([]nats.Option{nats.InProcessServer(s), nats.Timeout(patience), nats.ClosedHandler(func(*nats.Conn) { close(closed) })}, o...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close(); <-closed })
	return nc
}

// worker is the answering side of a test, as small as it can be: it reads a request with its claim check and answers.
type worker struct {
	t      testing.TB
	nc     *nats.Conn
	bodies *subjects.Bodies
	asked  atomic.Int64
}

type request struct {
	*nats.Msg
	Body []byte
	N    int64 // 1 for the first request
}

func startWorker(t testing.TB, s *server.Server) *worker {
	t.Helper()
	nc := connect(t, s)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	bodies, err := subjects.NewBodies(js, subjects.BodiesOptions{Wait: patience})
	if err != nil {
		t.Fatal(err)
	}
	return &worker{t: t, nc: nc, bodies: bodies}
}

// on answers a verb with what answer gives: a body, or a service error. No body is no reply.
func (w *worker) on(verb subjects.Verb, answer func(*request) ([]byte, error)) {
	w.t.Helper()
	_, err := w.nc.QueueSubscribe(subjects.DefaultRoot.Requests(verb), "workers", func(m *nats.Msg) {
		a, err := subjects.DefaultRoot.Parse(m.Subject)
		if err != nil {
			w.t.Error(err)
			return
		}
		body, err := w.bodies.Unpack(context.Background(), a.Tenant, m.Header, m.Data)
		if err != nil {
			w.fail(m, err)
			return
		}
		reply, err := answer(&request{m, body, w.asked.Add(1)})
		switch {
		case err != nil:
			w.fail(m, err)
		case reply != nil:
			h := nats.Header{}
			data, err := w.bodies.Pack(context.Background(), a.Tenant, h, reply)
			if err != nil {
				w.fail(m, err)
				return
			}
			m.RespondMsg(&nats.Msg{Header: h, Data: data})
		}
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.nc.Flush(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *worker) fail(m *nats.Msg, err error) {
	e, ok := err.(*subjects.Error)
	if !ok {
		e = subjects.Errorf(subjects.CodeInternal, "%v", err)
	}
	body, err := e.MarshalJSON()
	if err != nil {
		w.t.Error(err)
	}
	m.RespondMsg(&nats.Msg{Data: body, Header: e.Header()})
}

// newSession is the client of one session, on a connection as the documentation tells to make it.
func newSession(t testing.TB, s *server.Server, o subjects.ClientOptions) *subjects.Session {
	t.Helper()
	nc := connect(t, s, subjects.ConnectOptions("acme", "s1")...)
	client, err := subjects.NewClient(nc, o)
	if err != nil {
		t.Fatal(err)
	}
	return client.Session("acme", "s1")
}

// inTime is a context for a step that must not take long, and has far more time than it needs.
func inTime(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}
