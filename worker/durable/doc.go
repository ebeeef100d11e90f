// Package durable keeps accepted calls in JetStream and runs them: it is the bus behind the interfaces of dispatch.
//
// It decides nothing about a call. What may be sent, in which order things settle and what a stop covers is written in
// package dispatch; here is how records, jobs, events, stops, hooks and hosts lie on the bus. It answers no requests
// either: the worker's call endpoint does, with this.
//
//	calls, err := durable.New(js, nc, durable.Options{Layout: layout, Connectors: gateway})
//	if err != nil {
//		return err
//	}
//	if err := calls.Start(ctx); err != nil { // after storage.Ensure
//		return err
//	}
//	defer calls.Drain(shutdown)
//	reply, err := calls.Do(ctx, dispatch.Call{Key: key, Payload: payload}) // accept, or attach, and wait
//	body, err := reply.MarshalModel()
//
// A call with Toolsearch-Async takes [Calls.Accept] alone and is answered as soon as that returns. Errors of both are
// *subjects.Error, or the caller's own context's.
//
// # What lies where
//
//   - KV_TOOLSEARCH_CALLS holds the record of each call and every stop, so that one sequence orders the two. Reads go
//     to its leader. Each write of a record carries the header Toolsearch-Call-State.
//   - TOOLSEARCH_JOBS is the work queue, with one durable consumer for each tenant. Whoever accepts a call makes the
//     consumer; workers with a free place ask the tenants in turn, for one job at a time.
//   - TOOLSEARCH_RESULTS holds the events, TOOLSEARCH_DEAD the jobs that were given up.
//
// # Invariants
//
//   - One watch per worker sees the headers of all records and stops, in order and without a gap. A call is registered
//     with it before the stops that came earlier are read, and nothing is sent before the watch has come to the mark
//     that says so. When the watch starts anew, the stops of each registered call are read again first.
//   - A job is only taken with a place to run it, and taken off the queue only when its summary is recorded and
//     published. While it runs, the queue hears of it every third of AckWait.
//   - A wake-up may be missed: once a second the queue is looked at by subject. A waiting caller's record is read when
//     the watch tells of it, and every ten seconds in any case.
//   - [Calls.Drain] returns when no goroutine of this package is left.
package durable
