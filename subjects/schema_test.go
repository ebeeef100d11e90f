package subjects_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"toolsearch/subjects"
)

// message ties a schema to its Go type and to the way in which the type is written.
type message struct {
	value  any // a pointer to a zero value; nil where there is no one type
	encode func(v any) ([]byte, error)
	// emitted: this side writes every field that is not marked omitempty or omitzero, so the schema must require exactly those.
	emitted bool
	// others: fields of the schema that are not the type's, each with its reason in the table.
	others []string
}

func messages() map[string]message {
	model := func(v any) ([]byte, error) { return subjects.MarshalModel(v) }
	plain := func(v any) ([]byte, error) { return subjects.Marshal(v) }
	bridge := func(v any) ([]byte, error) { return subjects.AppendBridgeRequest(nil, v.(*subjects.BridgeRequest)) }
	return map[string]message{
		"tool": {value: new(subjects.Tool), encode: plain},
		"assemble_request": {value: new(subjects.AssembleRequest), encode: func(v any) ([]byte, error) {
			return subjects.AppendAssembleRequest(nil, v.(*subjects.AssembleRequest))
		}},
		"assemble_reply":   {value: new(subjects.AssembleReply), encode: plain, emitted: true},
		"search_request":   {value: new(subjects.BridgeRequest), encode: bridge},
		"search_reply":     {value: new(subjects.SearchReply), encode: model, emitted: true},
		"describe_request": {value: new(subjects.BridgeRequest), encode: bridge},
		"describe_reply":   {value: new(subjects.DescribeReply), encode: model, emitted: true},
		"connections_request": {value: new(subjects.CallRequest), encode: func(v any) ([]byte, error) {
			return subjects.AppendCallRequest(nil, v.(*subjects.CallRequest))
		}},
		"connections_reply":    {}, // one of several types
		"connections_outcome":  {value: new(subjects.ConnectionsOutcome), encode: model, emitted: true},
		"connection_result":    {value: new(subjects.ConnectionResult), encode: model, emitted: true},
		"connections_status":   {value: new(subjects.ConnectionsStatus), encode: model, emitted: true},
		"connector_status":     {value: new(subjects.ConnectorStatus), encode: model, emitted: true},
		"unknown_connector":    {value: new(subjects.UnknownConnector), encode: model, emitted: true},
		"card_event":           {value: new(subjects.CardEvent), encode: plain, emitted: true},
		"card_target":          {value: new(subjects.CardTarget), encode: plain, emitted: true},
		"answer_request":       {value: new(subjects.AnswerRequest), encode: plain},
		"answer_reply":         {value: new(subjects.AnswerReply), encode: plain, emitted: true},
		"refusal":              {value: new(subjects.Refusal), encode: plain, emitted: true},
		"operation_request":    {value: new(subjects.OperationRequest), encode: plain},
		"operation_reply":      {value: new(subjects.OperationReply), encode: plain, emitted: true},
		"accounts_request":     {value: new(subjects.AccountsRequest), encode: plain},
		"accounts_reply":       {value: new(subjects.AccountsReply), encode: plain, emitted: true},
		"linked_account":       {value: new(subjects.LinkedAccount), encode: plain, emitted: true},
		"disconnect_request":   {value: new(subjects.DisconnectRequest), encode: plain},
		"disconnect_reply":     {value: new(subjects.DisconnectReply), encode: plain, emitted: true},
		"connectors_condition": {value: new(subjects.ConnectorsCondition), encode: model, emitted: true},
		"call_request": {value: new(subjects.CallRequest), encode: func(v any) ([]byte, error) {
			return subjects.AppendCallRequest(nil, v.(*subjects.CallRequest))
		}},
		"call_reply":      {}, // one of several types
		"caller_dispatch": {value: new(subjects.CallerDispatch), encode: model, emitted: true},
		"accepted":        {value: new(subjects.Accepted), encode: plain, emitted: true},
		"batch_reply":     {value: new(subjects.BatchReply), encode: model, emitted: true},
		"entry_result":    {value: new(subjects.EntryResult), encode: model, emitted: true},
		"entry_error":     {value: new(subjects.EntryError), encode: model, emitted: true},
		"entry_event":     {value: new(subjects.EntryEvent), encode: plain, emitted: true},
		"summary_event":   {value: new(subjects.SummaryEvent), encode: plain, emitted: true},
		// A failed validation tells more; the package that validates has a type of its own for it.
		"tool_error":        {value: new(subjects.ToolError), encode: model, emitted: true, others: []string{"path", "constraint", "parameters", "hint"}},
		"service_error":     {value: new(subjects.Error), encode: plain, others: []string{"error"}}, // writes itself
		"stop":              {value: new(subjects.Stop), encode: plain},
		"stop_ack":          {value: new(subjects.StopAck), encode: plain, others: []string{"error"}}, // JetStream's own, an Error here
		"hook_request":      {value: new(subjects.HookRequest), encode: plain, emitted: true},
		"hook_reply":        {value: new(subjects.HookReply), encode: plain},
		"host_request":      {value: new(subjects.HostRequest), encode: plain, emitted: true},
		"host_reply":        {value: new(subjects.HostReply), encode: plain, emitted: true},
		"host_list_request": {value: new(subjects.HostListRequest), encode: plain},
		"host_list_reply":   {value: new(subjects.HostListReply), encode: plain, emitted: true},
	}
}

