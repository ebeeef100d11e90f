package subjects

import (
	"encoding/json"
	"time"
)

// ConnectionsArguments is what a model writes to manage_connections.
type ConnectionsArguments struct {
	Action     string             `json:"action,omitempty"` // empty is status
	Connectors []ConnectionTarget `json:"connectors,omitempty"`
	Force      bool               `json:"force,omitempty"`
}

// ConnectionTarget is one app, or one local MCP server.
type ConnectionTarget struct {
	Name  string `json:"name"`
	MCP   bool   `json:"mcp,omitempty"`
	Alias string `json:"alias,omitempty"`
	To    string `json:"to,omitempty"`
}

// ConnectionState is where one target of an operation stands.
type ConnectionState string

// The states. pending and starting come before the user has anything to do, initiated waits for the user, and the
// last is stamped when the operation settles over a target that is still open.
const (
	ConnectionPending      ConnectionState = "pending"
	ConnectionStarting     ConnectionState = "starting"
	ConnectionInitiated    ConnectionState = "initiated"
	ConnectionConnected    ConnectionState = "connected"
	ConnectionSkipped      ConnectionState = "skipped"
	ConnectionFailed       ConnectionState = "failed"
	ConnectionExpired      ConnectionState = "expired"
	ConnectionNotConnected ConnectionState = "not_connected"
)

// SettledBy says what ended an operation.
type SettledBy string

// What ends an operation: every target is connected, skipped or failed; the user goes on without the rest; the
// deadline; a stop; or, on a surface without cards, that the links were handed over.
const (
	SettledAllResolved SettledBy = "all_resolved"
	SettledContinue    SettledBy = "continue"
	SettledDeadline    SettledBy = "deadline"
	SettledInterrupt   SettledBy = "interrupt"
	SettledHandedOver  SettledBy = "handed_over"
)

// The kinds of a target.
const (
	KindHosted = "connector"
	KindMCP    = "mcp"
)

// The kinds of card events.
const (
	EventCard        = "card"         // an operation was opened, or changed: draw it as it is told here
	EventCardSettled = "card_settled" // it is over: take the card away
)

// CardEvent shows an operation to the user's interface. Each holds the whole card; one with a lower Seq than the last
// is late and dropped.
type CardEvent struct {
	Event      string       `json:"event"` // EventCard or EventCardSettled
	Operation  string       `json:"op_id"`
	Seq        int          `json:"seq"`
	Action     string       `json:"action"`
	DeadlineAt time.Time    `json:"deadline_at"`
	SettledAt  *time.Time   `json:"settled_at,omitempty"`
	SettledBy  SettledBy    `json:"settled_by,omitempty"`
	Targets    []CardTarget `json:"targets"`
}

// CardTarget is one target on a card. ConnectURL is for the user alone: no model is ever given it.
type CardTarget struct {
	Name        string          `json:"name"`
	Kind        string          `json:"kind"` // KindHosted or KindMCP
	Alias       string          `json:"alias,omitempty"`
	State       ConnectionState `json:"state"`
	Detail      string          `json:"detail,omitempty"`
	ConnectURL  string          `json:"connect_url,omitempty"`
	Instruction string          `json:"instruction,omitempty"`
}

// The buttons of a card.
const (
	AnswerSkip     = "skip"     // leave this target alone
	AnswerRetry    = "retry"    // start this target over, with a new link
	AnswerContinue = "continue" // end the card, without what is still open
)

// AnswerRequest is a button that the user pressed.
type AnswerRequest struct {
	Operation string `json:"op_id"`
	Answer    string `json:"answer"` // one of the Answer constants
	// Name and Alias are the target's, for skip and retry.
	Name  string `json:"name,omitempty"`
	Alias string `json:"alias,omitempty"`
}

// AnswerReply says whether the button was taken, and shows the card as it is then.
type AnswerReply struct {
	Accepted bool       `json:"accepted"`
	Refusal  *Refusal   `json:"refusal,omitempty"`
	Card     *CardEvent `json:"card,omitempty"`
}

