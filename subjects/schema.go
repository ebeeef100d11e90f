package subjects

import (
	"embed"
	"io/fs"
	"slices"
	"strings"
)

//go:embed schema/*.json
var schemaFiles embed.FS

// schemaURN is what the id of every schema begins with.
const schemaURN = "urn:toolsearch:v1:"

// SchemaNames lists the JSON Schemas (2020-12) of the wire's messages, sorted: assemble_request, search_reply, ...
func SchemaNames() []string {
	entries, err := fs.ReadDir(schemaFiles, "schema")
	if err != nil {
		return nil // an embedded folder is always there
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".json"); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Schema is the JSON Schema of a message, by its name or its id. The schemas refer to each other by id.
func Schema(name string) (schema []byte, ok bool) {
	p, err := schemaFiles.ReadFile("schema/" + strings.TrimPrefix(name, schemaURN) + ".json")
	return p, err == nil
}

// SchemaID is the $id of a message's schema, such as urn:toolsearch:v1:search_request.
func SchemaID(name string) string { return schemaURN + name }

// SchemasOf gives the ids of the schemas of a verb's request and reply, for its endpoint's metadata ("request_schema",
// "response_schema"). A reply may also be a tool_error, and an error reply is a service_error.
func SchemasOf(verb Verb) (request, reply string) {
	return SchemaID(string(verb) + "_request"), SchemaID(string(verb) + "_reply")
}
