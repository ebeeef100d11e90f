package catalog

import (
	"encoding/json"
	"strings"

	"toolsearch/subjects"
)

// RemoteDescribe is what the connectors' gateway told of the connector tools among the names.
type RemoteDescribe struct {
	// Schemas are the tools it knows, by composed name.
	Schemas map[string]subjects.ToolSchema
	// Failed says that the gateway could not be asked, so that a missing schema says nothing of the tool.
	Failed bool
	// Condition says why, nil for nothing to tell. It becomes a part of the reply, with the names that it concerns.
	Condition *subjects.ConnectorsCondition
}

// ParseDescribe reads the arguments of a tool_describe: 1 to [MaxNames] names without repeats, each at most
// [MaxListItem] characters. Errors are as with [Scope.ParseSearch].
func (s *Scope) ParseDescribe(arguments json.RawMessage) ([]string, error) {
	fields, err := argumentFields(arguments)
	if err != nil {
		return nil, err
	}
	return stringList("names", fields["names"], MaxNames, true)
}

// Describe answers with the schemas of the named tools, as they were registered. Names are exact. remote is nil where
// the gateway was not asked; then no connector tool is found.
func (s *Scope) Describe(names []string, remote *RemoteDescribe) *subjects.DescribeReply {
	if remote == nil {
		remote = &RemoteDescribe{}
	}
	reply := &subjects.DescribeReply{Tools: make(subjects.Ordered[subjects.ToolSchema], 0, len(names))}
	var unasked []string
	for _, name := range names {
		if schema, ok := s.schema(name, remote); ok {
			reply.Tools = append(reply.Tools, subjects.Pair[subjects.ToolSchema]{Key: name, Value: schema})
			continue
		}
		switch {
		case strings.HasPrefix(name, ConnectorPrefix):
			if remote.Failed && remote.Condition != nil {
				unasked = append(unasked, name)
			} else {
				reply.NotFound = append(reply.NotFound, name)
			}
		case s.standsElsewhere(name):
			reply.Errors = append(reply.Errors, subjects.Pair[string]{Key: name, Value: s.WrongDoor(name)})
		default:
			reply.NotFound = append(reply.NotFound, name)
		}
	}
	if len(reply.NotFound) > 0 {
		reply.Hint = textNotFound
	}
	if remote.Condition != nil {
		condition := *remote.Condition
		condition.Names = unasked
		reply.Connectors = &condition
	}
	return reply
}

// schema is what is told of a deferred tool, or of one that the gateway knows.
func (s *Scope) schema(name string, remote *RemoteDescribe) (schema subjects.ToolSchema, ok bool) {
	if i, found := s.catalog.Lookup(name); found && s.deferred.Contains(i) {
		t := &s.catalog.tools[i]
		schema, ok = subjects.ToolSchema{Description: t.Description, Parameters: t.Parameters}, true
	} else {
		schema, ok = remote.Schemas[name]
	}
	if ok && schema.Parameters == nil {
		schema.Parameters = json.RawMessage("{}")
	}
	return schema, ok
}

// standsElsewhere reports a tool of the catalog that is not reached through the bridge, whether this session has it or
// not.
func (s *Scope) standsElsewhere(name string) bool {
	_, ok := s.catalog.Lookup(name)
	return ok && !IsBridge(name) && !s.elsewhere(name)
}
