// Package toolhost is what a tool host is written with: a process that runs tools on behalf of others, on the bus.
// Definitions that name the host are run by it when a model calls them; see [Host.Definitions].
//
// It is not a tool runtime: it starts no process, sandboxes nothing and checks no arguments. A call that arrives here
// was granted, validated and coerced by a worker before.
//
//	host, err := toolhost.Serve(nc, toolhost.Options{Tenant: "acme", Host: "clock"}, toolhost.Tool{
//		Toolset:    "mcp-clock",
//		Definition: json.RawMessage(`{"name": "clock_now", "description": "Tells the time.", "parameters": {"type": "object"}}`),
//		Run: func(ctx context.Context, r toolhost.Request) (any, error) {
//			return map[string]string{"now": time.Now().Format(time.RFC3339)}, nil
//		},
//	})
//	defer host.Stop(context.Background())
//
// [FromMCP] makes tools of an MCP server.
//
// # Invariants
//
//   - One idempotency key has one effect and one answer for a day: a repeat gets the stored answer, a repeat that comes
//     while the first one runs waits for it, another payload under the same key is refused. Within one process this
//     holds up to [Options.MaxKeys]; with [Options.Keys] it holds across restarts and all instances of a host.
//   - Where an answer was lost (its process died, or memory ran out) the key is not run again: OUTCOME_UNKNOWN says so.
//   - A tool gets a context that ends at the request's deadline. A request whose deadline passed is not begun.
//   - A tool that panics answers with TOOL_ERROR; the host goes on.
//   - Tools that are not Parallel run one at a time; nothing waits in a queue without a bound.
//   - [Host.Stop] answers what was accepted, then returns; nothing of the host outlives it.
package toolhost
