package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"toolsearch/catalog"
	"toolsearch/subjects"
)

// decodeObject reads a JSON object into v. Its error is BAD_REQUEST and names the field, "body" for the whole.
func decodeObject(p []byte, v any) error {
	if t := bytes.TrimLeft(p, " \t\r\n"); len(t) == 0 || t[0] != '{' {
		return badField(fieldBody, "body must be a JSON object")
	}
	err := json.Unmarshal(p, v)
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		field := strings.TrimPrefix(wrong.Field, "AssembleRequest.") // which assembleBody embeds
		if field == "" {
			field = fieldBody
		}
		return badField(field, fmt.Sprintf("%s must be %s, not %s", field, kind(wrong), wrong.Value))
	case errors.As(err, &syntax):
		return badField(fieldBody, fmt.Sprintf("body is not JSON at byte %d: %s", syntax.Offset, syntax.Error()))
	}
	return badField(fieldBody, "body cannot be read: "+err.Error())
}

// fieldBody names what stands in no field: the body itself.
const fieldBody = "body"

// below names the field of an error as it stands in the object at path; so does the message, where it begins with it.
func below(path string, err error) error {
	var e *subjects.Error
	if !errors.As(err, &e) {
		return err
	}
	field, ok := e.Details["field"].(string)
	if !ok {
		return err
	}
	at := path
	if field != fieldBody {
		at += "." + field
	}
	moved := *e
	moved.Details = maps.Clone(e.Details)
	moved.Details["field"] = at
	if rest, ok := strings.CutPrefix(e.Message, field); ok {
		moved.Message = at + rest
	}
	return &moved
}

// kind names what was wanted in the words of JSON.
func kind(e *json.UnmarshalTypeError) string {
	switch t := e.Type; t.Kind().String() {
	case "string":
		return "a string"
	case "bool":
		return "true or false"
	case "int", "int64":
		return "a whole number"
	case "slice":
		return "an array"
	case "struct", "map":
		return "an object"
	}
	return "of another type"
}

// isNull reports whether a raw field is absent or null.
func isNull(raw json.RawMessage) bool {
	return len(raw) == 0 || string(raw) == "null"
}

// assembleBody is an assemble request whose lists are read item by item, to tell which one is wrong: a null among names
// would be read as a name.
type assembleBody struct {
	subjects.AssembleRequest
	EnabledToolsets    json.RawMessage `json:"enabled_toolsets"`
	DisabledToolsets   json.RawMessage `json:"disabled_toolsets"`
	RequiredToolsets   json.RawMessage `json:"required_toolsets"`
	CoreTools          json.RawMessage `json:"core_tools"`
	UnavailableSources json.RawMessage `json:"unavailable_sources"`
}

