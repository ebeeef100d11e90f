package dispatch

import (
	"encoding/json"
	"testing"

	"toolsearch/catalog"
	"toolsearch/catalog/catalogtest"
)

// benchTool is a tool of a real list, of common size, and a call of it with two arguments to repair.
func benchTool(b *testing.B) (*catalog.Tool, json.RawMessage) {
	b.Helper()
	c, err := catalog.Build(catalogtest.Array(catalogtest.File(b, "github.json")), catalog.Limits{})
	if err != nil {
		b.Fatal(err)
	}
	i, ok := c.Lookup("mcp__github__list_issues")
	if !ok {
		b.Fatal("no such tool")
	}
	return c.Tool(i), json.RawMessage(`{"owner":"o","repo":"r","perPage":"50","labels":"[\"bug\"]","orderBy":"CREATED_AT","direction":"DESC"}`)
}

func BenchmarkCoerce(b *testing.B) {
	tool, arguments := benchTool(b)
	for b.Loop() {
		Coerce(tool.Parameters, arguments)
	}
}

func BenchmarkValidateCached(b *testing.B) {
	tool, arguments := benchTool(b)
	if _, err := Validate(tool.Name, tool.Parameters, arguments); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		_, _ = Validate(tool.Name, tool.Parameters, arguments)
	}
}

func BenchmarkValidateRefused(b *testing.B) {
	tool, _ := benchTool(b)
	arguments := json.RawMessage(`{"owner":"o","repo":{},"perPage":"50"}`)
	if _, err := Validate(tool.Name, tool.Parameters, arguments); err == nil {
		b.Fatal("not refused")
	}
	for b.Loop() {
		_, _ = Validate(tool.Name, tool.Parameters, arguments)
	}
}

func BenchmarkCompile(b *testing.B) {
	tool, _ := benchTool(b)
	for b.Loop() {
		newSchema(tool.Parameters)
	}
}

func BenchmarkResolve(b *testing.B) {
	s := deskScope(b, false)
	arguments := call("mcp__desk__get")
	for b.Loop() {
		if _, err := Resolve(s, arguments); err != nil {
			b.Fatal(err)
		}
	}
}
