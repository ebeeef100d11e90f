package subjects_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats.go"
	"toolsearch/subjects"
)

// The table of the contract, by hand: a code that moves is a break of the wire.
var contractCodes = []struct {
	code      subjects.Code
	number    int
	retryable bool
}{
	{"BAD_REQUEST", 400, false},
	{"SCOPE_FORBIDDEN", 403, false},
	{"SCOPE_NOT_FOUND", 404, true},
	{"CATALOG_NOT_FOUND", 404, true},
	{"DEADLINE_EXCEEDED", 408, false},
	{"CALL_CONFLICT", 409, false},
	{"TOO_LARGE", 413, false},
	{"OVERLOADED", 429, true},
	{"INTERNAL", 500, false},
	{"UNAVAILABLE", 503, true},
}

func TestErrorTableRoundTrip(t *testing.T) {
	t.Parallel()
	if got, want := len(subjects.Codes()), len(contractCodes); got != want {
		t.Fatalf("%d codes, want %d", got, want)
	}
	for i, want := range contractCodes {
		t.Run(string(want.code), func(t *testing.T) {
			t.Parallel()
			if subjects.Codes()[i] != want.code || want.code.Number() != want.number || want.code.Retryable() != want.retryable {
				t.Fatalf("the table has %s %d retryable=%v", subjects.Codes()[i], want.code.Number(), want.code.Retryable())
			}
			sent := &subjects.Error{Code: want.code, Message: `a <b> & "c"`, Details: map[string]any{"field": "tools"},
				RetryAfter: 1500 * time.Millisecond, Err: errors.New("secret")}
			body, err := json.Marshal(sent)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(body), "secret") {
				t.Errorf("the cause crosses the bus: %s", body)
			}
			got := subjects.ReplyError(sent.Header(), body)
			if diff := cmp.Diff(sent, got, cmpopts.IgnoreFields(subjects.Error{}, "Err")); diff != "" {
				t.Errorf("sent and read differ:\n%s", diff)
			}
			if !errors.Is(got, &subjects.Error{Code: want.code}) {
				t.Error("errors.Is does not match the code")
			}
			for _, other := range subjects.Codes() {
				if other != want.code && errors.Is(got, &subjects.Error{Code: other}) {
					t.Errorf("errors.Is matches %s too", other)
				}
			}
		})
	}
	if subjects.Code("TEAPOT").Number() != 500 || subjects.Code("TEAPOT").Retryable() {
		t.Error("a code outside the set must count as an internal error")
	}
}

func TestReplyError(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		header nats.Header
		body   string
		want   subjects.Code
	}{
		{"no header is no error", nats.Header{}, `{"error":{"code":"INTERNAL","message":"x"}}`, ""},
		{"the body alone has the text", nats.Header{"Nats-Service-Error-Code": {"429"}, "Nats-Service-Error": {"OVERLOADED"}}, `{"error":{"code":"OVERLOADED","message":"x","retryable":true}}`, subjects.CodeOverloaded},
		{"a body that is cut falls back to the header", nats.Header{"Nats-Service-Error-Code": {"503"}, "Nats-Service-Error": {"UNAVAILABLE"}}, `{"error":`, subjects.CodeUnavailable},
		{"a foreign code of a known number", nats.Header{"Nats-Service-Error-Code": {"409"}, "Nats-Service-Error": {"boom"}}, ``, subjects.CodeCallConflict},
		{"a foreign code of a foreign number", nats.Header{"Nats-Service-Error-Code": {"418"}, "Nats-Service-Error": {"teapot"}}, `{"error":{"code":"teapot","message":"short and stout"}}`, subjects.CodeInternal},
		{"a number that is none", nats.Header{"Nats-Service-Error-Code": {"x"}}, ``, subjects.CodeInternal},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := subjects.ReplyError(tc.header, []byte(tc.body))
			var e *subjects.Error
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("got %v, want none", err)
			case tc.want != "" && (!errors.As(err, &e) || e.Code != tc.want || e.Message == ""):
				t.Errorf("got %v, want %s with a text", err, tc.want)
			}
		})
	}
}

func TestErrorText(t *testing.T) {
	t.Parallel()
	err := &subjects.Error{Code: subjects.CodeUnavailable, Message: "storage is out of reach", Err: io.ErrUnexpectedEOF}
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error("the cause is not unwrapped")
	}
	if want := "toolsearch: UNAVAILABLE: storage is out of reach: unexpected EOF"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	var e subjects.Error
	for _, bad := range []string{``, `{}`, `{"error":"text"}`, `{"error":{"message":"x"}}`, `[]`} {
		if json.Unmarshal([]byte(bad), &e) == nil {
			t.Errorf("%q reads as an error body", bad)
		}
	}
}

// The schema and the table name the same codes.
func TestErrorSchemaHasTheTable(t *testing.T) {
	t.Parallel()
	p, err := os.ReadFile("schema/service_error.json")
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		Properties struct {
			Error struct {
				Properties struct {
					Code struct{ Enum []subjects.Code }
				}
			}
		}
	}
	if err := json.Unmarshal(p, &s); err != nil {
		t.Fatal(err)
	}
	if got := s.Properties.Error.Properties.Code.Enum; !slices.Equal(got, subjects.Codes()) {
		t.Errorf("the schema has %v, the table %v", got, subjects.Codes())
	}
}
