package dispatch

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"toolsearch/subjects"
)

func TestNormalise(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, arguments, want string }{
		{"all of it a string", `"{\"calls\":[{\"name\":\"x\"}]}"`, `[{"name":"x","arguments":{}}]`},
		{"strings within strings", `"{\"calls\":\"[{\\\"name\\\":\\\"x\\\",\\\"arguments\\\":\\\"{\\\\\\\"a\\\\\\\":1}\\\"}]\"}"`, `[{"name":"x","arguments":{"a":1}}]`},
		{"bytes stay", `{"calls":[{"name":"x","arguments":{"b" : 1.50,"a":1e2}}]}`, `[{"name":"x","arguments":{"b" : 1.50,"a":1e2}}]`},
		{"the last of equal keys", `{"calls":[],"calls":[{"name":"y","name":"x","arguments":{"a":1,"a":2}}]}`, `[{"name":"x","arguments":{"a":2}}]`},
		{"names are exact", `{"Calls":1,"calls":[{"Name":"y","name":"x"}]}`, `[{"name":"x","arguments":{}}]`},
		{"a number keeps its spelling", `{"calls":[{"name":1e3}]}`, `[{"name":"1e3","arguments":{}}]`},
		{"an escaped key", `{"\u0063alls":[{"n\u0061me":"x"}]}`, `[{"name":"x","arguments":{}}]`},
		{"null arguments in a string", `{"name":"x","arguments":" "}`, `[{"name":"x","arguments":{}}]`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			entries, err := Normalise([]byte(tc.arguments))
			if err != nil {
				t.Fatal(err)
			}
			got := "["
			for i, e := range entries {
				if i > 0 {
					got += ","
				}
				got += `{"name":"` + e.Name + `","arguments":` + string(e.Arguments) + `}`
			}
			if got += "]"; got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestNormaliseMistakes(t *testing.T) {
	t.Parallel()
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, tc := range []struct{ name, arguments, mention string }{
		{"nothing", ``, "`calls` is missing"},
		{"null", `null`, "`calls` is missing"},
		{"a name that is no text", `{"calls":[{"name":{"a":1}}]}`, "calls[0]"},
		{"a name that is null", `{"calls":[{"name":"x"},{"name":null}]}`, "calls[1]"},
		{"the bridge in the single form", `{"name":" tool_search ","arguments":{}}`, "tool_search"},
		{"a string in a string", `{"calls":"\"[]\""}`, "non-empty"},
		{"deep arguments", `{"calls":[{"name":"x","arguments":{"a":` + nested(MaxDepth) + `}}]}`, "nested"},
		{"deep arguments in a string", `{"calls":[{"name":"x","arguments":"{\"a\":` + nested(10_000) + `}"}]}`, "nested"},
		{"deep calls in a string", `{"calls":"` + nested(10_000) + `"}`, "nested"},
		{"10,000 levels", nested(10_000), "nested"},
		{"100,000 levels in a string", `"` + nested(100_000) + `"`, "nested"},
		{"half a text in calls", `{"calls":"[{\"name\":"}`, "not valid JSON"},
		{"two values", `{"calls":[{"name":"x","arguments":"{} {}"}]}`, "calls[0].arguments is not valid JSON"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			entries, err := Normalise([]byte(tc.arguments))
			var mistake *subjects.ToolError
			if !errors.As(err, &mistake) || entries != nil {
				t.Fatalf("%v, %v; want a mistake of the model", entries, err)
			}
			if tc.mention != "non-empty" && !strings.Contains(mistake.Message, tc.mention) {
				t.Errorf("%q does not mention %q", mistake.Message, tc.mention)
			}
			if !strings.Contains(mistake.Message, "Nothing was run") {
				t.Errorf("%q does not say that nothing ran", mistake.Message)
			}
		})
	}
	for _, arguments := range []string{`5`, `[1]`, `true`, `{`} {
		_, err := Normalise([]byte(arguments))
		var fault *subjects.Error
		if !errors.As(err, &fault) || fault.Code != subjects.CodeBadRequest {
			t.Errorf("%s: %v, want a fault of the request", arguments, err)
		}
	}
}

// isMistake reports whether an error is of the kinds that the front half may return.
func isMistake(err error) bool {
	var mistake *subjects.ToolError
	var refusal *Refusal
	var fault *subjects.Error
	return errors.As(err, &mistake) || errors.As(err, &refusal) || errors.As(err, &fault)
}

func isObject(p []byte) bool {
	var object map[string]json.RawMessage
	return json.Unmarshal(p, &object) == nil && object != nil
}
