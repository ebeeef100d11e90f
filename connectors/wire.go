package connectors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// shapeError says where an answer is not what it should be. Only the first problem of an object is kept.
type shapeError struct {
	at   string // dotted, such as results.0.error.code
	want string
}

func (e *shapeError) Error() string { return fmt.Sprintf("%s: want %s", e.at, e.want) }

// presence says what may stand in a field.
type presence int

const (
	required  presence = iota // must be there, not null
	defaulted                 // may be absent, not null
	nullable                  // may be absent or null
)

// record reads one object of an answer. Names are given in camelCase; the snake_case spelling is read too, and
// camelCase wins. Unknown members are ignored. Types are strict where a mistake would be silent (a number is no
// string) and lenient where senders are known to differ (5.0 and "5" are integers, "yes" is true).
type record struct {
	at     string
	fields map[string]json.RawMessage
	err    error
}

// readRecord opens an object; r.err tells when it is none.
func readRecord(at string, raw json.RawMessage) *record {
	r := &record{at: at}
	if !isObject(raw) || json.Unmarshal(raw, &r.fields) != nil {
		r.fail("", "an object")
	}
	return r
}

func (r *record) fail(name, want string) {
	if r.err == nil {
		r.err = &shapeError{at: join(r.at, name), want: want}
	}
}

// get returns a member, or nil when it is absent or null where that is allowed.
func (r *record) get(name string, p presence) json.RawMessage {
	raw, ok := r.fields[name]
	if !ok {
		raw, ok = r.fields[snake(name)]
	}
	switch {
	case !ok && p == required:
		r.fail(name, "a value, it is required")
		return nil
	case !ok:
		return nil
	case isNull(raw) && p != nullable:
		r.fail(name, "a value that is not null")
		return nil
	case isNull(raw):
		return nil
	}
	return raw
}

func (r *record) text(name string, p presence) string {
	raw := r.get(name, p)
	if raw == nil {
		return ""
	}
	var s string
	if !isString(raw) || json.Unmarshal(raw, &s) != nil {
		r.fail(name, "a string")
	}
	return s
}

// optionalText tells an absent or null text from an empty one.
func (r *record) optionalText(name string) *string {
	if r.get(name, nullable) == nil {
		return nil
	}
	s := r.text(name, nullable)
	return &s
}

// word is a text out of a closed set.
func (r *record) word(name string, p presence, set ...string) string {
	s := r.text(name, p)
	if (p == required || r.get(name, nullable) != nil) && r.err == nil && !slices.Contains(set, s) {
		r.fail(name, "one of "+strings.Join(set, ", "))
	}
	return s
}

func (r *record) integer(name string, p presence) int {
	raw := r.get(name, p)
	if raw == nil {
		return 0
	}
	n, ok := readInteger(raw)
	if !ok {
		r.fail(name, "an integer")
	}
	return n
}

func (r *record) boolean(name string, p presence, fallback bool) bool {
	raw := r.get(name, p)
	if raw == nil {
		return fallback
	}
	b, ok := readBoolean(raw)
	if !ok {
		r.fail(name, "a boolean")
	}
	return b
}

func (r *record) object(name string, p presence) json.RawMessage {
	raw := r.get(name, p)
	if raw != nil && !isObject(raw) {
		r.fail(name, "an object")
		return nil
	}
	return raw
}

// members opens an object as a map.
func (r *record) members(name string, p presence) map[string]json.RawMessage {
	raw := r.object(name, p)
	if raw == nil {
		return nil
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		r.fail(name, "an object")
	}
	return m
}

func (r *record) list(name string, p presence) []json.RawMessage {
	raw := r.get(name, p)
	if raw == nil {
		return nil
	}
	var l []json.RawMessage
	if raw[0] != '[' || json.Unmarshal(raw, &l) != nil {
		r.fail(name, "a list")
	}
	return l
}

// texts is a list of strings, all of which must be strings.
func (r *record) texts(name string, p presence) []string {
	out := []string{}
	for i, raw := range r.list(name, p) {
		s, ok := readText(raw)
		if !ok {
			r.fail(join(name, strconv.Itoa(i)), "a string")
			break
		}
		out = append(out, s)
	}
	return out
}

func readText(raw json.RawMessage) (s string, ok bool) {
	return s, isString(raw) && json.Unmarshal(raw, &s) == nil
}

// readInteger reads an integer, an integral float, a string of either, or a boolean.
func readInteger(raw json.RawMessage) (int, bool) {
	switch s, _ := readText(raw); {
	case string(raw) == "true":
		return 1, true
	case string(raw) == "false":
		return 0, true
	case isString(raw):
		return integral(strings.TrimSpace(s))
	}
	return integral(string(raw))
}

func integral(s string) (int, bool) {
	if len(s) > 40 || strings.ContainsAny(s, "/xXpP_") {
		return 0, false // big.Rat reads fractions and other bases too, and a long exponent costs memory
	}
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		if e, err := strconv.Atoi(s[i+1:]); err != nil || e > 30 || e < -30 {
			return 0, false
		}
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok || !r.IsInt() || !r.Num().IsInt64() {
		return 0, false
	}
	return int(r.Num().Int64()), true
}

// readBoolean reads a boolean, 0 and 1, and the usual words in any case.
func readBoolean(raw json.RawMessage) (value, ok bool) {
	s := string(raw)
	if isString(raw) {
		s, _ = readText(raw)
		s = strings.ToLower(strings.TrimSpace(s))
	}
	switch s {
	case "true", "1", "1.0", "yes", "on", "t", "y":
		return true, true
	case "false", "0", "0.0", "no", "off", "f", "n":
		return false, true
	}
	return false, false
}

// snake turns camelCase into snake_case.
func snake(name string) string {
	var b strings.Builder
	for _, c := range name {
		if unicode.IsUpper(c) {
			b.WriteByte('_')
			c = unicode.ToLower(c)
		}
		b.WriteRune(c)
	}
	return b.String()
}

func join(at, name string) string {
	switch {
	case at == "":
		return name
	case name == "":
		return at
	}
	return at + "." + name
}

func isNull(raw json.RawMessage) bool   { return string(raw) == "null" }
func isString(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '"' }

func isObject(raw json.RawMessage) bool {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	return len(raw) > 0 && raw[0] == '{'
}

// isAny reports whether err wraps one of the targets.
func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(t error) bool { return errors.Is(err, t) })
}