// Refusal is why an interface did not get what it asked for, in words for its user.
type Refusal struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// The codes of refusals that this service gives. The account service's own codes pass through as they are.
const (
	RefusalUnknownOperation = "UNKNOWN_OPERATION" // no such operation is open
	RefusalUnknownTarget    = "UNKNOWN_TARGET"    // it has no such target
	RefusalNotNow           = "NOT_NOW"           // the target's state does not allow it
	RefusalUnreachable      = "UNREACHABLE"       // the account service gave no answer
	RefusalOutcomeUnknown   = "OUTCOME_UNKNOWN"   // the request was sent and its answer is lost
	RefusalNotConfigured    = "NOT_CONFIGURED"    // there is no account service here
	RefusalSignedOut        = "SIGNED_OUT"        // the user must sign in
)

// OperationRequest asks how the session's operation stands; it may be empty.
type OperationRequest struct{}

// OperationReply shows the session's open operation, or its last one; no card, if there was none lately.
type OperationReply struct {
	Card *CardEvent `json:"card,omitempty"`
}

// AccountsRequest asks for the user's linked accounts.
type AccountsRequest struct {
	// ETag is that of the list which the interface has already.
	ETag string `json:"etag,omitempty"`
}

// AccountsReply is the list, or that it has not changed, or why there is none.
type AccountsReply struct {
	// Accounts is empty, and not nil, where the user has none.
	Accounts    []LinkedAccount `json:"accounts,omitzero"`
	ETag        string          `json:"etag,omitempty"`
	NotModified bool            `json:"not_modified,omitempty"`
	Refusal     *Refusal        `json:"refusal,omitempty"`
}

// LinkedAccount is one account as its owner sees it.
type LinkedAccount struct {
	ConnectionID string `json:"connection_id"`
	Connector    string `json:"connector"`
	Label        string `json:"label"`
	Alias        string `json:"alias,omitempty"`
	Status       string `json:"status"`
	Active       bool   `json:"active"`
	CreatedAt    string `json:"created_at,omitempty"`
}

// DisconnectRequest ends one account.
type DisconnectRequest struct {
	ConnectionID string `json:"connection_id"`
}

// DisconnectReply tells what became of it. AuditID names the account service's record of the attempt, also where it
// refused.
type DisconnectReply struct {
	Disconnected bool     `json:"disconnected"`
	AuditID      string   `json:"audit_id,omitempty"`
	Refusal      *Refusal `json:"refusal,omitempty"`
}

// ConnectionsOutcome is manage_connections' answer to connect, reconnect and the actions on local servers.
type ConnectionsOutcome struct {
	Operation  string             `json:"op_id"`
	Seq        int                `json:"seq"`
	DeadlineAt time.Time          `json:"deadline_at"`
	SettledAt  *time.Time         `json:"settled_at,omitempty"`
	SettledBy  SettledBy          `json:"settled_by,omitempty"`
	Targets    []ConnectionResult `json:"targets"`
	// Status is "initiated" where a link waits for the user, else "settled".
	Status string `json:"status"`
	Note   string `json:"note"`
}

// ConnectionResult is what became of one target. ConnectURL stands only where the surface is link.
type ConnectionResult struct {
	Name       string          `json:"name"`
	Kind       string          `json:"kind"`
	Alias      string          `json:"alias,omitempty"`
	Action     string          `json:"action"`
	State      ConnectionState `json:"state"`
	Detail     string          `json:"detail,omitempty"`
	ConnectURL string          `json:"connect_url,omitempty"`
	Tools      json.RawMessage `json:"tools,omitempty"`
}

// ConnectionsStatus is manage_connections' answer to status.
type ConnectionsStatus struct {
	Connectors []ConnectorStatus `json:"connectors"`
	// Unknown are names that no app has.
	Unknown []UnknownConnector `json:"unknown,omitempty"`
	// Status and Reason say why apps cannot be told; absent where they can.
	Status string `json:"status,omitempty"`
	Reason string `json:"reason,omitempty"`
	Hint   string `json:"hint"`
}

// ConnectorStatus is how one app stands.
type ConnectorStatus struct {
	Name      string `json:"name"`
	Connected bool   `json:"connected"`
	State     string `json:"state"` // connected, not_connected, disabled, or the gateway's own word
	Detail    string `json:"detail,omitempty"`
}

// UnknownConnector is a name that no app has, and the nearest ones.
type UnknownConnector struct {
	Name       string   `json:"name"`
	DidYouMean []string `json:"did_you_mean,omitempty"`
}
