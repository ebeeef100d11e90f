package dispatch

import (
	"errors"
	"testing"
)

// Each case has several failures, or one with several names; the library reports them in the order of Go's maps, so
// each is tried many times.
func TestChoice(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, schema, arguments, path, constraint string }{
		{"the shallowest", `{"properties":{"a":{"properties":{"x":{"type":"string"}}},"z":{"type":"string"}}}`, `{"a":{"x":1},"z":1}`, "arguments.z", "type"},
		{"the first place", `{"properties":{"b":{"type":"string"},"a":{"type":"string"}}}`, `{"b":1,"a":1}`, "arguments.a", "type"},
		{"indices by number", `{"properties":{"a":{"items":{"type":"string"}}}}`, `{"a":["","",1,"","","","","","","",1]}`, "arguments.a[2]", "type"},
		{"keywords in the schema's order", `{"properties":{"a":{"pattern":"^x","minLength":9}}}`, `{"a":"y"}`, "arguments.a", "pattern"},
		{"and the other way round", `{"properties":{"a":{"minLength":9,"pattern":"^x"}}}`, `{"a":"y"}`, "arguments.a", "minLength"},
		{"anyOf after others", `{"properties":{"a":{"anyOf":[{"minLength":9}],"pattern":"^x"}}}`, `{"a":"y"}`, "arguments.a", "pattern"},
		{"through allOf and a reference", `{"allOf":[{"$ref":"#/$defs/A"}],"$defs":{"A":{"properties":{"a":{"type":"string"}}}}}`, `{"a":1}`, "arguments.a", "type"},
		{"anyOf itself", `{"properties":{"a":{"anyOf":[{"type":"string"},{"type":"integer"}]}}}`, `{"a":{}}`, "arguments.a", "anyOf"},
		{"the branch of the right type", `{"properties":{"a":{"anyOf":[{"type":"string","minLength":5},{"type":"null"}]}}}`, `{"a":"x"}`, "arguments.a", "minLength"},
		{"the deepest branch", `{"properties":{"a":{"oneOf":[{"type":"string"},{"type":"object","properties":{"k":{"type":"integer"}}}]}}}`, `{"a":{"k":"x"}}`, "arguments.a.k", "type"},
		{"a branch within a branch", `{"properties":{"a":{"anyOf":[{"type":"null"},{"type":"object","properties":{"k":{"oneOf":[{"type":"null"},{"type":"string","maxLength":1}]}}}]}}}`, `{"a":{"k":"xx"}}`, "arguments.a.k", "maxLength"},
		{"two missing names are no lead", `{"properties":{"a":{"anyOf":[{"type":"object","required":["x","y"]},{"type":"null"}]}}}`, `{"a":{}}`, "arguments.a", "anyOf"},
		{"nor are a type and an enum", `{"properties":{"a":{"anyOf":[{"properties":{"k":{"enum":["x"],"type":"string"}},"type":"object"},{"type":"null"}]}}}`, `{"a":{"k":1}}`, "arguments.a", "anyOf"},
		{"two branches match", `{"properties":{"a":{"oneOf":[{"type":"integer"},{"type":"number"}]}}}`, `{"a":1}`, "arguments.a", "oneOf"},
		{"enum before type", `{"properties":{"a":{"enum":["x"],"type":"string"}}}`, `{"a":1}`, "arguments.a", "enum"},
		{"type before enum", `{"properties":{"a":{"type":"string","enum":["x"]}}}`, `{"a":1}`, "arguments.a", "type"},
		{"const before type", `{"properties":{"a":{"const":"x","type":"string"}}}`, `{"a":1}`, "arguments.a", "const"},
		{"an enum that holds is not told", `{"properties":{"a":{"enum":["x",1.0],"type":"string"}}}`, `{"a":1}`, "arguments.a", "type"},
		{"nor is a const that holds", `{"properties":{"a":{"const":{"k":[true,null,"x"]},"type":["string","null"]}}}`, `{"a":{"k":[true,null,"x"]}}`, "arguments.a", "type"},
		{"a name of the wrong form", `{"properties":{"a":{"propertyNames":{"pattern":"^x"}}}}`, `{"a":{"y":1}}`, "arguments.a", "pattern"},
		{"a property that is false", `{"properties":{"a":false}}`, `{"a":1}`, "arguments.a", "properties"},
		{"unevaluated properties", `{"properties":{"a":{}},"unevaluatedProperties":false}`, `{"a":1,"b":1}`, "arguments", "unevaluatedProperties"},
		{"items that are false", `{"properties":{"a":{"prefixItems":[{}],"items":false}}}`, `{"a":[1,2]}`, "arguments.a", "items"},
		{"not", `{"properties":{"a":{"not":{"type":"string"}}}}`, `{"a":"x"}`, "arguments.a", "not"},
		{"contains", `{"properties":{"a":{"contains":{"type":"integer"}}}}`, `{"a":["x","y"]}`, "arguments.a", "contains"},
		{"then", `{"if":{"properties":{"k":{"const":1}}},"then":{"required":["b"]}}`, `{"k":1}`, "arguments", "required"},
		{"dependencies of draft 7", `{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"a":["b"]}}`, `{"a":1}`, "arguments", "dependencies"},
		{"an exclusive minimum of draft 4", `{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"a":{"minimum":3,"exclusiveMinimum":true}}}`, `{"a":3}`, "arguments.a", "minimum"},
		{"an exclusive maximum of draft 4", `{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"a":{"exclusiveMaximum":true,"maximum":3}}}`, `{"a":3}`, "arguments.a", "maximum"},
		{"an exclusive minimum", `{"properties":{"a":{"exclusiveMinimum":3}}}`, `{"a":3}`, "arguments.a", "exclusiveMinimum"},
		{"an enum of draft 7 with a value twice", `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"enum":["x","y","x"]}}}`, `{"a":"z"}`, "arguments.a", "enum"},
		{"a key that is no identifier", `{"properties":{"a b":{"properties":{"0":{"items":{"type":"null"}}}}}}`, `{"a b":{"0":["\"é"]}}`, `arguments["a b"]["0"][0]`, "type"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var text string
			for range 50 {
				_, err := Validate("t", []byte(tc.schema), []byte(tc.arguments))
				var r *Refusal
				if !errors.As(err, &r) {
					t.Fatalf("%v, want a refusal", err)
				}
				if r.Path != tc.path || r.Constraint != tc.constraint {
					t.Fatalf("%s at %s, want %s at %s", r.Constraint, r.Path, tc.constraint, tc.path)
				}
				if text == "" {
					text = r.Message
				}
				if r.Message != text {
					t.Fatalf("now %q, before %q", r.Message, text)
				}
			}
		})
	}
}
