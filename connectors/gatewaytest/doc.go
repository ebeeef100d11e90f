// Package gatewaytest is a connector gateway in one process: a real HTTP server with every route of the gateway, apps
// with tools behind it, and a script of faults. Tests use it where a mock would hide what connections do; the
// command line runs it so that a laptop needs no account anywhere.
//
//	g, err := gatewaytest.Start(gatewaytest.Options{})
//	if err != nil { ... }
//	defer g.Close()
//	g.Fault(gatewaytest.Fault{Kind: gatewaytest.Drop, AfterEffect: true, Times: 1}) // the first effect's answer is lost
//	origin, _ := connectors.ParseOrigin(g.URL())
//	...
//	g.Effects() // what really happened, in order
//
// # What it keeps
//
//   - Effects: every run of a tool that changes something, in order, with its idempotency key.
//   - An idempotency store per tenant: the same key and body and finished gets the stored answer; still running, or
//     another body, is a 409. An effect goes on when its client has gone.
//   - A record of every request, the newest [Options.Keep] of them.
//   - Which accounts of a tenant are linked. A connection start makes a link; opening it links the account.
//
// # What it is not
//
// It is no model of any real service: its apps are invented, its search is word overlap, its data lives in memory.
// It checks that a bearer token is there and known, and nothing more; do not show it to a network.
package gatewaytest
