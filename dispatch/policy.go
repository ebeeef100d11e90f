package dispatch

import (
	"context"
	"encoding/json"
	"time"

	"toolsearch/subjects"
)

// ask puts one entry to the session's policy. settled is true where that refused it, or a stop or the deadline came
// first.
func (r *run) ask(ctx context.Context, i int, arguments json.RawMessage) (rewritten json.RawMessage, settled bool, err error) {
	timeout := time.Duration(r.payload.Hooks.TimeoutMS) * time.Millisecond
	if timeout <= 0 {
		timeout = DefaultHookTimeout
	}
	wanted, cancel := r.whileWanted(ctx)
	defer cancel()
	waiting, cancelTimeout := context.WithTimeout(wanted, timeout)
	defer cancelTimeout()
	began := time.Now()
	reply, err := r.Hooks.Pre(waiting, r.key, &subjects.HookRequest{CallID: r.key.Call, Index: i, Name: r.rec.Entries[i].Name,
		Arguments: arguments, Toolset: r.payload.Toolset, Surface: r.payload.Surface}, r.d.Trace)
	r.asked(ctx, reply, time.Since(began))
	if err != nil {
		// No answer, because a stop, the deadline or a drain came first; or a policy that is not there, which is a no.
		if settled, berr := r.mayBegin(ctx, i); settled || berr != nil {
			return nil, settled, berr
		}
		r.log.WarnContext(ctx, "a session's policy gave no answer; the entry is denied", "call", r.key.String(), "index", i, "error", err)
		return nil, true, r.deny(ctx, i, "")
	}
	switch reply.Decision {
	case subjects.DecisionAllow:
		return nil, false, nil
	case subjects.DecisionRewrite:
		// The tool's own schema decides, as it did for the model's arguments; a connector's is the gateway's to check.
		checked, err := Validate(r.rec.Entries[i].Name, r.payload.Parameters, reply.Arguments)
		if err != nil {
			r.log.WarnContext(ctx, "a session's policy rewrote arguments so that they do not fit", "call", r.key.String(), "index", i)
			return nil, true, r.settle(ctx, i, CauseRefuse, entryError(subjects.EntryDenied, textBadRewrite+" "+err.Error()))
		}
		return checked.Arguments, false, nil
	case subjects.DecisionDeny:
		return nil, true, r.deny(ctx, i, reply.Reason)
	}
	return nil, true, r.deny(ctx, i, "")
}

func (r *run) deny(ctx context.Context, i int, reason string) error {
	text := textDenied
	if reason != "" {
		text += " " + reason
	}
	return r.settle(ctx, i, CauseRefuse, entryError(subjects.EntryDenied, Bounded(text)))
}
