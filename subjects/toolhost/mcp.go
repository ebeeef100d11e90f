package toolhost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"toolsearch/subjects"
)

// MCPOptions says how the tools of an MCP server are named on the bus. Server is required.
type MCPOptions struct {
	// Server is the server's name: its tools are called mcp__<server>__<tool> and are of the toolset mcp-<server>.
	Server string
	// Parallel allows calls of its tools side by side.
	Parallel bool
}

// FromMCP makes tools of an MCP server that session is connected to. The session stays the caller's; close it after
// the host has stopped. The result of a tool is the content and structuredContent of the server's tools/call result,
// without what is the protocol's; a result that says isError becomes TOOL_ERROR with its text.
func FromMCP(ctx context.Context, session *mcp.ClientSession, o MCPOptions) ([]Tool, error) {
	if session == nil {
		return nil, errors.New("toolhost: FromMCP needs a session")
	}
	if !subjects.ValidToken(o.Server) {
		return nil, fmt.Errorf("toolhost: MCPOptions.Server %q is no token; see subjects.Token", o.Server)
	}
	var tools []Tool
	for t, err := range session.Tools(ctx, nil) {
		if err != nil {
			return nil, fmt.Errorf("toolhost: tools of MCP server %s: %w", o.Server, err)
		}
		name, named := t.Name, *t
		named.Name = "mcp__" + o.Server + "__" + name
		definition, err := subjects.Marshal(&named)
		if err != nil {
			return nil, fmt.Errorf("toolhost: definition of MCP tool %s: %w", name, err)
		}
		tools = append(tools, Tool{Definition: definition, Toolset: "mcp-" + o.Server, Parallel: o.Parallel, Run: callMCP(session, name)})
	}
	return tools, nil
}

func callMCP(session *mcp.ClientSession, name string) Handler {
	return func(ctx context.Context, r Request) (any, error) {
		out, err := session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(r.Arguments)})
		if err != nil {
			return nil, err
		}
		if out.IsError {
			return nil, &Error{Code: subjects.EntryToolError, Message: contentText(out)}
		}
		if out.Content == nil && out.StructuredContent == nil {
			return nil, errors.New("the MCP server answered without content")
		}
		return mcpResult{out.Content, out.StructuredContent}, nil
	}
}

// mcpResult is what a model reads of a tools/call result.
type mcpResult struct {
	Content           []mcp.Content `json:"content"`
	StructuredContent any           `json:"structuredContent,omitempty"`
}

// contentText is what a failed tool says, for the model.
func contentText(r *mcp.CallToolResult) string {
	var parts []string
	for _, c := range r.Content {
		if t, ok := c.(*mcp.TextContent); ok && t.Text != "" {
			parts = append(parts, t.Text)
		}
	}
	if len(parts) == 0 {
		return "the tool failed and said nothing more"
	}
	return strings.Join(parts, "\n")
}
