package catalog

import (
	"encoding/json"
	"strings"

	"toolsearch/subjects"
)

// The bridge tools, in the order in which they follow the visible tools.
const (
	BridgeSearch   = "tool_search"
	BridgeDescribe = "tool_describe"
	BridgeCall     = "tool_call"
)

// ConnectorPrefix begins the names of all connector tools, connectors__<connector>__<tool>.
const ConnectorPrefix = "connectors__"

// ManageConnections is the tool whose grant brings the connectors with it, unless a request says otherwise.
const ManageConnections = "manage_connections"

// The bounds of one call of a bridge tool.
const (
	MaxQueries = 7  // queries of one tool_search
	MaxNames   = 10 // names of one tool_describe
)

// IsBridge reports whether name is one of the three bridge tools.
func IsBridge(name string) bool {
	return name == BridgeSearch || name == BridgeDescribe || name == BridgeCall
}

// bridge is what the three bridge tools are made from.
type bridge struct {
	deferred   int
	connectors bool
	side       bool // the session cannot connect accounts
	listing    listing
	format     subjects.Format
}

// schemas writes the three definitions.
func (b bridge) schemas() []json.RawMessage {
	queries := member("queries", arrayOf(typed("string", ""), textSearchQueries))
	limit := member("limit", typed("integer", textSearchLimit))
	names := member("names", arrayOf(typed("string", ""), textDescribeNames))
	call := objectOf(member("name", typed("string", textCallName))+","+member("arguments", typed("object", textCallArgs)), "name", "arguments")
	calls := member("calls", arrayOf(call, textCallCalls))
	return []json.RawMessage{
		b.definition(BridgeSearch, b.searchText(), objectOf(queries+","+limit, "queries")),
		b.definition(BridgeDescribe, textDescribe, objectOf(names, "names")),
		b.definition(BridgeCall, textCall, objectOf(calls, "calls")),
	}
}

// searchText is the description of tool_search: what it is for, and what there is to be found.
func (b bridge) searchText() string {
	text := textSearchLead(b.deferred) + textSearchBody
	switch {
	case b.connectors && b.side:
		text += textSearchConnectionsSide
	case b.connectors:
		text += textSearchConnections
	}
	if b.listing.text == "" {
		return text
	}
	frame := textSearchFrameListed
	switch b.listing.form {
	case FormMixed:
		frame = textSearchFrameMixed
	case FormGroups:
		frame = textSearchFrameGroups
	}
	return text + "\n\n" + frame + "\n\n" + b.listing.text
}

// definition writes one tool in the bridge's format, compact and with its keys in the order that is usual there.
func (b bridge) definition(name, description, parameters string) json.RawMessage {
	key := "parameters"
	switch b.format {
	case subjects.FormatMCP:
		key = "inputSchema"
	case subjects.FormatAnthropic:
		key = "input_schema"
	}
	bare := "{" + member("name", jsonText(name)) + "," + member("description", jsonText(description)) + "," + member(key, parameters) + "}"
	if b.format == subjects.FormatOpenAI {
		bare = "{" + member("type", `"function"`) + "," + member("function", bare) + "}"
	}
	return json.RawMessage(bare)
}

// The few pieces of JSON Schema that the bridge tools need, written by hand so that their keys keep one order.

func jsonText(s string) string { return string(subjects.AppendString(nil, s)) }

func member(key, value string) string { return jsonText(key) + ":" + value }

func typed(kind, description string) string {
	if description == "" {
		return "{" + member("type", jsonText(kind)) + "}"
	}
	return "{" + member("type", jsonText(kind)) + "," + member("description", jsonText(description)) + "}"
}

func arrayOf(items, description string) string {
	return "{" + member("type", `"array"`) + "," + member("items", items) + "," + member("description", jsonText(description)) + "}"
}

func objectOf(properties string, required ...string) string {
	names := make([]string, len(required))
	for i, name := range required {
		names[i] = jsonText(name)
	}
	return "{" + member("type", `"object"`) + "," + member("properties", "{"+properties+"}") + "," +
		member("required", "["+strings.Join(names, ",")+"]") + "}"
}
