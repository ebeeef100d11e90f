package catalog_test

import (
	"encoding/json"
	"fmt"
	"log"

	"toolsearch/catalog"
	"toolsearch/subjects"
)

// Example takes a list of tools through a model's turn: what it is shown, what it finds, and the schema it loads.
func Example() {
	c, err := catalog.Build(json.RawMessage(`[
		{"toolset": "terminal", "tool": {"name": "terminal", "description": "Runs a command."}},
		{"toolset": "mcp-github", "tool": {"name": "mcp__github__create_issue", "description": "Creates an issue.",
			"inputSchema": {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}}},
		{"toolset": "mcp-slack", "tool": {"name": "mcp__slack__post_message", "description": "Posts a message."}}]`), catalog.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	owner := catalog.Owner{Tenant: "acme", Session: "desk-1"}
	scope, err := catalog.NewScope(c, owner, &subjects.AssembleRequest{}, catalog.DefaultConfig(), nil, nil)
	if err != nil {
		log.Fatal(err)
	}

	shown := scope.Assemble()
	fmt.Println(len(shown.Tools), "tools shown,", shown.DeferredCount, "deferred, listing", shown.ListingForm)

	query, err := scope.ParseSearch(json.RawMessage(`{"queries": ["github issue"]}`))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", scope.Search(query, nil).AppendModel(nil))

	names, err := scope.ParseDescribe(json.RawMessage(`{"names": "mcp__github__create_issue"}`))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", scope.Describe(names, nil).AppendModel(nil))
	fmt.Println(scope.WrongDoor("Terminal"))
	// Output:
	// 4 tools shown, 2 deferred, listing full
	// {"queries": ["github issue"], "total_available": 2, "results": [{"query": "github issue", "matches": ["mcp__github__create_issue"]}], "tools": {"mcp__github__create_issue": {"source": "mcp", "source_name": "mcp-github", "description": "Creates an issue.", "required": ["title"]}}}
	// {"tools": {"mcp__github__create_issue": {"description": "Creates an issue.", "parameters": {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}}}}
	// 'terminal' is listed to you directly, so nothing was done here: call it by that name, without the bridge.
}
