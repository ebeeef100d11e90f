package catalog

import (
	"encoding/json"
	"strings"
	"testing"

	"toolsearch/catalog/catalogtest"
	"toolsearch/subjects"
)

// TestDescribeVectors runs the cases that ask no gateway; those that do are run where the gateway is.
func TestDescribeVectors(t *testing.T) {
	t.Parallel()
	runVectors(t, "describe.jsonl", "describe", func(t *testing.T, v catalogtest.Vector) {
		var given struct {
			scopeGiven
			Arguments json.RawMessage
		}
		var want struct {
			Error     *message
			Described []string
			NotFound  []string `json:"not_found"`
			Hint      *message
			Errors    map[string]*message
			Requests  []json.RawMessage
		}
		v.DecodeGiven(t, &given)
		v.DecodeWant(t, &want)
		if len(want.Requests) > 0 {
			t.Skip("asks the gateway")
		}
		s := given.scope(t, v)
		names, err := s.ParseDescribe(given.Arguments)
		checkToolError(t, want.Error, err)
		if err != nil {
			return
		}
		got := s.Describe(names, nil)
		requireEqual(t, "described", want.Described, got.Tools.Keys())
		requireEqual(t, "not_found", want.NotFound, got.NotFound)
		checkMessage(t, "hint", want.Hint, got.Hint)
		for _, e := range got.Errors {
			checkMessage(t, "error of "+e.Key, want.Errors[e.Key], e.Value)
		}
		requireEqual(t, "errors", len(want.Errors), len(got.Errors))
		for _, tool := range got.Tools {
			i, _ := s.catalog.Lookup(tool.Key)
			registered := functionOf(t, s.catalog.Tool(i).Definition)
			requireEqual(t, "description", registered.Description, tool.Value.Description)
			requireEqual(t, "parameters", string(registered.Parameters), string(tool.Value.Parameters))
		}
		if encoded := got.AppendModel(nil); string(encoded) != string(modelBody(t, got)) {
			t.Errorf("the encoder wrote\n%s\ninstead of\n%s", encoded, modelBody(t, got))
		}
	})
}

func TestDescribeShapes(t *testing.T) {
	t.Parallel()
	tools := []catalogtest.Element{
		{Toolset: "mcp-a", Tool: json.RawMessage(`{"name":"plain","parameters":{"b":1.0, "a":"\u00e9\u2028"}}`)},
		{Toolset: "mcp-a", Tool: json.RawMessage(`{"name":"bare","description":null}`)},
		{Toolset: "mcp-a", Tool: json.RawMessage(`{"name":"odd","description":"d","input_schema":true}`)},
	}
	s := newTestScope(t, tools, &subjects.AssembleRequest{}, nil)
	got := s.Describe([]string{"odd", "plain", "bare"}, nil)
	requireEqual(t, "reply", `{"tools": {"odd": {"description": "d", "parameters": {}}, `+
		`"plain": {"description": "", "parameters": {"b": 1.0, "a": "\u00e9`+"\u2028"+`"}}, "bare": {"description": "", "parameters": {}}}}`,
		string(got.AppendModel(nil)))
}

func TestDescribeConnectors(t *testing.T) {
	t.Parallel()
	s := newTestScope(t, sampleTools(), &subjects.AssembleRequest{}, nil)
	names := []string{"connectors__gmail__SEND", "connectors__gmail__GONE", "connectors__broken", "mcp__slack__post_message", "nope"}
	send := map[string]subjects.ToolSchema{"connectors__gmail__SEND": {Description: "Sends."}}
	condition := &subjects.ConnectorsCondition{Status: "unavailable", Reason: "unreachable", Hint: "later"}

	t.Run("answered", func(t *testing.T) {
		t.Parallel()
		got := s.Describe(names, &RemoteDescribe{Schemas: send})
		requireEqual(t, "described", []string{"connectors__gmail__SEND", "mcp__slack__post_message"}, got.Tools.Keys())
		requireEqual(t, "not_found", []string{"connectors__gmail__GONE", "connectors__broken", "nope"}, got.NotFound)
		requireEqual(t, "parameters", "{}", string(got.Tools[0].Value.Parameters))
	})
	t.Run("failed", func(t *testing.T) {
		t.Parallel()
		got := s.Describe(names, &RemoteDescribe{Failed: true, Condition: condition})
		requireEqual(t, "not_found", []string{"nope"}, got.NotFound)
		requireEqual(t, "names", names[:3], got.Connectors.Names)
		if condition.Names != nil {
			t.Error("the shared condition was changed")
		}
	})
	t.Run("failed silently", func(t *testing.T) {
		t.Parallel()
		got := s.Describe(names, &RemoteDescribe{Failed: true})
		requireEqual(t, "not_found", []string{"connectors__gmail__SEND", "connectors__gmail__GONE", "connectors__broken", "nope"}, got.NotFound)
	})
}

// TestDescribeElsewhere asks for tools that the session has directly, or not at all.
func TestDescribeElsewhere(t *testing.T) {
	t.Parallel()
	enabled := []string{"file", "github"}
	s := newTestScope(t, sampleTools(), &subjects.AssembleRequest{EnabledToolsets: &enabled}, nil)
	got := s.Describe([]string{"read_file", "terminal", "mcp__slack__post_message", "memory", "tool_search", "loose_end"}, nil)
	requireEqual(t, "not_found", []string{"mcp__slack__post_message", "memory", "tool_search"}, got.NotFound)
	requireEqual(t, "errors", []string{"read_file", "terminal", "loose_end"}, got.Errors.Keys())
	for i, want := range []string{"listed to you directly", "not offered", "not offered"} {
		if text := got.Errors[i].Value; !strings.Contains(text, want) {
			t.Errorf("%s: %q does not say %q", got.Errors[i].Key, text, want)
		}
	}
}

func TestParseDescribe(t *testing.T) {
	t.Parallel()
	s := newTestScope(t, sampleTools(), &subjects.AssembleRequest{}, nil)
	names, err := s.ParseDescribe(json.RawMessage(`{"names":["b","a"," b ","",null]}`))
	if err != nil {
		t.Fatal(err)
	}
	requireEqual(t, "names", []string{"b", "a"}, names)
	for _, bad := range []string{`{}`, `{"names":{}}`, `{"names":[" "]}`, `{"names":["` + strings.Repeat("n", 10_000) + `"]}`,
		`{"names":[1,2,3,4,5,6,7,8,9,10,11]}`} {
		_, err := s.ParseDescribe(json.RawMessage(bad))
		checkToolError(t, &message{ID: bad, Mentions: []string{"names"}}, err)
	}
}
