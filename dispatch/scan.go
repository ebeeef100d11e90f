package dispatch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// MaxDepth is the deepest nesting of arrays and objects that a model's arguments may have, strings that hold JSON
// and are unpacked included. Nothing real comes near it; it keeps every walk over the arguments within a small stack.
const MaxDepth = 512

// errDepth is told to the model: see [MaxDepth].
var errDepth = fmt.Errorf("it is nested deeper than %d levels", MaxDepth)

// canonical checks one JSON text and returns it trimmed, in UTF-8 and with unique keys. A text that is all that
// already is returned as it is, byte for byte; of members with the same key the last value stays, at the first one's
// place, so that what is validated is what is sent.
func canonical(text []byte, depth int) ([]byte, error) {
	text = bytes.Trim(text, " \t\r\n")
	if deepest, _ := measure(text); deepest > depth {
		return nil, errDepth
	}
	if !json.Valid(text) {
		var v json.RawMessage
		if err := json.Unmarshal(text, &v); err != nil {
			return nil, err
		}
		return nil, errors.New("invalid JSON")
	}
	if !utf8.Valid(text) {
		text = bytes.ToValidUTF8(text, []byte("\uFFFD"))
	}
	if repeats(text) {
		v := parse(text)
		return v.append(nil), nil
	}
	return text, nil
}

// measure returns the depth of the deepest array or object of a text, which need not be valid, and at least as many
// values as it holds, keys not counted.
func measure(text []byte) (depth, values int) {
	open := 0
	values = 1
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[':
			open++
			values++
			depth = max(depth, open)
		case '}', ']':
			open--
		case ',':
			values++
		case '"':
			i = skipString(text, i) - 1
		}
	}
	return depth, values
}

// repeats reports whether any object of a valid text has a key twice.
func repeats(text []byte) bool {
	s := repeatScan{text: text}
	s.value(0)
	return s.found
}

type repeatScan struct {
	text  []byte
	keys  [][]byte // of all open objects, innermost last
	found bool
}

func (s *repeatScan) value(pos int) int {
	switch s.text[pos] {
	case '{':
		base := len(s.keys)
		end := eachMember(s.text, pos, func(m span, value int) int {
			s.keys = append(s.keys, keyBytes(s.text[m.start:m.end]))
			return s.value(value)
		})
		s.found = s.found || twice(s.keys[base:])
		s.keys = s.keys[:base]
		return end
	case '[':
		return eachElement(s.text, pos, s.value)
	}
	return skipValue(s.text, pos)
}

// twice reports whether two of the keys are equal.
func twice(keys [][]byte) bool {
	if len(keys) > 16 {
		seen := make(map[string]struct{}, len(keys))
		for _, k := range keys {
			seen[string(k)] = struct{}{}
		}
		return len(seen) < len(keys)
	}
	for i, k := range keys {
		for _, other := range keys[:i] {
			if bytes.Equal(k, other) {
				return true
			}
		}
	}
	return false
}

// The rest walks a valid JSON text by offsets, so that arguments which nothing changes are never taken apart and put
// together again.

type span struct{ start, end int }

// eachMember visits the members of the object at pos with the span of the quoted key and the offset of the value;
// visit returns the offset after the value. It returns the offset after the object.
func eachMember(text []byte, pos int, visit func(key span, value int) int) int {
	pos = skipSpace(text, pos+1)
	for text[pos] != '}' {
		if text[pos] == ',' {
			pos = skipSpace(text, pos+1)
		}
		key := span{pos, skipString(text, pos)}
		pos = skipSpace(text, key.end) + 1 // the colon
		pos = skipSpace(text, visit(key, skipSpace(text, pos)))
	}
	return pos + 1
}

// eachElement visits the elements of the array at pos in the same way.
func eachElement(text []byte, pos int, visit func(value int) int) int {
	pos = skipSpace(text, pos+1)
	for text[pos] != ']' {
		if text[pos] == ',' {
			pos = skipSpace(text, pos+1)
		}
		pos = skipSpace(text, visit(pos))
	}
	return pos + 1
}

func skipSpace(text []byte, pos int) int {
	for pos < len(text) && (text[pos] == ' ' || text[pos] == '\n' || text[pos] == '\t' || text[pos] == '\r') {
		pos++
	}
	return pos
}

// skipString returns the offset after the string at pos, or the end of a text that breaks off inside it.
func skipString(text []byte, pos int) int {
	for pos++; ; {
		i := bytes.IndexByte(text[min(pos, len(text)):], '"')
		if i < 0 {
			return len(text)
		}
		slashes := 0
		for j := pos + i - 1; j >= pos && text[j] == '\\'; j-- {
			slashes++
		}
		pos += i + 1
		if slashes%2 == 0 {
			return pos
		}
	}
}

// skipValue returns the offset after the value at pos.
func skipValue(text []byte, pos int) int {
	switch text[pos] {
	case '"':
		return skipString(text, pos)
	case '{', '[':
		depth := 0
		for ; ; pos++ {
			switch text[pos] {
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return pos + 1
				}
			case '"':
				pos = skipString(text, pos) - 1
			}
		}
	}
	for pos < len(text) && !bytes.ContainsRune([]byte(",]} \t\r\n"), rune(text[pos])) {
		pos++
	}
	return pos
}

// unquote decodes a JSON string, quotes included. An escaped half of a surrogate pair becomes U+FFFD.
func unquote(quoted []byte) string {
	if inner := quoted[1 : len(quoted)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return string(quoted) // cannot be: the text was valid
	}
	return s
}

// keyBytes is unquote without a copy where the key has no escape.
func keyBytes(quoted []byte) []byte {
	if inner := quoted[1 : len(quoted)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	return []byte(unquote(quoted))
}
