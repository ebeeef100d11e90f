package dispatch

import (
	"encoding/json"
	"strings"
	"testing"

	"toolsearch/subjects"
)

func FuzzNormalise(f *testing.F) {
	for _, s := range []string{
		``, `null`, `{}`, `{"calls":[{"name":"x","arguments":{"a":1,"a":2}}]}`, `{"calls":"[{\"name\":\"x\",\"arguments\":\"{}\"}]"}`,
		`"{\"name\":\"x\"}"`, `{"name":5,"arguments":" "}`, `{"calls":[{"name":"tool_call"}]}`, "{\"calls\":[{\"name\":\"\xff\"}]}", `{"calls":{"name":"\ud800"}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, arguments []byte) {
		entries, err := Normalise(arguments)
		if err != nil {
			if entries != nil || !isMistake(err) {
				t.Fatalf("%v, %v", entries, err)
			}
			return
		}
		if len(entries) == 0 {
			t.Fatal("no entry and no error")
		}
		for _, e := range entries {
			if strings.TrimSpace(e.Name) != e.Name || e.Name == "" || !isObject(e.Arguments) || repeats(e.Arguments) {
				t.Fatalf("%+v", e)
			}
		}
		// What was read is a call in its plainest shape, and reads the same again.
		plain, err := subjects.Marshal(map[string]any{"calls": entries})
		if err != nil {
			t.Fatal(err)
		}
		again, err := Normalise(plain)
		if err != nil || len(again) != len(entries) {
			t.Fatalf("%s: %v, %v", plain, again, err)
		}
	})
}

// fuzzSchemas are schemas in which fuzzed arguments have a chance to match something.
var fuzzSchemas = []string{
	coercible,
	`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"$ref":"#/definitions/A","nullable":true}},"definitions":{"A":{"type":"array","items":[{"type":"integer"}]}}}`,
	`{"properties":{"a":{"anyOf":[{"type":"null"},{"type":"array","contains":{"const":1}}]},"b":{"$ref":"#"}},"required":["a"],"additionalProperties":false}`,
	`{"properties":{"a":{"oneOf":[{"$ref":"#"},{"pattern":"^(?!b)a"}]}},"unevaluatedProperties":{"type":"integer"}}`,
}

func FuzzCoerce(f *testing.F) {
	for _, s := range fuzzSchemas {
		for _, a := range []string{`{"a":"5","b":"[[1]]","o":{"a_b":"x","b":""}}`, `{"a":"null","a b":" 1_0e1 ","a_b":"2"}`, `{"o":"{\"a\":\"[{}]\"}"}`, "{\"a\":\"\xff\"}"} {
			f.Add([]byte(s), []byte(a))
		}
	}
	f.Fuzz(func(t *testing.T, schema, arguments []byte) {
		got := Coerce(schema, arguments)
		if !isObject(arguments) {
			return
		}
		if depth, _ := measure(arguments); depth > MaxDepth {
			return
		}
		if !isObject(got) || repeats(got) {
			t.Fatalf("%s became %s", arguments, got)
		}
		// It settles: only what was taken out of a string for an array is looked at again.
		twice := Coerce(schema, got)
		if depth, _ := measure(got); depth <= MaxDepth && !isObject(twice) {
			t.Fatalf("%s became %s", got, twice)
		}
	})
}

func FuzzValidate(f *testing.F) {
	for _, s := range fuzzSchemas {
		for _, a := range []string{`{"a":[1],"b":{"a":null}}`, `{"a":"5","zz":1e999999}`, `{"b":{"b":{"b":{}}}}`, `{"a":{"a":"ab"}}`} {
			f.Add([]byte(s), []byte(a))
		}
	}
	f.Fuzz(func(t *testing.T, schema, arguments []byte) {
		got, err := Validate("t", schema, arguments)
		if err == nil {
			if !isObject(got.Arguments) {
				t.Fatalf("%s became %s", arguments, got.Arguments)
			}
			return
		}
		if !isMistake(err) {
			t.Fatalf("%T %v", err, err)
		}
		body, merr := subjects.MarshalModel(err)
		if merr != nil || !json.Valid(body) {
			t.Fatalf("%s, %v", body, merr)
		}
		if _, again := Validate("t", schema, arguments); again == nil || again.Error() != err.Error() {
			t.Fatalf("now %v, before %v", again, err)
		}
	})
}
