// Package subjects is the wire contract: subjects, messages, service errors, headers, and the client that speaks them.
// Every other package and every program that talks to toolsearch takes its words from here.
//
// It is not a service: it answers nothing and decides nothing about tools. What a search finds is package catalog's,
// what a call does is package dispatch's.
//
// # Subjects
//
// A subject is <root>.<family>.<tenant>.<session>..., built by the methods of [Root] and taken apart by [Root.Parse];
// the two are inverse. A tenant, a session, a call or a host is a token (see [ValidToken]); [Token] turns any foreign
// id into one. Because the family stands at a fixed place, one permission line fences a session in:
//
//	publish   toolsearch.v1.req.acme.s1.*
//	publish   toolsearch.v1.stop.acme.s1, toolsearch.v1.stop.acme.s1.*
//	subscribe toolsearch.v1.result.acme.s1.*, _INBOX_acme.s1.>
//
// # Messages
//
// Each message is one Go type with its JSON names, and one JSON Schema (see [Schema]). A body that a model reads is
// written by [MarshalModel]. A mistake of the model is an ordinary reply, a [ToolError]; a fault of the request or of
// the service is an [Error] with a code of a closed set and travels in the headers of a NATS micro service error.
//
// # The client
//
//	nc, err := nats.Connect(url, subjects.ConnectOptions("acme", "s1")...)
//	client, err := subjects.NewClient(nc, subjects.ClientOptions{})
//	session := client.Session("acme", "s1")
//	seen, err := session.Assemble(ctx, &subjects.AssembleRequest{Tools: tools})
//	// give seen.Tools to the model; when it calls tool_search, hand the reply's Raw back to it:
//	found, err := session.Search(ctx, subjects.Handle(seen.Scope), subjects.ModelArguments(toolCall.Arguments))
//
// The client sets a deadline on every request, repeats what may be repeated with exponential backoff and jitter,
// assembles again when a scope has expired, and carries bodies over the server's max_payload through the object store
// (the claim check, [Bodies]) in both directions.
//
// # Invariants
//
//   - A reply's Raw is exactly what the runtime hands to its model; what is about the reply rides in headers.
//   - The definitions of an assemble request leave byte for byte as they were given: their bytes name the catalog.
//   - No text of an error holds a body, a header's value or a credential.
//   - A call is repeated only under its call_id, so nothing runs twice because of this client.
package subjects
