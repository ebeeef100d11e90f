package subjects_test

import (
	"encoding/json"
	"slices"
	"testing"

	"pgregory.net/rapid"
	"toolsearch/subjects"
)

func TestOrderedKeepsOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfDistinct(rapid.String(), rapid.ID).Draw(t, "keys")
		want := subjects.Ordered[int]{}
		for i, k := range keys {
			want = append(want, subjects.Pair[int]{Key: k, Value: i})
		}
		p, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got subjects.Ordered[int]
		if err := json.Unmarshal(p, &got); err != nil {
			t.Fatalf("%s: %v", p, err)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s: got %v, want %v", p, got, want)
		}
		for i, k := range keys {
			if v, ok := got.Get(k); !ok || v != i {
				t.Fatalf("Get(%q) = %v, %v", k, v, ok)
			}
		}
	})
}

func TestOrderedUnmarshal(t *testing.T) {
	t.Parallel()
	var o subjects.Ordered[json.Number]
	if err := json.Unmarshal([]byte(`{"b":1,"a":12345678901234567890,"b":3}`), &o); err != nil {
		t.Fatal(err)
	}
	if want := (subjects.Ordered[json.Number]{{Key: "b", Value: "3"}, {Key: "a", Value: "12345678901234567890"}}); !slices.Equal(o, want) {
		t.Errorf("got %v, want %v", o, want)
	}
	if _, ok := o.Get("c"); ok {
		t.Error("Get finds what is not there")
	}
	if err := json.Unmarshal([]byte(`null`), &o); err != nil || o != nil {
		t.Errorf("null: %v, %v", o, err)
	}
	for _, bad := range []string{`[]`, `"x"`, `{"a":"x"}`} {
		if json.Unmarshal([]byte(bad), &o) == nil {
			t.Errorf("%s was read", bad)
		}
	}
	// Called without the encoder's check before it.
	for _, bad := range []string{``, `{"a":1`, `{"a"`} {
		if o.UnmarshalJSON([]byte(bad)) == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
