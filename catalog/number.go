package catalog

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// Numbers come from people's files and from models, so both readers take what these mean: a number, a number in a
// string, a boolean as 1 or 0.

// readFloat reads a decimal number. A string may carry blanks, a sign, an exponent, single underscores between
// digits, "inf" and "nan"; hexadecimal is no number here.
func readFloat(raw json.RawMessage) (float64, bool) {
	text, ok := numeral(raw)
	if !ok || strings.ContainsAny(text, "xXpP") {
		return 0, false
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, false
	}
	return f, true
}

// readInt reads a whole number. A JSON number with a fraction is cut towards zero, a string must be digits alone; a
// number beyond the machine's range is the nearest that fits, an infinite one is none.
func readInt(raw json.RawMessage) (int, bool) {
	text, ok := numeral(raw)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil || n == math.MaxInt64 || n == math.MinInt64 {
		return int(n), true
	}
	if raw = bytes.TrimSpace(raw); raw[0] == '"' {
		return 0, false
	}
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil:
		return 0, false
	case f >= math.MaxInt64:
		return math.MaxInt64, true
	case f <= math.MinInt64:
		return math.MinInt64, true
	}
	return int(f), true
}

// numeral is the text of a JSON value that may stand for a number.
func numeral(raw json.RawMessage) (string, bool) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return "", false
	}
	switch raw[0] {
	case 't':
		return "1", true
	case 'f':
		return "0", true
	case '"':
		var s string
		if json.Unmarshal(raw, &s) != nil {
			return "", false
		}
		return joinDigits(strings.TrimSpace(s))
	case 'n', '[', '{':
		return "", false
	}
	return string(raw), true
}

// joinDigits drops single underscores between digits and refuses any other underscore.
func joinDigits(s string) (string, bool) {
	if !strings.Contains(s, "_") {
		return s, s != ""
	}
	digit := func(i int) bool { return i >= 0 && i < len(s) && s[i] >= '0' && s[i] <= '9' }
	var b strings.Builder
	for i := range len(s) {
		if s[i] != '_' {
			b.WriteByte(s[i])
		} else if !digit(i-1) || !digit(i+1) {
			return "", false
		}
	}
	return b.String(), true
}
