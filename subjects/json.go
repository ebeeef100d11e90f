package subjects

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Marshal encodes v as compact JSON with nothing escaped that need not be: no HTML escapes and no \u2028.
// Raw messages inside v are compacted by the encoder; where bytes must survive, append them by hand.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return unescapeLines(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

// MarshalModel encodes v as a model reads it: ", " and ": " as separators, non-ASCII as it is. Every body of search,
// describe and call that a runtime hands to its model is written by this.
func MarshalModel(v any) ([]byte, error) {
	p, err := Marshal(v)
	if err != nil {
		return nil, err
	}
	return AppendSpaced(make([]byte, 0, len(p)+len(p)/8), p), nil
}

// AppendSpaced appends compact JSON with a space after each comma and colon outside strings.
func AppendSpaced(dst, compact []byte) []byte {
	in, esc := false, false
	for _, c := range compact {
		dst = append(dst, c)
		switch {
		case esc:
			esc = false
		case in && c == '\\':
			esc = true
		case c == '"':
			in = !in
		case !in && (c == ',' || c == ':'):
			dst = append(dst, ' ')
		}
	}
	return dst
}

// AppendString appends s as a JSON string: only the quote, the backslash and control characters are escaped, and
// each invalid byte becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			switch {
			case c == '"' || c == '\\':
				dst = append(dst, '\\', c)
			case c == '\n':
				dst = append(dst, '\\', 'n')
			case c == '\r':
				dst = append(dst, '\\', 'r')
			case c == '\t':
				dst = append(dst, '\\', 't')
			case c == '\b':
				dst = append(dst, '\\', 'b')
			case c == '\f':
				dst = append(dst, '\\', 'f')
			case c < 0x20:
				dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			default:
				dst = append(dst, c)
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		dst = utf8.AppendRune(dst, r)
		i += n
	}
	return append(dst, '"')
}

// unescapeLines undoes the encoder's escapes of U+2028 and U+2029, in place where there are any.
func unescapeLines(p []byte) []byte {
	if !bytes.Contains(p, []byte(`\u202`)) {
		return p
	}
	out := make([]byte, 0, len(p))
	for i := 0; i < len(p); i++ {
		if p[i] != '\\' {
			out = append(out, p[i])
			continue
		}
		if rest := p[i:]; len(rest) >= 6 && string(rest[:5]) == `\u202` && (rest[5] == '8' || rest[5] == '9') {
			out = utf8.AppendRune(out, 0x2020+rune(rest[5]-'0'))
			i += 5
			continue
		}
		out = append(out, p[i], p[i+1])
		i++
	}
	return out
}

// MaxNesting is the deepest nesting of arrays and objects in what a host, a gateway or a policy answers. Nothing real
// comes near it. It leaves room for the messages that carry the answer on: every common reader of JSON refuses or
// overflows at some depth, and a record or an event that cannot be read would be lost to whoever waits for it.
const MaxNesting = 512

// CheckForeign reports why an answer from outside cannot go into a message: it is not UTF-8, or nested deeper than
// [MaxNesting]. That it is JSON is for the reader to find out.
func CheckForeign(p []byte) error {
	if !utf8.Valid(p) {
		return errors.New("it is not UTF-8")
	}
	depth := 0
	for i := 0; i < len(p); i++ {
		switch p[i] {
		case '{', '[':
			if depth++; depth > MaxNesting {
				return fmt.Errorf("it is nested deeper than %d levels", MaxNesting)
			}
		case '}', ']':
			depth--
		case '"':
			for i++; i < len(p) && p[i] != '"'; i++ {
				if p[i] == '\\' {
					i++
				}
			}
		}
	}
	return nil
}
