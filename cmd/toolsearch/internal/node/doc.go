// Package node is one worker as a process runs it: the worker, the gateway behind its connectors, and where no bus is
// named, a NATS server of its own.
//
// It holds no behaviour: it turns settings into the options of those packages, starts them in order and ends them in
// the opposite one. The verb worker runs one; demo and bench run theirs.
//
//	n, err := node.Start(ctx, settings, logger)
//	if err != nil {
//		return err
//	}
//	<-n.Ready()
//	...
//	err = n.Drain(ctx) // what has begun finishes, then connections and the server end
//
// Invariants: Start leaves nothing behind when it fails; Drain is idempotent and blocks until everything has ended.
package node
