package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"toolsearch/subjects"
)

// MaxListItem is the longest query or name that is read, in characters. It is far above any real one; what passes it
// is answered as the model's mistake.
const MaxListItem = 4096

// UnmarshalArguments returns the object that a model wrote as the arguments of a bridge tool. Models send the object
// itself, or a string that holds one, or, where they want none, null or a blank string, which are the empty object.
// A string that holds something else is the model's mistake, a [*subjects.ToolError]; any other JSON value can only
// come from the runtime and is a [*subjects.Error] that names the field.
func UnmarshalArguments(raw json.RawMessage) (json.RawMessage, error) {
	raw = bytes.TrimSpace(raw)
	if absent(raw) {
		return json.RawMessage("{}"), nil
	}
	switch raw[0] {
	case '{':
		if !json.Valid(raw) {
			break
		}
		return raw, nil
	case '"':
		var s string
		if json.Unmarshal(raw, &s) != nil {
			break
		}
		return argumentsInText(s)
	}
	return nil, &subjects.Error{
		Code:    subjects.CodeBadRequest,
		Message: "arguments must be what the model wrote: a JSON object, or a string that holds one",
		Details: map[string]any{"field": "arguments"},
	}
}

func argumentsInText(s string) (json.RawMessage, error) {
	if s = strings.TrimSpace(s); s == "" || s == "null" {
		return json.RawMessage("{}"), nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(s), &object); err != nil {
		return nil, &subjects.ToolError{Message: textArguments(plainJSONError(err))}
	}
	return json.RawMessage(s), nil
}

// plainJSONError drops the names of Go types from a decoder's message.
func plainJSONError(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return errors.New("it is a JSON " + wrong.Value)
	}
	return err
}

// argumentFields splits the arguments into their members. Names are exact: encoding/json would match struct fields
// in any case.
func argumentFields(raw json.RawMessage) (map[string]json.RawMessage, error) {
	if fields, ok := readFields(raw); ok {
		return fields, nil
	}
	object, err := UnmarshalArguments(raw)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(object, &fields); err != nil {
		return nil, &subjects.ToolError{Message: textArguments(plainJSONError(err))}
	}
	return fields, nil
}

// readFields splits an object in one pass, as nearly all arguments can be; ok is false for what is no object or has a
// fault, which the slower way tells.
func readFields(raw json.RawMessage) (fields map[string]json.RawMessage, ok bool) {
	fields = make(map[string]json.RawMessage, 2)
	ok = Members(raw, func(key, value []byte) { fields[string(key)] = value })
	return fields, ok && utf8.Valid(raw)
}

// Members splits a JSON object in one pass, which encoding/json takes several for, and tells each member in its order,
// repeated keys as often as they stand there. Keys come decoded, values as they stand, both within raw where they can.
// It returns false for what is no object or no JSON; members before the fault have been told by then.
func Members(raw []byte, member func(key, value []byte)) bool {
	c := cursor{data: raw}
	err := c.object(func(key []byte) error {
		value, err := c.value()
		if err == nil {
			member(key, value)
		}
		return err
	})
	return err == nil && c.peek() == 0 && c.pos == len(raw)
}

// stringList reads a list of strings as models write it: a lone string is a list of one, items that stand for
// nothing are dropped, other items count by their text, trimmed. unique drops repeats, before the items are counted
// against most.
func stringList(argument string, raw json.RawMessage, most int, unique bool) ([]string, error) {
	items, ok := listItems(raw)
	if !ok {
		return nil, &subjects.ToolError{Message: textListType(argument)}
	}
	list := make([]string, 0, min(len(items), most))
	seen := make(map[string]bool)
	for _, item := range items {
		text := itemText(item)
		if text == "" || unique && seen[text] {
			continue
		}
		if n := runeLen(text); n > MaxListItem {
			return nil, &subjects.ToolError{Message: textItemTooLong(argument, n, MaxListItem)}
		}
		if unique {
			seen[text] = true
		}
		list = append(list, text)
	}
	switch {
	case len(list) == 0:
		return nil, &subjects.ToolError{Message: textListEmpty(argument)}
	case len(list) > most:
		return nil, &subjects.ToolError{Message: textListCap(argument, len(list), most)}
	}
	return list, nil
}

// listItems is the items of an array, or a string as the only item.
func listItems(raw json.RawMessage) ([]json.RawMessage, bool) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return nil, false
	}
	switch raw[0] {
	case '"':
		return []json.RawMessage{raw}, true
	case '[':
		var items []json.RawMessage
		c := cursor{data: raw}
		err := c.array(func() error {
			item, err := c.value()
			items = append(items, item)
			return err
		})
		return items, err == nil && c.pos == len(raw)
	}
	return nil, false
}

// itemText is the trimmed text of an item, empty for what stands for nothing: null, false, zero, "", [] and {}.
func itemText(item json.RawMessage) string {
	switch text := itemForm(item); {
	case len(item) > 0 && item[0] == '"':
		return strings.TrimSpace(text)
	case text == "null", text == "False", text == "[]", text == "{}":
		return ""
	default:
		if f, ok := readFloat(item); ok && f == 0 {
			return ""
		}
		return text
	}
}

// itemForm is the text of an item of a list of strings. A boolean is spelled True or False, as a list of mixed values
// has always been read.
func itemForm(item json.RawMessage) string {
	switch text := valueText(item); {
	case len(item) > 0 && item[0] == '"':
		return text
	case text == "true":
		return "True"
	case text == "false":
		return "False"
	default:
		return text
	}
}
