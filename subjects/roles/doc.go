// Package roles says who may publish and subscribe what on the bus: one table, from which the server's configuration,
// the templates of scoped signing keys and the tests are made, so that they cannot differ.
//
// It is not the server's authorization and holds no password, key or connection; it only writes subjects.
//
//	p, err := roles.Runtime.Permissions(roles.Names{Tenant: "acme", Session: "desktop-1"})
//	// p.Publish:   toolsearch.v1.req.acme.desktop-1.*, toolsearch.v1.stop.acme.desktop-1, ...
//	// p.Subscribe: toolsearch.v1.result.acme.desktop-1.*, _INBOX_acme.desktop-1.>, ...
//
// # Three accounts
//
// Runtimes and orchestrators live in the account [Clients], users' interfaces in [Interfaces]; workers, tool hosts,
// operators and JetStream live in [Service]. [Crossings] lists what passes between them. One account would not do, however
// narrow its permissions: a message names the subject of its reply, whoever answers publishes there with rights of its
// own, and JetStream's acknowledgement of a permitted stop could so be sent to another session's stop, or over a journal
// record. Between accounts the server replaces the reply's subject by one of its own, and what comes back stays in the
// account that asked.
//
// # Invariants
//
//   - No list that a runtime or an orchestrator gets holds a wildcard in place of its tenant, nor a runtime's in place of
//     its session. Names are tokens, or templates of one tag; anything else is an error.
//   - By default no runtime, orchestrator or host may use JetStream's API. [Names.Bodies] opens the body bucket of the one
//     tenant, and nothing else.
package roles
