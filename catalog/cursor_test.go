package catalog

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

var jsonSeeds = []string{
	``, ` `, `null`, `true`, `tru`, `-0`, `01`, `1.`, `1e`, `1.5e-7`, `-`, `"a"`, `"a`, `"\u00e9\ud83d\ude00"`, `"\ud800"`, `"\u12"`,
	`"\x"`, "\"\x00\"", "\"\xff\"", `[]`, `[,]`, `[1,]`, `[1,2,[3,{"a":[]}]]`, `{}`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{"a":1 "b":2}`,
	`{"a":{"b":{}},"a":[{}]}`, `[}`, `{]`, `[1]]`, "\x00", `{"a":1}x`, `[[[[[[[[[[`, ` { "a" : [ 1 , 2 ] } `,
}

// FuzzCursor compares the cursor with encoding/json: both accept the same texts and read the same strings in them.
func FuzzCursor(f *testing.F) {
	for _, s := range jsonSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := cursor{data: data}
		err := c.skip()
		if err == nil && (c.peek() != 0 || c.pos < len(data)) {
			err = c.fail("the end")
		}
		if valid := json.Valid(data); valid != (err == nil) {
			t.Fatalf("%q: valid %v, error %v", data, valid, err)
		}
		if err == nil && c.depth != 0 {
			t.Fatalf("%q: depth %d at the end", data, c.depth)
		}
		var want string
		if err != nil || json.Unmarshal(data, &want) != nil || c.data[strings.IndexAny(string(data), `"n`)] != '"' {
			return
		}
		c = cursor{data: data}
		c.peek()
		raw, err := c.text()
		if err != nil {
			t.Fatal(err)
		}
		got, exact := unquote(raw)
		if got != want {
			t.Fatalf("unquote(%q) = %q, want %q", raw, got, want)
		}
		if exact && !utf8.Valid(raw) || !utf8.ValidString(got) {
			t.Fatalf("unquote(%q) = %q, exact %v", raw, got, exact)
		}
	})
}

func TestUnquoteTellsWhatIsNotExact(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]bool{
		`plain`: true, `é`: true, `\u00e9\n`: true, `\ud83d\ude00`: true, `\ufffd`: true, "\ufffd": true,
		`\ud800`: false, `\ud83dx`: false, `\ude00\ud83d`: false, "\xff": false, "a\xe9b": false,
	} {
		if _, exact := unquote([]byte(raw)); exact != want {
			t.Errorf("unquote(%q) exact = %v, want %v", raw, exact, want)
		}
	}
}

func TestCursorRefusesBottomlessNesting(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]bool{maxSyntaxNesting: true, maxSyntaxNesting + 1: false} {
		c := cursor{data: []byte(strings.Repeat("[", n) + strings.Repeat("]", n))}
		if err := c.skip(); (err == nil) != want {
			t.Errorf("%d levels: %v", n, err)
		}
	}
	// Text that only opens brackets ends early and takes no memory for the rest.
	c := cursor{data: []byte(strings.Repeat("[", 1<<24))}
	if err := c.skip(); err == nil || cap(c.open) > 4*maxSyntaxNesting {
		t.Errorf("error %v after %d levels", err, cap(c.open))
	}
}
