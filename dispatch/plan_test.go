package dispatch

import (
	"encoding/json"
	"testing"
)

func TestPeek(t *testing.T) {
	t.Parallel()
	s := deskScope(t, false)
	opaque := View{Name: "tool_call"}
	for _, tc := range []struct {
		name      string
		arguments json.RawMessage
		want      View
	}{
		{"a parallel tool", call("mcp__desk__get"), View{"mcp__desk__get", true}},
		{"its arguments do not matter", json.RawMessage(`{"name":"mcp__desk__get"}`), View{"mcp__desk__get", true}},
		{"a tool that is not", call("mcp__desk__set"), View{"mcp__desk__set", false}},
		{"a connector", call("connectors__a__b"), View{"connectors__execute", true}},
		{"connectors, granted or not", call("connectors__a__b", "connectors__broken"), View{"connectors__execute", true}},
		{"a mixed batch", call("connectors__a__b", "mcp__desk__get"), opaque},
		{"a local batch", call("mcp__desk__get", "mcp__desk__get"), opaque},
		{"an unknown name", call("nope"), opaque},
		{"no call at all", json.RawMessage(`[]`), opaque},
		{"nothing", nil, opaque},
	} {
		if got := Peek(s, tc.arguments); got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

func TestPlanKindString(t *testing.T) {
	t.Parallel()
	for kind, want := range map[PlanKind]string{0: "none", Caller: "caller", Host: "host", Connectors: "connectors"} {
		if kind.String() != want {
			t.Errorf("%d is %q, want %q", int(kind), kind, want)
		}
	}
}
