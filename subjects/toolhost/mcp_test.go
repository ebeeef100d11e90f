package toolhost_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"toolsearch/subjects/toolhost"
)

type issue struct {
	Title string `json:"title"`
}

// connectMCP runs an MCP server in this process and gives a session of it.
func connectMCP(t testing.TB, register func(*mcp.Server)) *mcp.ClientSession {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "tracker", Version: "1.0.0"}, nil)
	register(server)
	near, far := mcp.NewInMemoryTransports()
	ss, err := server.Connect(context.Background(), far, nil)
	if err != nil {
		t.Fatal(err)
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1.0.0"}, nil).Connect(context.Background(), near, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close(); ss.Wait() })
	return session
}

func TestFromMCP(t *testing.T) {
	t.Parallel()
	b := setup(t)
	session := connectMCP(t, func(s *mcp.Server) {
		mcp.AddTool(s, &mcp.Tool{Name: "create_issue", Description: "Opens an <issue>."}, func(_ context.Context, _ *mcp.CallToolRequest, in issue) (*mcp.CallToolResult, any, error) {
			if in.Title == "" {
				return nil, nil, errors.New("a title is needed")
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "opened " + in.Title}}}, nil, nil
		})
		mcp.AddTool(s, &mcp.Tool{Name: "list"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, map[string]int, error) {
			return nil, map[string]int{"open": 3}, nil
		})
	})
	tools, err := toolhost.FromMCP(inTime(t), session, toolhost.MCPOptions{Server: "tracker", Parallel: true})
	if err != nil {
		t.Fatal(err)
	}
	h := b.serve(toolhost.Options{}, tools...)
	var names []string
	for _, d := range h.Definitions() {
		var def struct {
			Name        string
			Description string
			InputSchema map[string]any
		}
		if err := json.Unmarshal(d.Tool, &def); err != nil {
			t.Fatal(err)
		}
		names = append(names, def.Name)
		if d.Toolset != "mcp-tracker" || !d.Parallel || def.InputSchema["type"] != "object" {
			t.Errorf("definition %s of %s", d.Tool, d.Toolset)
		}
	}
	slices.Sort(names)
	if want := []string{"mcp__tracker__create_issue", "mcp__tracker__list"}; !slices.Equal(names, want) {
		t.Errorf("tools %v, want %v", names, want)
	}
	if got := b.call("k1", "mcp__tracker__create_issue", `{"title": "x"}`); !strings.Contains(string(got.Result), `"text":"opened x"`) {
		t.Errorf("got %s %v", got.Result, got.Error)
	}
	if got := b.call("k2", "mcp__tracker__list", `{}`); !strings.Contains(string(got.Result), `"structuredContent":{"open":3}`) {
		t.Errorf("got %s %v", got.Result, got.Error)
	}
	if got := b.call("k3", "mcp__tracker__create_issue", `{"title": ""}`); code(got) != "TOOL_ERROR" || got.Error.Message != "a title is needed" {
		t.Errorf("got %s %v", got.Result, got.Error)
	}
	for _, o := range []toolhost.MCPOptions{{}, {Server: "a.b"}} {
		if _, err := toolhost.FromMCP(inTime(t), session, o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
	if _, err := toolhost.FromMCP(inTime(t), nil, toolhost.MCPOptions{Server: "x"}); err == nil {
		t.Error("made without a session")
	}
}
