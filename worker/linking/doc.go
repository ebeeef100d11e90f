// Package linking keeps the operations of manage_connections in JetStream and drives them: it is the bus behind the
// watcher of package connectors.
//
// It decides nothing about an operation. Which states a target has and who may move it, what is read of the gateway and
// how often, is written in package connectors; here is where the record lies, how the card reaches the user's interface
// and its buttons come back, how a stop is heard, and how another worker goes on when one is gone.
//
//	ops, err := linking.New(js, nc, linking.Options{Layout: layout, Gateway: gateway})
//	if err != nil {
//		return err
//	}
//	if err := ops.Start(ctx); err != nil { // after storage.Ensure
//		return err
//	}
//	defer ops.Drain(shutdown)
//	settled, err := ops.Do(ctx, connectors.NewOperation(call, tenant, session, manage, surface, now)) // opens, or joins
//	body, err := subjects.MarshalModel(settled.Outcome())
//
// # What is recorded
//
// A watch is one span, link_accounts, under the request that opened the operation; after a takeover it is a trace of its
// own, linked to that request. Links, questions to hosts and cards have spans below it. The reads of the gateway have
// none; see package telemetry. [Options.Telemetry] counts, and [Options.Observer] is told after it.
//
// # Invariants
//
//   - A session has one record, that of its open or last operation. It is made and changed by compare-and-set alone, so
//     there is one open operation however many ask for one at the same time.
//   - The record is the truth. A button changes it at whichever worker hears of it; the watcher sees that in its watch.
//   - The record lies in the stream of stops. A stop that names the call always settles it; one of the session does so
//     if it was stored after the record.
//   - The worker that watches an operation writes the record every few seconds. Where that ends, or the worker hands it
//     back, another takes it over; a start that was on its way is not sent again.
//   - What a model is told never comes from a card, and a card never holds more than its session's operation.
//   - No span, metric or observer is given a link.
//   - An operation is counted once as settled, by the worker that had it then.
//   - [Operations.Drain] returns when no goroutine of this package is left.
package linking
