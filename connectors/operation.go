package connectors

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"toolsearch/subjects"
)

// OperationBound is how long an operation is open at most.
const OperationBound = 300 * time.Second

// operationVersion is the version of the record's JSON.
const operationVersion = 1

// Operation is one manage_connections that starts something: what is kept of it, so that any worker can go on with it.
// It is changed by compare-and-set only, and its targets only along the table of states. What has settled does not
// change any more.
type Operation struct {
	Version int    `json:"v"`
	ID      string `json:"op_id"` // the call's id
	Tenant  string `json:"tenant"`
	Session string `json:"session"`
	// Nonce makes the keys under which local servers are asked.
	Nonce string `json:"nonce"`
	// Digest names what was asked; the same id with another is a conflict.
	Digest   string           `json:"digest"`
	Action   Action           `json:"action"`
	Force    bool             `json:"force,omitempty"`
	Surface  subjects.Surface `json:"surface"`
	Deadline time.Time        `json:"deadline"`
	// Runner is the worker that has the operation; empty: nobody, another may take it at once.
	Runner string `json:"runner,omitempty"`
	// Write is new with each write, so that a worker knows its own after an unclear answer.
	Write string `json:"write,omitempty"`
	// Created is the sequence of the first write; 0 in that write itself. It orders the operation against stops.
	Created   uint64             `json:"created,omitempty"`
	Seq       int                `json:"seq"`
	Targets   []Target           `json:"targets"`
	SettledAt *time.Time         `json:"settled_at,omitempty"`
	SettledBy subjects.SettledBy `json:"settled_by,omitempty"`
	Trace     OperationTrace     `json:"trace,omitzero"`
}

// OperationTrace is the W3C trace context of the call; it is carried along and not read.
type OperationTrace struct {
	Parent string `json:"parent,omitempty"`
	State  string `json:"state,omitempty"`
}

// Target is one app or local server of an operation.
type Target struct {
	Name  string                   `json:"name"`
	Kind  string                   `json:"kind"`
	Alias string                   `json:"alias,omitempty"`
	Host  string                   `json:"host,omitempty"` // that owns the local server
	State subjects.ConnectionState `json:"state"`
	// Attempt counts the starts; what was found of an earlier one does not count.
	Attempt      int             `json:"attempt"`
	Detail       string          `json:"detail,omitempty"`
	ConnectURL   string          `json:"connect_url,omitempty"`
	Instruction  string          `json:"instruction,omitempty"`
	ConnectionID string          `json:"connection_id,omitempty"`
	Tools        json.RawMessage `json:"tools,omitempty"`
}

// NewOperation makes an operation of what a model asked for.
func NewOperation(id, tenant, session string, m *Manage, surface subjects.Surface, now time.Time) *Operation {
	op := &Operation{Version: operationVersion, ID: id, Tenant: tenant, Session: session, Nonce: subjects.NewCallID(), Digest: m.digest(),
		Action: m.Action, Force: m.Force, Surface: surface, Deadline: now.Add(OperationBound).UTC(), Seq: 1}
	for _, t := range m.Targets {
		kind := subjects.KindHosted
		if t.MCP {
			kind = subjects.KindMCP
		}
		op.Targets = append(op.Targets, Target{Name: t.Name, Kind: kind, Alias: t.Alias, State: subjects.ConnectionPending, Attempt: 1})
	}
	return op
}

// ErrOperationVersion is returned by [DecodeOperation] for a record that a worker of another version must take.
var ErrOperationVersion = errors.New("connectors: the operation is of another version")

// DecodeOperation reads a record and checks that it can be worked with.
func DecodeOperation(p []byte) (*Operation, error) {
	var head struct {
		Version int `json:"v"`
	}
	if err := json.Unmarshal(p, &head); err != nil {
		return nil, fmt.Errorf("connectors: operation: %w", err)
	}
	if head.Version > operationVersion {
		return nil, fmt.Errorf("%w: %d, this worker knows %d", ErrOperationVersion, head.Version, operationVersion)
	}
	op := &Operation{}
	if err := json.Unmarshal(p, op); err != nil {
		return nil, fmt.Errorf("connectors: operation: %w", err)
	}
	if op.Version < 1 || op.ID == "" || op.Deadline.IsZero() || len(op.Targets) == 0 {
		return nil, errors.New("connectors: operation: no version, id, deadline or targets")
	}
	return op, nil
}

// Clone is a copy that shares nothing which is changed.
func (o *Operation) Clone() *Operation {
	c := *o
	c.Targets = append([]Target(nil), o.Targets...)
	return &c
}

// OpenedAt is when the operation was opened.
func (o *Operation) OpenedAt() time.Time { return o.Deadline.Add(-OperationBound) }

// WithoutLinks is a copy that whoever only counts may be given: no link, instruction or word of a host is in it.
func (o *Operation) WithoutLinks() *Operation {
	c := o.Clone()
	for i := range c.Targets {
		t := &c.Targets[i]
		t.ConnectURL, t.Instruction, t.Detail, t.Tools = "", "", "", nil
	}
	return c
}

// Settled reports whether the operation is over.
func (o *Operation) Settled() bool { return o.SettledAt != nil }

// Card reports whether the operation has a card and waits for its user.
func (o *Operation) Card() bool { return o.Surface == subjects.SurfaceCard }

// key is what a local server is asked under for one attempt of a target.
func (o *Operation) key(t *Target) string {
	sum := sha256.Sum256([]byte(fmt.Sprintf("%s\x00%s\x00%d", o.Nonce, t.Name, t.Attempt)))
	return hex.EncodeToString(sum[:])
}

// target finds a target; nil if there is none.
func (o *Operation) target(name, alias string) *Target {
	for i := range o.Targets {
		if t := &o.Targets[i]; t.Name == name && t.Alias == alias {
			return t
		}
	}
	return nil
}

