package catalog

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"toolsearch/subjects"
)

// TestCompactChars compares the count with the length of text that was really written again.
func TestCompactChars(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"\u2028<&>", "\b\f\n\r\t\x01\"\\/", "😀é", "\x7f"})).Draw(t, "text")
		v := map[string]any{text: []any{text, 1, json.Number("1.50"), nil, true, map[string]any{}}}
		escaped, err := json.MarshalIndent(v, " ", "\t") // blanks, \u2028 and HTML escapes, none of which count
		if err != nil {
			t.Fatal(err)
		}
		compact, err := subjects.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := compactChars(escaped), runeLen(string(compact)); got != want {
			t.Fatalf("compactChars(%s) = %d, want %d", escaped, got, want)
		}
		if got, want := stringChars(text), runeLen(string(subjects.AppendString(nil, text))); got != want {
			t.Fatalf("stringChars(%q) = %d, want %d", text, got, want)
		}
	})
}

// TestDefinitionCharsOfShapes has one tool in each shape: all cost what the OpenAI one does.
func TestDefinitionCharsOfShapes(t *testing.T) {
	t.Parallel()
	const want = `{"type":"function","function":{"name":"n","description":"D é.","parameters":{"type":"object"}}}`
	for _, shape := range []string{
		`{"type":"function", "function":{"name":"n","description":"D \u00e9.","parameters":{"type":"object"}}}`,
		`{"name":"n","description":"D é.","parameters":{ "type":"object"}}`,
		`{"inputSchema":{"type":"object"},"name":"n","description":"D é."}`,
		`{"name":"n","description":"D é.","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}`,
	} {
		c, err := Build(json.RawMessage(`[{"tool":`+shape+`}]`), Limits{})
		if err != nil || c.Len() != 1 {
			t.Fatalf("%s: %v, %v", shape, err, c.Rejected())
		}
		if got := int(c.tools[0].chars); got != runeLen(want) {
			t.Errorf("%s costs %d characters, want %d", shape, got, runeLen(want))
		}
	}
}
