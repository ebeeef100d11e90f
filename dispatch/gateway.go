package dispatch

import (
	"context"

	"toolsearch/connectors"
	"toolsearch/subjects"
)

// Gateway executes one connector entry with its retries; *connectors.Gateway does.
type Gateway interface {
	Execute(ctx context.Context, e connectors.Execution) connectors.ExecutionResult
}

var _ Gateway = (*connectors.Gateway)(nil)

// GatewaySender returns a [Sender] that sends entries to a gateway.
func GatewaySender(g Gateway) Sender { return gatewaySender{g} }

type gatewaySender struct{ gateway Gateway }

func (g gatewaySender) Send(ctx context.Context, s Sending) Sent {
	name, ok := connectors.ParseName(s.Name)
	if !ok { // it was refused at the door, and so never comes here
		return Sent{Outcome: subjects.OutcomeError, EntryOutcome: EntryOutcome{Error: connectors.Malformed(s.Index, s.Name).Error}}
	}
	r := g.gateway.Execute(ctx, connectors.Execution{Tenant: s.Key.Tenant, Index: s.Index, Name: s.Name, Parsed: name,
		Arguments: s.Arguments, Surface: s.Surface, Key: s.IdempotencyKey, Repeat: s.Repeat, Stop: s.Stop, Bound: s.Bound})
	return Sent{Outcome: r.Outcome, Attempts: r.Attempts, Cut: r.Cut,
		EntryOutcome: EntryOutcome{Response: r.Result.Response, Error: r.Result.Error, Account: r.Result.Account}}
}