// request reads the lists.
func (b *assembleBody) request() (*subjects.AssembleRequest, error) {
	req := &b.AssembleRequest
	var enabled, core []string
	for _, l := range []struct {
		field string
		raw   json.RawMessage
		to    *[]string
	}{
		{"enabled_toolsets", b.EnabledToolsets, &enabled},
		{"disabled_toolsets", b.DisabledToolsets, &req.DisabledToolsets},
		{"required_toolsets", b.RequiredToolsets, &req.RequiredToolsets},
		{"core_tools", b.CoreTools, &core},
	} {
		err := decodeList(l.field, l.raw, l.to, func(raw json.RawMessage, name *string) error {
			if isNull(raw) || json.Unmarshal(raw, name) != nil {
				return badField(fieldBody, "body must be a string, not "+kindOf(raw))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if enabled != nil {
		req.EnabledToolsets = &enabled
	}
	if core != nil {
		req.CoreTools = &core
	}
	err := decodeList("unavailable_sources", b.UnavailableSources, &req.UnavailableSources,
		func(raw json.RawMessage, u *subjects.UnavailableSource) error { return decodeObject(raw, u) })
	return req, err
}

// decodeList reads a list, which is nil if it is null or absent. Its error names the item.
func decodeList[T any](field string, raw json.RawMessage, to *[]T, decode func(json.RawMessage, *T) error) error {
	if isNull(raw) {
		return nil
	}
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return badField(field, field+" must be an array, not "+kindOf(raw))
	}
	*to = make([]T, len(items))
	for i, item := range items {
		if err := decode(item, &(*to)[i]); err != nil {
			return below(fmt.Sprintf("%s[%d]", field, i), err)
		}
	}
	return nil
}

// kindOf names what a JSON value is.
func kindOf(raw json.RawMessage) string {
	switch raw[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "bool"
	case 'n':
		return "null"
	}
	return "number"
}

// decodeAssemble reads an assemble request.
func decodeAssemble(p []byte) (*subjects.AssembleRequest, error) {
	var body assembleBody
	if err := decodeObject(p, &body); err != nil {
		return nil, err
	}
	req, err := body.request()
	if err != nil {
		return nil, err
	}
	if isNull(req.Tools) {
		req.Tools = nil
	}
	switch {
	case req.Tools == nil && req.Catalog == "":
		return nil, badField("tools", "neither tools nor catalog is given; send the definitions, or the name of a stored catalog")
	case req.Tools != nil && req.Catalog != "":
		return nil, badField("tools", "both tools and catalog are given; send one of them")
	}
	for _, name := range []struct{ field, value string }{{"catalog", req.Catalog}, {"parent_scope", req.ParentScope}} {
		if name.value != "" && !subjects.ValidDigest(name.value) {
			return nil, badField(name.field, name.field+" must be sha256: and 64 lower-case hex digits")
		}
	}
	return req, nil
}

// bridgeRequest is the body of search, describe and call, with its scope not yet read.
type bridgeRequest struct {
	Scope     json.RawMessage `json:"scope"`
	CallID    string          `json:"call_id"`
	Arguments json.RawMessage `json:"arguments"`
	// SearchStreak is of search alone, as [subjects.ParseSearchStreak] reads it.
	SearchStreak string `json:"search_streak"`
}

func decodeBridge(p []byte) (*bridgeRequest, error) {
	if req, ok := readBridge(p); ok {
		return req, nil
	}
	var req bridgeRequest
	if err := decodeObject(p, &req); err != nil {
		return nil, err
	}
	return &req, nil
}

// readBridge reads a request in one pass, as nearly all can be: the contract's own fields, and texts without an escape.
// What else JSON may hold, and every fault, is left to the slower way.
func readBridge(p []byte) (*bridgeRequest, bool) {
	var req bridgeRequest
	plain := true
	ok := catalog.Members(p, func(key, value []byte) {
		switch string(key) {
		case "scope":
			req.Scope = value
		case "arguments":
			req.Arguments = value
		case "call_id":
			plain = plain && plainText(value, &req.CallID)
		case "search_streak":
			plain = plain && plainText(value, &req.SearchStreak)
		default:
			plain = false
		}
	})
	return &req, ok && plain
}

// plainText reads a JSON text that needs no decoding.
func plainText(value []byte, to *string) bool {
	if value[0] != '"' || bytes.IndexByte(value, '\\') >= 0 {
		return false
	}
	*to = string(value[1 : len(value)-1])
	return true
}

// handle is the scope's handle, or "" for a scope that is an assemble request itself.
func (b *bridgeRequest) handle() (string, error) {
	raw := b.Scope
	if len(raw) > 0 && raw[0] == '{' {
		return "", nil
	}
	var handle string
	if n := len(raw) - 1; n > 0 && raw[0] == '"' && subjects.ValidDigest(string(raw[1:n])) {
		return string(raw[1:n]), nil // as nearly all come: no escapes to undo
	}
	if isNull(raw) || json.Unmarshal(raw, &handle) != nil {
		return "", badField("scope", "scope must be the handle of an assembled scope, or an assemble request")
	}
	if !subjects.ValidDigest(handle) {
		return "", badField("scope", "scope must be sha256: and 64 lower-case hex digits, as assemble returned it")
	}
	return handle, nil
}
