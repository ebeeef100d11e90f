package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"toolsearch/subjects"
	"toolsearch/worker/storage"
)

// decodeObject reads a JSON object into v. Its error is BAD_REQUEST and names the field; path stands before the names,
// "" for the body itself.
func decodeObject(p []byte, path string, v any) error {
	at := func(field string) string {
		switch {
		case path == "" && field == "":
			return "body"
		case path == "" || field == "":
			return path + field
		}
		return path + "." + field
	}
	if t := bytes.TrimLeft(p, " \t\r\n"); len(t) == 0 || t[0] != '{' {
		return badField(at(""), at("")+" must be a JSON object")
	}
	err := json.Unmarshal(p, v)
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		field := at(wrong.Field)
		return badField(field, fmt.Sprintf("%s must be %s, not %s", field, kind(wrong), wrong.Value))
	case errors.As(err, &syntax):
		return badField(at(""), fmt.Sprintf("%s is not JSON at byte %d: %s", at(""), syntax.Offset, syntax.Error()))
	}
	return badField(at(""), at("")+" cannot be read: "+err.Error())
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

// decodeAssemble reads an assemble request that stands at path.
func decodeAssemble(p []byte, path string) (*subjects.AssembleRequest, error) {
	req := new(subjects.AssembleRequest)
	if err := decodeObject(p, path, req); err != nil {
		return nil, err
	}
	if isNull(req.Tools) {
		req.Tools = nil
	}
	field := "tools"
	if path != "" {
		field = path + ".tools"
	}
	switch {
	case req.Tools == nil && req.Catalog == "":
		return nil, badField(field, "neither tools nor catalog is given; send the definitions, or the name of a stored catalog")
	case req.Tools != nil && req.Catalog != "":
		return nil, badField(field, "both tools and catalog are given; send one of them")
	}
	for _, name := range []struct{ field, value string }{{"catalog", req.Catalog}, {"parent_scope", req.ParentScope}} {
		if name.value != "" && !storage.ValidName(name.value) {
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
	var req bridgeRequest
	if err := decodeObject(p, "", &req); err != nil {
		return nil, err
	}
	return &req, nil
}

// handle is the scope's handle, or "" for a scope that is an assemble request itself.
func (b *bridgeRequest) handle() (string, error) {
	raw := b.Scope
	if len(raw) > 0 && raw[0] == '{' {
		return "", nil
	}
	var handle string
	if n := len(raw) - 1; n > 0 && raw[0] == '"' && storage.ValidName(string(raw[1:n])) {
		return string(raw[1:n]), nil // as nearly all come: no escapes to undo
	}
	if isNull(raw) || json.Unmarshal(raw, &handle) != nil {
		return "", badField("scope", "scope must be the handle of an assembled scope, or an assemble request")
	}
	if !storage.ValidName(handle) {
		return "", badField("scope", "scope must be sha256: and 64 lower-case hex digits, as assemble returned it")
	}
	return handle, nil
}
