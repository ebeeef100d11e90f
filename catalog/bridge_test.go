package catalog

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"toolsearch/subjects"
)

// TestBridgeFormats has the same three tools in each of the four shapes.
func TestBridgeFormats(t *testing.T) {
	t.Parallel()
	want := bridge{deferred: 7, format: subjects.FormatOpenAI}.schemas()
	for format, prefix := range map[subjects.Format]string{
		subjects.FormatOpenAI:    `{"type":"function","function":{"name":"tool_`,
		subjects.FormatBare:      `{"name":"tool_`,
		subjects.FormatMCP:       `{"name":"tool_`,
		subjects.FormatAnthropic: `{"name":"tool_`,
	} {
		key := map[subjects.Format]string{subjects.FormatMCP: "inputSchema", subjects.FormatAnthropic: "input_schema"}[format]
		if key == "" {
			key = "parameters"
		}
		for i, definition := range (bridge{deferred: 7, format: format}).schemas() {
			if !json.Valid(definition) || !bytes.HasPrefix(definition, []byte(prefix)) || !bytes.Contains(definition, []byte(`,"`+key+`":{"type":"object","properties":{`)) {
				t.Errorf("%s: %s", format, definition)
			}
			requireEqual(t, string(format), functionOf(t, want[i]), functionOf(t, definition))
		}
	}
}

func TestBridgeSchemas(t *testing.T) {
	t.Parallel()
	schemas := bridge{deferred: 2, format: subjects.FormatOpenAI}.schemas()
	requireEqual(t, "names", []string{BridgeSearch, BridgeDescribe, BridgeCall}, namesOf(t, schemas))
	type property struct {
		Type  string
		Items json.RawMessage
	}
	type parameters struct {
		Type       string
		Properties map[string]property
		Required   []string
	}
	read := func(raw json.RawMessage) (p parameters) {
		if err := json.Unmarshal(raw, &p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	search, describe, call := read(functionOf(t, schemas[0]).Parameters), read(functionOf(t, schemas[1]).Parameters), read(functionOf(t, schemas[2]).Parameters)
	requireEqual(t, "search", []string{"queries"}, search.Required)
	requireEqual(t, "queries", property{"array", json.RawMessage(`{"type":"string"}`)}, search.Properties["queries"])
	requireEqual(t, "limit", "integer", search.Properties["limit"].Type)
	requireEqual(t, "describe", []string{"names"}, describe.Required)
	requireEqual(t, "call", []string{"calls"}, call.Required)
	item := read(call.Properties["calls"].Items)
	requireEqual(t, "entry", []string{"name", "arguments"}, item.Required)
	requireEqual(t, "arguments", "object", item.Properties["arguments"].Type)
}

// TestBridgeTexts holds the description of tool_search against what it must tell in each case.
func TestBridgeTexts(t *testing.T) {
	t.Parallel()
	text := func(b bridge) string { return b.searchText() }
	listed := func(form string) listing { return listing{form, "THE LISTING"} }
	for _, c := range []struct {
		name      string
		got       string
		want, not []string
	}{
		{"count", text(bridge{deferred: 1234}), []string{"1234", "on demand", "keywords", "tool_describe", "tool_call"}, []string{ConnectorPrefix, "listed"}},
		{"one", text(bridge{deferred: 1}), []string{"1 more is"}, nil},
		{"connectors alone", text(bridge{connectors: true}), []string{"remote", ConnectorPrefix, ManageConnections}, []string{"0 more"}},
		{"full", text(bridge{deferred: 2, listing: listed(FormFull)}), []string{"listed name exists", "\n\nTHE LISTING"}, []string{"not listed"}},
		{"names", text(bridge{deferred: 2, listing: listed(FormNames)}), []string{"listed name exists"}, []string{"not listed"}},
		{"mixed", text(bridge{deferred: 2, listing: listed(FormMixed)}), []string{"listed name exists", "names not listed"}, nil},
		{"groups", text(bridge{deferred: 2, listing: listed(FormGroups)}), []string{"connected", "Search before"}, []string{"listed name exists"}},
	} {
		for _, want := range c.want {
			if !strings.Contains(c.got, want) {
				t.Errorf("%s: no %q in %s", c.name, want, c.got)
			}
		}
		for _, not := range c.not {
			if strings.Contains(c.got, not) {
				t.Errorf("%s: %q in %s", c.name, not, c.got)
			}
		}
	}
}
