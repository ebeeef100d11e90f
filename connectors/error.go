package connectors

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Kind is the class of a gateway error; it decides what is retried and what a search tells.
type Kind string

// The classes. Only [KindOther] with a status of 500 or more, or without any answer, and [KindRateLimited] on execute
// are ever retried.
const (
	KindAuth        Kind = "auth"         // 401, 403, or no token
	KindUnavailable Kind = "unavailable"  // 404, or no gateway is configured
	KindConflict    Kind = "conflict"     // 409: the idempotency key is in use
	KindRateLimited Kind = "rate_limited" // 429
	KindBadAnswer   Kind = "bad_answer"   // a 2xx answer that cannot be used
	KindOther       Kind = "other"        // every other status, and no answer at all
)

// The codes of errors that no gateway sent.
const (
	CodeNoToken         = "NO_TOKEN"         // nothing to authorise the request with; nothing was sent
	CodeNoOrigin        = "NO_ORIGIN"        // no gateway is configured; nothing was sent
	CodeNotSetUp        = "NOT_SET_UP"       // the tenant must set connectors up first; nothing was sent
	CodeTokenSource     = "TOKEN_SOURCE"     // the token source could not be asked; nothing was sent
	CodeTransport       = "TRANSPORT_ERROR"  // no answer
	CodeInvalidResponse = "INVALID_RESPONSE" // a 2xx answer that cannot be used
	CodeInvalidRequest  = "INVALID_REQUEST"  // refused before it was sent
)

// maxMessage bounds a gateway's own message, in characters: it is handed on to a model.
const maxMessage = 2048

// maxBareText is how much of an answer that is not JSON becomes the message, in characters.
const maxBareText = 500

// defaultRetryAfter is the wait of a 429 that names none.
const defaultRetryAfter = time.Second

// maxRetryAfter keeps an absurd Retry-After within what a Duration can hold; no bound of ours is near it.
const maxRetryAfter = 24 * time.Hour

// Error is what came of a gateway request that has no usable answer. Its text never holds a token.
type Error struct {
	Kind    Kind
	Status  int    // of the answer, 0 without one; 401 for [CodeNoToken]
	Code    string // the gateway's own, HTTP_<status> if it gave none, or one of the Code constants
	Message string
	// RequestID is the gateway's id of the request, if it gave one.
	RequestID string
	// RetryAfter is how long a 429 asks to wait, never negative.
	RetryAfter time.Duration
	// Unclear says of a connection start that it may have taken effect all the same: it was sent, and no usable answer of
	// the gateway says otherwise.
	Unclear bool

	cause error // errSignedOut, ErrNoToken, ErrNotSetUp or the transport's error
}

func (e *Error) Error() string {
	s := "connectors: " + e.Message
	if e.Code != "" && !strings.HasPrefix(e.Code, "HTTP_") {
		s += " (" + e.Code + ")"
	}
	if e.RequestID != "" {
		s += ", request " + e.RequestID
	}
	return s
}

// Unwrap returns the cause, if there is one.
func (e *Error) Unwrap() error { return e.cause }

// Retryable reports whether the same request may succeed later by itself: no answer, or an answer of 500 and above.
// A 429 is not counted here; it says for itself when.
func (e *Error) Retryable() bool {
	return e.Kind == KindOther &&
		(e.Status >= http.StatusInternalServerError || e.Code == CodeTransport || e.Code == CodeTokenSource)
}

// ParseError reads an answer with a status that is not 2xx. Bodies come as {"error":{"code","message"}}, as
// {"error":"code"} and flat as {"code","message"}, each with requestId and retryAfterMs beside; anything else is
// taken as text. now is what an HTTP-date in Retry-After is compared with.
func ParseError(status int, body []byte, header http.Header, now time.Time) *Error {
	e := &Error{Kind: kindOf(status), Status: status}
	var fields map[string]json.RawMessage
	switch trimmed := strings.TrimSpace(string(body)); {
	case strings.HasPrefix(trimmed, "{") && json.Unmarshal(body, &fields) == nil:
		e.readFields(fields)
	default:
		e.Message = truthyText(json.RawMessage(trimmed))
	}
	if e.Code == "" {
		e.Code = "HTTP_" + strconv.Itoa(status)
	}
	if e.Message == "" {
		e.Message = fmt.Sprintf("the connector gateway answered with status %d", status)
	}
	if status == http.StatusTooManyRequests {
		e.RetryAfter = retryAfter(header.Get("Retry-After"), fields["retryAfterMs"], now)
	}
	return e
}

