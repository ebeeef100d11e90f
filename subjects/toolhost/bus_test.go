package toolhost_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
	"toolsearch/subjects"
	"toolsearch/subjects/toolhost"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is more than any step of a test needs, on however slow a machine.
const patience = 90 * time.Second

// testBundle is a bus with a connection of whoever calls hosts.
type testBundle struct {
	t      testing.TB
	server *server.Server
	caller *nats.Conn
	bodies *subjects.Bodies
}

func setup(t testing.TB) *testBundle {
	t.Helper()
	s, err := server.NewServer(&server.Options{DontListen: true, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true, MaxPayload: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(patience) {
		t.Fatal("the NATS server is not ready")
	}
	b := &testBundle{t: t, server: s}
	b.caller = b.connect()
	js, err := jetstream.New(b.caller)
	if err != nil {
		t.Fatal(err)
	}
	if b.bodies, err = subjects.NewBodies(js, subjects.BodiesOptions{Wait: patience}); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *testBundle) connect() *nats.Conn {
	b.t.Helper()
	closed := make(chan struct{})
	nc, err := nats.Connect("", nats.InProcessServer(b.server), nats.Timeout(patience), nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { nc.Close(); <-closed })
	return nc
}

// serve runs a host named mcp-1 of tenant acme until the test ends.
func (b *testBundle) serve(o toolhost.Options, tools ...toolhost.Tool) *toolhost.Host {
	b.t.Helper()
	o.Tenant, o.Host = "acme", "mcp-1"
	h, err := toolhost.Serve(b.connect(), o, tools...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := h.Stop(inTime(b.t)); err != nil {
			b.t.Error(err)
		}
	})
	return h
}

func (b *testBundle) keys() jetstream.KeyValue {
	b.t.Helper()
	js, err := jetstream.New(b.connect())
	if err != nil {
		b.t.Fatal(err)
	}
	kv, err := toolhost.OpenKeys(inTime(b.t), js, "acme", 1)
	if err != nil {
		b.t.Fatal(err)
	}
	return kv
}

// call asks for one tool under one key, and reads the reply wherever it travelled.
func (b *testBundle) call(key, name, arguments string) *subjects.HostReply {
	b.t.Helper()
	return b.ask(&subjects.HostRequest{CallID: "c1", Name: name, Arguments: json.RawMessage(arguments), IdempotencyKey: key, Deadline: time.Now().Add(patience)})
}

func (b *testBundle) ask(r *subjects.HostRequest) *subjects.HostReply {
	b.t.Helper()
	body, err := subjects.Marshal(r)
	if err != nil {
		b.t.Error(err)
		return &subjects.HostReply{}
	}
	return b.send(nats.Header{}, body)
}

func (b *testBundle) send(h nats.Header, body []byte) *subjects.HostReply {
	b.t.Helper()
	reply := new(subjects.HostReply)
	m := b.request(subjects.HostCall, h, body)
	if m == nil {
		return reply
	}
	p, err := b.bodies.Unpack(inTime(b.t), "acme", m.Header, m.Data)
	if err == nil {
		err = json.Unmarshal(p, reply)
	}
	if err != nil {
		b.t.Errorf("%s: %v", p, err)
	}
	return reply
}

func (b *testBundle) request(op string, h nats.Header, body []byte) *nats.Msg {
	b.t.Helper()
	data, err := b.bodies.Pack(inTime(b.t), "acme", h, body)
	if err != nil {
		b.t.Error(err)
		return nil
	}
	m, err := b.caller.RequestMsgWithContext(inTime(b.t), &nats.Msg{Subject: subjects.DefaultRoot.Host("acme", "mcp-1", op), Header: h, Data: data})
	if err != nil {
		b.t.Error(err)
		return nil
	}
	return m
}

// code is a reply's error code, empty for a result.
func code(r *subjects.HostReply) string {
	if r.Error == nil {
		return ""
	}
	return r.Error.Code
}

func tool(name string, run toolhost.Handler) toolhost.Tool {
	definition, err := subjects.Marshal(map[string]any{"name": name, "description": "A tool.", "parameters": map[string]any{"type": "object"}})
	if err != nil {
		panic(err)
	}
	return toolhost.Tool{Definition: definition, Toolset: "mcp-test", Parallel: true, Run: run}
}

func inTime(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}
