package dispatch

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"toolsearch/catalog"
	"toolsearch/catalog/catalogtest"
	"toolsearch/subjects"
)

// wantText is a message of the conformance cases: only what it must mention is fixed.
type wantText struct {
	ID       string
	Mentions []string
}

func (w *wantText) compare(t *testing.T, got string) {
	t.Helper()
	if strings.TrimSpace(got) == "" {
		t.Errorf("%s: an empty text", w.ID)
	}
	for _, m := range w.Mentions {
		if !strings.Contains(got, m) {
			t.Errorf("%s: %q is not mentioned in %q", w.ID, m, got)
		}
	}
}

// compareError checks that err is a mistake of the model in the words of want.
func compareError(t *testing.T, err error, want *wantText) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %s", want.ID)
	}
	body, merr := subjects.MarshalModel(err)
	if merr != nil {
		t.Fatal(merr)
	}
	var got struct{ Error string }
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatalf("%s is not {\"error\": text}: %v", body, err)
	}
	want.compare(t, got.Error)
}

// compareJSON compares two JSON values as the cases do: numbers by value, objects without order.
func compareJSON(t *testing.T, got, want []byte) {
	t.Helper()
	if d := cmp.Diff(decodeExact(t, want), decodeExact(t, got)); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func decodeExact(t *testing.T, p []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(p))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", p, err)
	}
	return exactNumbers(v)
}

func exactNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = exactNumbers(v[k])
		}
	case []any:
		for i := range v {
			v[i] = exactNumbers(v[i])
		}
	case json.Number:
		r, _ := new(big.Rat).SetString(v.String())
		return json.Number(r.RatString())
	}
	return v
}

