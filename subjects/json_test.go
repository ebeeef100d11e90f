package subjects_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"toolsearch/subjects"
)

func TestMarshalModel(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		v    any
		want string
	}{
		{"separators", map[string]any{"a": []int{1, 2}, "b": map[string]int{"c": 3}}, `{"a": [1, 2], "b": {"c": 3}}`},
		{"separators inside strings stay", []string{`a,b:c`, `\",:`}, `["a,b:c", "\\\",:"]`},
		{"no HTML escapes", "<a href='x'>&</a>", `"<a href='x'>&</a>"`},
		{"line separators as they are", "\u2028\u2029", "\"\u2028\u2029\""},
		{"a backslash before u2028 stays text", `\u2028`, `"\\u2028"`},
		{"escapes after a backslash", "\\\u2028", "\"\\\\\u2028\""},
		{"not ASCII", "né日", `"né日"`},
		{"numbers keep their spelling", json.RawMessage(`[1.0,1e5,12345678901234567890,-0]`), `[1.0, 1e5, 12345678901234567890, -0]`},
		{"empty", map[string]any{}, `{}`},
		{"null", nil, `null`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := subjects.MarshalModel(tc.v)
			if err != nil || string(got) != tc.want {
				t.Errorf("got %s, %v; want %s", got, err, tc.want)
			}
		})
	}
	if _, err := subjects.MarshalModel(make(chan int)); err == nil {
		t.Error("a channel was encoded")
	}
}

func TestMarshalModelIsTheSameValue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := map[string]any{}
		for _, k := range rapid.SliceOf(rapid.String()).Draw(t, "keys") {
			want[k] = []any{rapid.String().Draw(t, "text"), rapid.Bool().Draw(t, "bool"), nil}
		}
		p, err := subjects.MarshalModel(want)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(p, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: got %v, %v; want %v", p, got, err, want)
		}
	})
}

func TestAppendStringIsJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.Custom(func(t *rapid.T) string {
			return string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		})).Draw(t, "s")
		want := string([]rune(s)) // each byte that is no UTF-8 becomes U+FFFD
		var got string
		p := subjects.AppendString([]byte("x"), s)
		if err := json.Unmarshal(p[1:], &got); err != nil || got != want || p[0] != 'x' {
			t.Fatalf("AppendString(%q) = %s: %q, %v", s, p, got, err)
		}
	})
}

func TestCheckForeign(t *testing.T) {
	t.Parallel()
	nested := func(n int) string { return strings.Repeat(`{"a":[`, n/2) + strings.Repeat("]}", n/2) }
	for _, good := range []string{``, `{}`, `"\\"`, `"[[\"{{"`, nested(subjects.MaxNesting), strings.Repeat("[],", 5000), `"` + strings.Repeat("[", 5000) + `"`} {
		if err := subjects.CheckForeign([]byte(good)); err != nil {
			t.Errorf("%.40s: %v", good, err)
		}
	}
	for _, bad := range []string{"\xff", "{\"a\":\"\xc3\x28\"}", nested(subjects.MaxNesting + 2), `["\\",` + nested(subjects.MaxNesting)} {
		if subjects.CheckForeign([]byte(bad)) == nil {
			t.Errorf("%.40q passes", bad)
		}
	}
}
