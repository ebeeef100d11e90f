package dispatch

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"toolsearch/catalog"
	"toolsearch/catalog/catalogtest"
	"toolsearch/subjects"
)

// deskScope has a tool that the caller runs, one that a host runs, a parallel one, and connectors or not.
func deskScope(t testing.TB, connectors bool) *catalog.Scope {
	t.Helper()
	tool := func(name, host string, parallel bool) catalogtest.Element {
		return catalogtest.Element{Toolset: "mcp-desk", Host: host, Parallel: parallel, Tool: fmt.Appendf(nil,
			`{"name":%q,"description":"d","parameters":{"type":"object","required":["id"],"properties":{"id":{"type":"integer"},"note":{"type":"string"}}}}`, name)}
	}
	c, err := catalog.Build(catalogtest.Array([]catalogtest.Element{
		tool("mcp__desk__get", "", true), tool("mcp__desk__set", "", false), tool("mcp__desk__print", "printer", true),
	}), catalog.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := catalog.NewScope(c, catalog.Owner{Tenant: "t", Session: "s"}, &subjects.AssembleRequest{Connectors: &connectors}, catalog.DefaultConfig(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func call(names ...string) json.RawMessage {
	var entries []string
	for _, n := range names {
		entries = append(entries, fmt.Sprintf(`{"name":%q,"arguments":{"note":"é","id":"7"}}`, n))
	}
	return json.RawMessage(`{"calls":[` + strings.Join(entries, ",") + `]}`)
}

func TestResolveCaller(t *testing.T) {
	t.Parallel()
	s := deskScope(t, false)
	for name, want := range map[string]string{
		"mcp__desk__get": `{"dispatch": "caller", "name": "mcp__desk__get", "arguments": {"note": "é", "id": 7}, "parallel": true}`,
		"mcp__desk__set": `{"dispatch": "caller", "name": "mcp__desk__set", "arguments": {"note": "é", "id": 7}, "parallel": false}`,
	} {
		plan, err := Resolve(s, call(name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := subjects.MarshalModel(plan.Reply)
		if err != nil || string(got) != want {
			t.Errorf("got  %s, %v\nwant %s", got, err, want)
		}
		if plan.Kind != Caller || plan.Tool.Name != name || plan.Unchecked != "" {
			t.Errorf("%+v", plan)
		}
	}
}

func TestResolveHost(t *testing.T) {
	t.Parallel()
	plan, err := Resolve(deskScope(t, false), call("mcp__desk__print"))
	if err != nil {
		t.Fatal(err)
	}
	if plan.Kind != Host || plan.Tool.Host != "printer" || plan.Reply != nil || len(plan.Entries) != 1 {
		t.Fatalf("%+v", plan)
	}
	if got := string(plan.Entries[0].Arguments); got != `{"note":"é","id":7}` {
		t.Errorf("arguments %s, want them repaired", got)
	}
}

func TestResolveConnectors(t *testing.T) {
	t.Parallel()
	names := func(n int) []string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf("connectors__app__T%d", i)
		}
		return all
	}
	with, without := deskScope(t, true), deskScope(t, false)
	plan, err := Resolve(with, call(append(names(MaxBatch-1), "connectors__broken")...))
	if err != nil {
		t.Fatal(err)
	}
	if plan.Kind != Connectors || len(plan.Entries) != MaxBatch || plan.Tool != nil {
		t.Fatalf("%+v", plan)
	}
	if got := string(plan.Entries[0].Arguments); got != `{"note":"é","id":"7"}` {
		t.Errorf("arguments %s, want them as they came", got)
	}
	for _, tc := range []struct {
		name    string
		scope   *catalog.Scope
		calls   []string
		mention string
	}{
		{"not granted comes before the number", without, names(11), "Connectors are not available"},
		{"too many", with, names(11), "11 calls"},
		{"the batch rule comes first", without, append(names(1), "mcp__desk__get"), "2 were sent"},
		{"whatever the number", with, append(names(20), "nope"), "21 were sent"},
	} {
		_, err := Resolve(tc.scope, call(tc.calls...))
		if err == nil || !strings.Contains(err.Error(), tc.mention) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.mention)
		}
	}
}

// The call that the batch rule proposes is one that resolves.
func TestLocalBatchProposesAValidCall(t *testing.T) {
	t.Parallel()
	s := deskScope(t, false)
	_, err := Resolve(s, json.RawMessage(`{"calls":[{"name":"mcp__desk__get","arguments":{ "id" : 1e0, "note":"a \"b\" \u00e9<" }},{"name":"mcp__desk__set"}]}`))
	if err == nil {
		t.Fatal("a batch of local tools resolved")
	}
	const proposed = `{"calls":[{"name":"mcp__desk__get","arguments":{"id":1e0,"note":"a \"b\" é<"}}]}`
	if !strings.Contains(err.Error(), proposed) {
		t.Fatalf("%q does not propose %s", err, proposed)
	}
	if _, err := Resolve(s, json.RawMessage(proposed)); err != nil {
		t.Errorf("%s: %v", proposed, err)
	}
}

func TestLocalBatchEcho(t *testing.T) {
	t.Parallel()
	s := deskScope(t, false)
	for n, echoed := range map[int]bool{maxEcho - len(`{"a":""}`): true, maxEcho - len(`{"a":""}`) + 1: false, 5 << 20: false} {
		arguments := fmt.Appendf(nil, `{"calls":[{"name":"x","arguments":{"a" : "%s"}},{"name":"y"}]}`, strings.Repeat("é", n))
		_, err := Resolve(s, arguments)
		if err == nil || strings.Contains(err.Error(), `"arguments":{...}`) == echoed {
			t.Errorf("%d characters: %.80v, want them echoed: %v", n, err, echoed)
		}
	}
}

func TestResolveMistakes(t *testing.T) {
	t.Parallel()
	s := deskScope(t, false)
	for _, tc := range []struct{ arguments, mention string }{
		{`{"calls":[{"name":"nope"}]}`, "nope"},
		{`{"calls":[{"name":"MCP--desk--get"}]}`, "'mcp__desk__get'"},
		{`{"calls":[{"name":"` + strings.Repeat("n", 1<<20) + `"}]}`, "tool_search"},
		{`{"calls":[{"name":"mcp__desk__get"}]}`, "'id'"},
		{`{"calls":[{"name":"mcp__desk__get","arguments":{"id":1.5}}]}`, "arguments.id"},
	} {
		plan, err := Resolve(s, json.RawMessage(tc.arguments))
		if err == nil || plan != nil || !isMistake(err) || !strings.Contains(err.Error(), tc.mention) {
			t.Errorf("%.60s: %v, %.100v; want %q", tc.arguments, plan, err, tc.mention)
		}
	}
}
