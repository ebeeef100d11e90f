package telemetry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// DefaultCaptureBytes is how much of one text is recorded where [Capture.MaxBytes] is 0.
const DefaultCaptureBytes = 2 << 10

// captureSource is how much of a JSON document is looked at; a larger one is not recorded at all.
const captureSource = 256 << 10

// Capture says whether arguments, results and the text of queries are recorded on spans. They are the users' own
// content: the zero value records none of it. What is recorded is capped, and what looks like a secret is taken out by
// the name of its field and by its form. That is a net with holes, not a proof: switch it on where the content may be
// seen by whoever sees the traces.
type Capture struct {
	// Enabled switches it on.
	Enabled bool
	// MaxBytes is how much of one text is kept; 0 is [DefaultCaptureBytes].
	MaxBytes int
	// Fields are names of further fields whose values are taken out, in any case.
	Fields []string
}

// redacted stands where something was taken out.
const redacted = "[redacted]"

// secretField matches the names of fields that hold secrets, in camel, snake and kebab case.
var secretField = regexp.MustCompile(`(?i)pass(word|wd|phrase|code)?$|secret|token$|(^|_|-)(pin|otp|cvv|cvc|ssn|iban)$|api[-_]?key|private[-_]?key|access[-_]?key|signing[-_]?key|(^|_|-)auth$|authorization|cookie|credential|(^|_|-)(seed|jwt|nkey|bearer|creds)$`)

// countField matches names that end like a secret's and count something.
var countField = regexp.MustCompile(`(?i)(page|continuation|sync|cursor|max)[-_]?token$`)

// secretText matches texts that are secrets by their form, wherever they stand: JSON web tokens, keys of well-known
// services, nkey seeds and private keys.
var secretText = regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?` +
	`|\b(?:sk|pk|rk|ghp|gho|ghu|ghs|glpat|xox[abprs]|github_pat)[-_][A-Za-z0-9_-]{10,}` +
	`|\bA(?:KIA|SIA)[A-Z0-9]{16}\b` +
	`|\bS[UAOCNX][A-Z2-7]{56}\b` +
	`|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`)

// credential matches the credentials of an HTTP header, and prose that happens to look alike.
var credential = regexp.MustCompile(`(?i)\b(bearer|basic)\s+([A-Za-z0-9._~+/=-]{8,})`)

// redactCredential takes a match of credential out unless its second part is a word of prose.
func redactCredential(match string) string {
	word := match[strings.LastIndexAny(match, " \t\n\r")+1:]
	lower := strings.Trim(word[1:], "abcdefghijklmnopqrstuvwxyz.-/") == ""
	upper := strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ.-/") == ""
	if lower || upper {
		return match
	}
	return redacted
}

// secretURL matches the user part of an address.
var secretURL = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^\s/@"']+@`)

// Redact takes out of a text what is a secret by its form.
func Redact(s string) string {
	if len(s) < shortestSecret {
		return s
	}
	s = credential.ReplaceAllStringFunc(secretText.ReplaceAllString(s, redacted), redactCredential)
	return secretURL.ReplaceAllString(s, "${1}"+redacted+"@")
}

// shortestSecret is the length of the shortest form above, that of a user in an address: x://u@. It spares short texts
// the expressions.
const shortestSecret = 6

// SecretField reports whether a field of this name holds a secret.
func SecretField(name string) bool {
	return secretField.MatchString(name) && !countField.MatchString(name)
}

// Text is a text as it may be recorded.
func (c Capture) Text(s string) string { return c.cut(Redact(s)) }

// JSON is a JSON value as it may be recorded: compact, its keys sorted. What is no JSON is recorded as a text.
func (c Capture) JSON(raw json.RawMessage) string {
	if len(raw) > captureSource {
		return fmt.Sprintf("(%d bytes)", len(raw))
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return c.Text(string(raw))
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(c.clean(v)); err != nil {
		return fmt.Sprintf("(%d bytes)", len(raw))
	}
	return c.cut(strings.TrimSuffix(b.String(), "\n"))
}

// clean takes secrets out of a decoded value, in place.
func (c Capture) clean(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if c.secret(k) {
				v[k] = redacted
			} else {
				v[k] = c.clean(e)
			}
		}
	case []any:
		for i, e := range v {
			v[i] = c.clean(e)
		}
	case string:
		return Redact(v)
	}
	return v
}

func (c Capture) secret(name string) bool {
	for _, f := range c.Fields {
		if strings.EqualFold(f, name) {
			return true
		}
	}
	return SecretField(name)
}

// cut keeps the beginning of a text, whole characters only, and says how much is gone.
func (c Capture) cut(s string) string {
	limit := c.MaxBytes
	if limit <= 0 {
		limit = DefaultCaptureBytes
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	at := limit
	for at > 0 && !utf8.RuneStart(s[at]) {
		at--
	}
	return fmt.Sprintf("%s... (%d more bytes)", s[:at], len(s)-at)
}
