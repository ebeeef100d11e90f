package connectors

import (
	"encoding/json"

	"toolsearch/subjects"
)

// The messages of entries that no gateway worded.
const (
	messageMalformed = "Unknown tool: a connector tool's name has the form connectors__<connector>__<tool>. " +
		"Nothing was sent; use tool_search for the exact name."
	messageNoResult    = "The gateway returned no result for this call. It may have taken effect; check before you repeat it."
	messageNoSlot      = "No result was produced for this call."
	messageRemoteError = "The gateway reported an error."
	messageInterrupted = "Stopped before this call was made; nothing was sent."
	hintSide           = "Only the main agent can connect this account. Report back that it must be connected."
)

// hintCard leads from a missing connection to the call that makes it.
func hintCard(connector string) string {
	return "There is no link to show. Call manage_connections with " + connectCall(connector) +
		" to open a card with which the user can connect, then call again."
}

func connectCall(connector string) string {
	m := Manage{Action: ActionConnect, Targets: []ManageTarget{{Name: lower(connector)}}}
	return m.call()
}

// Call is one entry of a tool_call as it came. Reading it from JSON never fails on valid JSON: what is no object, no
// string or no object of arguments counts as absent, so that one odd entry does not cost its siblings.
type Call struct {
	Name      string
	Arguments json.RawMessage // an object
}

// UnmarshalJSON implements [json.Unmarshaler].
func (c *Call) UnmarshalJSON(p []byte) error {
	*c = Call{Arguments: emptyObject}
	var fields map[string]json.RawMessage
	if !isObject(p) || json.Unmarshal(p, &fields) != nil {
		return nil
	}
	c.Name, _ = readText(fields["name"])
	if isObject(fields["arguments"]) {
		c.Arguments = fields["arguments"]
	}
	return nil
}

// Plan is an entry that the gateway can be asked to run.
type Plan struct {
	Position  int // among the entries of the call
	Name      string
	Parsed    Name
	Arguments json.RawMessage
}

// Parts are the entries of a call by what can be done with them.
type Parts struct {
	Local  []int                  // positions of entries that are no connector's
	Remote []Plan                 // to be sent, in order
	Errors []subjects.EntryResult // connector names that do not parse; nothing is sent for them
}

// Partition sorts the entries of a call.
func Partition(calls []Call) Parts {
	p := Parts{Local: []int{}, Remote: []Plan{}, Errors: []subjects.EntryResult{}}
	for i, c := range calls {
		name, parsed := ParseName(c.Name)
		switch {
		case parsed:
			if !isObject(c.Arguments) {
				c.Arguments = emptyObject
			}
			p.Remote = append(p.Remote, Plan{Position: i, Name: c.Name, Parsed: name, Arguments: c.Arguments})
		case IsName(c.Name):
			p.Errors = append(p.Errors, Malformed(i, c.Name))
		default:
			p.Local = append(p.Local, i)
		}
	}
	return p
}

// Malformed is the result of an entry whose connector name does not parse.
func Malformed(index int, name string) subjects.EntryResult {
	return failed(index, name, subjects.EntryToolNotFound, messageMalformed)
}

// Interrupted is the result of an entry that a stop has reached before it was sent.
func Interrupted(index int, name string) subjects.EntryResult {
	return failed(index, name, subjects.EntryInterrupted, messageInterrupted)
}

func failed(index int, name string, code subjects.EntryCode, message string) subjects.EntryResult {
	return subjects.EntryResult{Index: index, Name: name, Error: &subjects.EntryError{Code: code, Message: message}}
}

// Splice puts the rows of an answer beside the plans that were sent. They belong together by position; an index
// that the gateway names is not trusted. A nil row, or none, is a failure of its own; surplus rows are ignored.
func Splice(plans []Plan, rows []*Row, surface subjects.Surface) []subjects.EntryResult {
	out := make([]subjects.EntryResult, len(plans))
	for i, p := range plans {
		var row *Row
		if i < len(rows) {
			row = rows[i]
		}
		out[i] = splice(p, row, surface)
	}
	return out
}

func splice(p Plan, row *Row, surface subjects.Surface) subjects.EntryResult {
	switch {
	case row == nil:
		return failed(p.Position, p.Name, subjects.EntryProviderError, messageNoResult)
	case row.Error == nil:
		data := row.Data
		if len(data) == 0 {
			data = json.RawMessage("null")
		}
		return subjects.EntryResult{Index: p.Position, Name: p.Name, Response: data, Account: row.Account}
	}
	return subjects.EntryResult{Index: p.Position, Name: p.Name, Account: row.Account,
		Error: entryError(row.Error, p.Parsed.Connector, surface)}
}

func entryError(e *RowError, connector string, surface subjects.Surface) *subjects.EntryError {
	out := &subjects.EntryError{Code: e.Code, Message: e.Message, Connector: e.Connector, Hint: e.Hint}
	if out.Code == "" {
		out.Code = subjects.EntryProviderError
	}
	if out.Message == "" {
		out.Message = messageRemoteError
	}
	if out.Code != subjects.EntryConnectionRequired {
		return out
	}
	if out.Connector == "" {
		out.Connector = connector
	}
	out.ConnectionID = e.ConnectionID
	// A card and a side agent get no URL: the one has a better way to connect, the other nobody to show it to.
	switch surface {
	case subjects.SurfaceCard:
		out.ConnectCardAvailable, out.Hint = true, hintCard(out.Connector)
	case subjects.SurfaceSide:
		out.Hint = hintSide
	default:
		out.ConnectURL = e.ConnectURL // and whatever hint the gateway gave
	}
	return out
}

// AssembleResults is the reply to a batch of total entries. Groups are taken in order; an entry claims the slot of its
// index if there is one and it is free. Slots that nobody claims are failures.
func AssembleResults(total int, groups ...[]subjects.EntryResult) *subjects.BatchReply {
	total = max(0, total)
	r := &subjects.BatchReply{Results: make([]subjects.EntryResult, total), TotalCount: total}
	claimed := make([]bool, total)
	for _, group := range groups {
		for _, e := range group {
			if e.Index >= 0 && e.Index < total && !claimed[e.Index] {
				claimed[e.Index], r.Results[e.Index] = true, e
			}
		}
	}
	for i := range r.Results {
		if !claimed[i] {
			r.Results[i] = failed(i, "", subjects.EntryProviderError, messageNoSlot)
		}
		if r.Results[i].Error != nil {
			r.ErrorCount++
		}
	}
	r.SuccessCount = total - r.ErrorCount
	return r
}
