package catalog

import (
	"encoding/json"
	"testing"

	"toolsearch/catalog/catalogtest"
	"toolsearch/subjects"
)

// grantedNames lists the tools that a scope holds, in the catalog's order.
func grantedNames(s *Scope) []string {
	names := []string{}
	for i := range s.Granted().All() {
		names = append(names, s.Catalog().Tool(i).Name)
	}
	return names
}

// toolsetTools has one tool a toolset, named for it, and one that has none.
func toolsetTools() []catalogtest.Element {
	return []catalogtest.Element{
		catalogtest.Tool("mcp-a", "a", ""), catalogtest.Tool("mcp-b", "b", ""), catalogtest.Tool("b", "plain_b", ""),
		catalogtest.Tool("kanban", "kanban_complete", ""), catalogtest.Tool("", "loose", ""),
	}
}

func TestGrant(t *testing.T) {
	t.Parallel()
	list := func(names ...string) *[]string { return &names }
	for _, c := range []struct {
		name    string
		req     subjects.AssembleRequest
		want    []string
		unknown []string
	}{
		{"all", subjects.AssembleRequest{}, []string{"a", "b", "plain_b", "kanban_complete", "loose"}, nil},
		{"none", subjects.AssembleRequest{EnabledToolsets: list()}, []string{}, nil},
		{"some", subjects.AssembleRequest{EnabledToolsets: list("mcp-a", "kanban")}, []string{"a", "kanban_complete"}, nil},
		{"without the prefix", subjects.AssembleRequest{EnabledToolsets: list("a")}, []string{"a"}, nil},
		{"its own name first", subjects.AssembleRequest{EnabledToolsets: list("b")}, []string{"plain_b"}, nil},
		{"with the prefix", subjects.AssembleRequest{EnabledToolsets: list("mcp-b")}, []string{"b"}, nil},
		{"disabled last", subjects.AssembleRequest{EnabledToolsets: list("a", "b"), DisabledToolsets: []string{"mcp-a"}}, []string{"plain_b"}, nil},
		{"disabled of all", subjects.AssembleRequest{DisabledToolsets: []string{"a", "b"}}, []string{"b", "kanban_complete", "loose"}, nil},
		{"required survives", subjects.AssembleRequest{DisabledToolsets: []string{"kanban", "a"}, RequiredToolsets: []string{"kanban"}},
			[]string{"b", "plain_b", "kanban_complete", "loose"}, nil},
		{"required of an allow-list", subjects.AssembleRequest{EnabledToolsets: list("a"), RequiredToolsets: []string{"kanban"}},
			[]string{"a", "kanban_complete"}, nil},
		{"unknown", subjects.AssembleRequest{EnabledToolsets: list("nope", "a", "", "nope"), DisabledToolsets: []string{"gone"}, RequiredToolsets: []string{"nope"}},
			[]string{"a"}, []string{"nope", "", "gone"}},
		{"case counts", subjects.AssembleRequest{EnabledToolsets: list("A")}, []string{}, []string{"A"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newTestScope(t, toolsetTools(), &c.req, nil)
			requireEqual(t, "granted", c.want, grantedNames(s))
			requireEqual(t, "unknown", c.unknown, s.UnknownToolsets())
			for i := range s.Deferred().All() {
				if !s.Granted().Contains(i) {
					t.Errorf("tool %d is deferred and not granted", i)
				}
			}
		})
	}
}

func TestGrantWithinParent(t *testing.T) {
	t.Parallel()
	list := func(names ...string) *[]string { return &names }
	manage := catalogtest.Tool("connections", ManageConnections, "")
	parentTools := append(toolsetTools(), manage)
	parent := newTestScope(t, parentTools, &subjects.AssembleRequest{EnabledToolsets: list("a", "b", "mcp-b", "connections")}, nil)
	yes := true

	same := newTestScope(t, parentTools, &subjects.AssembleRequest{Connectors: &yes}, parent)
	requireEqual(t, "same catalog", []string{"a", "b", "plain_b", ManageConnections}, grantedNames(same))
	requireEqual(t, "connectors", true, same.Connectors())

	moved := catalogtest.Tool("mcp-other", "b", "")
	hosted := catalogtest.Tool("mcp-a", "a", "")
	hosted.Host = "elsewhere"
	changed := []catalogtest.Element{moved, hosted, catalogtest.Tool("b", "plain_b", "Another description."), catalogtest.Tool("mcp-a", "new", ""), manage}
	other := newTestScope(t, changed, &subjects.AssembleRequest{}, parent)
	requireEqual(t, "another catalog", []string{"plain_b", ManageConnections}, grantedNames(other))

	// What a required toolset brings is within the parent too, and a grandchild within both.
	child := newTestScope(t, parentTools, &subjects.AssembleRequest{EnabledToolsets: list("a"), RequiredToolsets: []string{"kanban"}}, parent)
	requireEqual(t, "required", []string{"a"}, grantedNames(child))
	requireEqual(t, "connectors", false, child.Connectors())
	grandchild := newTestScope(t, parentTools, &subjects.AssembleRequest{Connectors: &yes}, child)
	requireEqual(t, "grandchild", []string{"a"}, grantedNames(grandchild))
	requireEqual(t, "connectors", false, grandchild.Connectors())
}

// TestDefers goes through the rules in their order.
func TestDefers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		config, name, toolset string
		want                  bool
	}{
		{`{}`, "tool_call", "mcp-a", false},
		{`{"defer":["tool_call"]}`, "tool_call", "mcp-a", false},
		{`{"defer":["terminal"]}`, "terminal", "terminal", true},
		{`{"defer":["loose"]}`, "loose", "", true},
		{`{"defer":["focus"]}`, "focus", "desktop_ui", true},
		{`{}`, "terminal", "mcp-a", false},
		{`{}`, "todo_list", "todo", true},
		{`{"defer":["x"]}`, "todo_list", "todo", false},
		{`{}`, "clarify", "clarify", false},
		{`{}`, "loose", "", false},
		{`{}`, "any", "mcp-a", true},
		{`{}`, "any", "desktop_ui", false},
		{`{}`, "any", "project", false},
		{`{}`, "any", "setup", false},
		{`{}`, "any", "calendar", true},
		{`{}`, "any", "mcp-setup", true},
		{`{"defer":[]}`, "any", "mcp-a", false},
		{`{"defer":[]}`, "todo_list", "todo", false},
	} {
		config, _ := DefaultConfig().Overlay(json.RawMessage(c.config))
		if got := newDeferral(config, nil).defers(c.name, c.toolset); got != c.want {
			t.Errorf("%s: %s of %q defers: %v", c.config, c.name, c.toolset, got)
		}
	}
	requireEqual(t, "replaced core list", true, newDeferral(DefaultConfig(), []string{}).defers("terminal", "terminal"))
}
