package sample

import (
	"encoding/json"
	"strconv"
	"strings"

	"toolsearch/subjects"
)

// Servers is the number of invented MCP servers.
func Servers() int { return len(servers) }

// Tools makes the whole catalog: the tools of all servers, then the core tools.
func Tools() []subjects.Tool {
	return append(serverTools(0), Core()...)
}

// Sized makes a catalog of n tools. A part of the servers answers a smaller n; for a larger one servers come again
// under another name (gitnest-2), so that every tool has its own name.
func Sized(n int) []subjects.Tool {
	core := Core()
	core = core[:min(n, len(core))]
	tools := make([]subjects.Tool, 0, n)
	for round := 0; len(tools) < n-len(core); round++ {
		more := serverTools(round)
		tools = append(tools, more[:min(len(more), n-len(core)-len(tools))]...)
	}
	return append(tools, core...)
}

// Core makes the tools that a runtime brings itself. The core list keeps most of them in sight.
func Core() []subjects.Tool {
	out := make([]subjects.Tool, len(coreTools))
	for i, c := range coreTools {
		out[i] = subjects.Tool{Toolset: c.toolset, Tool: definition(c.name, c.text, fields(c.fields), words(c.name))}
	}
	return out
}

// JSON writes tools as the array of an assemble request.
func JSON(tools []subjects.Tool) json.RawMessage {
	p, err := subjects.Marshal(tools)
	if err != nil {
		panic("sample: " + err.Error()) // the definitions are our own
	}
	return p
}

// serverTools makes the tools of all servers; a round above 0 renames the servers.
func serverTools(round int) []subjects.Tool {
	var out []subjects.Tool
	for _, s := range servers {
		name := s.name
		if round > 0 {
			name += "-" + strconv.Itoa(round+1)
		}
		for _, t := range s.things {
			for v := range strings.FieldsSeq(t.verbs) {
				out = append(out, subjects.Tool{Toolset: "mcp-" + name, Tool: thingTool(name, t, v)})
			}
		}
	}
	return out
}

func thingTool(server string, t thing, action string) json.RawMessage {
	v, ok := verbs[action]
	if !ok {
		panic("sample: no verb " + action)
	}
	noun := t.one
	if v.many {
		noun = strings.ReplaceAll(strings.ToLower(t.many), " ", "_")
	}
	name := "mcp__" + server + "__" + action + "_" + strings.ReplaceAll(noun, "-", "_")
	one := words(t.one)
	text := strings.NewReplacer("a {one}", article(one)+" "+one, "an {one}", article(one)+" "+one,
		"{one}", one, "{many}", t.many, "{what}", t.what).Replace(v.text)
	return definition(name, text, v.parameters(t), one)
}

// parameters are a thing's fields as far as the verb takes them, then the verb's own.
func (v verb) parameters(t thing) []field {
	own, extra := fields(t.fields), fields(v.extra)
	id := field{name: "id", required: true}
	var out []field
	switch v.takes {
	case takesID:
		out = []field{id}
	case takesAll:
		out = own
	case takesChanges:
		out = append([]field{id}, optional(own)...)
	case takesFilter:
		out = optional(own[:1])
	}
	for _, e := range extra {
		if !contains(out, e.name) {
			out = append(out, e)
		}
	}
	return out
}

func contains(fs []field, name string) bool {
	for _, f := range fs {
		if f.name == name {
			return true
		}
	}
	return false
}

func optional(fs []field) []field {
	out := make([]field, len(fs))
	for i, f := range fs {
		f.required = false
		out[i] = f
	}
	return out
}

// words writes a name as people read it: pull_request is "pull request".
func words(name string) string { return strings.ReplaceAll(name, "_", " ") }

// article is "an" before a vowel; no thing of the table begins with a u that is spoken as in "user".
func article(noun string) string {
	if strings.ContainsRune("aeiouAEIOU", rune(noun[0])) {
		return "an"
	}
	return "a"
}