func kindOf(status int) Kind {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return KindAuth
	case http.StatusNotFound:
		return KindUnavailable
	case http.StatusConflict:
		return KindConflict
	case http.StatusTooManyRequests:
		return KindRateLimited
	}
	return KindOther
}

func (e *Error) readFields(fields map[string]json.RawMessage) {
	var nested map[string]json.RawMessage
	inner := fields["error"]
	switch {
	case isObject(inner) && json.Unmarshal(inner, &nested) == nil:
		e.Code, e.Message = truthyText(nested["code"]), messageText(nested["message"])
	case isString(inner) && truthyText(inner) != "":
		e.Code = truthyText(inner)
	case truthyText(fields["code"]) != "":
		e.Code, e.Message = truthyText(fields["code"]), messageText(fields["message"])
	}
	if id := fields["requestId"]; len(id) > 0 && string(id) != "null" {
		e.RequestID = clip(bareText(string(id)), maxBareText)
	}
}

// truthyText is the text of a code or of a bare answer: null, false, 0, "" and empty containers are none.
func truthyText(raw json.RawMessage) string {
	switch s := strings.TrimSpace(string(raw)); s {
	case "", "null", "false", "0", "0.0", "{}", "[]":
		return ""
	default:
		return clip(bareText(s), maxBareText)
	}
}

func messageText(raw json.RawMessage) string {
	if !isString(raw) {
		return ""
	}
	return clip(bareText(string(raw)), maxMessage)
}

// bareText is the string that JSON text holds, or the text itself.
func bareText(raw string) string {
	var s string
	if strings.HasPrefix(raw, `"`) && json.Unmarshal([]byte(raw), &s) == nil {
		return s
	}
	return raw
}

// clip cuts s to n characters; invalid UTF-8 is replaced.
func clip(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// retryAfter reads the header as seconds or as an HTTP-date, then the body's milliseconds.
func retryAfter(header string, ms json.RawMessage, now time.Time) time.Duration {
	if header = strings.TrimSpace(header); header != "" {
		if s, err := strconv.ParseFloat(header, 64); err == nil && !math.IsNaN(s) {
			return seconds(s)
		}
		if at, err := http.ParseTime(header); err == nil {
			return min(max(at.Sub(now), 0), maxRetryAfter)
		}
	}
	switch s := string(ms); {
	case s == "true":
		return time.Millisecond
	default:
		if v, err := strconv.ParseFloat(s, 64); err == nil && v > 0 {
			return seconds(v / 1000)
		}
	}
	return defaultRetryAfter
}

func seconds(s float64) time.Duration {
	if s <= 0 {
		return 0
	}
	if s >= maxRetryAfter.Seconds() {
		return maxRetryAfter
	}
	return time.Duration(s * float64(time.Second))
}

// newError is an error that no gateway sent.
func newError(kind Kind, code string, cause error, format string, args ...any) *Error {
	return &Error{Kind: kind, Code: code, Message: fmt.Sprintf(format, args...), cause: cause}
}

// tokenError words what a [Tokens] answered.
func tokenError(cause error) *Error {
	switch {
	case isAny(cause, ErrNotSetUp):
		return newError(KindAuth, CodeNotSetUp, cause, "connectors are not set up for this tenant yet")
	case isAny(cause, ErrNoToken, errSignedOut):
		e := newError(KindAuth, CodeNoToken, cause, "there is no token for this tenant: the user must sign in")
		e.Status = http.StatusUnauthorized
		return e
	}
	return newError(KindOther, CodeTokenSource, cause, "the token for this tenant could not be read")
}
