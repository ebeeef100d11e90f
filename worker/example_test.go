package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"slices"

	"github.com/nats-io/nats.go"

	"toolsearch/subjects"
	"toolsearch/worker"
	"toolsearch/worker/embedded"
)

// mailTools are what a session was granted: one tool of its own and a mail server's.
const mailTools = `[
  {"tool": {"name": "remember", "description": "Keep a note.", "parameters": {"type": "object"}}},
  {"toolset": "mcp-mail", "tool": {"name": "mcp__mail__send", "description": "Send a message to somebody.",
    "parameters": {"type": "object", "properties": {"to": {"type": "string"}, "text": {"type": "string"}}, "required": ["to"]}}},
  {"toolset": "mcp-mail", "tool": {"name": "mcp__mail__find", "description": "Find messages that hold a text.",
    "parameters": {"type": "object", "properties": {"text": {"type": "string"}}}}}
]`

// startWorker runs a bus and a worker on it. stop ends both.
func startWorker() (bus *embedded.Server, w *worker.Worker, stop func()) {
	ctx := context.Background()
	bus, err := embedded.Start(embedded.Options{})
	if err != nil {
		log.Fatal(err)
	}
	nc, err := worker.Connect(ctx, worker.ConnectOptions{URLs: []string{bus.ClientURL()}})
	if err != nil {
		log.Fatal(err)
	}
	w, err = worker.New(nc, worker.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Start(ctx); err != nil {
		log.Fatal(err)
	}
	<-w.Ready()
	return bus, w, func() {
		if err := w.Drain(ctx); err != nil {
			log.Print(err)
		}
		bus.Shutdown()
	}
}

// runtime is the client of one session, as an agent runtime holds it.
func runtime(bus *embedded.Server) (session *subjects.Session, closeConn func()) {
	nc, err := nats.Connect(bus.ClientURL(), subjects.ConnectOptions("acme", "session-1")...)
	if err != nil {
		log.Fatal(err)
	}
	client, err := subjects.NewClient(nc, subjects.ClientOptions{})
	if err != nil {
		log.Fatal(err)
	}
	return client.Session("acme", "session-1"), nc.Close
}

// A runtime hands in the tools of its session and gets those that its model should see.
func Example_assemble() {
	bus, _, stop := startWorker()
	defer stop()
	session, hangUp := runtime(bus)
	defer hangUp()

	seen, err := session.Assemble(context.Background(), &subjects.AssembleRequest{Tools: json.RawMessage(mailTools)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("deferred:", seen.DeferredCount, "tier:", seen.Tier)
	for _, definition := range seen.Tools {
		var d struct {
			Name     string
			Function struct{ Name string }
		}
		if err := json.Unmarshal(definition, &d); err != nil {
			log.Fatal(err)
		}
		fmt.Println(d.Name + d.Function.Name)
	}
	// Output:
	// deferred: 2 tier: 1
	// remember
	// tool_search
	// tool_describe
	// tool_call
}

// When the model calls tool_search, its arguments go to the worker as they are, and Raw goes back to it.
func Example_search() {
	bus, _, stop := startWorker()
	defer stop()
	session, hangUp := runtime(bus)
	defer hangUp()
	ctx := context.Background()
	seen, err := session.Assemble(ctx, &subjects.AssembleRequest{Tools: json.RawMessage(mailTools)})
	if err != nil {
		log.Fatal(err)
	}

	found, err := session.Search(ctx, subjects.Handle(seen.Scope), json.RawMessage(`{"queries": ["send message"]}`))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(found.Results[0].Matches)
	fmt.Println(string(found.Raw))
	// Output:
	// [mcp__mail__send]
	// {"queries": ["send message"], "total_available": 2, "results": [{"query": "send message", "matches": ["mcp__mail__send"]}], "tools": {"mcp__mail__send": {"source": "mcp", "source_name": "mcp-mail", "description": "Send a message to somebody.", "required": ["to"]}}}
}

// tool_describe loads the schema of a tool that was found.
func Example_describe() {
	bus, _, stop := startWorker()
	defer stop()
	session, hangUp := runtime(bus)
	defer hangUp()
	ctx := context.Background()
	seen, err := session.Assemble(ctx, &subjects.AssembleRequest{Tools: json.RawMessage(mailTools)})
	if err != nil {
		log.Fatal(err)
	}

	described, err := session.Describe(ctx, subjects.Handle(seen.Scope), json.RawMessage(`{"names": ["mcp__mail__send"]}`))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(described.Raw))
	// Output:
	// {"tools": {"mcp__mail__send": {"description": "Send a message to somebody.", "parameters": {"type": "object", "properties": {"to": {"type": "string"}, "text": {"type": "string"}}, "required": ["to"]}}}}
}

// A worker is told to end: it answers what reached it, leaves the bus and closes its connection. Who asks after that
// finds another worker, or, as here, nobody.
func ExampleWorker_Drain() {
	bus, w, stop := startWorker()
	defer stop()
	session, hangUp := runtime(bus)
	defer hangUp()
	ctx := context.Background()
	seen, err := session.Assemble(ctx, &subjects.AssembleRequest{Tools: json.RawMessage(mailTools)})
	if err != nil {
		log.Fatal(err)
	}

	if err := w.Drain(ctx); err != nil {
		log.Fatal(err)
	}
	health := w.Health()
	fmt.Println("ready:", health.Ready, slices.Contains(health.Problems, "the worker is shutting down"))

	nc, err := nats.Connect(bus.ClientURL())
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
	client, err := subjects.NewClient(nc, subjects.ClientOptions{Retries: -1})
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.Session("acme", "session-1").Search(ctx, subjects.Handle(seen.Scope), json.RawMessage(`{"queries": ["send"]}`))
	fmt.Println("unavailable:", errors.Is(err, &subjects.Error{Code: subjects.CodeUnavailable}))
	// Output:
	// ready: false true
	// unavailable: true
}
