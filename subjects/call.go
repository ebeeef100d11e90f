package subjects

import (
	"encoding/json"
	"time"
)

// CallRequest is the body of call.
type CallRequest struct {
	Scope Scope `json:"scope"`
	// CallID is the caller's, a token; without one the worker makes one.
	CallID    string          `json:"call_id,omitempty"`
	Arguments json.RawMessage `json:"arguments"`
}

// AppendCallRequest appends r as JSON, with the bytes of Arguments as they are; see [AppendBridgeRequest].
func AppendCallRequest(dst []byte, r *CallRequest) ([]byte, error) {
	dst, err := appendScope(append(dst, `{"scope":`...), r.Scope)
	if err != nil {
		return dst, err
	}
	if r.CallID != "" {
		dst = AppendString(append(dst, `,"call_id":`...), r.CallID)
	}
	dst = append(dst, `,"arguments":`...)
	return append(append(dst, ModelArguments(string(r.Arguments))...), '}'), nil
}

// CallerDispatch is the reply for a tool that the caller runs: the real name and the repaired arguments.
type CallerDispatch struct {
	Dispatch  string          `json:"dispatch"` // always "caller"
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Parallel  bool            `json:"parallel"`
}

// Accepted is the reply to a call with [HeaderAsync].
type Accepted struct {
	Accepted bool   `json:"accepted"`
	CallID   string `json:"call_id"`
	Results  string `json:"results"` // the subject of its events
}

// BatchReply is the answer to a connector batch.
type BatchReply struct {
	Results      []EntryResult `json:"results"`
	SuccessCount int           `json:"success_count"`
	ErrorCount   int           `json:"error_count"`
	TotalCount   int           `json:"total_count"`
}

// EntryResult is one settled entry: Response, or Error.
type EntryResult struct {
	Index    int             `json:"index"`
	Name     string          `json:"name"`
	Response json.RawMessage `json:"response,omitempty"` // "null" where a success had no data
	Error    *EntryError     `json:"error,omitempty"`
	Account  string          `json:"account,omitempty"`
}

// EntryCode names why an entry failed.
type EntryCode string

// The entry codes of the contract.
const (
	EntryToolNotFound       EntryCode = "TOOL_NOT_FOUND"
	EntryToolNotAllowed     EntryCode = "TOOL_NOT_ALLOWED"
	EntryConnectionRequired EntryCode = "CONNECTION_REQUIRED"
	EntryProviderError      EntryCode = "PROVIDER_ERROR"
	EntryToolError          EntryCode = "TOOL_ERROR"
	EntryDenied             EntryCode = "DENIED"
	EntryInterrupted        EntryCode = "INTERRUPTED"
	EntryDeadlineExceeded   EntryCode = "DEADLINE_EXCEEDED"
	EntryOutcomeUnknown     EntryCode = "OUTCOME_UNKNOWN"
	EntryAbandoned          EntryCode = "ABANDONED"
)

// EntryError tells the model why an entry failed. Where a connection is missing, the session's surface decides which of
// the fields after Message are set.
type EntryError struct {
	Code                 EntryCode `json:"code"`
	Message              string    `json:"message"`
	Connector            string    `json:"connector,omitempty"`
	ConnectURL           string    `json:"connect_url,omitempty"`
	ConnectCardAvailable bool      `json:"connect_card_available,omitempty"`
	Hint                 string    `json:"hint,omitempty"`
	ConnectionID         string    `json:"connection_id,omitempty"`
}

// Outcome is the one word for what became of an entry.
type Outcome string

// The outcomes of an entry.
const (
	OutcomeOK          Outcome = "ok"
	OutcomeError       Outcome = "error"
	OutcomeInterrupted Outcome = "interrupted"
	OutcomeUnknown     Outcome = "unknown"
	OutcomeAbandoned   Outcome = "abandoned"
)

// Outcome is the word for the entry as its result tells it.
func (r *EntryResult) Outcome() Outcome {
	switch {
	case r.Error == nil:
		return OutcomeOK
	case r.Error.Code == EntryInterrupted:
		return OutcomeInterrupted
	case r.Error.Code == EntryOutcomeUnknown:
		return OutcomeUnknown
	case r.Error.Code == EntryAbandoned:
		return OutcomeAbandoned
	}
	return OutcomeError
}

// The kinds of event on a result subject.
const (
	EventEntry   = "entry"
	EventSummary = "summary"
)

// EntryEvent is published as soon as an entry has settled.
type EntryEvent struct {
	Event  string `json:"event"` // EventEntry
	CallID string `json:"call_id"`
	EntryResult
	Outcome    Outcome    `json:"outcome"`
	Attempts   int        `json:"attempts"`
	StartedAt  *time.Time `json:"started_at,omitempty"`
	FinishedAt time.Time  `json:"finished_at"`
	// Generation counts the times that an operator reopened the call; absent before the first.
	Generation int `json:"generation,omitempty"`
}

// SummaryEvent ends a call's events.
type SummaryEvent struct {
	Event  string `json:"event"` // EventSummary
	CallID string `json:"call_id"`
	BatchReply
	Generation int `json:"generation,omitempty"`
}

// Stop is the body of a stop; it informs, the subject decides. It may be empty.
type Stop struct {
	Reason string `json:"reason,omitempty"`
}

// StopAck is JetStream's answer to a stop that was sent as a request.
type StopAck struct {
	Stream string `json:"stream"`
	Seq    uint64 `json:"seq"`
}

// HookRequest asks the session's policy about one entry.
type HookRequest struct {
	CallID    string          `json:"call_id"`
	Index     int             `json:"index"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Toolset   string          `json:"toolset"`
	Surface   Surface         `json:"surface"`
}

// Decision is a policy's answer.
type Decision string

// The decisions of a policy.
const (
	DecisionAllow   Decision = "allow"
	DecisionDeny    Decision = "deny"
	DecisionRewrite Decision = "rewrite"
)

// HookReply answers a [HookRequest].
type HookReply struct {
	Decision  Decision        `json:"decision"`
	Reason    string          `json:"reason,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// HostListRequest asks a tool host for its tools; it may be empty.
type HostListRequest struct{}

// HostListReply answers with a host's tools, ready to be put among the tools of an [AssembleRequest].
type HostListReply struct {
	Tools []Tool `json:"tools"`
	// LocalServers announces that this host owns the MCP servers of its machine: it also runs manage_connections, one
	// target at a time, for install, enable and authorize.
	LocalServers bool `json:"local_servers,omitempty"`
}

// HostRequest asks a tool host to run one tool.
type HostRequest struct {
	CallID         string          `json:"call_id"`
	Index          int             `json:"index"`
	Name           string          `json:"name"`
	Arguments      json.RawMessage `json:"arguments"`
	IdempotencyKey string          `json:"idempotency_key"`
	Deadline       time.Time       `json:"deadline"`
}

// HostReply answers a [HostRequest]: Result, or Error.
type HostReply struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  *HostError      `json:"error,omitempty"`
}

// HostError is a tool's failure, told by its host.
type HostError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}
