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
//   - The accounts of each tenant. A connection start makes a link to a consent page, where a user (or [Consent], as one)
//     allows it or not; [Gateway.SetAccount] gives an account any other status.
//   - With [StartPortal], the account-management service of the same accounts: list, disconnect with its audit, rename.
//
// # What it is not
//
// It is no model of any real service: its apps are invented, its search is word overlap, its data lives in memory.
// It checks that a bearer token is there and known, and nothing more; do not show it to a network.
package gatewaytest
