package dispatch

import (
	"encoding/json"

	"toolsearch/catalog"
	"toolsearch/subjects"
)

// PlanKind says who runs a call.
type PlanKind int

// The kinds of plan: a tool that the caller runs, a tool that a host on the bus runs, and a batch for the gateway.
const (
	Caller PlanKind = iota + 1
	Host
	Connectors
)

func (k PlanKind) String() string {
	switch k {
	case Caller:
		return "caller"
	case Host:
		return "host"
	case Connectors:
		return "connectors"
	}
	return "none"
}

// Plan is a call that passed every check of the front half.
type Plan struct {
	Kind PlanKind
	// Entries are what is run, in order: one for Caller and Host, with repaired arguments; 1 to [MaxBatch] for
	// Connectors, as the model sent them, names that no connector can have included.
	Entries []Entry
	// Tool is the tool of a Caller or Host plan, nil for Connectors.
	Tool *catalog.Tool
	// Reply is the whole answer of a Caller plan, nil for the others.
	Reply *subjects.CallerDispatch
	// Unchecked says why the arguments were not validated, for a log; "" if they were, and for Connectors, whose
	// schemas are the gateway's. See [Checked].
	Unchecked string
}

// batchName is what a batch of connector calls is called where one name has to stand for it.
const batchName = catalog.ConnectorPrefix + "execute"

// View is a tool_call as a runtime sees it that plans which calls of one message may run side by side.
type View struct {
	// Name is the underlying tool's; connectors__execute for a batch of connector calls; tool_call for one that does
	// not resolve.
	Name string
	// Parallel says that it may run beside others. What does not resolve never may.
	Parallel bool
}

// Peek is the planner's view of a call. It looks at names only: whether the tool is granted and its arguments are
// right is found out by [Resolve], and changes nothing about the order of calls.
func Peek(s *catalog.Scope, arguments json.RawMessage) View {
	opaque := View{Name: catalog.BridgeCall}
	entries, err := Normalise(arguments)
	switch {
	case err != nil:
		return opaque
	case allConnectors(entries):
		return View{Name: batchName, Parallel: true}
	case len(entries) > 1:
		return opaque
	}
	i, ok := s.Catalog().Lookup(entries[0].Name)
	if !ok || !s.Deferred().Contains(i) {
		return opaque
	}
	tool := s.Catalog().Tool(i)
	return View{Name: tool.Name, Parallel: tool.Parallel}
}
