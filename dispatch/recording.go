package dispatch

import (
	"context"
	"time"

	"toolsearch/connectors"
	"toolsearch/subjects"
	"toolsearch/telemetry"
)

// entry settles one entry inside its span. An entry that is handed back has a span without an outcome.
func (r *run) entry(ctx context.Context, i int, do func(context.Context, int) error) error {
	e := &r.rec.Entries[i]
	ctx, r.span = r.Telemetry.Entry(ctx, telemetry.Entry{Tool: e.Name, Call: r.key.Call, Session: r.key.Session, Index: i})
	defer r.span.End()
	err := do(ctx, i)
	if !e.State.Settled() {
		return err
	}
	if e.State == StateInterrupted {
		r.span.Stopped(r.follow.StoppedBy().Trace.Parent)
	}
	var out EntryOutcome
	if r.outcomes[i] != nil {
		out = *r.outcomes[i]
	}
	r.span.Settled(string(e.State.Outcome()), codeOf(&out), e.Attempts, out.Response)
	return err
}

// countDoor notes the entries that were refused before the call was accepted; nobody has counted them.
func (r *run) countDoor() {
	for i := range r.rec.Entries {
		if r.rec.Entries[i].State.Settled() {
			r.fresh = append(r.fresh, i)
		}
	}
}

// count counts the entries that settled since the last write, now that the record says so: what another runner settles
// is for that one to count.
func (r *run) count(ctx context.Context) {
	m := r.Telemetry.Metrics()
	for _, i := range r.fresh {
		e := &r.rec.Entries[i]
		var code string
		switch {
		case r.outcomes[i] != nil:
			code = codeOf(r.outcomes[i])
		case e.Outcome != nil:
			code = codeOf(e.Outcome)
		}
		m.Settled(ctx, string(e.State.Outcome()), code, r.runsOn(i))
		if stop := r.follow.StoppedBy(); e.State == StateInterrupted && e.FinishedAt != nil && !stop.At.IsZero() {
			m.Interrupted(ctx, e.FinishedAt.Sub(stop.At))
		}
	}
	r.fresh = r.fresh[:0]
}

// executed tells how long an entry took that was sent.
func (r *run) executed(ctx context.Context, i int, took time.Duration) {
	r.Telemetry.Metrics().Executed(ctx, took, string(r.rec.Entries[i].State.Outcome()), codeOf(r.outcomes[i]), r.runsOn(i))
}

// asked tells what a session's policy said; nil for no answer.
func (r *run) asked(ctx context.Context, reply *subjects.HookReply, took time.Duration) {
	decision := "none"
	if reply != nil {
		decision = string(reply.Decision)
	}
	r.Telemetry.Metrics().Asked(ctx, took, decision)
}

// runsOn is what runs an entry: a connector, or a tool host.
func (r *run) runsOn(i int) string {
	if r.rec.Hosted {
		return telemetry.Hosted
	}
	name, ok := connectors.ParseName(r.rec.Entries[i].Name)
	if !ok {
		return ""
	}
	return name.Connector
}

func codeOf(o *EntryOutcome) string {
	if o == nil || o.Error == nil {
		return ""
	}
	return string(o.Error.Code)
}
