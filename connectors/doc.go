// Package connectors is the gateway behind the names that begin with connectors__: remote apps, such as mail or an
// issue tracker, that an HTTP service runs on behalf of a tenant's linked accounts.
//
// It finds their tools beside the local search, describes them, and runs one entry of a batch at a time. It is not the
// batch itself: package dispatch keeps calls durable, orders the entries and stops them. It knows neither NATS nor a
// session; a tenant is all it takes.
//
//	origin, err := connectors.ParseOrigin("https://gateway.example.org")
//	client, err := connectors.NewClient(connectors.ClientOptions{Origin: origin, Tokens: connectors.Dir("/run/tokens")})
//	gateway, err := connectors.NewGateway(client, connectors.GatewayOptions{})
//	defer gateway.Close()
//
//	remote := gateway.Search(ctx, "acme", []string{"send an email"}) // nil: connectors are invisible
//	reply := scope.Search(query, remote)
//
// # Names and slugs
//
// A model writes connectors__<connector>__<tool>. A gateway knows tools by slug, mostly the connector in capitals and
// the tool, MAIL_SEND_EMAIL, and sometimes the tool alone. So each name stands for two slugs, tried in that order
// ([Name.Slugs]); only the gateway's own TOOL_NOT_FOUND leads from the first to the second.
//
// # Visible and invisible
//
// Switched off, signed out, no gateway configured, or a gateway that answers 404: connectors do not exist, and every
// answer is as if they never had. Any other failure costs local results nothing and is told in a condition beside
// them ([FailureOf]). There is no built-in gateway; nothing leaves a machine that was not told where to.
//
// # What is sent again
//
//	route        bound   attempts  again after
//	search       30 s    1         -
//	schemas      10 s    2         no answer, 5xx
//	execute      60 s    8         no answer, 5xx, 429
//	connections  30 s    1         -
//	list         30 s    2         no answer, 5xx (for each page)
//	account      30 s    1         -
//
// Between attempts lies an exponential wait with jitter, or what a 429 asks for. Every attempt of an execute request
// carries the same idempotency key and a token that was read anew.
//
// # What is told of an effect
//
// A request that was given to a connection may have taken effect, whatever became of the connection. An entry is told
// as failed only where an answer says so, or where nothing can have been sent; everything else is OUTCOME_UNKNOWN.
// [Gateway.Execute] has the rules in full.
//
// # Connections
//
// manage_connections is read by [ParseManage], which refuses what cannot be done with the call that can. status is
// answered by [Gateway.Status]. What starts a connection is an [Operation]: a record whose targets move along one table
// of states (operation_state.go draws it), driven by a [Watcher] that asks for links once and then reads the gateway
// until each app is connected, skipped or failed, or the deadline has come. Where operations lie, and how another
// worker goes on with one, is package worker/linking's. A user's accounts are package connectors/portal's.
//
// # Invariants
//
//   - A token goes to the configured origin (scheme, host and port) and nowhere else; no redirect is followed. It is in
//     no error, log, result or event, not even where the gateway sends it back.
//   - An answer is read to at most [ClientOptions.MaxAnswer] bytes, and believed as far as its shape holds: one
//     malformed element of a search costs that element, one malformed row of an execute costs the answer.
//   - A dead gateway costs a tenant's searches a few timeouts and then nothing, until it answers again.
//   - Equal searches of a tenant at the same time are one request; a caller that leaves takes nothing from the others.
//   - No goroutine outlives [Gateway.Close].
package connectors
