package telemetry_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"toolsearch/telemetry"
)

// secrets are texts that must never be seen, in forms in which they turn up.
var secrets = []string{
	"Bearer abcdefgh12345678", "basic dXNlcjpwYXNzd29yZA==", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
	"ghp_0123456789abcdefghij", "sk-0123456789abcdef0123", "xoxb-1234567890-abcdef", "AKIAIOSFODNN7EXAMPLE",
	"SUAIBDPBAUTWCWBKIO6XHQNINK5FWJW4OHLXC3HQ2KFE4PEJUA44CNHTC4",
	"-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----", "nats://user:hunter2pass@bus:4222",
}

// revealing is a part of each that would give it away.
func revealing(secret string) string {
	switch {
	case strings.HasPrefix(secret, "nats://"):
		return "hunter2pass"
	case strings.HasPrefix(secret, "-----"):
		return "MIIE"
	}
	if _, rest, ok := strings.Cut(secret, " "); ok {
		return rest
	}
	return secret[len(secret)-8:]
}

func TestRedactByForm(t *testing.T) {
	t.Parallel()
	for _, s := range secrets {
		for _, text := range []string{s, "before " + s + " after", `{"note": "` + s + `"}`} {
			if got := telemetry.Redact(text); strings.Contains(got, revealing(s)) || !strings.Contains(got, "[redacted]") {
				t.Errorf("%q becomes %q", text, got)
			}
		}
	}
	if got := telemetry.Redact("x://p@h"); got != "x://[redacted]@h" { // as short as one can be
		t.Errorf("got %q", got)
	}
	for _, s := range []string{"", "find the basic settings of a bearer", "https://example.org/a?b=c", "task-123 skate", "toolsearch.v1.req.acme.s1.search",
		"sha256:0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9"} {
		if got := telemetry.Redact(s); got != s {
			t.Errorf("%q becomes %q", s, got)
		}
	}
}

func TestCaptureByName(t *testing.T) {
	t.Parallel()
	c := telemetry.Capture{Enabled: true, Fields: []string{"birthday"}}
	in := `{"to":"ada","password":"p1","apiKey":"p2","headers":{"Authorization":"p3","X-Api-Key":"p4"},"nested":[{"client_secret":"p5"},{"access_token":"p6"}],
		"Birthday":"p7","page_token":"kept1","tokens":3,"author":"kept2","n":12345678901234567890}`
	got := c.JSON(json.RawMessage(in))
	for i := 1; i <= 7; i++ {
		if strings.Contains(got, fmt.Sprintf("p%d", i)) {
			t.Errorf("p%d is there: %s", i, got)
		}
	}
	for _, want := range []string{`"to":"ada"`, "kept1", "kept2", `"tokens":3`, "12345678901234567890"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is gone: %s", want, got)
		}
	}
	if got := c.JSON(json.RawMessage(`Bearer abcdefgh12345678 and no JSON`)); strings.Contains(got, "abcdefgh") {
		t.Error(got)
	}
}

func TestCaptureIsCapped(t *testing.T) {
	t.Parallel()
	c := telemetry.Capture{Enabled: true, MaxBytes: 10}
	for in, want := range map[string]string{"short": "short", "0123456789": "0123456789", "0123456789a": "0123456789... (1 more bytes)",
		"012345678ü": "012345678... (2 more bytes)", "bad\xff": "bad\uFFFD"} {
		if got := c.Text(in); got != want || !utf8.ValidString(got) {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
	if got := c.JSON(json.RawMessage(`"` + strings.Repeat("x", 300<<10) + `"`)); got != "(307202 bytes)" {
		t.Errorf("a large document becomes %.60s", got)
	}
}

// What is recorded is bounded and valid, whatever comes.
func FuzzCapture(f *testing.F) {
	for _, s := range secrets {
		f.Add([]byte(`{"a": "` + s + `"}`))
	}
	f.Add([]byte(`{"password": {"a": [1]}}`))
	f.Add([]byte(`[[[[`))
	f.Fuzz(func(t *testing.T, in []byte) {
		c := telemetry.Capture{Enabled: true, MaxBytes: 64}
		if got := c.JSON(in); len(got) > 64+40 || !utf8.ValidString(got) {
			t.Errorf("%q becomes %q", in, got)
		}
	})
}
