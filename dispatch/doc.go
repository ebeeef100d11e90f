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
//
// # The durable half
//
// What this system itself executes is first made durable: [Acceptor] writes the call's [Record] and queues its [Job]. A
// [Runner] takes the job and, entry by entry and in order, checks for a stop and the deadline, asks the policy hook,
// marks the entry started, makes sure that no stop came before the mark, sends, settles and publishes. [ReadReply] makes
// the answer from the record, on whichever worker; [Reopener] lets an operator try again what was given up. How an entry
// may move is one table; [State] shows it as a picture.
//
// It knows no bus: records, jobs, events, stops, hooks and hosts are behind the small interfaces of interfaces.go, which
// package worker/durable keeps in JetStream.
//
//	ticket, err := acceptor.Accept(ctx, dispatch.Call{Key: key, Payload: dispatch.NewPayload(plan, scope, deadline)})
//	verdict := runner.Run(ctx, drain, delivery) // by whoever has a place for it
//	reply, done, err := dispatch.ReadReply(ctx, records, bodies, ticket.Key)
//
// What holds:
//
//   - Every write of a record is compare-and-set. After one that failed or was not answered the record is read at the
//     leader: its own write stands, or the old one does and it writes again, or another runner has the call, and then it
//     sends and publishes nothing more.
//   - "started" means may have been sent. INTERRUPTED is said only of what certainly was not; so a stop never hides an effect.
//   - A stop that was acknowledged before an entry's mark keeps it from being sent: the runner waits until the watch has
//     come to the mark. Where the watch does not, the mark is taken back and the job handed back.
//   - An entry has one key for each slug, whoever sends it and however often. A successor repeats what it finds started,
//     with the arguments of the mark, and the policy hook is not asked twice.
//   - Settling goes: bodies, record, events in order of index, summary, record as published, job off the queue. Whoever
//     finds less does the rest again from the record.
//   - A runner that is gone when its job is picked up again counts as a takeover, one that handed back does not. Beyond
//     the bound nothing runs, and the job is kept for an operator.
package dispatch