func TestSchemaNames(t *testing.T) {
	t.Parallel()
	if got, want := subjects.SchemaNames(), slices.Sorted(maps.Keys(messages())); !slices.Equal(got, want) {
		t.Fatalf("schemas %v,\nmessages %v", got, want)
	}
	for _, name := range subjects.SchemaNames() {
		var s struct {
			ID    string `json:"$id"`
			Draft string `json:"$schema"`
			Title string `json:"title"`
		}
		p, ok := subjects.Schema(name)
		if err := json.Unmarshal(p, &s); !ok || err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if s.ID != subjects.SchemaID(name) || s.Draft != "https://json-schema.org/draft/2020-12/schema" || s.Title == "" {
			t.Errorf("%s: id %q, draft %q, title %q", name, s.ID, s.Draft, s.Title)
		}
		if byID, ok := subjects.Schema(s.ID); !ok || !bytes.Equal(byID, p) {
			t.Errorf("%s is not found by its id", name)
		}
	}
	if _, ok := subjects.Schema("../error"); ok {
		t.Error("a name outside the set was found")
	}
	for _, v := range verbs {
		request, reply := subjects.SchemasOf(v)
		for _, id := range []string{request, reply} {
			if _, ok := subjects.Schema(id); !ok {
				t.Errorf("%s: no schema %s", v, id)
			}
		}
	}
}

// compiler holds every schema and fetches nothing.
func compiler(t testing.TB) *jsonschema.Compiler {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	for _, name := range subjects.SchemaNames() {
		p, _ := subjects.Schema(name)
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(p))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := c.AddResource(subjects.SchemaID(name), doc); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return c
}

func decode(t testing.TB, p []byte) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(p))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// golden lists the examples of each message: testdata/<name>[.<case>].json.
func golden(t testing.TB) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	out := map[string][]string{}
	for _, f := range files {
		name, _, _ := strings.Cut(filepath.Base(f), ".")
		out[name] = append(out[name], f)
	}
	return out
}

// Every message has an example; the example is valid, and its Go type reads and writes it to the byte.
func TestGoldenExamples(t *testing.T) {
	t.Parallel()
	examples, all := golden(t), messages()
	for name := range examples {
		if _, ok := all[name]; !ok {
			t.Errorf("an example of %q, which is no message", name)
		}
	}
	for name, m := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if len(examples[name]) == 0 {
				t.Fatal("no example")
			}
			schema, err := compiler(t).Compile(subjects.SchemaID(name))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range examples[name] {
				p, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if err := schema.Validate(decode(t, p)); err != nil {
					t.Errorf("%s: %v", file, err)
				}
				if m.value == nil {
					continue
				}
				v := reflect.New(reflect.TypeOf(m.value).Elem()).Interface()
				if err := json.Unmarshal(p, v); err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				again, err := m.encode(v)
				if err != nil || !bytes.Equal(again, p) {
					t.Errorf("%s:\n got %s, %v\nwant %s", file, again, err, p)
				}
			}
		})
	}
}

// A schema that accepts anything would pass every example: each field of each example, given a wrong type, and each
// required one, taken away, must be refused.
func TestSchemasRefuse(t *testing.T) {
	t.Parallel()
	for name, files := range golden(t) {
		if name == "call_reply" || name == "connections_reply" {
			continue // they accept any object by design
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := compiler(t)
			schema, err := c.Compile(subjects.SchemaID(name))
			if err != nil {
				t.Fatal(err)
			}
			node := schemaNode(t, name)
			for _, v := range []any{nil, []any{}, "x", true, json.Number("1")} {
				if schema.Validate(v) == nil {
					t.Errorf("%v is accepted as a whole", v)
				}
			}
			for _, file := range files {
				p, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				for key := range decode(t, p).(map[string]any) {
					broken := decode(t, p).(map[string]any)
					for _, r := range node.required() {
						if r == key {
							delete(broken, key)
							if schema.Validate(broken) == nil {
								t.Errorf("%s is accepted without %s", file, key)
							}
						}
					}
					if wrong, ok := wrongFor(node.property(key)); ok {
						broken[key] = wrong
						if schema.Validate(broken) == nil {
							t.Errorf("%s is accepted with %s = %v", file, key, wrong)
						}
					}
				}
			}
		})
	}
}

