package dispatch

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// Schemas and arguments made to cost time, memory or stack. A case that is not held back would take minutes or kill
// the process.
func TestHostile(t *testing.T) {
	t.Parallel()
	deep := func(n int) string { return strings.Repeat(`{"x":`, n) + "1" + strings.Repeat("}", n) }
	list := func(item string, n int) string { return `{"a":[` + strings.Repeat(item+",", n-1) + item + `]}` }
	const branching = `"$defs":{"N":{"anyOf":[{"properties":{"x":{"$ref":"#/$defs/N"}},"required":["y"]},{"properties":{"x":{"$ref":"#/$defs/N"}},"required":["z"]}]}}`
	var chain, laughs, wide strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&chain, `"d%d":{"$ref":"#/$defs/d%d"},`, i, i+1)
	}
	for i := range 40 {
		fmt.Fprintf(&laughs, `"l%d":{"allOf":[{"$ref":"#/$defs/l%d"},{"$ref":"#/$defs/l%d"}]},`, i, i+1, i+1)
	}
	for i := range maxSchemaValues {
		fmt.Fprintf(&wide, `"p%d":{},`, i)
	}
	long := strings.Repeat("x", 5<<20)
	const passes, refused, unchecked = "passes", "refused", "unchecked"
	for _, tc := range []struct{ name, schema, arguments, want string }{
		{"branches that multiply", `{` + branching + `,"properties":{"x":{"$ref":"#/$defs/N"}}}`, deep(200), unchecked},
		{"shallow, they are checked", `{` + branching + `,"properties":{"x":{"$ref":"#/$defs/N"}}}`, deep(4), refused},
		{"references that multiply", `{"$defs":{` + laughs.String() + `"l40":{}},"$ref":"#/$defs/l0"}`, `{"x":1}`, unchecked},
		{"a long chain over deep arguments", `{"$defs":{` + chain.String() + `"d3000":{"properties":{"x":{"$ref":"#/$defs/d0"}}}},"$ref":"#/$defs/d0"}`, deep(500), unchecked},
		{"a long chain over flat ones", `{"$defs":{` + chain.String() + `"d3000":{"required":["y"]}},"$ref":"#/$defs/d0"}`, deep(1), refused},
		{"a schema of its own kind over the deepest arguments", `{"properties":{"x":{"$ref":"#"}}}`, deep(MaxDepth), passes},
		{"arguments that are too deep", `{}`, deep(10_000), "mistake"},
		{"a schema that is too deep", strings.Repeat(`{"not":`, 200) + `{}` + strings.Repeat("}", 200), `{"x":1}`, unchecked},
		{"a schema of too many values", `{"properties":{` + wide.String() + `"a":{"type":"string"}}}`, `{"a":1}`, unchecked},
		{"a schema of too many bytes", `{"description":"` + long + `","properties":{"a":{"type":"string"}}}`, `{"a":1}`, unchecked},
		{"numbers in a huge enum", `{"properties":{"a":{"items":{"enum":[` + strings.Repeat("1.5,", 15_000) + `2]}}}}`, list("7", 5000), unchecked},
		{"words in a large enum", `{"properties":{"a":{"items":{"enum":[` + strings.Repeat(`"w",`, 2_000) + `"v"]}}}}`, list(`"x"`, 5000), refused},
		{"a pattern that backtracks elsewhere", `{"properties":{"a":{"pattern":"^(x+x+)+y$"}}}`, `{"a":"` + long[:1<<20] + `"}`, refused},
		{"a large pattern over a long text", `{"properties":{"a":{"pattern":"([^q]{1,900})*z"}}}`, `{"a":"` + long[:1<<20] + `"}`, unchecked},
		{"5 MB in one text", `{"properties":{"a":{"type":"string","maxLength":9}}}`, `{"a":"` + long + `"}`, refused},
		{"5 MB in a text that holds an object", `{"properties":{"a":{"type":"object"}}}`, `{"a":"{\"k\":\"` + long + `\"}"}`, passes},
		{"5 MB in small numbers", `{"properties":{"a":{"items":{"type":"string"}}}}`, list("1", 5<<19), unchecked},
		{"many wrong items", `{"properties":{"a":{"items":{"type":"string"}}}}`, list("1", 50_000), refused},
		{"huge exponents", `{"properties":{"a":{"items":{"type":"integer","minimum":5,"multipleOf":2}}}}`, list("1e9999999", 20_000), passes},
		{"a number of 5 MB", `{"properties":{"a":{"type":"integer","minimum":5}}}`, `{"a":1` + strings.Repeat("0", 5<<20) + `}`, passes},
		{"a key 100,000 times", `{"properties":{"a":{"type":"integer"}}}`, `{` + strings.Repeat(`"a":"5",`, 100_000) + `"b":1}`, passes},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			checked, err := Validate("t", []byte(tc.schema), []byte(tc.arguments))
			got := passes
			var refusal *Refusal
			switch {
			case errors.As(err, &refusal):
				got = refused
			case err != nil:
				got = "mistake"
			case checked.Unchecked != "":
				got = unchecked
			}
			if got != tc.want {
				t.Errorf("%s (%s, %v), want %s", got, checked.Unchecked, err, tc.want)
			}
		})
	}
}

// Schemas in which every property has to be given its own name back must not cost the square of their number.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	var properties, arguments strings.Builder
	for i := range 4000 {
		properties.WriteString(`,"p ` + strconv.Itoa(i) + `":{"type":"integer"}`)
		arguments.WriteString(`,"p_` + strconv.Itoa(i) + `":"1"`)
	}
	got := string(Coerce([]byte(`{"properties":{"a":{}`+properties.String()+`}}`), []byte(`{"a":1`+arguments.String()+`}`)))
	if strings.Contains(got, "p_") || strings.Contains(got, `"1"`) {
		t.Errorf("%.80s, want own names and numbers", got)
	}
}
