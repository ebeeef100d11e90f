// Package worker puts the parts on the bus: the micro service and its endpoints, admission, caches over what storage
// keeps, and a life from the first attempt to connect to the last flushed reply.
//
// It decides nothing about tools. What an assemble shows and a search finds is package catalog's, what a call does is
// package dispatch's, what goes over the wire is package subjects'.
//
//	nc, err := worker.Connect(ctx, worker.ConnectOptions{URLs: []string{"nats://127.0.0.1:4222"}})
//	if err != nil {
//		return err
//	}
//	w, err := worker.New(nc, worker.Options{Logger: log})
//	if err != nil {
//		return err
//	}
//	if err := w.Start(ctx); err != nil {
//		return err
//	}
//	<-w.Ready()
//	<-ctx.Done()
//	return w.Drain(context.Background())
//
// # A request's way
//
//	subscription  subject parsed; no subject of the contract: BAD_REQUEST
//	admission     pool full or the tenant's share taken: OVERLOADED, with a hint when to come back
//	place         deadline passed meanwhile: DEADLINE_EXCEEDED
//	body          claim check, UTF-8, JSON: TOO_LARGE, BAD_REQUEST
//	handler       scope opened, owner compared, answer made
//	reply         claim check if it is over max_payload, sent once
//
// The endpoint connections opens or joins an operation and waits for its end; answer, operation, accounts and disconnect
// are a user's interface's alone, under subjects that no runtime may use. See package worker/linking.
//
// # What holds
//
//   - Every request that reaches a worker is answered once: by its handler, by admission, or by the drain.
//   - A worker keeps no session. What it knows of a scope it read from the blob of that name, or put there itself.
//   - A handle opens only for the tenant and the session that it was made for.
//   - A cache is bounded in bytes and filled once per key; a caller who leaves ends nothing that others wait for; what
//     failed is not kept; an entry ends with its blob.
//   - A tenant never holds the last free place, running or waiting.
//   - A handler that panics costs its own request INTERNAL and nothing else.
package worker
