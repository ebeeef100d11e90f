package dispatch

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestVisibleKeys(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 64)
	for _, tc := range []struct {
		name       string
		properties []string
		want       map[string]string
	}{
		{"all safe", []string{"a", "a_b", "a.b-c", long}, nil},
		{"taken by a safe key", []string{"a~b", "a_b", "a b"}, map[string]string{"a_b_2": "a~b", "a_b_3": "a b"}},
		{"empty", []string{"", "param"}, map[string]string{"param_2": ""}},
		{"too long", []string{long + "yyy"}, map[string]string{long: long + "yyy"}},
		{"two too long", []string{long + "y", long + "z"}, map[string]string{long: long + "y", long[:62] + "_2": long + "z"}},
		{"a character of several bytes", []string{"é"}, map[string]string{"_": "é"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var members []member
			for _, p := range tc.properties {
				members = append(members, member{key: p})
			}
			if d := cmp.Diff(tc.want, visibleKeys(members)); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

func TestVisibleKeysAreSafeAndDifferent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfNDistinct(rapid.StringOfN(rapid.RuneFrom([]rune("ab_ ~é")), 0, 70, -1), 0, 20, rapid.ID[string]).Draw(t, "keys")
		var members []member
		safe := map[string]bool{}
		for _, k := range keys {
			members = append(members, member{key: k})
			safe[k] = safeKey(k)
		}
		visible := visibleKeys(members)
		for key, own := range visible {
			if !safeKey(key) || safe[key] || safe[own] {
				t.Fatalf("%q is shown as %q among %q", own, key, keys)
			}
		}
		unsafe := 0
		for _, ok := range safe {
			if !ok {
				unsafe++
			}
		}
		if len(visible) != unsafe {
			t.Fatalf("%d of %d keys have a spelling", len(visible), unsafe)
		}
	})
}

// A shape must be built in sane time from schemas that refer to themselves in every way.
func TestShapeOfCircles(t *testing.T) {
	t.Parallel()
	var chain strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&chain, `"d%d":{"$ref":"#/$defs/d%d"},`, i, i+1)
	}
	for _, schema := range []string{
		`{"$ref":"#"}`,
		`{"properties":{"a":{"$ref":"#"},"b":{"$ref":"#/properties/c"},"c":{"$ref":"#/properties/b"}}}`,
		`{"properties":{"a":{"anyOf":[{"$ref":"#/properties/a"},{"$ref":"#/properties/a"},{"oneOf":[{"$ref":"#/properties/a"}]}]}}}`,
		`{"$defs":{` + chain.String() + `"d2000":{"type":"array"}},"properties":{"a":{"$ref":"#/$defs/d0"}}}`,
	} {
		args := `{"a":"{\"a\":\"[]\"}","b":"5","c":[1]}`
		if got := string(Coerce([]byte(schema), []byte(args))); got != args {
			t.Errorf("%.60s: %s, want it unchanged", schema, got)
		}
	}
}
