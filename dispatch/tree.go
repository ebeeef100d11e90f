package dispatch

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"toolsearch/subjects"
)

// jsonKind is the JSON type of a value, by its first byte.
type jsonKind byte

const (
	kindNull   jsonKind = 'n'
	kindTrue   jsonKind = 't'
	kindFalse  jsonKind = 'f'
	kindNumber jsonKind = '0'
	kindString jsonKind = '"'
	kindArray  jsonKind = '['
	kindObject jsonKind = '{'
)

func kindAt(text []byte, pos int) jsonKind {
	switch c := jsonKind(text[pos]); c {
	case kindNull, kindTrue, kindFalse, kindString, kindArray, kindObject:
		return c
	}
	return kindNumber
}

// value is a JSON value that keeps the order of members and the spelling of numbers. Schemas are held in this form:
// which keyword came first decides which of two equal errors is told.
type value struct {
	kind    jsonKind
	text    string // a string's content, a number's spelling
	members []member
	items   []*value
}

// member is one key of an object and its value.
type member struct {
	key   string
	value *value
}

// parse reads a text that is known to be valid. Of equal keys the last value stays, at the first one's place.
func parse(text []byte) *value {
	v, _ := parseAt(text, skipSpace(text, 0))
	return v
}

func parseAt(text []byte, pos int) (*value, int) {
	v := &value{kind: kindAt(text, pos)}
	switch v.kind {
	case kindObject:
		at := map[string]int{}
		end := eachMember(text, pos, func(key span, pos int) int {
			m := member{key: unquote(text[key.start:key.end])}
			m.value, pos = parseAt(text, pos)
			if i, ok := at[m.key]; ok {
				v.members[i] = m
				return pos
			}
			at[m.key] = len(v.members)
			v.members = append(v.members, m)
			return pos
		})
		return v, end
	case kindArray:
		return v, eachElement(text, pos, func(pos int) int {
			var item *value
			item, pos = parseAt(text, pos)
			v.items = append(v.items, item)
			return pos
		})
	}
	end := skipValue(text, pos)
	switch v.kind {
	case kindString:
		v.text = unquote(text[pos:end])
	case kindNumber:
		v.text = string(text[pos:end])
	}
	return v, end
}

// append writes the value as compact JSON with nothing escaped that need not be.
func (v *value) append(dst []byte) []byte {
	switch v.kind {
	case kindNull:
		return append(dst, "null"...)
	case kindTrue:
		return append(dst, "true"...)
	case kindFalse:
		return append(dst, "false"...)
	case kindString:
		return subjects.AppendString(dst, v.text)
	case kindArray:
		dst = append(dst, '[')
		for i, item := range v.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = item.append(dst)
		}
		return append(dst, ']')
	case kindObject:
		dst = append(dst, '{')
		for i, m := range v.members {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(subjects.AppendString(dst, m.key), ':')
			dst = m.value.append(dst)
		}
		return append(dst, '}')
	}
	return append(dst, v.text...)
}

// get returns an object's member, or nil.
func (v *value) get(key string) *value {
	if v == nil {
		return nil
	}
	for _, m := range v.members {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

// array returns an object's member if it is an array, else nil.
func (v *value) array(key string) *value {
	if m := v.get(key); m != nil && m.kind == kindArray {
		return m
	}
	return nil
}

// str returns a string member's content, or "".
func (v *value) str(key string) string {
	if m := v.get(key); m != nil && m.kind == kindString {
		return m.text
	}
	return ""
}

// strings lists the strings of an array.
func (v *value) strings() []string {
	if v == nil {
		return nil
	}
	var out []string
	for _, item := range v.items {
		if item.kind == kindString {
			out = append(out, item.text)
		}
	}
	return out
}

// plain converts to what the schema library reads: maps, slices, strings and [json.Number].
func (v *value) plain() any {
	switch v.kind {
	case kindNull:
		return nil
	case kindTrue:
		return true
	case kindFalse:
		return false
	case kindString:
		return v.text
	case kindArray:
		out := make([]any, len(v.items))
		for i, item := range v.items {
			out[i] = item.plain()
		}
		return out
	case kindObject:
		out := make(map[string]any, len(v.members))
		for _, m := range v.members {
			out[m.key] = m.value.plain()
		}
		return out
	}
	return json.Number(comparableNumber(v.text))
}

// equals reports whether v is the same JSON value as a decoded one: numbers by value, objects without order.
func (v *value) equals(decoded any) bool {
	switch d := decoded.(type) {
	case nil:
		return v.kind == kindNull
	case bool:
		return v.kind == kindTrue && d || v.kind == kindFalse && !d
	case string:
		return v.kind == kindString && v.text == d
	case json.Number:
		return v.kind == kindNumber && sameNumber(v.text, d.String())
	case []any:
		return v.kind == kindArray && slices.EqualFunc(v.items, d, (*value).equals)
	case map[string]any:
		if v.kind != kindObject || len(v.members) != len(d) {
			return false
		}
		for _, m := range v.members {
			if other, ok := d[m.key]; !ok || !m.value.equals(other) {
				return false
			}
		}
		return true
	}
	return false
}

// resolve follows a local JSON pointer reference such as "#/$defs/Item" from the root v; nil where it leads nowhere.
func (v *value) resolve(ref string) *value {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	return v.at(pointer)
}

// at follows the fragment of a reference, an escaped JSON pointer.
func (v *value) at(pointer string) *value {
	at, _ := v.locate(pointer)
	return at
}

// locate is at, and tells the positions of the members and items on the way.
func (v *value) locate(pointer string) (*value, []int) {
	if pointer == "" {
		return v, nil
	}
	if pointer[0] != '/' {
		return nil, nil
	}
	var way []int
	for token := range strings.SplitSeq(pointer[1:], "/") {
		var i int
		if v, i = v.child(unescape(token)); v == nil {
			return nil, way
		}
		way = append(way, i)
	}
	return v, way
}

// child returns a member of an object or an item of an array, and its position.
func (v *value) child(token string) (*value, int) {
	switch v.kind {
	case kindObject:
		for i, m := range v.members {
			if m.key == token {
				return m.value, i
			}
		}
	case kindArray:
		if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(v.items) {
			return v.items[i], i
		}
	}
	return nil, 0
}

// unescape decodes one token of a pointer in a URL's fragment.
func unescape(token string) string {
	if s, err := url.PathUnescape(token); err == nil {
		token = s
	}
	return strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
}
