package catalog

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"toolsearch/catalog/catalogtest"
	"toolsearch/subjects"
)

// named are the names of assembled definitions, in their order.
func named(t *testing.T, reply *subjects.AssembleReply) []string {
	t.Helper()
	var names []string
	for _, raw := range reply.Tools {
		d := struct {
			Name     string
			Function struct{ Name string }
		}{}
		if err := json.Unmarshal(raw, &d); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		names = append(names, d.Name+d.Function.Name)
	}
	return names
}

func toolOf(toolset, definition string) catalogtest.Element {
	return catalogtest.Element{Toolset: toolset, Tool: json.RawMessage(definition)}
}

func TestManageConnectionsIsSupplied(t *testing.T) {
	t.Parallel()
	core := toolOf("", `{"name":"terminal","description":"Run","parameters":{"type":"object"}}`)
	own := toolOf("connections", `{"name":"manage_connections","description":"Mine","parameters":{"type":"object"}}`)
	yes, no := true, false
	for name, c := range map[string]struct {
		tools []catalogtest.Element
		req   subjects.AssembleRequest
		want  []string
	}{
		"asked for":         {[]catalogtest.Element{core}, subjects.AssembleRequest{Connectors: &yes}, []string{"terminal", "manage_connections", "tool_search", "tool_describe", "tool_call"}},
		"on a card":         {[]catalogtest.Element{core}, subjects.AssembleRequest{Connectors: &yes, Surface: subjects.SurfaceCard}, []string{"terminal", "manage_connections", "tool_search", "tool_describe", "tool_call"}},
		"to a side agent":   {[]catalogtest.Element{core}, subjects.AssembleRequest{Connectors: &yes, Surface: subjects.SurfaceSide}, []string{"terminal", "tool_search", "tool_describe", "tool_call"}},
		"own, side agent":   {[]catalogtest.Element{core, own}, subjects.AssembleRequest{Surface: subjects.SurfaceSide}, []string{"terminal", "tool_search", "tool_describe", "tool_call"}},
		"not asked for":     {[]catalogtest.Element{core}, subjects.AssembleRequest{}, []string{"terminal"}},
		"refused":           {[]catalogtest.Element{core}, subjects.AssembleRequest{Connectors: &no}, []string{"terminal"}},
		"brought":           {[]catalogtest.Element{own, core}, subjects.AssembleRequest{Connectors: &yes}, []string{"manage_connections", "terminal", "tool_search", "tool_describe", "tool_call"}},
		"brought, withheld": {[]catalogtest.Element{own, core}, subjects.AssembleRequest{Connectors: &yes, DisabledToolsets: []string{"connections"}}, []string{"terminal", "tool_search", "tool_describe", "tool_call"}},
		"bridge off":        {[]catalogtest.Element{core}, subjects.AssembleRequest{Connectors: &yes, Config: json.RawMessage(`{"enabled":"off"}`)}, []string{"terminal", "manage_connections"}},
	} {
		s := newTestScope(t, c.tools, &c.req, nil)
		reply := s.Assemble()
		if got := named(t, reply); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if i := slices.Index(named(t, reply), ManageConnections); name == "brought" && !strings.Contains(string(reply.Tools[i]), "Mine") {
			t.Errorf("the caller's own definition was replaced")
		}
	}
}

// The supplied definition comes in the session's format and says what may be done and what may not.
func TestManageConnectionsDefinition(t *testing.T) {
	t.Parallel()
	keys := map[subjects.Format]string{subjects.FormatOpenAI: "parameters", subjects.FormatBare: "parameters",
		subjects.FormatMCP: "inputSchema", subjects.FormatAnthropic: "input_schema"}
	for format, key := range keys {
		raw := connectionsDefinition(format)
		var d map[string]json.RawMessage
		if err := json.Unmarshal(raw, &d); err != nil {
			t.Fatal(err)
		}
		if format == subjects.FormatOpenAI {
			raw = d["function"]
			if err := json.Unmarshal(raw, &d); err != nil {
				t.Fatal(err)
			}
		}
		var schema struct {
			Properties struct {
				Action            struct{ Enum []string }
				Connectors, Force json.RawMessage
			}
		}
		if err := json.Unmarshal(d[key], &schema); err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		if want := "status connect reconnect rename install enable authorize"; strings.Join(schema.Properties.Action.Enum, " ") != want {
			t.Errorf("%s: actions %v", format, schema.Properties.Action.Enum)
		}
		if schema.Properties.Connectors == nil || schema.Properties.Force == nil || strings.Contains(string(raw), "disconnect\"") {
			t.Errorf("%s: %s", format, raw)
		}
	}
}

func TestManageConnectionsIsNotBehindTheBridge(t *testing.T) {
	t.Parallel()
	yes := true
	core := toolOf("", `{"name":"terminal","description":"Run","parameters":{"type":"object"}}`)
	s := newTestScope(t, []catalogtest.Element{core}, &subjects.AssembleRequest{Connectors: &yes}, nil)
	if got := s.WrongDoor(ManageConnections); !strings.Contains(got, "directly") {
		t.Error(got)
	}
	side := newTestScope(t, []catalogtest.Element{core}, &subjects.AssembleRequest{Connectors: &yes, Surface: subjects.SurfaceSide}, nil)
	if got := side.WrongDoor(ManageConnections); !strings.Contains(got, "not offered") {
		t.Error(got)
	}
}
