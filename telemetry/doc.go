// Package telemetry is the room for traces, metrics and logs, and for how their context crosses the bus.
//
// It is a leaf of the house: every package may import it and it imports none of them. Exporters and instruments are
// not built yet. What the other packages already keep to, so that they fit when they come:
//
//   - trace context travels in the headers traceparent and tracestate, written in lower case and read in any, and is
//     copied to every message that follows from another (see package subjects);
//   - logs go through an injected *slog.Logger with constant messages and snake_case keys;
//   - what is worth counting is offered at the seams: the endpoint statistics of package worker and the observers of
//     package connectors.
package telemetry
