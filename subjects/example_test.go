package subjects_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"time"

	"toolsearch/subjects"
)

// A session's connection has an inbox of its own, and its client a deadline for everything.
func ExampleNewClient() {
	connect, stop := exampleBus()
	defer stop()

	nc := connect(subjects.ConnectOptions("acme", "session-1")...)
	defer nc.Close()
	client, err := subjects.NewClient(nc, subjects.ClientOptions{Timeout: 5 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	session := client.Session("acme", "session-1")
	fmt.Println(session.Tenant(), session.ID(), subjects.InboxPrefix("acme", "session-1"))
	// Output: acme session-1 _INBOX_acme.session-1
}

// The tools of a session go in; what its model should see comes out, and a scope for all that follows.
func ExampleSession_Assemble() {
	connect, stop := exampleBus()
	defer stop()
	nc := connect(subjects.ConnectOptions("acme", "session-1")...)
	defer nc.Close()
	client, err := subjects.NewClient(nc, subjects.ClientOptions{})
	if err != nil {
		log.Fatal(err)
	}

	window := int64(200_000)
	seen, err := client.Session("acme", "session-1").Assemble(context.Background(), &subjects.AssembleRequest{
		Tools:         json.RawMessage(`[{"toolset": "mcp-github", "tool": {"name": "mcp__github__create_issue", "description": "Opens a new issue."}}]`),
		ContextLength: &window,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(seen.DeferredCount, "tools are deferred, which saves", seen.DeferredTokens, "tokens")
	for _, definition := range seen.Tools {
		fmt.Println(string(definition))
	}
	// Output:
	// 44 tools are deferred, which saves 12345 tokens
	// {"name":"tool_search"}
	// {"name":"tool_describe"}
	// {"name":"tool_call"}
}

// What the model wrote to tool_search goes out as it is, and the reply's Raw goes back to it as it is.
func ExampleSession_Search() {
	connect, stop := exampleBus()
	defer stop()
	nc := connect(subjects.ConnectOptions("acme", "session-1")...)
	defer nc.Close()
	client, err := subjects.NewClient(nc, subjects.ClientOptions{})
	if err != nil {
		log.Fatal(err)
	}

	scope := subjects.Handle(subjects.Digest([]byte("scope"))) // of an assemble before
	written := `{"queries": ["create an issue"]}`
	found, err := client.Session("acme", "session-1").Search(context.Background(), scope, subjects.ModelArguments(written))
	if err != nil {
		log.Fatal(err)
	}
	if found.Mistake != nil {
		fmt.Println("the model will read:", found.Mistake)
	}
	for _, group := range found.Results {
		fmt.Println(group.Query, group.Matches)
	}
	fmt.Println(len(found.Raw), "bytes for the model")
	// Output:
	// create an issue [mcp__github__create_issue]
	// 284 bytes for the model
}

// A tool's full schema, loaded when the model asks for it.
func ExampleSession_Describe() {
	connect, stop := exampleBus()
	defer stop()
	nc := connect(subjects.ConnectOptions("acme", "session-1")...)
	defer nc.Close()
	client, err := subjects.NewClient(nc, subjects.ClientOptions{})
	if err != nil {
		log.Fatal(err)
	}

	scope := subjects.Handle(subjects.Digest([]byte("scope")))
	described, err := client.Session("acme", "session-1").Describe(context.Background(), scope, json.RawMessage(`{"names": ["mcp__github__create_issue"]}`))
	if err != nil {
		log.Fatal(err)
	}
	for _, tool := range described.Tools {
		fmt.Println(tool.Key, string(tool.Value.Parameters))
	}
	// Output: mcp__github__create_issue {"type": "object", "required": ["title"]}
}

// A batch: each entry is told as soon as it has settled, and the reply is what the model reads.
func ExampleSession_Call() {
	connect, stop := exampleBus()
	defer stop()
	nc := connect(subjects.ConnectOptions("acme", "session-1")...)
	defer nc.Close()
	client, err := subjects.NewClient(nc, subjects.ClientOptions{})
	if err != nil {
		log.Fatal(err)
	}

	called, err := client.Session("acme", "session-1").Call(context.Background(), subjects.CallRequest{
		Scope:     subjects.Handle(subjects.Digest([]byte("scope"))),
		CallID:    "turn-7-call-2",
		Arguments: json.RawMessage(`{"calls": [{"name": "connectors__gmail__SEND_EMAIL"}, {"name": "connectors__linear__CREATE_ISSUE"}]}`),
	}, func(e subjects.EntryEvent) {
		fmt.Println("settled:", e.Index, e.Name, e.Outcome)
	})
	if err != nil {
		log.Fatal(err)
	}
	switch {
	case called.Mistake != nil:
		fmt.Println("refused:", called.Mistake)
	case called.Caller != nil:
		fmt.Println("run it here:", called.Caller.Name)
	case called.Batch != nil:
		fmt.Println(called.Batch.SuccessCount, "of", called.Batch.TotalCount, "succeeded")
	}
	// Output:
	// settled: 0 connectors__gmail__SEND_EMAIL ok
	// settled: 1 connectors__linear__CREATE_ISSUE error
	// 1 of 2 succeeded
}

// The events of every call of a session. This loop ends with the first call's summary.
func ExampleSession_Watch() {
	connect, stop := exampleBus()
	defer stop()
	nc := connect(subjects.ConnectOptions("acme", "session-1")...)
	defer nc.Close()
	client, err := subjects.NewClient(nc, subjects.ClientOptions{})
	if err != nil {
		log.Fatal(err)
	}
	session := client.Session("acme", "session-1")

	events, err := session.Watch(context.Background(), subjects.WatchOptions{Call: "turn-7-call-2"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := session.Call(context.Background(), subjects.CallRequest{Scope: subjects.Handle("sha256:0"), CallID: "turn-7-call-2", Arguments: json.RawMessage(`{}`)}, nil); err != nil {
		log.Fatal(err)
	}
	for event, err := range events {
		switch {
		case err != nil:
			log.Fatal(err)
		case event.Entry != nil:
			fmt.Println(event.CallID, event.Entry.Index, event.Entry.Outcome)
		default:
			fmt.Println(event.CallID, "is done:", event.Summary.TotalCount, "entries")
		}
	}
	// Output:
	// turn-7-call-2 0 ok
	// turn-7-call-2 1 error
	// turn-7-call-2 is done: 2 entries
}

// A stop is stored by the server itself: it holds when no worker lives.
func ExampleSession_Stop() {
	connect, stop := exampleBus()
	defer stop()
	nc := connect(subjects.ConnectOptions("acme", "session-1")...)
	defer nc.Close()
	client, err := subjects.NewClient(nc, subjects.ClientOptions{})
	if err != nil {
		log.Fatal(err)
	}

	ack, err := client.Session("acme", "session-1").Stop(context.Background(), "user pressed stop")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("stored in", ack.Stream, "at", ack.Seq)
	// Output: stored in TOOLSEARCH_CALLS at 1
}

// A service error has a code of a closed set, and says whether the same request may succeed later.
func ExampleError() {
	var err error = &subjects.Error{Code: subjects.CodeOverloaded, Message: "the queue is full", RetryAfter: 200 * time.Millisecond}
	if errors.Is(err, &subjects.Error{Code: subjects.CodeOverloaded}) {
		fmt.Println(err)
	}
	var e *subjects.Error
	if errors.As(err, &e) {
		fmt.Println(e.Code.Number(), e.Retryable(), e.RetryAfter)
	}
	// Output:
	// toolsearch: OVERLOADED: the queue is full
	// 429 true 200ms
}

// Any id becomes a token of a subject.
func ExampleToken() {
	fmt.Println(subjects.Token("kanban_7"))
	fmt.Println(subjects.Token("ada@example.com"))
	fmt.Println(subjects.DefaultRoot.Request("acme", subjects.Token("ada@example.com"), subjects.VerbSearch))
	// Output:
	// kanban_7
	// b64-YWRhQGV4YW1wbGUuY29t
	// toolsearch.v1.req.acme.b64-YWRhQGV4YW1wbGUuY29t.search
}
