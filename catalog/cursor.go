package catalog

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// cursor reads JSON text in one pass, checking its syntax as it goes. It exists because a catalog is read on every
// assemble that brings one: encoding/json would walk each definition once per level of nesting and lose the order of
// the parameters.
type cursor struct {
	data []byte
	pos  int
	// depth is the number of containers that are open here, deepest the highest that it has been.
	depth, deepest int
	open           []byte // of skip: the containers it has entered, '{' or '['
}

// syntaxError says where text stops being JSON.
type syntaxError struct {
	offset int
	want   string
}

func (e *syntaxError) Error() string {
	return fmt.Sprintf("not JSON at byte %d: expected %s", e.offset, e.want)
}

func (c *cursor) fail(want string) error { return &syntaxError{c.pos, want} }

// peek skips white space and returns the next byte without taking it, 0 at the end.
func (c *cursor) peek() byte {
	for c.pos < len(c.data) {
		switch b := c.data[c.pos]; b {
		case ' ', '\t', '\n', '\r':
			c.pos++
		default:
			return b
		}
	}
	return 0
}

func (c *cursor) enter() error {
	c.depth++
	c.deepest = max(c.deepest, c.depth)
	if c.depth > maxSyntaxNesting {
		return c.fail("less nesting")
	}
	c.pos++
	return nil
}

func (c *cursor) leave() {
	c.depth--
	c.pos++
}

// object reads an object. It calls field with each key and with the cursor at the value; field takes the value.
func (c *cursor) object(field func(key []byte) error) error {
	if c.peek() != '{' {
		return c.fail("an object")
	}
	if err := c.enter(); err != nil {
		return err
	}
	if c.peek() == '}' {
		c.leave()
		return nil
	}
	for {
		key, err := c.key()
		if err != nil {
			return err
		}
		if err := field(key); err != nil {
			return err
		}
		switch c.peek() {
		case ',':
			c.pos++
		case '}':
			c.leave()
			return nil
		default:
			return c.fail("a comma or a closing brace")
		}
	}
}

// array reads an array, calling element with the cursor at each value; element takes the value.
func (c *cursor) array(element func() error) error {
	if c.peek() != '[' {
		return c.fail("an array")
	}
	if err := c.enter(); err != nil {
		return err
	}
	if c.peek() == ']' {
		c.leave()
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		switch c.peek() {
		case ',':
			c.pos++
		case ']':
			c.leave()
			return nil
		default:
			return c.fail("a comma or a closing bracket")
		}
	}
}

// key takes a key and its colon. Bytes that are no UTF-8 stay in it.
func (c *cursor) key() ([]byte, error) {
	if c.peek() != '"' {
		return nil, c.fail("a key")
	}
	key, err := c.text()
	if err != nil {
		return nil, err
	}
	if c.peek() != ':' {
		return nil, c.fail("a colon")
	}
	c.pos++
	if bytes.IndexByte(key, '\\') >= 0 {
		decoded, _ := unquote(key)
		return []byte(decoded), nil
	}
	return key, nil
}

// text takes a string and returns what stands between its quotes.
func (c *cursor) text() ([]byte, error) {
	c.pos++
	start := c.pos
	for c.pos < len(c.data) {
		switch b := c.data[c.pos]; {
		case b == '"':
			c.pos++
			return c.data[start : c.pos-1], nil
		case b == '\\':
			if err := c.escape(); err != nil {
				return nil, err
			}
		case b < 0x20:
			return nil, c.fail("no control character in a string")
		default:
			c.pos++
		}
	}
	return nil, c.fail("a closing quote")
}

func (c *cursor) escape() error {
	c.pos++
	if c.pos == len(c.data) {
		return c.fail("an escape")
	}
	switch c.data[c.pos] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		c.pos++
		return nil
	case 'u':
		if hex4(c.data[c.pos+1:]) < 0 {
			return c.fail("four hex digits")
		}
		c.pos += 5
		return nil
	}
	return c.fail("an escape")
}

