package dispatch

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCoerce(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, schema, arguments, want string }{
		{"nothing to do keeps every byte", `{"properties":{"n":{"type":"number"},"o":{"type":"object"}}}`,
			"{ \"z\" : 1.500, \"n\":1e2,\n\"o\": {\"b\":1 , \"a\":2}}", "{ \"z\" : 1.500, \"n\":1e2,\n\"o\": {\"b\":1 , \"a\":2}}"},
		{"a change leaves the rest", `{"properties":{"n":{"type":"integer"}}}`, `{ "z": 1.50, "n": "5", "a": [ 1 ] }`, `{ "z": 1.50, "n": 5, "a": [ 1 ] }`},
		{"all digits of an integer", `{"properties":{"n":{"type":"integer"}}}`, `{"n":"12345678901234567890123"}`, `{"n":12345678901234567890123}`},
		{"all digits of a number", `{"properties":{"n":{"type":"number"}}}`, `{"n":"0.1234567890123456789"}`, `{"n":0.1234567890123456789}`},
		{"a boolean schema is none", `{"properties":{"a":true,"b":false}}`, `{"a":"5","b":"[1]"}`, `{"a":"5","b":"[1]"}`},
		{"an empty schema is none", `{"properties":{"a":{}}}`, `{"a":"5"}`, `{"a":"5"}`},
		{"no schema", `true`, `{"a":"5"}`, `{"a":"5"}`},
		{"no JSON", `{"properties"`, `{"a":"5"}`, `{"a":"5"}`},
		{"arguments that are no object", `{"properties":{"a":{"type":"integer"}}}`, `["5"]`, `["5"]`},
		{"arguments that are no JSON", `{"properties":{"a":{"type":"integer"}}}`, `{"a":`, `{"a":`},
		{"of equal keys the last", `{"properties":{"a":{"type":"integer"}}}`, `{"a":"5","a":"6"}`, `{"a":6}`},
		{"an escaped key", `{"properties":{"a":{"type":"integer"}}}`, `{"\u0061":"5"}`, `{"\u0061":5}`},
		{"lone values become arrays", `{"properties":{"a":{"type":"array"},"b":{"type":"array"},"c":{"type":"array"}}}`,
			`{"a":true,"b":{"x":1},"c":null}`, `{"a":[true],"b":[{"x":1}],"c":null}`},
		{"a string that only looks like an array", `{"properties":{"a":{"type":"array"}}}`, `{"a":"[1"}`, `{"a":["[1"]}`},
		{"null in a nullable array", `{"properties":{"a":{"type":"array","nullable":true}}}`, `{"a":"null"}`, `{"a":null}`},
		{"the first type that fits", `{"properties":{"a":{"type":["boolean","integer","string"]}}}`, `{"a":"12"}`, `{"a":12}`},
		{"a root reference", `{"$ref":"#/$defs/R","$defs":{"R":{"properties":{"a":{"type":"integer"}}}}}`, `{"a":"5"}`, `{"a":5}`},
		{"a reference with a keyword of its own", `{"properties":{"a":{"$ref":"#/$defs/A","description":"x"}},"$defs":{"A":{"type":"integer"}}}`, `{"a":"5"}`, `{"a":5}`},
		{"an escaped reference", `{"properties":{"a":{"$ref":"#/$defs/a~1b%20c"}},"$defs":{"a/b c":{"type":"integer"}}}`, `{"a":"5"}`, `{"a":5}`},
		{"an outside reference", `{"properties":{"a":{"$ref":"https://example.com/x"}}}`, `{"a":"5"}`, `{"a":"5"}`},
		{"a circle of references", `{"properties":{"a":{"$ref":"#/properties/a"}}}`, `{"a":"{}"}`, `{"a":"{}"}`},
		{"a tree of its own kind", `{"$defs":{"N":{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#/$defs/N"}}}}},"properties":{"n":{"$ref":"#/$defs/N"}}}`,
			`{"n":"{\"kids\":\"[{\\\"kids\\\":\\\"[]\\\"}]\"}"}`, `{"n":{"kids":[{"kids":[]}]}}`},
		{"a container in a branch", `{"properties":{"o":{"type":"object","properties":{"x":{"anyOf":[{"type":"string"},{"allOf":[{"type":"array"}]}]}}}}}`,
			`{"o":{"x":"[1]"}}`, `{"o":{"x":[1]}}`},
		{"a wrong container stays text", `{"properties":{"o":{"type":"object","properties":{"x":{"type":"array"}}}}}`, `{"o":{"x":"{}"}}`, `{"o":{"x":"{}"}}`},
		{"own names at any depth", `{"properties":{"o":{"properties":{"k$":{"properties":{"q?":{}}}}}}}`, `{"o":{"k_":{"q_":1}}}`, `{"o":{"k$":{"q?":1}}}`},
		{"own names in items", `{"properties":{"l":{"type":"array","items":{"properties":{"k$":{}}}}}}`, `{"l":[{"k_":1},2]}`, `{"l":[{"k$":1},2]}`},
		{"text that is unpacked keeps its keys", `{"properties":{"o":{"type":"object","properties":{"k$":{"type":"integer"},"a":{"type":"array"}}}}}`,
			`{"o":"{\"k_\":1,\"a\":\"[2]\"}"}`, `{"o":{"k_":1,"a":[2]}}`},
		{"so it does deeper down", `{"properties":{"o":{"type":"object","properties":{"p?":{"type":"object","properties":{"k$":{}}}}}}}`,
			`{"o":{"p_":"{\"k_\":1}"}}`, `{"o":{"p?":{"k_":1}}}`},
		{"and in an array", `{"properties":{"l":{"type":"array","items":{"properties":{"k$":{}}}}}}`, `{"l":"[{\"k_\":1}]"}`, `{"l":[{"k_":1}]}`},
		{"a lone item is wrapped as it came", `{"properties":{"l":{"type":"array","items":{"properties":{"k$":{}}}}}}`, `{"l":{"k_":1}}`, `{"l":[{"k_":1}]}`},
		{"a name that is there already", `{"properties":{"k$":{"type":"integer"}}}`, `{"k_":"1","k$":"2"}`, `{"k_":"1","k$":2}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := string(Coerce([]byte(tc.schema), []byte(tc.arguments))); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// What is unpacked may not make the whole deeper than the bound.
func TestCoerceDepth(t *testing.T) {
	t.Parallel()
	schema := `{"properties":{"a":{"type":"array"}}}`
	nested := func(n int) string { return `{"a":"` + strings.Repeat("[", n) + strings.Repeat("]", n) + `"}` }
	if got := string(Coerce([]byte(schema), []byte(nested(MaxDepth-1)))); !strings.HasPrefix(got, `{"a":[[`) {
		t.Errorf("%.40s, want it unpacked", got)
	}
	if got := string(Coerce([]byte(schema), []byte(nested(MaxDepth)))); !strings.HasPrefix(got, `{"a":["[[`) {
		t.Errorf("%.40s, want it left a string", got)
	}
}

// coercible is a schema with every kind of property that coercion knows.
const coercible = `{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":["array","null"],"items":{"type":"array"}},"é":{"type":"boolean"},
"o":{"type":"object","properties":{"a":{"type":"array","items":{"$ref":"#"}},"b":{"type":"object"},"a b":{"type":"string"}}},"a b":{"type":"number","nullable":true}}}`

// Coercion returns valid JSON with the same number of members, and changes nothing the second time: what it made of a
// value is of the type that was asked for. What came out of a string is the exception where it keeps keys that would be
// renamed, or items of a top-level array that would be unpacked; no string here holds such.
func TestCoerceIsIdempotent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		keys := []string{"a", "b", "é", "o", "a b", "a_b", "z"}
		var members []string
		for _, k := range keys {
			if rapid.Bool().Draw(t, "has") {
				members = append(members, `"`+k+`":`+jsonText(3).Draw(t, "value"))
			}
		}
		arguments := []byte("{" + strings.Join(members, ",") + "}")
		once := Coerce([]byte(coercible), arguments)
		if !json.Valid(once) {
			t.Fatalf("%s became %s", arguments, once)
		}
		if n := len(parse(once).members); n != len(members) {
			t.Fatalf("%s became %s, of %d members", arguments, once, n)
		}
		if twice := Coerce([]byte(coercible), once); string(twice) != string(once) {
			t.Fatalf("%s became %s and then %s", arguments, once, twice)
		}
	})
}
