package dispatch

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"strings"

	"toolsearch/catalog"
	"toolsearch/subjects"
)

// Normalise reads the arguments of tool_call in every shape that models send, and returns its entries in order, at
// least one:
//
//   - {"calls": [...]}, one object in the place of the array, and either of them as a JSON string;
//   - without calls, the single form {"name": ..., "arguments": ...};
//   - arguments of an entry as an object or a JSON string of one, and null, a blank string or nothing for {}.
//
// The first mistake rejects the whole call, as a [*subjects.ToolError]. Arguments that are neither an object nor a
// string are a [*subjects.Error]: only a runtime can have sent them.
func Normalise(arguments json.RawMessage) ([]Entry, error) {
	if err := shallow(arguments); err != nil {
		return nil, err
	}
	object, err := catalog.UnmarshalArguments(arguments)
	if err != nil {
		if text := bytes.TrimSpace(arguments); len(text) > 0 && text[0] == '"' && json.Valid(text) {
			return nil, cmp.Or(shallow([]byte(unquote(text))), err)
		}
		return nil, err
	}
	if err := shallow(object); err != nil { // it may have come out of a string
		return nil, err
	}
	fields := fieldsOf(object)
	if calls := fields["calls"]; present(calls) {
		return readCalls(calls)
	}
	if readName(fields["name"]) == "" {
		return nil, &subjects.ToolError{Message: textCallsMissing}
	}
	e, err := readEntry(0, fields)
	if err != nil {
		return nil, err
	}
	return []Entry{e}, nil
}

// shallow refuses a text in which arguments are too deep: calls, its array and an entry stand around them.
func shallow(text []byte) error {
	if depth, _ := measure(text); depth > MaxDepth+3 {
		return &subjects.ToolError{Message: textDepth}
	}
	return nil
}

// malformed tells why a text could not be read; text words it for anything but depth.
func malformed(err error, text string) error {
	if errors.Is(err, errDepth) {
		text = textDepth
	}
	return &subjects.ToolError{Message: text}
}

// readCalls reads the value of calls.
func readCalls(calls []byte) ([]Entry, error) {
	if calls[0] == '"' {
		text, err := canonical([]byte(unquote(calls)), MaxDepth+2)
		if err != nil {
			return nil, malformed(err, textCallsJSON(err))
		}
		calls = text
	}
	var raw [][]byte
	switch calls[0] {
	case '{':
		raw = [][]byte{calls}
	case '[':
		eachElement(calls, 0, func(pos int) int {
			end := skipValue(calls, pos)
			raw = append(raw, calls[pos:end])
			return end
		})
	}
	if len(raw) == 0 {
		return nil, &subjects.ToolError{Message: textCallsShape}
	}
	entries := make([]Entry, len(raw))
	for i, r := range raw {
		if r[0] != '{' {
			return nil, &subjects.ToolError{Message: textEntryObject(i)}
		}
		var err error
		if entries[i], err = readEntry(i, fieldsOf(r)); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

func readEntry(i int, fields map[string][]byte) (Entry, error) {
	name := readName(fields["name"])
	switch {
	case name == "":
		return Entry{}, &subjects.ToolError{Message: textEntryName(i)}
	case catalog.IsBridge(name):
		return Entry{}, &subjects.ToolError{Message: textEntryBridge(i, name)}
	}
	arguments, err := readArguments(i, fields["arguments"])
	return Entry{name, arguments}, err
}

func readArguments(i int, raw []byte) (json.RawMessage, error) {
	if !present(raw) {
		return json.RawMessage("{}"), nil
	}
	if raw[0] == '"' {
		text := strings.TrimSpace(unquote(raw))
		if text == "" {
			return json.RawMessage("{}"), nil
		}
		raw = []byte(text)
	}
	object, err := canonical(raw, MaxDepth)
	if err != nil {
		return nil, malformed(err, textEntryArgumentsJSON(i, err))
	}
	if object[0] != '{' {
		return nil, &subjects.ToolError{Message: textEntryArgumentsObject(i)}
	}
	return object, nil
}

// readName is the text of a name: a string, trimmed, or the spelling of a number; "" for anything else.
func readName(raw []byte) string {
	if len(raw) == 0 {
		return ""
	}
	switch kindAt(raw, 0) {
	case kindString:
		return strings.TrimSpace(unquote(raw))
	case kindNumber:
		return string(raw)
	}
	return ""
}

// fieldsOf splits a valid object into its members; the last of equal keys stays. Names are exact, which those of
// struct fields in encoding/json are not.
func fieldsOf(object []byte) map[string][]byte {
	fields := map[string][]byte{}
	eachMember(object, skipSpace(object, 0), func(key span, pos int) int {
		end := skipValue(object, pos)
		fields[unquote(object[key.start:key.end])] = object[pos:end]
		return end
	})
	return fields
}

// present reports whether a member is there and not null.
func present(raw []byte) bool { return len(raw) > 0 && raw[0] != 'n' }
