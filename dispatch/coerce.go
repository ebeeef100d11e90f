package dispatch

import (
	"encoding/json"
	"strings"

	"toolsearch/subjects"
)

// Coerce repairs arguments in the ways in which models get them wrong, guided by the tool's parameter schema. It
// never refuses: what it cannot repair it leaves, and what nothing asks to change stays as it was written, byte for
// byte, with the order of its keys and the spelling of its numbers. Arguments that are not one JSON object are returned
// as they are; a schema that is none, or that is beyond the bounds of [Validate], changes nothing.
//
//   - Keys that a provider showed in a safe spelling get their own name back, at any depth of what came as objects and
//     arrays. This is done first: text that is unpacked later keeps the keys that its author wrote.
//   - "42", "true", "null", "[1]" and "{}" become what the schema asks for; a whole number keeps all its digits.
//   - A lone value for an array becomes an array of it; a blank string for an object that requires nothing becomes {}.
//   - Deeper down only strings that hold an array or an object where one is expected are unpacked; a scalar in a string
//     stays one.
//   - Local references are followed; outside and circular ones are left alone.
func Coerce(parameters, arguments json.RawMessage) json.RawMessage {
	text, err := canonical(arguments, MaxDepth)
	if err != nil || text[0] != '{' {
		return arguments
	}
	return schemas.of(parameters).coerce(text)
}

// coerce repairs a canonical object.
func (s *schema) coerce(object []byte) []byte {
	if s.shape == nil || s.shape.properties == nil {
		return object
	}
	e := editor{text: object, depth: 1}
	e.object(0, s.shape, e.argument)
	return e.result()
}

// editor walks a valid JSON text along a shape and notes what to replace.
type editor struct {
	text  []byte
	depth int  // of the level at hand, arrays and objects that the text stands in included
	inner bool // the text came out of a string: its keys are its own
	edits []edit
}

type edit struct {
	span
	with []byte
}

func (e *editor) replace(at span, with []byte) { e.edits = append(e.edits, edit{at, with}) }

// result is the text with its edits, the text itself if there are none.
func (e *editor) result() []byte {
	if len(e.edits) == 0 {
		return e.text
	}
	size := len(e.text)
	for _, ed := range e.edits {
		size += len(ed.with) + ed.start - ed.end
	}
	out, last := make([]byte, 0, size), 0
	for _, ed := range e.edits {
		out = append(append(out, e.text[last:ed.start]...), ed.with...)
		last = ed.end
	}
	return append(out, e.text[last:]...)
}

// object gives the keys of an object their own names and visits each member that has a schema.
func (e *editor) object(pos int, s *shape, visit func(pos int, s *shape) int) int {
	start := pos
	var present map[string]bool // a key that is there already is never written twice
	return eachMember(e.text, pos, func(at span, pos int) int {
		key := keyBytes(e.text[at.start:at.end])
		property := s.properties[string(key)]
		if own, renamed := s.visible[string(key)]; renamed && !e.inner {
			if present == nil {
				present = e.keys(start)
			}
			if !present[own] {
				e.replace(at, subjects.AppendString(nil, own))
				property = s.properties[own]
			}
		}
		if property == nil {
			return skipValue(e.text, pos)
		}
		return visit(pos, property)
	})
}

// keys is the set of an object's keys.
func (e *editor) keys(pos int) map[string]bool {
	keys := map[string]bool{}
	eachMember(e.text, pos, func(at span, pos int) int {
		keys[unquote(e.text[at.start:at.end])] = true
		return skipValue(e.text, pos)
	})
	return keys
}

// argument repairs a top-level argument.
func (e *editor) argument(pos int, s *shape) int {
	switch k := kindAt(e.text, pos); {
	case s.one == "array" && k != kindArray && k != kindNull:
		return e.wrap(pos, s)
	case k == kindString:
		return e.scalar(pos, s)
	default:
		return e.nested(pos, s, k == kindArray && s.one == "array" || k == kindObject && s.one == "object")
	}
}

