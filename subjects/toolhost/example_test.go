package toolhost_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"toolsearch/subjects"
	"toolsearch/subjects/toolhost"
)

// exampleConn is a connection to a bus in this process.
func exampleConn() (nc *nats.Conn, stop func()) {
	dir, err := os.MkdirTemp("", "toolhost-example")
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
	nc, err = nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		log.Fatal(err)
	}
	return nc, func() {
		nc.Close()
		s.Shutdown()
		s.WaitForShutdown()
		os.RemoveAll(dir)
	}
}

// ask sends a call as a worker does.
func ask(nc *nats.Conn, key, name, arguments string) string {
	p, err := subjects.Marshal(subjects.HostRequest{
		CallID: "turn-7-call-2", Name: name, Arguments: json.RawMessage(arguments), IdempotencyKey: key, Deadline: time.Now().Add(time.Minute),
	})
	if err != nil {
		log.Fatal(err)
	}
	m, err := nc.Request(subjects.DefaultRoot.Host("acme", "tools-1", subjects.HostCall), p, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	return string(m.Data)
}

// A host of one tool. A repeat under the same key gets the same answer, and the tool does not run again.
func ExampleServe() {
	nc, stop := exampleConn()
	defer stop()

	runs := 0
	host, err := toolhost.Serve(nc, toolhost.Options{Tenant: "acme", Host: "tools-1"}, toolhost.Tool{
		Toolset:    "mcp-clock",
		Definition: json.RawMessage(`{"name": "greet", "description": "Greets somebody.", "parameters": {"type": "object"}}`),
		Run: func(_ context.Context, r toolhost.Request) (any, error) {
			var a struct{ Name string }
			if err := json.Unmarshal(r.Arguments, &a); err != nil {
				return nil, err
			}
			if a.Name == "" {
				return nil, &toolhost.Error{Code: subjects.EntryToolError, Message: "nobody to greet; give a name"}
			}
			runs++
			return map[string]any{"text": "Hello, " + a.Name, "runs": runs}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer host.Stop(context.Background())

	fmt.Println(ask(nc, "key-1", "greet", `{"name": "Ada"}`))
	fmt.Println(ask(nc, "key-1", "greet", `{"name": "Ada"}`))
	fmt.Println(ask(nc, "key-2", "greet", `{}`))
	// Output:
	// {"result":{"runs":1,"text":"Hello, Ada"}}
	// {"result":{"runs":1,"text":"Hello, Ada"}}
	// {"error":{"code":"TOOL_ERROR","message":"nobody to greet; give a name"}}
}

// A real MCP server behind the bus. Here it runs in this process; a server that is a program is connected with
// mcp.CommandTransport and everything else stays the same.
func ExampleFromMCP() {
	nc, stop := exampleConn()
	defer stop()

	server := mcp.NewServer(&mcp.Implementation{Name: "tracker", Version: "1.0.0"}, nil)
	type issue struct {
		Title string `json:"title" jsonschema:"what it is about"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "create_issue", Description: "Opens an issue."},
		func(_ context.Context, _ *mcp.CallToolRequest, in issue) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "opened: " + in.Title}}}, nil, nil
		})
	ctx := context.Background()
	near, far := mcp.NewInMemoryTransports()
	running, err := server.Connect(ctx, far, nil)
	if err != nil {
		log.Fatal(err)
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "tools-1", Version: "1.0.0"}, nil).Connect(ctx, near, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer running.Wait()
	defer session.Close()

	tools, err := toolhost.FromMCP(ctx, session, toolhost.MCPOptions{Server: "tracker"})
	if err != nil {
		log.Fatal(err)
	}
	host, err := toolhost.Serve(nc, toolhost.Options{Tenant: "acme", Host: "tools-1"}, tools...)
	if err != nil {
		log.Fatal(err)
	}
	defer host.Stop(ctx)

	for _, t := range host.Definitions() {
		fmt.Println(t.Host, "runs the tools of", t.Toolset)
	}
	fmt.Println(ask(nc, "key-1", "mcp__tracker__create_issue", `{"title": "the door squeaks"}`))
	// Output:
	// tools-1 runs the tools of mcp-tracker
	// {"result":{"content":[{"type":"text","text":"opened: the door squeaks"}]}}
}
