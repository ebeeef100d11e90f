package dispatch

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"toolsearch/subjects"
)

func TestValidateGoesAhead(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, schema, arguments string }{
		{"format is not asserted", `{"properties":{"a":{"type":"string","format":"email"}}}`, `{"a":"x"}`},
		{"nor in draft 4", `{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"a":{"type":"string","format":"regex"}}}`, `{"a":"["}`},
		{"5.0 is an integer", `{"properties":{"a":{"type":"integer"}}}`, `{"a":5.0}`},
		{"a large integer", `{"properties":{"a":{"type":"integer","maximum":12345678901234567890123}}}`, `{"a":12345678901234567890123}`},
		{"a number beyond floats", `{"properties":{"a":{"type":"number","minimum":1}}}`, `{"a":1e999999}`},
		{"null for nullable", `{"properties":{"a":{"type":"string","nullable":true}}}`, `{"a":null}`},
		{"null for a nullable list of types", `{"properties":{"a":{"type":["string","integer"],"nullable":true}}}`, `{"a":null}`},
		{"null for nullable without a type", `{"properties":{"a":{"enum":[1],"nullable":true}}}`, `{"a":null}`},
		{"nullable below items", `{"properties":{"a":{"items":{"type":"string","nullable":true}}}}`, `{"a":[null]}`},
		{"a property of the name nullable", `{"properties":{"nullable":{"type":"boolean"}},"additionalProperties":false}`, `{"nullable":true}`},
		{"a property of the name enum", `{"properties":{"enum":{"type":"string","nullable":true}}}`, `{"enum":null}`},
		{"a property of the name format", `{"properties":{"format":{"type":"string"}},"additionalProperties":false}`, `{"format":"x"}`},
		{"a local reference", `{"properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"string"}}}`, `{"a":"x"}`},
		{"an anchor", `{"properties":{"a":{"$ref":"#A"}},"$defs":{"A":{"$anchor":"A","type":"string"}}}`, `{"a":"x"}`},
		{"numbers of draft 4", `{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"a":{"minimum":3,"exclusiveMinimum":true}}}`, `{"a":4}`},
		{"a dialect that nobody knows is 2020-12", `{"$schema":"https://example.com/mine","properties":{"a":{"prefixItems":[{"type":"string"}]}}}`, `{"a":["x"]}`},
		{"a length that no text has", `{"properties":{"a":{"maxLength":18446744073709551616}}}`, `{"a":"x"}`},
		{"a length in another spelling", `{"properties":{"a":{"maxLength":9.3e18,"minLength":0}}}`, `{"a":"x"}`},
		{"a number of items that no list has", `{"properties":{"a":{"maxItems":1e300}}}`, `{"a":[1]}`},
		{"a number of properties", `{"maxProperties":9223372036854775808}`, `{"a":[1]}`},
		{"a number of those that fit", `{"properties":{"a":{"contains":{},"maxContains":36893488147419103232}}}`, `{"a":[1]}`},
		{"a property of the name maxLength", `{"properties":{"maxLength":{"maximum":5}}}`, `{"maxLength":1}`},
		{"dependencies, which went with 2019-09", `{"dependencies":{"a":["b"]}}`, `{"a":1}`},
		{"a required name that a provider spells otherwise", `{"required":["a~b"],"properties":{"a~b":{"type":"integer"}}}`, `{"a_b":"1"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := Validate("t", []byte(tc.schema), []byte(tc.arguments))
			if err != nil || got.Unchecked != "" {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

func TestValidateCannotCheck(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, schema, arguments string }{
		{"no schema", ``, `{"a":1}`},
		{"null", `null`, `{"a":1}`},
		{"a schema that is no JSON", `{"properties":`, `{"a":1}`},
		{"a boolean", `false`, `{"a":1}`},
		{"a type that is none", `{"properties":{"a":{"type":"strin"}}}`, `{"a":1}`},
		{"a keyword of the wrong type", `{"properties":{"a":{"minimum":"1"}}}`, `{"a":0}`},
		{"an outside reference, never asked for", `{"properties":{"a":{"$ref":"https://example.com/x"},"b":{"type":"string"}}}`, `{"b":1}`},
		{"a file", `{"properties":{"a":{"$ref":"file:///etc/hostname"}}}`, `{"a":1}`},
		{"a relative reference", `{"$id":"https://example.com/x","properties":{"a":{"$ref":"y.json"}}}`, `{"a":1}`},
		{"an outside dialect within", `{"properties":{"a":{"$id":"z","$schema":"https://example.com/d","type":"string"},"b":{"$ref":"other"}}}`, `{"a":1}`},
		{"an outside reference in what no draft knows", `{"dependencies":{"b":{"$ref":"https://example.com/x"}},"properties":{"a":{"type":"string"}}}`, `{"a":1}`},
		{"a dangling reference", `{"properties":{"a":{"$ref":"#/$defs/none"},"b":{"type":"string"}}}`, `{"b":1}`},
		{"a circle", `{"$ref":"#"}`, `{"a":1}`},
		{"draft 3", `{"$schema":"http://json-schema.org/draft-03/schema#","properties":{"a":{"type":"string"}}}`, `{"a":1}`},
		{"a pattern of names that cannot be used", `{"patternProperties":{"^a(?!b)":{}},"additionalProperties":false}`, `{"x":1}`},
		{"a pattern that cannot be used below a negation", `{"not":{"properties":{"a":{"pattern":"(?<=b)c"}}}}`, `{"a":"x"}`},
		{"an open bracket", `{"properties":{"a":{"pattern":"["},"b":{"type":"string"}}}`, `{"b":1}`},
		{"an open group", `{"properties":{"a":{"pattern":"a(b"},"b":{"type":"string"}}}`, `{"b":1}`},
		{"a group that was never opened", `{"properties":{"a":{"items":{"pattern":"a)"}},"b":{"type":"string"}}}`, `{"b":1}`},
		{"nothing to repeat", `{"properties":{"a":{"pattern":"*a"},"b":{"type":"string"}}}`, `{"b":1}`},
		{"from more to less", `{"properties":{"a":{"pattern":"a{2,1}"},"b":{"type":"string"}}}`, `{"b":1}`},
		{"a format that is no text", `{"properties":{"a":{"format":5},"b":{"type":"string"}}}`, `{"b":1}`},
		{"a length beyond floats", `{"properties":{"a":{"maxLength":1e400},"b":{"type":"string"}}}`, `{"a":"x","b":1}`},
		{"another, written in full", `{"properties":{"a":{"maxItems":1` + strings.Repeat("0", 400) + `}}}`, `{"a":[1]}`},
		{"a shortest length beyond floats", `{"properties":{"a":{"minLength":1e400}}}`, `{"a":"x"}`},
		{"a minimum beyond floats", `{"properties":{"a":{"minimum":1e999999999}}}`, `{"a":1}`},
		{"a maximum beyond floats", `{"properties":{"a":{"not":{"exclusiveMaximum":-1e400}}}}`, `{"a":1}`},
		{"or by reference", `{"not":{"$ref":"#/$defs/A"},"$defs":{"A":{"properties":{"a":{"pattern":"(?<=b)c"}}}}}`, `{"a":"x"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := Validate("t", []byte(tc.schema), []byte(tc.arguments))
			if err != nil || got.Unchecked == "" || string(got.Arguments) != tc.arguments {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// A pattern that cannot be used is dropped and nothing else with it.
func TestValidateWithoutOnePattern(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{`(?<=b)c`, `[^]*`, `a{1,2000}`, `\\1`} {
		schema := []byte(`{"properties":{"a":{"type":"string","pattern":"` + pattern + `"}}}`)
		if got, err := Validate("t", schema, []byte(`{"a":"x"}`)); err != nil || got.Unchecked != "" {
			t.Errorf("%s: %+v, %v", pattern, got, err)
		}
		if _, err := Validate("t", schema, []byte(`{"a":1}`)); err == nil {
			t.Errorf("%s: a number is taken for a string", pattern)
		}
	}
}

func TestRefusalBody(t *testing.T) {
	t.Parallel()
	schema := json.RawMessage(`{"type":"object","required":["b"],"properties":{"a":{"type":"integer","x-<é>":1.50}}}`)
	for _, tc := range []struct{ arguments, want string }{
		{`{"a":"x","b":1}`, `{"error": "The call to 'mcp__v__t' fails at arguments.a (type): it is of type string, not integer. The tool was not invoked.", ` +
			`"path": "arguments.a", "constraint": "type", "parameters": {"type": "object", "required": ["b"], "properties": {"a": {"type": "integer", "x-<é>": 1.50}}}, ` +
			`"hint": "Correct the arguments to match the schema in ` + "`parameters`" + ` and call again."}`},
		{`{"a":"x"}`, `{"error": "The call to 'mcp__v__t' lacks the required 'b'. The tool was not invoked.", ` +
			`"path": "arguments", "constraint": "required", "parameters": {"type": "object", "required": ["b"], "properties": {"a": {"type": "integer", "x-<é>": 1.50}}}, ` +
			`"hint": "Correct the arguments to match the schema in ` + "`parameters`" + ` and call again."}`},
	} {
		_, err := Validate("mcp__v__t", schema, []byte(tc.arguments))
		got, merr := subjects.MarshalModel(err)
		if merr != nil || string(got) != tc.want {
			t.Errorf("got  %s, %v\nwant %s", got, merr, tc.want)
		}
	}
}

// What is told of a schema is what its author wrote.
func TestRefusalShowsTheSchema(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`{"properties":{"a":{"anyOf":[{"type":"string","format":"uri"},{"type":"null"}]}}}`: `[{"type":"string"},{"type":"null"}]`,
		`{"properties":{"a":{"not":{"items":{"minimum":0}}}}}`:                              `{"items":{"minimum":0}}`,
	} {
		_, err := Validate("t", []byte(schema), []byte(`{"a":[1]}`))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want it to hold %s", err, want)
		}
	}
}

func TestValidateArgumentsThatAreNone(t *testing.T) {
	t.Parallel()
	for _, arguments := range []string{``, `[1]`, `"{}"`, `null`, `{`, strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000)} {
		_, err := Validate("t", []byte(`{}`), []byte(arguments))
		var mistake *subjects.ToolError
		if !errors.As(err, &mistake) || mistake.Message == "" {
			t.Errorf("%.20q: %v, want a mistake of the model", arguments, err)
		}
	}
}

// A least size that nothing has is not turned around by its magnitude.
func TestValidateLeastSize(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{
		`{"properties":{"a":{"minLength":18446744073709551616}}}`, `{"properties":{"a":{"minLength":1e300}}}`,
	} {
		if _, err := Validate("t", []byte(schema), []byte(`{"a":"x"}`)); err == nil {
			t.Errorf("%s takes a text of one character", schema)
		}
	}
}
