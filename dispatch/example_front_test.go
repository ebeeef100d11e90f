package dispatch_test

import (
	"encoding/json"
	"fmt"

	"toolsearch/dispatch"
	"toolsearch/subjects"
)

func ExampleValidate() {
	parameters := json.RawMessage(`{"type":"object","required":["id"],"properties":{"id":{"type":"integer"},"tags":{"type":"array"}}}`)
	checked, err := dispatch.Validate("mcp__desk__get", parameters, json.RawMessage(`{"tags":"urgent","id":"9007199254740993"}`))
	fmt.Println(string(checked.Arguments), err)

	_, err = dispatch.Validate("mcp__desk__get", parameters, json.RawMessage(`{"id":"nine"}`))
	body, _ := subjects.MarshalModel(err)
	fmt.Println(string(body))
	// Output:
	// {"tags":["urgent"],"id":9007199254740993} <nil>
	// {"error": "The call to 'mcp__desk__get' fails at arguments.id (type): it is of type string, not integer. The tool was not invoked.", "path": "arguments.id", "constraint": "type", "parameters": {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}, "tags": {"type": "array"}}}, "hint": "Correct the arguments to match the schema in `parameters` and call again."}
}
