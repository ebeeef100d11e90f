// Package dispatch decides what becomes of a tool_call and carries it out.
//
// # The front half
//
// What a model wrote is untrusted and often almost right. The front half reads it, repairs what can be repaired, and
// answers everything else at once, before anything was sent anywhere. It is pure: no clock, no network, no goroutine.
//
//	plan, err := dispatch.Resolve(scope, arguments)
//	switch {
//	case err != nil: // *subjects.ToolError or *Refusal: hand it to the model; *subjects.Error: the runtime's fault
//	case plan.Kind == dispatch.Caller: // reply with plan.Reply; the runtime runs the tool under its own name
//	default: // Host, Connectors: run plan.Entries in order
//	}
//
// The steps can be used alone: [Normalise] reads the shapes that models send, [Coerce] repairs arguments, [Validate]
// repairs and checks them, which a policy hook that rewrote them asks for, and [Peek] is the view of a planner.
//
// What holds:
//
//   - Arguments are canonical from the first step on: valid, one object, unique keys, no deeper than [MaxDepth]. What is
//     validated is what is sent.
//   - What nobody asked to change stays byte for byte: the order of keys, and every digit of a number.
//   - A check that cannot be made lets the call go ahead: no schema, a broken one, one that refers outside itself, has
//     patterns or sizes that cannot be used in sane time, or makes the library fail. [Checked] says so, for a log.
//     Nothing is ever fetched.
//   - One failure is told, always the same one for the same schema and arguments, whatever the library's order: the
//     shallowest place; anyOf and oneOf after other keywords; the place that comes first; the keyword that comes first
//     in the schema. Of the branches of an anyOf or oneOf the deepest failure is told if it is ahead of all others.
//   - Compiled schemas are kept by the content of their text, within a bound of bytes, for all tenants together.
package dispatch
