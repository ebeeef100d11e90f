package connectors

import (
	"context"
	"errors"

	"toolsearch/subjects"
	"toolsearch/telemetry"
)

// read reads the account of each live target once, one after the other. A 429 ends the round: it is about the user and
// not about one app. Any other failure is left to the next round, until the deadline. A read has no span of its own,
// for there may be hundreds.
func (s *shift) read(op *Operation) {
	round := &Round{}
	defer func() { s.send(finding{round: round}) }()
	quiet := telemetry.WithoutSpans(s.work)
	for i := range op.Targets {
		t := &op.Targets[i]
		if t.State != subjects.ConnectionInitiated {
			continue
		}
		if t.Kind == subjects.KindMCP {
			round.Reads++
			s.readLocal(quiet, op, t)
			continue
		}
		if t.ConnectionID == "" {
			continue
		}
		round.Reads++
		ctx, cancel := context.WithTimeout(quiet, min(longestRead, max(watchTick, op.Deadline.Sub(s.clock.Now()))))
		account, err := s.w.Gateway.account(ctx, op.Tenant, t.ConnectionID)
		cancel()
		var e *Error
		switch {
		case errors.As(err, &e) && e.Kind == KindRateLimited:
			round.Failed, _ = errorType(e)
			round.Parked = max(e.RetryAfter, watchTick)
			return
		case err != nil || account == nil:
			if s.work.Err() != nil {
				return
			}
			round.Failed = unread(e)
		default:
			s.judge(t, account)
		}
	}
}

// unread names why an account was not read, where there is no error because the gateway does not know it.
func unread(e *Error) string {
	if e == nil {
		return "not_found"
	}
	code, _ := errorType(e)
	return code
}

// account reads one account, also where connectors were switched off meanwhile.
func (g *Gateway) account(ctx context.Context, tenant, id string) (*Account, error) {
	if !g.Configured() {
		return nil, newError(KindUnavailable, CodeNoOrigin, nil, "connectors are switched off")
	}
	return g.client.Account(ctx, tenant, id)
}

// judge turns the gateway's word for an account into a move.
func (s *shift) judge(t *Target, a *Account) {
	reason := textOf(a.StatusReason, "")
	switch a.Status {
	case "active":
		s.send(s.findingOf(t, CauseConnect, nil))
	case "expired":
		s.send(s.findingOf(t, CauseExpire, func(t *Target) { t.Detail = reason }))
	case "failed", "revoked", "inactive":
		s.failed(t, textOf(a.StatusReason, "The app says "+a.Status+"."))
	}
}
