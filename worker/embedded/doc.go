// Package embedded runs a NATS server with JetStream inside this process, for a laptop, a demo and tests.
//
// It is not a way to run a bus for many machines: it never joins a cluster, listens on the loopback address unless it
// is told otherwise, and knows no accounts or users. A shared installation brings its own NATS.
//
//	bus, err := embedded.Start(embedded.Options{})
//	if err != nil {
//		return err
//	}
//	defer bus.Shutdown()
//	nc, err := nats.Connect(bus.ClientURL(), bus.InProcess())
//
// What holds:
//   - [Start] returns a server that answers, or an error that says what to do and leaves nothing behind.
//   - A folder belongs to one server at a time; a second one is refused, since two would corrupt the streams in it.
//   - A folder that the caller named is kept; one that Start made is removed by [Server.Shutdown].
//   - Shutdown blocks until the streams are closed, and may be called more than once.
package embedded