// move moves a target along the table.
func (t *Target) move(c MoveCause, by Actor) error {
	to, err := next(t.State, c, by, t.Kind)
	if err != nil {
		return err
	}
	t.State = to
	if to != subjects.ConnectionInitiated { // a link is good for nothing else
		t.ConnectURL, t.Instruction = "", ""
	}
	return nil
}

// settle ends the operation. What is open then is not connected; at the deadline a link that waits has expired. The
// first to settle wins: the result never changes after that.
func (o *Operation) settle(by subjects.SettledBy, now time.Time) {
	if o.Settled() {
		return
	}
	for i := range o.Targets {
		t := &o.Targets[i]
		underWay := t.State == subjects.ConnectionStarting
		switch {
		case by == subjects.SettledHandedOver:
		case by == subjects.SettledDeadline && t.move(CauseTimeOut, ActorClock) == nil:
			t.Detail = detailTooLate
		case t.move(CauseClose, ActorSettle) != nil: // the target is not open
		case underWay && t.Kind == subjects.KindMCP:
			t.Detail = localUnsure
		case underWay:
			t.Detail = detailUnclear
		}
	}
	now = now.UTC()
	o.SettledAt, o.SettledBy = &now, by
	o.Seq++
}

// conclude settles the operation where nothing more is waited for.
func (o *Operation) conclude(now time.Time) {
	open, waiting := 0, 0
	for i := range o.Targets {
		switch s := o.Targets[i].State; {
		case resolved(s):
		case s == subjects.ConnectionPending || s == subjects.ConnectionStarting:
			open++
		default:
			waiting++
		}
	}
	switch {
	case open > 0:
	case waiting == 0:
		o.settle(subjects.SettledAllResolved, now)
	case !o.Card(): // nobody is there to wait for
		o.settle(subjects.SettledHandedOver, now)
	}
}

// Answer takes a button of the card. A refusal changes nothing.
func (o *Operation) Answer(a subjects.AnswerRequest, now time.Time) *subjects.Refusal {
	switch {
	case o.ID != a.Operation || o.Settled() || !o.Card():
		return &subjects.Refusal{Code: subjects.RefusalUnknownOperation, Message: "This card is no longer open."}
	case a.Answer == subjects.AnswerContinue:
		o.settle(subjects.SettledContinue, now)
		return nil
	}
	t := o.target(a.Name, a.Alias)
	if t == nil {
		return &subjects.Refusal{Code: subjects.RefusalUnknownTarget, Message: "There is no such app on this card."}
	}
	cause := CauseSkip
	if a.Answer == subjects.AnswerRetry {
		cause = CauseRetry
	}
	if err := t.move(cause, ActorUser); err != nil {
		return &subjects.Refusal{Code: subjects.RefusalNotNow,
			Message: fmt.Sprintf("%s is %s; that cannot be done with it now.", t.Name, words(t.State))}
	}
	t.Detail = ""
	if cause == CauseRetry {
		t.Attempt++
		t.ConnectionID = ""
	}
	o.Seq++
	o.conclude(now)
	return nil
}

// words is a state as a sentence has it.
func words(s subjects.ConnectionState) string {
	if s == subjects.ConnectionNotConnected {
		return "not connected"
	}
	return string(s)
}

// Event is the operation as its user's interface is shown it.
func (o *Operation) Event() *subjects.CardEvent {
	e := &subjects.CardEvent{Event: subjects.EventCard, Operation: o.ID, Seq: o.Seq, Action: string(o.Action), DeadlineAt: o.Deadline,
		SettledAt: o.SettledAt, SettledBy: o.SettledBy, Targets: make([]subjects.CardTarget, len(o.Targets))}
	if o.Settled() {
		e.Event = subjects.EventCardSettled
	}
	for i, t := range o.Targets {
		e.Targets[i] = subjects.CardTarget{Name: t.Name, Kind: t.Kind, Alias: t.Alias, State: t.State, Detail: t.Detail}
		if !o.Settled() {
			e.Targets[i].ConnectURL, e.Targets[i].Instruction = t.ConnectURL, t.Instruction
		}
	}
	return e
}

// Outcome is the operation as the model is told it. A link stands in it only where there is no card.
func (o *Operation) Outcome() *subjects.ConnectionsOutcome {
	out := &subjects.ConnectionsOutcome{Operation: o.ID, Seq: o.Seq, DeadlineAt: o.Deadline, SettledAt: o.SettledAt, SettledBy: o.SettledBy,
		Targets: make([]subjects.ConnectionResult, len(o.Targets)), Status: "settled"}
	for i, t := range o.Targets {
		r := subjects.ConnectionResult{Name: t.Name, Kind: t.Kind, Alias: t.Alias, Action: string(o.Action), State: t.State,
			Detail: t.Detail, Tools: t.Tools}
		if !o.Card() && t.State == subjects.ConnectionInitiated {
			r.ConnectURL, out.Status = t.ConnectURL, "initiated"
		}
		out.Targets[i] = r
	}
	out.Note = o.note()
	return out
}

// note is the next step for the model.
func (o *Operation) note() string {
	states := map[subjects.ConnectionState]int{}
	for _, t := range o.Targets {
		states[t.State]++
	}
	switch {
	case states[subjects.ConnectionInitiated] > 0:
		return noteLinks
	case o.SettledBy == subjects.SettledInterrupt:
		return noteStopped
	case states[subjects.ConnectionConnected] == len(o.Targets):
		return noteConnected
	case states[subjects.ConnectionExpired]+states[subjects.ConnectionNotConnected] > 0:
		return noteOpen
	case states[subjects.ConnectionFailed] > 0:
		return noteFailed
	}
	return noteSkipped
}
