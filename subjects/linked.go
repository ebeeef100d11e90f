package subjects

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
)

// Linked is the answer of manage_connections. At most one of Mistake, Outcome and Status is set.
type Linked struct {
	// Raw is exactly what to hand to the model.
	Raw []byte
	// CallID is the id under which it was asked; an operation's id is the same.
	CallID string
	// Mistake is set where nothing was done, and says what to call instead.
	Mistake *ToolError
	// Outcome is set for an operation: connect, reconnect, install, enable, authorize.
	Outcome *ConnectionsOutcome
	// Status is set for status.
	Status *ConnectionsStatus
}

// Connections answers the model's manage_connections. On the surface card it waits until the user is done; asking again
// under the same CallID, which it does when a worker is gone, joins the operation and starts nothing twice. A context
// that ends leaves the operation open until its deadline; [Session.StopCall] settles it.
func (s *Session) Connections(ctx context.Context, r CallRequest) (*Linked, error) {
	r.CallID = callID(r.CallID)
	ctx, cancel := within(ctx, s.c.opts.CallTimeout)
	defer cancel()
	var a *answer
	err := s.scoped(ctx, r.Scope, func(scope Scope) error {
		asked := r
		asked.Scope = scope
		body, err := AppendCallRequest(nil, &asked)
		if err != nil {
			return err
		}
		a, err = s.ask(ctx, VerbConnections, nil, body, s.c.opts.Reattach)
		return err
	})
	if err != nil {
		return nil, err
	}
	return linked(a.body, r.CallID), nil
}

// linked sorts a reply into its cases.
func linked(body []byte, id string) *Linked {
	out := &Linked{Raw: body, CallID: id, Mistake: mistake(body)}
	var shape struct {
		Operation  string          `json:"op_id"`
		Connectors json.RawMessage `json:"connectors"`
	}
	if out.Mistake != nil || json.Unmarshal(body, &shape) != nil {
		return out
	}
	switch {
	case shape.Operation != "":
		out.Outcome = decodeAs[ConnectionsOutcome](body)
	case shape.Connectors != nil:
		out.Status = decodeAs[ConnectionsStatus](body)
	}
	return out
}

// Cards gives what the session's user interface is shown, from now on: each event holds a whole card. It is subscribed
// when it returns. Late events (of a lower Seq than the last) are left out. What is no card comes as an error, and the
// loop may go on; any other error ends it. Ask [Session.Operation] for a card that was opened before. It needs the
// credentials of an interface.
func (s *Session) Cards(ctx context.Context) (iter.Seq2[CardEvent, error], error) {
	sub, err := s.c.nc.SubscribeSync(s.c.opts.Root.SessionCards(s.tenant, s.session))
	if err != nil {
		return nil, fmt.Errorf("subjects: cards: %w", err)
	}
	if err := s.c.subscribed(ctx, sub); err != nil {
		sub.Unsubscribe() //nolint:errcheck // the other error came first
		return nil, fmt.Errorf("subjects: cards: %w", err)
	}
	release := context.AfterFunc(ctx, func() { sub.Unsubscribe() }) //nolint:errcheck // it may be closed already
	return func(yield func(CardEvent, error) bool) {
		defer sub.Unsubscribe() //nolint:errcheck // it may be closed already
		defer release()
		last, op := 0, ""
		for {
			m, err := sub.NextMsgWithContext(ctx)
			if err != nil {
				yield(CardEvent{}, err)
				return
			}
			var e CardEvent
			body, err := s.c.bodies.Unpack(ctx, s.tenant, m.Header, m.Data)
			if err == nil {
				err = json.Unmarshal(body, &e)
			}
			if err != nil {
				if !yield(CardEvent{}, fmt.Errorf("subjects: the card on %s is not of the contract: %w", m.Subject, err)) {
					return
				}
				continue
			}
			if e.Operation == op && e.Seq <= last {
				continue
			}
			if op, last = e.Operation, e.Seq; !yield(e, nil) {
				return
			}
		}
	}, nil
}

// Answer presses a button of a card. It needs the credentials of an interface.
func (s *Session) Answer(ctx context.Context, r AnswerRequest) (*AnswerReply, error) {
	return interfaceAsk[AnswerReply](ctx, s, VerbAnswer, r, s.once)
}

// Operation tells how the session's operation stands. It needs the credentials of an interface.
func (s *Session) Operation(ctx context.Context) (*OperationReply, error) {
	return interfaceAsk[OperationReply](ctx, s, VerbOperation, OperationRequest{}, s.read)
}

// Accounts lists the user's linked accounts; etag is that of the list which is known already. It needs the credentials
// of an interface.
func (s *Session) Accounts(ctx context.Context, etag string) (*AccountsReply, error) {
	return interfaceAsk[AccountsReply](ctx, s, VerbAccounts, AccountsRequest{ETag: etag}, s.read)
}

// Disconnect ends one of the user's accounts. It is asked once, whatever becomes of it: an error leaves open whether the
// account was disconnected, and the list tells. It needs the credentials of an interface.
func (s *Session) Disconnect(ctx context.Context, connectionID string) (*DisconnectReply, error) {
	c := *s.c
	c.opts.Retries = -1
	once := &Session{c: &c, tenant: s.tenant, session: s.session}
	return interfaceAsk[DisconnectReply](ctx, once, VerbDisconnect, DisconnectRequest{ConnectionID: connectionID}, once.once)
}

// once puts a question that has an effect each time it is answered.
func (s *Session) once(ctx context.Context, verb Verb, body []byte) (*answer, error) {
	return s.ask(ctx, verb, nil, body, 0)
}

func interfaceAsk[T any](ctx context.Context, s *Session, verb Verb, request any,
	ask func(context.Context, Verb, []byte) (*answer, error),
) (*T, error) {
	ctx, cancel := within(ctx, s.c.opts.Timeout)
	defer cancel()
	body, err := Marshal(request)
	if err != nil {
		return nil, err
	}
	a, err := ask(ctx, verb, body)
	if err != nil {
		return nil, err
	}
	reply := new(T)
	return reply, decodeReply(a.body, reply)
}
