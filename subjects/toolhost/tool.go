package toolhost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"toolsearch/subjects"
)

// Tool is one tool of a host.
type Tool struct {
	// Definition is the tool as a runtime may register it, in any of the four shapes of the contract. Its name is what
	// calls are matched by.
	Definition json.RawMessage
	// Toolset is the tool's toolset, such as "mcp-github".
	Toolset string
	// Parallel allows calls of the tool side by side. Tools without it run one at a time, over all of them.
	Parallel bool
	// Run runs the tool.
	Run Handler
}

// Handler runs a tool. Its value becomes the tool's result: a json.RawMessage or []byte of JSON as it is, anything
// else encoded, nil as null. An [Error] chooses the code of the failure; any other error is TOOL_ERROR with its text,
// which the model reads: it must hold no secret.
//
// ctx ends at the request's deadline and when the host is stopped hard.
type Handler func(ctx context.Context, r Request) (any, error)

// Request is one call of a tool.
type Request struct {
	CallID string
	Index  int
	Name   string
	// Arguments is a JSON object.
	Arguments json.RawMessage
	// Key names the effect: it is the same on every repeat. A tool that calls another service passes it on.
	Key string
	// Deadline is when nobody waits any more.
	Deadline time.Time
	// Header holds the request's headers, the trace context among them.
	Header nats.Header
}

// Error is a failure with a code, as the model will see it.
type Error struct {
	Code    subjects.EntryCode
	Message string
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// What is wrong with a request is told to its caller, never to a model, in the words of the service errors.
const (
	codeBadRequest = string(subjects.CodeBadRequest)
	codeConflict   = string(subjects.CodeCallConflict)
	codeOverloaded = string(subjects.CodeOverloaded)
)

// nameOf reads the name of a definition in any of its shapes.
func nameOf(definition json.RawMessage) (string, error) {
	var d struct {
		Name     string `json:"name"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if err := json.Unmarshal(definition, &d); err != nil {
		return "", fmt.Errorf("its definition is not a JSON object: %w", err)
	}
	if d.Function.Name != "" {
		d.Name = d.Function.Name
	}
	if d.Name == "" {
		return "", errors.New("its definition has no name")
	}
	return d.Name, nil
}

// result encodes what a handler returned.
func result(v any) (json.RawMessage, error) {
	var p []byte
	switch v := v.(type) {
	case json.RawMessage:
		p = v
	case []byte:
		p = v
	default:
		return subjects.Marshal(v)
	}
	if len(p) == 0 {
		return json.RawMessage("null"), nil
	}
	if !json.Valid(p) {
		return nil, errors.New("the tool's result is not JSON")
	}
	return p, nil
}
