package subjects

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// Code names a service error. The set is closed: a reply never carries another.
type Code string

// The service errors of the contract.
const (
	CodeBadRequest       Code = "BAD_REQUEST"
	CodeScopeForbidden   Code = "SCOPE_FORBIDDEN"
	CodeScopeNotFound    Code = "SCOPE_NOT_FOUND"
	CodeCatalogNotFound  Code = "CATALOG_NOT_FOUND"
	CodeDeadlineExceeded Code = "DEADLINE_EXCEEDED"
	CodeCallConflict     Code = "CALL_CONFLICT"
	CodeTooLarge         Code = "TOO_LARGE"
	CodeOverloaded       Code = "OVERLOADED"
	CodeInternal         Code = "INTERNAL"
	CodeUnavailable      Code = "UNAVAILABLE"
)

// codes is the one table of service errors: the number and whether the same request may succeed later.
var codes = []struct {
	code      Code
	number    int
	retryable bool
}{
	{CodeBadRequest, 400, false},
	{CodeScopeForbidden, 403, false},
	{CodeScopeNotFound, 404, true},
	{CodeCatalogNotFound, 404, true},
	{CodeDeadlineExceeded, 408, false},
	{CodeCallConflict, 409, false},
	{CodeTooLarge, 413, false},
	{CodeOverloaded, 429, true},
	{CodeInternal, 500, false},
	{CodeUnavailable, 503, true},
}

// Codes lists every service error, in the order of their numbers.
func Codes() []Code {
	out := make([]Code, len(codes))
	for i, c := range codes {
		out[i] = c.code
	}
	return out
}

// Number is the code's number on the wire, or 500 for a code that is not in the table.
func (c Code) Number() int {
	for _, e := range codes {
		if e.code == c {
			return e.number
		}
	}
	return 500
}

// Retryable reports whether the same request may succeed later: after assembling again for [CodeScopeNotFound] and
// [CodeCatalogNotFound], after [Error.RetryAfter] for [CodeOverloaded].
func (c Code) Retryable() bool {
	for _, e := range codes {
		if e.code == c {
			return e.retryable
		}
	}
	return false
}

// known reports whether the code is of the closed set.
func (c Code) known() bool {
	for _, e := range codes {
		if e.code == c {
			return true
		}
	}
	return false
}

// codeOf is the first code with that number on the wire, INTERNAL where there is none.
func codeOf(number string) Code {
	for _, e := range codes {
		if strconv.Itoa(e.number) == number {
			return e.code
		}
	}
	return CodeInternal
}

// Error is a service error: a fault of the request or of the service, which the model never needs to see. Its text
// says what was wrong and what to do next and never holds a secret. Match it with errors.As, or a code with
// errors.Is(err, &Error{Code: CodeOverloaded}).
type Error struct {
	Code    Code
	Message string
	// Details is what a program may act on: {"field": ...} for BAD_REQUEST, {"trace_id": ...} for INTERNAL.
	Details map[string]any
	// RetryAfter is how long to wait before the same request, 0 if the worker did not say.
	RetryAfter time.Duration
	// Err is the cause, for logs of the process that made the error; it never crosses the bus.
	Err error
}

// Errorf makes a service error with a formatted message.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string {
	s := "toolsearch: " + string(e.Code) + ": " + e.Message
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is matches an *Error that names no more than a code.
func (e *Error) Is(target error) bool {
	var t *Error
	return errors.As(target, &t) && t.Code == e.Code && t.Message == ""
}

// Retryable reports whether the same request may succeed later.
func (e *Error) Retryable() bool { return e.Code.Retryable() }

// Header is what an error reply carries besides its body.
func (e *Error) Header() nats.Header {
	h := nats.Header{HeaderErrorCode: []string{strconv.Itoa(e.Code.Number())}, HeaderError: []string{string(e.Code)}}
	if e.RetryAfter > 0 {
		h.Set(HeaderRetryAfter, FormatRetryAfter(e.RetryAfter))
	}
	return h
}

type errorBody struct {
	Error struct {
		Code      Code           `json:"code"`
		Message   string         `json:"message"`
		Retryable bool           `json:"retryable"`
		Details   map[string]any `json:"details,omitempty"`
	} `json:"error"`
}

// MarshalJSON writes the body of an error reply.
func (e *Error) MarshalJSON() ([]byte, error) {
	var b errorBody
	b.Error.Code, b.Error.Message, b.Error.Retryable, b.Error.Details = e.Code, e.Message, e.Retryable(), e.Details
	return Marshal(b)
}

// UnmarshalJSON reads the body of an error reply.
func (e *Error) UnmarshalJSON(p []byte) error {
	var b errorBody
	if err := json.Unmarshal(p, &b); err != nil {
		return err
	}
	if b.Error.Code == "" {
		return errors.New("subjects: error body without a code")
	}
	*e = Error{Code: b.Error.Code, Message: b.Error.Message, Details: b.Error.Details}
	return nil
}
