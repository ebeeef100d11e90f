package subjects

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Scope names what a request may see: the handle of an assembled scope, or an assemble request used for this one
// request and stored nowhere. Exactly one of the two is set.
type Scope struct {
	Handle string
	Inline *AssembleRequest
}

// Handle is the scope of a handle.
func Handle(h string) Scope { return Scope{Handle: h} }

// MarshalJSON writes the handle as a string, or the assemble request as an object.
func (s Scope) MarshalJSON() ([]byte, error) {
	if s.Inline != nil {
		return Marshal(s.Inline)
	}
	return Marshal(s.Handle)
}

// UnmarshalJSON reads either form.
func (s *Scope) UnmarshalJSON(p []byte) error {
	*s = Scope{}
	if p = bytes.TrimSpace(p); len(p) > 0 && p[0] == '{' {
		s.Inline = new(AssembleRequest)
		return json.Unmarshal(p, s.Inline)
	}
	return json.Unmarshal(p, &s.Handle)
}

// BridgeRequest is the body of search and of describe.
type BridgeRequest struct {
	Scope Scope `json:"scope"`
	// Arguments is what the model wrote: an object, or a string that holds one.
	Arguments json.RawMessage `json:"arguments"`
	// SearchStreak is what the last search's reply said in [HeaderSearchStreak], where the model has neither described
	// nor called a tool since; see [SearchStreak]. A describe ignores it.
	SearchStreak string `json:"search_streak,omitempty"`
}

// AppendBridgeRequest appends r as JSON, with the bytes of Arguments as they are. Arguments that are no JSON at all
// travel as a JSON string, so that the service can word the mistake for the model.
func AppendBridgeRequest(dst []byte, r *BridgeRequest) ([]byte, error) {
	dst, err := appendScope(append(dst, `{"scope":`...), r.Scope)
	if err != nil {
		return dst, err
	}
	dst = append(dst, `,"arguments":`...)
	dst = append(dst, ModelArguments(string(r.Arguments))...)
	if r.SearchStreak != "" {
		dst = append(dst, `,"search_streak":`...)
		dst = AppendString(dst, r.SearchStreak)
	}
	return append(dst, '}'), nil
}

func appendScope(dst []byte, s Scope) ([]byte, error) {
	if s.Inline != nil {
		return AppendAssembleRequest(dst, s.Inline)
	}
	return AppendString(dst, s.Handle), nil
}

// ModelArguments is what a model wrote as a tool's arguments, ready for a request: the text itself where it is JSON,
// otherwise a JSON string of it. Nothing written at all is an empty object.
func ModelArguments(text string) json.RawMessage {
	switch {
	case strings.TrimSpace(text) == "":
		return json.RawMessage("{}")
	case json.Valid([]byte(text)):
		return json.RawMessage(text)
	}
	return AppendString(nil, text)
}

// SearchArguments is what a model writes to tool_search. Limit 0 leaves the session's default.
type SearchArguments struct {
	Queries []string `json:"queries"`
	Limit   int      `json:"limit,omitempty"`
}

// DescribeArguments is what a model writes to tool_describe.
type DescribeArguments struct {
	Names []string `json:"names"`
}

// CallArguments is what a model writes to tool_call.
type CallArguments struct {
	Calls []CallEntry `json:"calls"`
}

// CallEntry is one tool to run.
type CallEntry struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// ToolError is a mistake of the model, an ordinary reply to be handed to it.
type ToolError struct {
	Message string `json:"error"`
}

func (e *ToolError) Error() string { return e.Message }

// SearchReply is what tool_search answers.
type SearchReply struct {
	Queries        []string             `json:"queries"`
	TotalAvailable int                  `json:"total_available"`
	Results        []SearchGroup        `json:"results"`
	Tools          Ordered[ToolRecord]  `json:"tools"`
	Connectors     *ConnectorsCondition `json:"connectors,omitempty"`
}

// SearchGroup is the answer to one query.
type SearchGroup struct {
	Query   string   `json:"query"`
	Matches []string `json:"matches"`
	// AvailableSources stands only in an empty group, where there is any source.
	AvailableSources []AvailableSource `json:"available_sources,omitempty"`
	// Hint says what to do next. It stands in an empty group, where there is any source or anything near, and where a
	// session searches without end.
	Hint string `json:"hint,omitempty"`
	// Near may stand only in an empty group: names of the tools that answer most of the query, best first. They are the
	// closest and no matches. UnknownWords are the words of the query that no tool has, as they are written, and
	// DidYouMean for some of them a word that a tool has.
	Near         []string        `json:"near,omitempty"`
	UnknownWords []string        `json:"unknown_words,omitempty"`
	DidYouMean   Ordered[string] `json:"did_you_mean,omitempty"`
	// TotalMatches and Truncated stand only in a group that was cut.
	TotalMatches int  `json:"total_matches,omitempty"`
	Truncated    bool `json:"truncated,omitempty"`
}

// AvailableSource is a connected server, or one that is declared and unavailable.
type AvailableSource struct {
	Name        string `json:"name"`
	ToolCount   *int   `json:"tool_count,omitempty"`
	Unavailable string `json:"unavailable,omitempty"`
}

// ToolRecord is what a search tells of one tool.
type ToolRecord struct {
	Source      string   `json:"source"` // mcp, plugin, connectors or other
	SourceName  string   `json:"source_name"`
	Description string   `json:"description"`
	Required    []string `json:"required"`
}

// ConnectorsCondition says why connector tools are missing from an answer.
type ConnectorsCondition struct {
	Status string   `json:"status"`           // unavailable or not_set_up
	Reason string   `json:"reason,omitempty"` // sign_in_expired or unreachable
	Hint   string   `json:"hint"`
	Names  []string `json:"names,omitempty"`
}

// DescribeReply is what tool_describe answers.
type DescribeReply struct {
	Tools      Ordered[ToolSchema]  `json:"tools"`
	NotFound   []string             `json:"not_found,omitempty"`
	Hint       string               `json:"hint,omitempty"`
	Errors     Ordered[string]      `json:"errors,omitempty"`
	Connectors *ConnectorsCondition `json:"connectors,omitempty"`
}

// ToolSchema is one described tool. Parameters is the tool's own schema, as registered.
type ToolSchema struct {
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}