func TestVectorsNormalise(t *testing.T) {
	t.Parallel()
	for v := range catalogtest.Vectors(t, "normalise.jsonl") {
		t.Run(v.ID, func(t *testing.T) {
			var given struct{ Arguments json.RawMessage }
			var want struct {
				Entries json.RawMessage
				Error   *wantText
			}
			v.DecodeGiven(t, &given)
			v.DecodeWant(t, &want)
			entries, err := Normalise(given.Arguments)
			if want.Error != nil {
				compareError(t, err, want.Error)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := subjects.Marshal(entries)
			if err != nil {
				t.Fatal(err)
			}
			compareJSON(t, got, want.Entries)
		})
	}
}

func TestVectorsCoerce(t *testing.T) {
	t.Parallel()
	for v := range catalogtest.Vectors(t, "coerce.jsonl") {
		t.Run(v.ID, func(t *testing.T) {
			var given struct{ Parameters, Arguments json.RawMessage }
			var want struct{ Arguments json.RawMessage }
			v.DecodeGiven(t, &given)
			v.DecodeWant(t, &want)
			got := Coerce(given.Parameters, given.Arguments)
			compareJSON(t, got, want.Arguments)
			compareOrder(t, got, want.Arguments)
		})
	}
}

// compareOrder checks that top-level keys stand in the order of want, which is that of the arguments.
func compareOrder(t *testing.T, got, want []byte) {
	t.Helper()
	var keys [2][]string
	for i, p := range [][]byte{got, want} {
		for _, m := range parse(p).members {
			keys[i] = append(keys[i], m.key)
		}
	}
	if !slices.Equal(keys[0], keys[1]) {
		t.Errorf("keys in the order %q, want %q", keys[0], keys[1])
	}
}

func TestVectorsValidate(t *testing.T) {
	t.Parallel()
	for v := range catalogtest.Vectors(t, "validate.jsonl") {
		t.Run(v.ID, func(t *testing.T) {
			var given struct{ Tools, Parameters, Arguments json.RawMessage }
			var want struct {
				OK               bool
				Arguments        json.RawMessage
				Error, Hint      *wantText
				Path, Constraint string
			}
			v.DecodeGiven(t, &given)
			v.DecodeWant(t, &want)
			name, parameters := "mcp__v__t", given.Parameters
			if tools := v.Tools(t, given.Tools); len(tools) == 1 {
				c, err := catalog.Build(catalogtest.Array(tools), catalog.Limits{})
				if err != nil {
					t.Fatal(err)
				}
				name, parameters = c.Tool(0).Name, c.Tool(0).Parameters
			}
			got, err := Validate(name, parameters, given.Arguments)
			if want.OK {
				if err != nil {
					t.Fatal(err)
				}
				compareJSON(t, got.Arguments, want.Arguments)
				return
			}
			var refusal *Refusal
			if !errors.As(err, &refusal) {
				t.Fatalf("error %v, want a refusal", err)
			}
			want.Error.compare(t, refusal.Message)
			want.Hint.compare(t, refusal.Hint)
			if refusal.Path != want.Path || refusal.Constraint != want.Constraint {
				t.Errorf("%s at %s, want %s at %s", refusal.Constraint, refusal.Path, want.Constraint, want.Path)
			}
			if !bytes.Equal(refusal.Parameters, parameters) {
				t.Errorf("parameters %s, want them as registered", refusal.Parameters)
			}
		})
	}
}

// scopeOf grants the tools and not the withheld ones, which are of toolsets of their own. Every other one of the
// vectors' granted tools defers or not by its class.
func scopeOf(t *testing.T, tools, withheld []catalogtest.Element) *catalog.Scope {
	t.Helper()
	var enabled []string
	for _, e := range tools {
		if !slices.Contains(enabled, e.Toolset) {
			enabled = append(enabled, e.Toolset)
		}
	}
	for i := range withheld {
		if slices.Contains(enabled, withheld[i].Toolset) {
			t.Fatalf("toolset %q is both granted and withheld", withheld[i].Toolset)
		}
	}
	c, err := catalog.Build(catalogtest.Array(append(slices.Clone(tools), withheld...)), catalog.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	connectors := true // the cases resolve names, and never ask whether connectors are granted
	req := &subjects.AssembleRequest{EnabledToolsets: &enabled, Connectors: &connectors}
	s, err := catalog.NewScope(c, catalog.Owner{Tenant: "t", Session: "s"}, req, catalog.DefaultConfig(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestVectorsResolve(t *testing.T) {
	t.Parallel()
	for v := range catalogtest.Vectors(t, "resolve.jsonl") {
		t.Run(v.ID, func(t *testing.T) {
			var given struct {
				Tools, Withheld, Arguments json.RawMessage
				Name                       string
			}
			var want struct {
				Dispatch, Name   string
				Arguments, Calls json.RawMessage
				Error            *wantText
			}
			v.DecodeGiven(t, &given)
			v.DecodeWant(t, &want)
			scope := scopeOf(t, v.Tools(t, given.Tools), v.Tools(t, given.Withheld))
			if v.Op == "wrong_door" {
				want.Error.compare(t, scope.WrongDoor(given.Name))
				given.Arguments, _ = json.Marshal(map[string]any{"name": given.Name})
			}
			entries, local := resolvesTo(t, scope, given.Arguments, want.Error)
			switch want.Dispatch {
			case "local":
				if !local || len(entries) != 1 || entries[0].Name != want.Name {
					t.Fatalf("%+v, want the local tool %s", entries, want.Name)
				}
				compareJSON(t, entries[0].Arguments, want.Arguments)
			case "connectors":
				if local {
					t.Fatalf("%+v is a local tool", entries)
				}
				got, _ := subjects.Marshal(entries)
				compareJSON(t, got, want.Calls)
			}
		})
	}
}

// resolvesTo resolves a call and returns its entries. The cases look no further than the name: arguments that the
// tool's schema refuses have reached the right tool too.
func resolvesTo(t *testing.T, s *catalog.Scope, arguments json.RawMessage, want *wantText) (entries []Entry, local bool) {
	t.Helper()
	plan, err := Resolve(s, arguments)
	if want != nil {
		compareError(t, err, want)
		return nil, false
	}
	var refusal *Refusal
	if errors.As(err, &refusal) {
		entries, err = Normalise(arguments)
		return entries, err == nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return plan.Entries, plan.Kind != Connectors
}
