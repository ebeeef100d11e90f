package catalog

import (
	"encoding/json"
	"unicode/utf8"
)

// The cost of a deferred definition is the length of its JSON in characters, as if it had been written again in the
// one way that models are sent it: no blanks, nothing escaped but the quote, the backslash and control characters.
// It is counted in one pass and never written.

// compactChars is the length of valid JSON so written.
func compactChars(raw []byte) int {
	n := 0
	for i := 0; i < len(raw); {
		switch c := raw[i]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			i++
		case c == '"':
			end := i + 1
			for raw[end] != '"' {
				if raw[end] == '\\' {
					end++
				}
				end++
			}
			n += len(`""`) + textChars(raw[i+1:end])
			i = end + 1
		default:
			n++
			i++
		}
	}
	return n
}

// textChars is the same for what stands between the quotes of a JSON string.
func textChars(text []byte) int {
	n := 0
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '\\':
			r, taken := unescape(text[i:])
			i += taken
			n += escapedChars(r)
		default:
			// Of a character's bytes only the first is counted.
			if utf8.RuneStart(c) {
				n++
			}
			i++
		}
	}
	return n
}

// stringChars is the length of a JSON string of s, quotes included.
func stringChars(s string) int {
	n := len(`""`)
	for _, r := range s {
		n += escapedChars(r)
	}
	return n
}

func escapedChars(r rune) int {
	switch {
	case r == '"', r == '\\', r == '\b', r == '\f', r == '\n', r == '\r', r == '\t':
		return 2
	case r < 0x20:
		return len(`\u0000`)
	}
	return 1
}

// definitionChars is the length of a tool's definition in the OpenAI shape: of itself where it came in that, else of
// the same tool so written.
func definitionChars(t *Tool, wrapped bool) int {
	if wrapped {
		return compactChars(t.Definition)
	}
	parameters := t.Parameters
	if parameters == nil {
		parameters = json.RawMessage("{}")
	}
	return len(`{"type":"function","function":{"name":,"description":,"parameters":}}`) +
		stringChars(t.Name) + stringChars(t.Description) + compactChars(parameters)
}
