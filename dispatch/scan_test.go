package dispatch

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestCanonical(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, text, want string }{
		{"as it is", `{"b": 1.50, "a":[1, 2.0e3 ]}`, `{"b": 1.50, "a":[1, 2.0e3 ]}`},
		{"blanks around", " \n{}\t", `{}`},
		{"the last of equal keys, at the first one's place", `{"a":1,"b":2,"a":3}`, `{"a":3,"b":2}`},
		{"keys equal when decoded", `{"a":1,"\u0061":2}`, `{"a":2}`},
		{"equal keys below", `[{"x":{"k":1,"k":"é"}}]`, `[{"x":{"k":"é"}}]`},
		{"equal keys among many", `{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1,"m":1,"n":1,"o":1,"p":1,"q":1,"a":2}`,
			`{"a":2,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1,"m":1,"n":1,"o":1,"p":1,"q":1}`},
		{"no UTF-8", "{\"a\":\"x\xffy\"}", `{"a":"x�y"}`},
		{"escaped quotes and braces in strings", `{"a":"\\\"}]","b\"":"\\"}`, `{"a":"\\\"}]","b\"":"\\"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := canonical([]byte(tc.text), MaxDepth)
			if err != nil || string(got) != tc.want {
				t.Errorf("canonical(%s) = %s, %v; want %s", tc.text, got, err, tc.want)
			}
		})
	}
	for _, text := range []string{"", " ", "{", `{"a"}`, `{"a":1,}`, "[1] 2", `"x`, "nul", `{"a":"` + "\n" + `"}`, `"\`, "01"} {
		if got, err := canonical([]byte(text), MaxDepth); err == nil {
			t.Errorf("canonical(%q) = %s, want an error", text, got)
		}
	}
}

func TestCanonicalDepth(t *testing.T) {
	t.Parallel()
	nested := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	if _, err := canonical(nested(MaxDepth), MaxDepth); err != nil {
		t.Errorf("%d levels: %v", MaxDepth, err)
	}
	for _, n := range []int{MaxDepth + 1, 10_000, 1_000_000} {
		if _, err := canonical(nested(n), MaxDepth); !errors.Is(err, errDepth) {
			t.Errorf("%d levels: %v, want %v", n, err, errDepth)
		}
	}
}

// jsonText generates a JSON text with blanks, escapes and odd numbers in it.
func jsonText(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		most := 6
		if depth <= 0 {
			most = 4
		}
		blank := rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "blank")
		switch rapid.IntRange(0, most).Draw(t, "kind") {
		case 0:
			return rapid.SampledFrom([]string{"null", "true", "false"}).Draw(t, "word")
		case 1, 2:
			return rapid.SampledFrom([]string{"0", "-1", "1.50", "1e3", "-0.0", "12345678901234567890", "5.0", "1E-7"}).Draw(t, "number")
		case 3, 4:
			return jsonString(t)
		case 5:
			items := rapid.SliceOfN(jsonText(depth-1), 0, 4).Draw(t, "items")
			return "[" + blank + strings.Join(items, blank+","+blank) + blank + "]"
		}
		var members []string
		for _, value := range rapid.SliceOfN(jsonText(depth-1), 0, 4).Draw(t, "values") {
			members = append(members, jsonString(t)+blank+":"+blank+value)
		}
		return "{" + blank + strings.Join(members, ","+blank) + blank + "}"
	})
}

func jsonString(t *rapid.T) string {
	s := rapid.SampledFrom([]string{
		`""`, `"a"`, `"b"`, `"\u0061"`, `"é"`, `"[1]"`, `"{\"a\":\"[]\"}"`, `"5"`, `" True "`, `"null"`, `"\\"`, `"\""`, `" "`, `"\ud800"`, `"}"`, `"a b"`, `"a_b"`,
	}).Draw(t, "string")
	return s
}

func TestScanAgreesWithTheStandardLibrary(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := jsonText(4).Draw(t, "text")
		got, err := canonical([]byte(text), MaxDepth)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if end := skipValue(got, 0); end != len(got) {
			t.Fatalf("skipValue(%s) = %d, want %d", got, end, len(got))
		}
		if repeats(got) {
			t.Fatalf("%s has a key twice", got)
		}
		var want, have any
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(parse(got).append(nil), &have); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, have); d != "" {
			t.Fatalf("%s (-want +got)\n%s", text, d)
		}
		depth, values := measure(got)
		if n := parse(got).count(); values < n || depth > n {
			t.Fatalf("measure(%s) = %d, %d, but it has %d values", got, depth, values, n)
		}
	})
}
