package catalogtest

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestArrayKeepsDefinitions(t *testing.T) {
	t.Parallel()
	want := []Element{
		{Toolset: `a"b`, Tool: json.RawMessage(`{"name" : "n"}`), Host: "h", Parallel: true},
		{Tool: json.RawMessage(`{"name":"m"}`)},
		Tool("mcp-x", "mcp__x__y", "Does \"it\".", "first", "second"),
	}
	var got []Element
	if err := json.Unmarshal(Array(want), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("elements (-want +got):\n%s", diff)
	}
	if string(Array(nil)) != "[]" {
		t.Errorf("no elements are %s", Array(nil))
	}
	for i, name := range []string{"n", "m", "mcp__x__y"} {
		if got[i].Name() != name {
			t.Errorf("name %q, want %q", got[i].Name(), name)
		}
	}
}

func TestGeneratedIsTheSameEveryTime(t *testing.T) {
	t.Parallel()
	elements := Generated(1000)
	if diff := cmp.Diff(elements, Generated(1000)); diff != "" {
		t.Error(diff)
	}
	names := map[string]bool{}
	for i, e := range elements {
		if names[e.Name()] {
			t.Errorf("the name %s occurs twice", e.Name())
		}
		names[e.Name()] = true
		if i > 0 && i%100 != 0 && e.Toolset != elements[i-1].Toolset {
			t.Errorf("tool %d begins another toolset", i)
		}
	}
}

func TestPartsOfTools(t *testing.T) {
	t.Parallel()
	v := Vector{ID: "parts", Folder: VectorFolders(t)[0]}
	inline := `{"toolset":"s","tool":{"name":"n"}}`
	got := v.Tools(t, json.RawMessage(`["connections",{"file":"github.json","names":["mcp__github__actions_list","mcp__github__actions_get"]},`+inline+`]`))
	var names []string
	for _, e := range got {
		names = append(names, e.Name())
	}
	want := []string{"manage_connections", "mcp__github__actions_list", "mcp__github__actions_get", "n"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if whole := v.Tools(t, json.RawMessage(`[{"file":"github.json"}]`)); len(whole) < 100 || whole[0].Toolset != "mcp-github" {
		t.Errorf("%d tools of a whole file", len(whole))
	}
	if v.Tools(t, nil) != nil {
		t.Error("no value has tools")
	}
}
