package subjects_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"toolsearch/subjects"
)

// exampleBus runs a bus in this process, with something on it that answers like a worker whose catalog has one GitHub
// server. connect gives connections to it.
func exampleBus() (connect func(...nats.Option) *nats.Conn, stop func()) {
	dir, err := os.MkdirTemp("", "toolsearch-example")
	if err != nil {
		log.Fatal(err)
	}
	s, err := server.NewServer(&server.Options{DontListen: true, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true})
	if err != nil {
		log.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		log.Fatal("the NATS server is not ready")
	}
	connect = func(o ...nats.Option) *nats.Conn {
		nc, err := nats.Connect("", append(o, nats.InProcessServer(s))...)
		if err != nil {
			log.Fatal(err)
		}
		return nc
	}
	nc := connect()
	exampleWorker(nc)
	return connect, func() {
		nc.Close()
		s.Shutdown()
		s.WaitForShutdown()
		os.RemoveAll(dir)
	}
}

func exampleWorker(nc *nats.Conn) {
	js, err := jetstream.New(nc)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := js.CreateStream(context.Background(), jetstream.StreamConfig{Name: "TOOLSEARCH_CALLS", Subjects: []string{subjects.DefaultRoot.Stops()}}); err != nil {
		log.Fatal(err)
	}
	scope := subjects.Digest([]byte("scope"))
	bodies := map[subjects.Verb]string{
		subjects.VerbAssemble: fmt.Sprintf(`{"scope":%q,"catalog":%q,"expires_at":"2026-01-03T00:00:00Z","activated":true,"tier":1,"listing_form":"full",`+
			`"deferred_count":44,"deferred_tokens":12345,"listing_budget":4000,"unknown_toolsets":[],"rejected_tools":[],`+
			`"tools":[{"name":"tool_search"},{"name":"tool_describe"},{"name":"tool_call"}]}`, scope, scope),
		subjects.VerbSearch: `{"queries": ["create an issue"], "total_available": 44, "results": [{"query": "create an issue", "matches": ["mcp__github__create_issue"]}], ` +
			`"tools": {"mcp__github__create_issue": {"source": "mcp", "source_name": "github", "description": "Opens a new issue.", "required": ["title"]}}}`,
		subjects.VerbDescribe: `{"tools": {"mcp__github__create_issue": {"description": "Opens a new issue.", "parameters": {"type": "object", "required": ["title"]}}}}`,
		subjects.VerbCall: `{"results": [{"index": 0, "name": "connectors__gmail__SEND_EMAIL", "response": {"id": "m1"}}, ` +
			`{"index": 1, "name": "connectors__linear__CREATE_ISSUE", "error": {"code": "CONNECTION_REQUIRED", "message": "Linear is not connected."}}], "success_count": 1, "error_count": 1, "total_count": 2}`,
	}
	for verb, body := range bodies {
		if _, err := nc.Subscribe(subjects.DefaultRoot.Requests(verb), func(m *nats.Msg) {
			if verb == subjects.VerbCall {
				exampleEvents(nc, m, body)
			}
			m.Respond([]byte(body))
		}); err != nil {
			log.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		log.Fatal(err)
	}
}

// exampleEvents publishes the entries of a batch as they settle.
func exampleEvents(nc *nats.Conn, m *nats.Msg, body string) {
	a, err := subjects.DefaultRoot.Parse(m.Subject)
	if err != nil {
		log.Fatal(err)
	}
	var r subjects.CallRequest
	var b subjects.BatchReply
	if json.Unmarshal(m.Data, &r) != nil || json.Unmarshal([]byte(body), &b) != nil {
		log.Fatal("not a call")
	}
	subject := subjects.DefaultRoot.Result(a.Tenant, a.Session, r.CallID)
	for _, e := range b.Results {
		publishEvent(nc, subject, strconv.Itoa(e.Index), subjects.EntryEvent{Event: subjects.EventEntry, CallID: r.CallID, EntryResult: e, Outcome: e.Outcome(), Attempts: 1, FinishedAt: time.Now()})
	}
	publishEvent(nc, subject, "summary", subjects.SummaryEvent{Event: subjects.EventSummary, CallID: r.CallID, BatchReply: b})
}

func publishEvent(nc *nats.Conn, subject, which string, v any) {
	p, err := subjects.Marshal(v)
	if err != nil {
		log.Fatal(err)
	}
	id := strings.TrimPrefix(subject, "toolsearch.v1.result.") + "." + which
	if err := nc.PublishMsg(&nats.Msg{Subject: subject, Header: nats.Header{nats.MsgIdHdr: {id}}, Data: p}); err != nil {
		log.Fatal(err)
	}
}
