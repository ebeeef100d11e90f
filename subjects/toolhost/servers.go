package toolhost

import (
	"context"
	"encoding/json"

	"toolsearch/subjects"
)

// manageConnections is the name under which a host is asked to work on a local MCP server. The host's list does not
// hold it: it is announced by local_servers.
const manageConnections = "manage_connections"

// Servers works on one of the MCP servers of the host's machine. action is install, enable or authorize, or status: how
// the server stands after an earlier answer was [subjects.ConnectionInitiated]. ctx ends when nobody waits any more.
//
// A failure is an answer with [subjects.ConnectionFailed] and its reason, or an error whose text the model reads.
type Servers func(ctx context.Context, action, server string, r Request) (ServerState, error)

// ServerState is how a local server stands.
type ServerState struct {
	// State is connected, initiated (a link waits for the user) or failed.
	State  subjects.ConnectionState `json:"state"`
	Detail string                   `json:"detail,omitempty"`
	// ConnectURL is where the user authorizes, with initiated.
	ConnectURL string `json:"connect_url,omitempty"`
	// Tools is what the server brought, in any form; the model is shown it.
	Tools json.RawMessage `json:"tools,omitempty"`
}

// run is the handler of manage_connections.
func (s Servers) run(ctx context.Context, r Request) (any, error) {
	var a subjects.ConnectionsArguments
	if err := json.Unmarshal(r.Arguments, &a); err != nil || len(a.Connectors) != 1 || !a.Connectors[0].MCP {
		return nil, &Error{Code: subjects.EntryToolError, Message: "the host takes one local server at a time; nothing was done"}
	}
	return s(ctx, a.Action, a.Connectors[0].Name, r)
}
