package catalog

import (
	"encoding/json"
	"strings"
	"testing"

	"toolsearch/catalog/catalogtest"
	"toolsearch/subjects"
)

func TestWrongDoorVectors(t *testing.T) {
	t.Parallel()
	runVectors(t, "resolve.jsonl", "wrong_door", func(t *testing.T, v catalogtest.Vector) {
		var given struct {
			scopeGiven
			Name string
		}
		var want struct{ Error *message }
		v.DecodeGiven(t, &given)
		v.DecodeWant(t, &want)
		checkMessage(t, "error", want.Error, given.scope(t, v).WrongDoor(given.Name))
	})
}

// TestWrongDoorOfResolve takes from the cases of resolving a call those whose single name is refused.
func TestWrongDoorOfResolve(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"resolve", "scope"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			runVectors(t, "resolve.jsonl", op, func(t *testing.T, v catalogtest.Vector) {
				var given struct {
					scopeGiven
					Arguments struct{ Calls []struct{ Name string } }
				}
				var want struct{ Error *message }
				v.DecodeGiven(t, &given)
				v.DecodeWant(t, &want)
				if want.Error == nil || len(given.Arguments.Calls) != 1 {
					t.Skip("not about one refused name")
				}
				want.Error.check(t, given.scope(t, v).WrongDoor(given.Arguments.Calls[0].Name))
			})
		})
	}
}

func TestWrongDoor(t *testing.T) {
	t.Parallel()
	tools := append(sampleTools(),
		catalogtest.Tool("mcp-notion", "mcp__notion__API-Post-Search", "Searches."),
		catalogtest.Tool("mcp-a", "mcp__a__run", "Runs."), catalogtest.Tool("mcp-b", "mcp__b__run", "Runs."),
		catalogtest.Tool("project", "Project-Open", "Opens."),
		catalogtest.Tool("mcp-secret", "mcp__secret__read", "Reads."), catalogtest.Tool("setup", "setup_wizard", "Sets up."))
	s := newTestScope(t, tools, &subjects.AssembleRequest{
		DisabledToolsets: []string{"secret", "setup"}, Config: json.RawMessage(`{"defer":["computer_use"]}`),
	}, nil)
	for _, c := range []struct {
		name string
		want []string
		not  string
	}{
		{"terminal", []string{"'terminal'", "directly"}, ""},
		{"  TERMINAL ", []string{"'terminal'", "directly"}, ""},
		{"Read-File", []string{"'read_file'", "directly"}, ""},
		{"project open", []string{"'Project-Open'", "directly"}, ""},
		{"Tool-Search", []string{"'tool_search'", "directly"}, ""},
		{"memory", []string{"'memory'", "not offered"}, ""},
		{"setup_wizard", []string{"'setup_wizard'", "not offered"}, ""},
		{"MCP__GITHUB__LIST-ISSUES", []string{"is no known tool", "'mcp__github__list_issues'"}, "directly"},
		{"mcp__notion__api_post_search", []string{"'mcp__notion__API-Post-Search'"}, ""},
		{"api post search", []string{"'mcp__notion__API-Post-Search'"}, ""},
		{"run", []string{"'mcp__a__run', 'mcp__b__run'"}, ""},
		{"nothing_like_it", []string{"'nothing_like_it'", "tool_search"}, "Did you mean"},
		{"", []string{"tool_search"}, "Did you mean"},
		{"mcp__secret__read", []string{"'mcp__secret__read'", "not available in this session"}, ""},
		{"read", []string{"tool_search"}, "secret"},
		{"computer_use", []string{"'computer_use'", "not available in this session"}, ""},
		{"a\xff\x00b", []string{"no known tool"}, ""},
	} {
		got := s.WrongDoor(c.name)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("WrongDoor(%q) = %q, without %q", c.name, got, want)
			}
		}
		if c.not != "" && strings.Contains(got, c.not) {
			t.Errorf("WrongDoor(%q) = %q, with %q", c.name, got, c.not)
		}
	}
}

func TestWrongDoorIsBounded(t *testing.T) {
	t.Parallel()
	var tools []catalogtest.Element
	for i := range 200 {
		name := strings.Repeat("s", 50) + string(rune('a'+i%26)) + string(rune('a'+i/26))
		tools = append(tools, catalogtest.Tool("mcp-"+name, "mcp__"+name+"__run", "Runs."))
	}
	s := newTestScope(t, tools, &subjects.AssembleRequest{}, nil)
	for _, name := range []string{"run", strings.Repeat("n", 1<<20)} {
		if n := runeLen(s.WrongDoor(name)); n > MaxErrorText+runeLen(textTruncated) {
			t.Errorf("a text of %d characters", n)
		}
	}
	if text := s.WrongDoor("run"); !strings.HasSuffix(text, textTruncated) {
		t.Errorf("the cut is not told: …%s", text[len(text)-60:])
	}
}
