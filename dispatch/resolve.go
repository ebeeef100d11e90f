package dispatch

import (
	"encoding/json"
	"strings"

	"toolsearch/catalog"
	"toolsearch/subjects"
)

// Resolve decides what a tool_call is, from the scope and what the model wrote. In this order: the shape of the
// arguments, the batch rule, for connectors whether they are granted and how many there are, for a local tool whether
// it is deferred in this scope, then its arguments. What fails is the model's mistake, a [*subjects.ToolError] or a
// [*Refusal], and nothing was sent anywhere; a [*subjects.Error] is the runtime's.
func Resolve(s *catalog.Scope, arguments json.RawMessage) (*Plan, error) {
	entries, err := Normalise(arguments)
	if err != nil {
		return nil, err
	}
	if allConnectors(entries) {
		return resolveConnectors(s, entries)
	}
	if len(entries) > 1 {
		return nil, &subjects.ToolError{Message: textLocalBatch(len(entries), validCall(entries[0]))}
	}
	return resolveLocal(s, entries[0])
}

func isConnector(name string) bool { return strings.HasPrefix(name, catalog.ConnectorPrefix) }

func allConnectors(entries []Entry) bool {
	for _, e := range entries {
		if !isConnector(e.Name) {
			return false
		}
	}
	return true
}

func resolveConnectors(s *catalog.Scope, entries []Entry) (*Plan, error) {
	if !s.Connectors() {
		return nil, &subjects.ToolError{Message: textNoConnectors}
	}
	if len(entries) > MaxBatch {
		return nil, &subjects.ToolError{Message: textBatchCap(len(entries))}
	}
	return &Plan{Kind: Connectors, Entries: entries}, nil
}

func resolveLocal(s *catalog.Scope, e Entry) (*Plan, error) {
	i, ok := s.Catalog().Lookup(e.Name)
	if !ok || !s.Deferred().Contains(i) {
		return nil, &subjects.ToolError{Message: Bounded(s.WrongDoor(e.Name))}
	}
	tool := s.Catalog().Tool(i)
	checked, err := check(tool.Name, tool.Parameters, e.Arguments)
	if err != nil {
		return nil, err
	}
	e.Arguments = checked.Arguments
	p := &Plan{Kind: Host, Entries: []Entry{e}, Tool: tool, Unchecked: checked.Unchecked}
	if tool.Host == "" {
		p.Kind = Caller
		p.Reply = &subjects.CallerDispatch{Dispatch: "caller", Name: tool.Name, Arguments: e.Arguments, Parallel: tool.Parallel}
	}
	return p, nil
}

// validCall is the call of one entry as compact JSON, ready to be sent; {...} stands for arguments that are too long
// to repeat.
func validCall(e Entry) string {
	arguments := "{...}"
	// A character takes at most 12 bytes, as two escapes; what is far beyond that is not even read.
	if len(e.Arguments) <= 4*12*maxEcho {
		if compact := string(parse(e.Arguments).append(nil)); firstRunes(compact, maxEcho) == compact {
			arguments = compact
		}
	}
	name := subjects.AppendString(nil, e.Name)
	return `{"calls":[{"name":` + string(name) + `,"arguments":` + arguments + `}]}`
}
