package subjects

import (
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// The headers of the contract. NATS headers keep their case, so these are the spellings on the wire.
const (
	// HeaderTraceParent and HeaderTraceState carry the W3C trace context; written in lower case, read in any.
	HeaderTraceParent = "traceparent"
	HeaderTraceState  = "tracestate"
	// HeaderDeadline is an RFC 3339 instant after which nobody waits for the reply.
	HeaderDeadline = "Toolsearch-Deadline"
	// HeaderAsync is "1" on a call whose reply is wanted as soon as the call is durable.
	HeaderAsync = "Toolsearch-Async"
	// HeaderObject names the object that holds the body (claim check); HeaderDigest is its "sha256:<hex>".
	HeaderObject = "Toolsearch-Object"
	HeaderDigest = "Toolsearch-Digest"
	// HeaderCall is the id of the call that a reply or a result belongs to.
	HeaderCall = "Toolsearch-Call"
	// HeaderRetryAfter is in milliseconds, on an error reply.
	HeaderRetryAfter = "Toolsearch-Retry-After"
	// HeaderErrorCode and HeaderError are the number and the code of a service error, as NATS services spell them.
	HeaderErrorCode = "Nats-Service-Error-Code"
	HeaderError     = "Nats-Service-Error"
)

// ServiceName is the name of the NATS micro service whose endpoints are the request verbs.
const ServiceName = "toolsearch"

// FormatDeadline writes t for [HeaderDeadline].
func FormatDeadline(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// ParseDeadline reads [HeaderDeadline]. An empty text is no deadline: the zero time and no error.
func ParseDeadline(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}, badHeader(HeaderDeadline, "must be an RFC 3339 instant such as 2026-01-02T15:04:05Z", err)
	}
	if t.IsZero() {
		t = t.Add(1) // the least date of some languages: long past, and not the absence of a deadline
	}
	return t, nil
}

// What is longer is no trace context: a traceparent of version 00 has 55 bytes, and 512 of a tracestate are what W3C
// asks to be passed on. The bounds keep what a request brings from filling the headers of all that follows from it.
const (
	maxTraceParent = 128
	maxTraceState  = 512
)

// TraceContext reads the trace context of h, whose keys may be in any case. A value that is too long or has other
// characters than printable ASCII is read as absent, and a state without its parent too.
func TraceContext(h nats.Header) (parent, state string) {
	for key, values := range h {
		switch {
		case len(values) == 0:
		case strings.EqualFold(key, HeaderTraceParent):
			parent = traceValue(values[0], maxTraceParent)
		case strings.EqualFold(key, HeaderTraceState):
			state = traceValue(values[0], maxTraceState)
		}
	}
	if parent == "" {
		state = ""
	}
	return parent, state
}

// SetTraceContext writes a trace context into h as the contract spells it, in place of the one that h has, and returns h.
// An empty parent writes nothing. A nil h is made only where something is written.
func SetTraceContext(h nats.Header, parent, state string) nats.Header {
	if parent == "" {
		return h
	}
	if h == nil {
		h = nats.Header{}
	}
	h[HeaderTraceParent] = []string{parent}
	delete(h, HeaderTraceState)
	if state != "" {
		h[HeaderTraceState] = []string{state}
	}
	return h
}

func traceValue(s string, limit int) string {
	if len(s) > limit || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return ""
	}
	return s
}

// FormatRetryAfter writes d for [HeaderRetryAfter], in whole milliseconds.
func FormatRetryAfter(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// ParseRetryAfter reads [HeaderRetryAfter]; anything malformed or negative is 0.
func ParseRetryAfter(s string) time.Duration {
	ms, err := strconv.ParseInt(s, 10, 64)
	if err != nil || ms < 0 || ms > int64(24*time.Hour/time.Millisecond) {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}