// wrap makes an array of what should have been one.
func (e *editor) wrap(pos int, s *shape) int {
	end := skipValue(e.text, pos)
	raw := e.text[pos:end]
	if raw[0] == '"' {
		if with, ok := e.convert(unquote(raw), s, "array"); ok {
			e.replace(span{pos, end}, with)
			return end
		}
	}
	with := append(make([]byte, 0, len(raw)+2), '[')
	e.replace(span{pos, end}, append(append(with, raw...), ']'))
	return end
}

// scalar repairs a string that is no array's.
func (e *editor) scalar(pos int, s *shape) int {
	end := skipValue(e.text, pos)
	if s.one == "string" && !s.null || s.one == "" && len(s.many) == 0 && !s.null {
		return end
	}
	if with, ok := e.convert(unquote(e.text[pos:end]), s, s.one); ok {
		e.replace(span{pos, end}, e.unpacked(with, s))
	}
	return end
}

// nested walks arrays and objects below the top level. Keys get their names everywhere; strings are unpacked where
// unpack is set.
func (e *editor) nested(pos int, s *shape, unpack bool) int {
	if s == nil {
		return skipValue(e.text, pos)
	}
	switch kindAt(e.text, pos) {
	case kindObject:
		if s.properties != nil {
			e.depth++
			defer func() { e.depth-- }()
			return e.object(pos, s, func(pos int, s *shape) int { return e.nested(pos, s, unpack) })
		}
	case kindArray:
		if !s.items.idle() {
			e.depth++
			defer func() { e.depth-- }()
			return eachElement(e.text, pos, func(pos int) int { return e.nested(pos, s.items, unpack) })
		}
	case kindString:
		if unpack && (s.array || s.object) {
			return e.container(pos, s)
		}
	}
	return skipValue(e.text, pos)
}

// container unpacks a string that holds an array or an object where the schema takes one.
func (e *editor) container(pos int, s *shape) int {
	end := skipString(e.text, pos)
	text := strings.TrimSpace(unquote(e.text[pos:end]))
	switch {
	case text == "":
		if s.one == "object" && !s.demands {
			e.replace(span{pos, end}, []byte("{}"))
		}
	case text[0] == '[' && s.array, text[0] == '{' && s.object:
		if with, err := canonical([]byte(text), MaxDepth-e.depth); err == nil {
			e.replace(span{pos, end}, e.unpacked(with, s))
		}
	}
	return end
}

// unpacked walks a value that came out of a string.
func (e *editor) unpacked(text []byte, s *shape) []byte {
	inner := editor{text: text, depth: e.depth, inner: true}
	inner.nested(0, s, true)
	return inner.result()
}

// convert reads a string as the wanted type; "" stands for the schema's list of types, of which the first that fits
// wins. It reports false if the string stays a string.
func (e *editor) convert(text string, s *shape, want string) ([]byte, bool) {
	if s.null && isWord(text, "null") {
		return []byte("null"), true
	}
	switch want {
	case "":
		for _, word := range s.many {
			if with, ok := e.convert(text, s, word); ok && word != "" {
				return with, true
			}
		}
	case "integer", "number":
		spelling, whole, ok := readNumber(text)
		return []byte(spelling), ok && (whole || want == "number")
	case "boolean":
		for _, word := range []string{"true", "false"} {
			if isWord(text, word) {
				return []byte(word), true
			}
		}
	case "array", "object":
		return e.convertContainer(text, s, want)
	}
	return nil, false
}

func (e *editor) convertContainer(text string, s *shape, want string) ([]byte, bool) {
	opener := byte('[')
	if want == "object" {
		opener = '{'
	}
	text = strings.TrimSpace(text)
	if text == "" {
		return []byte("{}"), want == "object" && !s.demands
	}
	if text[0] != opener {
		return nil, false
	}
	with, err := canonical([]byte(text), MaxDepth-e.depth)
	return with, err == nil
}

// isWord compares without case and surrounding blanks.
func isWord(text, word string) bool {
	return len(text) < 64 && strings.ToLower(strings.TrimSpace(text)) == word
}
