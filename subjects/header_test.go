package subjects_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"
	"toolsearch/subjects"
)

func TestDeadlineRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		zone := time.FixedZone("", rapid.IntRange(-12, 14).Draw(t, "zone")*3600)
		want := time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).In(zone)
		got, err := subjects.ParseDeadline(subjects.FormatDeadline(want))
		if err != nil || !got.Equal(want) {
			t.Fatalf("got %v, %v; want %v", got, err, want)
		}
	})
}

func TestParseDeadline(t *testing.T) {
	t.Parallel()
	if got, err := subjects.ParseDeadline(""); err != nil || !got.IsZero() {
		t.Errorf("no header: got %v, %v", got, err)
	}
	got, err := subjects.ParseDeadline("2026-01-02T15:04:05+02:00")
	if want := time.Date(2026, 1, 2, 13, 4, 5, 0, time.UTC); err != nil || !got.Equal(want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	if got, err := subjects.ParseDeadline("0001-01-01T00:00:00Z"); err != nil || got.IsZero() || got.After(time.Unix(0, 0)) {
		t.Errorf("the least date: got %v, %v; want a deadline that is past", got, err)
	}
	for _, bad := range []string{"soon", "2026-01-02", "1767366245", "2026-01-02T15:04:05"} {
		_, err := subjects.ParseDeadline(bad)
		var e *subjects.Error
		if !errors.As(err, &e) || e.Code != subjects.CodeBadRequest || e.Details["field"] != subjects.HeaderDeadline {
			t.Errorf("ParseDeadline(%q): %v, want BAD_REQUEST that names the header", bad, err)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	if s := subjects.FormatRetryAfter(1500 * time.Millisecond); s != "1500" {
		t.Errorf("got %q", s)
	}
	for text, want := range map[string]time.Duration{
		"": 0, "x": 0, "-1": 0, "1.5": 0, "0": 0, "1500": 1500 * time.Millisecond,
		"99999999999999999999": 0, "9223372036854775807": 0,
	} {
		if got := subjects.ParseRetryAfter(text); got != want {
			t.Errorf("ParseRetryAfter(%q) = %v, want %v", text, got, want)
		}
	}
}

func TestSetTraceContext(t *testing.T) {
	t.Parallel()
	if h := subjects.SetTraceContext(nil, "", "a=b"); h != nil {
		t.Errorf("no parent made %v", h)
	}
	old := nats.Header{"traceparent": {"old"}, "tracestate": {"old"}, "other": {"kept"}}
	for _, want := range [][2]string{{"00-1", "a=b"}, {"00-2", ""}} {
		for _, h := range []nats.Header{nil, old} {
			got := subjects.SetTraceContext(h, want[0], want[1])
			if p, s := subjects.TraceContext(got); p != want[0] || s != want[1] {
				t.Errorf("wrote %v into %v, read %q, %q", want, h, p, s)
			}
		}
	}
	if old.Get("other") != "kept" {
		t.Errorf("other headers are gone: %v", old)
	}
}

func TestTraceContext(t *testing.T) {
	t.Parallel()
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	long := strings.Repeat("x", 100_000)
	for _, c := range []struct {
		name          string
		h             nats.Header
		parent, state string
	}{
		{"none", nil, "", ""},
		{"any case", nats.Header{"TraceParent": {parent}, "TRACESTATE": {"a=b"}}, parent, "a=b"},
		{"no values", nats.Header{"traceparent": {}, "tracestate": nil}, "", ""},
		{"state alone", nats.Header{"tracestate": {"a=b"}}, "", ""},
		{"long parent", nats.Header{"traceparent": {long}, "tracestate": {"a=b"}}, "", ""},
		{"long state", nats.Header{"traceparent": {parent}, "tracestate": {long}}, parent, ""},
		{"no header text", nats.Header{"traceparent": {"é\x01"}}, "", ""},
	} {
		if p, s := subjects.TraceContext(c.h); p != c.parent || s != c.state {
			t.Errorf("%s: got %q, %q; want %q, %q", c.name, p, s, c.parent, c.state)
		}
	}
}