// skip takes any value, without recursion: what it reads may be nested as deep as its sender likes.
func (c *cursor) skip() error {
	c.open = c.open[:0]
	for {
		switch b := c.peek(); b {
		case '{', '[':
			if err := c.enter(); err != nil {
				return err
			}
			c.open = append(c.open, b)
			if next := c.peek(); next != b+2 { // '{'+2 is '}', '['+2 is ']'
				if b == '{' {
					if _, err := c.key(); err != nil {
						return err
					}
				}
				continue
			}
		case '"':
			if _, err := c.text(); err != nil {
				return err
			}
		default:
			if err := c.scalar(); err != nil {
				return err
			}
		}
		if done, err := c.close(); done || err != nil {
			return err
		}
	}
}

// value takes any value and returns its bytes.
func (c *cursor) value() ([]byte, error) {
	c.peek()
	start := c.pos
	err := c.skip()
	return c.data[start:c.pos], err
}

// close takes what may follow a value inside skip: closing brackets, then a comma and, in an object, the next key.
// It reports that no container is left open.
func (c *cursor) close() (done bool, err error) {
	for len(c.open) > 0 {
		in := c.open[len(c.open)-1]
		switch c.peek() {
		case in + 2:
			c.leave()
			c.open = c.open[:len(c.open)-1]
		case ',':
			c.pos++
			if in == '{' {
				_, err = c.key()
			}
			return false, err
		default:
			return false, c.fail("a comma or the end of what is open")
		}
	}
	return true, nil
}

// scalar takes true, false, null or a number.
func (c *cursor) scalar() error {
	rest := c.data[c.pos:]
	for _, word := range [...]string{"true", "false", "null"} {
		if len(rest) >= len(word) && string(rest[:len(word)]) == word {
			c.pos += len(word)
			return nil
		}
	}
	return c.number()
}

func (c *cursor) number() error {
	c.accept('-')
	if !c.accept('0') && !c.digits() {
		return c.fail("a value")
	}
	if c.accept('.') && !c.digits() {
		return c.fail("a digit")
	}
	if c.accept('e') || c.accept('E') {
		_ = c.accept('+') || c.accept('-')
		if !c.digits() {
			return c.fail("a digit")
		}
	}
	return nil
}

func (c *cursor) accept(b byte) bool {
	if c.pos < len(c.data) && c.data[c.pos] == b {
		c.pos++
		return true
	}
	return false
}

func (c *cursor) digits() bool {
	start := c.pos
	for c.pos < len(c.data) && '0' <= c.data[c.pos] && c.data[c.pos] <= '9' {
		c.pos++
	}
	return c.pos > start
}

// hex4 is the value of four hex digits, or -1.
func hex4(p []byte) rune {
	if len(p) < 4 {
		return -1
	}
	v, err := strconv.ParseUint(string(p[:4]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(v)
}

// unquote decodes what stands between the quotes of a string that text has accepted. exact is false if the text is no
// valid UTF-8 or escapes half a surrogate pair; each such place becomes U+FFFD.
func unquote(raw []byte) (s string, exact bool) {
	plain := true
	for _, b := range raw {
		if b == '\\' || b >= utf8.RuneSelf {
			plain = false
			break
		}
	}
	if plain {
		return string(raw), true
	}
	out := make([]byte, 0, len(raw)+8)
	exact = true
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			r, n := utf8.DecodeRune(raw[i:])
			exact = exact && (r != utf8.RuneError || n > 1)
			out = utf8.AppendRune(out, r)
			i += n
			continue
		}
		r, n := unescape(raw[i:])
		exact = exact && (r != utf8.RuneError || n == 6 && hex4(raw[i+2:]) == utf8.RuneError)
		out = utf8.AppendRune(out, r)
		i += n
	}
	return string(out), exact
}

// unescape decodes one escape, or one pair of escaped surrogates, and says how many bytes it took.
func unescape(p []byte) (rune, int) {
	switch p[1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		r := hex4(p[2:])
		if !utf16.IsSurrogate(r) {
			return r, 6
		}
		if len(p) >= 12 && p[6] == '\\' && p[7] == 'u' {
			if pair := utf16.DecodeRune(r, hex4(p[8:])); pair != utf8.RuneError {
				return pair, 12
			}
		}
		return utf8.RuneError, 6
	}
	return rune(p[1]), 2
}