// wrongFor is a value that a property must refuse; ok is false where it takes any.
func wrongFor(n node) (v any, ok bool) {
	if n == nil {
		return nil, false
	}
	for _, k := range []string{"enum", "const", "oneOf"} {
		if n[k] != nil {
			return json.Number("-7.5"), true
		}
	}
	types := fmt.Sprint(n["type"])
	if n["type"] == nil && n["$ref"] == nil {
		return nil, false
	}
	if strings.Contains(types, "number") && strings.Contains(types, "array") {
		return nil, false // a configuration is read leniently
	}
	if strings.Contains(types, "boolean") {
		return "yes", true
	}
	return true, true
}

// node is a JSON Schema, as far as this file reads it.
type node map[string]any

func schemaNode(t testing.TB, name string) node {
	t.Helper()
	p, ok := subjects.Schema(name)
	if !ok {
		t.Fatalf("no schema %s", name)
	}
	var n node
	if err := json.Unmarshal(p, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n node) property(key string) node {
	props, _ := n["properties"].(map[string]any)
	p, _ := props[key].(map[string]any)
	return p
}

func (n node) required() (names []string) {
	list, _ := n["required"].([]any)
	for _, v := range list {
		names = append(names, v.(string))
	}
	slices.Sort(names)
	return names
}

// Go types and schemas have the same fields, at every depth, and agree on which are always there.
func TestSchemasHaveTheFieldsOfTheTypes(t *testing.T) {
	t.Parallel()
	for name, m := range messages() {
		if m.value == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := fieldWalk{t: t, root: schemaNode(t, name), emitted: m.emitted}
			w.structs(reflect.TypeOf(m.value).Elem(), w.root, name, m.others)
		})
	}
}

type fieldWalk struct {
	t       testing.TB
	root    node
	emitted bool
}

// resolve follows a reference, into this schema or into another.
func (w fieldWalk) resolve(n node) (node, fieldWalk) {
	ref, _ := n["$ref"].(string)
	switch {
	case ref == "":
		return n, w
	case strings.HasPrefix(ref, "#/$defs/"):
		return w.root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any), w
	}
	w.root = schemaNode(w.t, ref)
	return w.root, w
}

func (w fieldWalk) structs(typ reflect.Type, n node, at string, others []string) {
	w.t.Helper()
	if typ == reflect.TypeFor[subjects.Error]() {
		return // writes itself; the examples hold it to its schema
	}
	fields := map[string]reflect.StructField{}
	var always []string
	for f := range fieldsOf(typ) {
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields[name] = f
		if !strings.Contains(opts, "omitempty") && !strings.Contains(opts, "omitzero") {
			always = append(always, name)
		}
	}
	props, _ := n["properties"].(map[string]any)
	for name := range props {
		if _, ok := fields[name]; !ok && !slices.Contains(others, name) {
			w.t.Errorf("%s: the schema has %q, %s does not", at, name, typ)
		}
	}
	slices.Sort(always)
	if w.emitted && !slices.Equal(always, n.required()) {
		w.t.Errorf("%s: %s always writes %v, the schema requires %v", at, typ, always, n.required())
	}
	for name, f := range fields {
		p, ok := props[name].(map[string]any)
		if !ok {
			w.t.Errorf("%s: %s has %q, the schema does not", at, typ, name)
			continue
		}
		w.values(f.Type, p, at+"."+name)
	}
}

// values walks on where a value is a struct, a list of structs or an ordered object of structs.
func (w fieldWalk) values(typ reflect.Type, n node, at string) {
	w.t.Helper()
	n, w = w.resolve(n)
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch {
	case typ == reflect.TypeFor[json.RawMessage](), typ == reflect.TypeFor[time.Time](), typ == reflect.TypeFor[subjects.Scope]():
	case strings.HasPrefix(typ.Name(), "Ordered["):
		value := typ.Elem().Field(1).Type
		if below, ok := n["additionalProperties"].(map[string]any); ok {
			w.values(value, below, at+".*")
		} else {
			w.t.Errorf("%s: the schema does not say what its values are", at)
		}
	case typ.Kind() == reflect.Slice:
		if items, ok := n["items"].(map[string]any); ok {
			w.values(typ.Elem(), items, at+"[]")
		} else {
			w.t.Errorf("%s: the schema does not say what its items are", at)
		}
	case typ.Kind() == reflect.Struct:
		w.structs(typ, n, at, nil)
	case typ.Kind() == reflect.String && n["type"] != "string" && n["enum"] == nil && n["const"] == nil,
		typ.Kind() == reflect.Bool && !strings.Contains(fmt.Sprint(n["type"]), "boolean") && n["const"] == nil,
		typ.Kind() == reflect.Int && !strings.Contains(fmt.Sprint(n["type"]), "integer"):
		w.t.Errorf("%s: %s in Go, %v in the schema", at, typ, n["type"])
	}
}

// fieldsOf yields the JSON fields of a struct, those of embedded structs among them.
func fieldsOf(typ reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for _, f := range reflect.VisibleFields(typ) {
			if !f.Anonymous && f.IsExported() && !yield(f) {
				return
			}
		}
	}
}
