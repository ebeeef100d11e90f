// Package demo shows the whole thing working, to a person: one turn of an agent over a bus, with a worker, a gateway
// stand-in and the sample catalog, all on this machine.
//
// It is a show and not a test, but it checks what it says: where a figure or an outcome is not what the text claims, it
// ends with an error. What is printed is the product's own requests, replies and events; nothing is staged but the
// model, whose arguments are written down here.
//
//	err := demo.Run(ctx, demo.Options{Out: screen.New(os.Stdout, os.Environ), Worker: []string{exe, "worker"}})
//
// The scenes are in turn.go (assemble, search, describe, one call repaired, one refused) and batch.go (a batch that is
// stopped, a batch whose worker is killed).
//
// Invariants: it ends by itself within seconds, or with its context; it leaves no process, file or port behind.
package demo
