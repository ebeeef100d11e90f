package dispatch

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// failure is one keyword that did not hold at one place of the arguments.
type failure struct {
	path    []string // keys and indices from the arguments down
	keyword string
	names   []string // the properties that are missing or too many
	at      string   // the URL of the schema node
	cause   *jsonschema.ValidationError
}

// picker chooses the one failure that is told. The rule, in this order:
//
//  1. the shallowest place;
//  2. anyOf and oneOf after every other keyword;
//  3. the place that comes first: keys by their bytes, indices by number;
//  4. the keyword that comes first in the text of the schema.
//
// If that is an anyOf or oneOf, the failures of its branches are looked at: the deepest place, then the first, then
// the one whose schema has the type of the value there. If one is ahead of all others it is told in the place of the
// branches, and so on down; otherwise the anyOf or oneOf itself is told.
//
// A value of the wrong type fails nothing else in the library. Where an enum or a const that it fails as well stands
// before type in the schema, that is told in its place, since it says more; in a branch the two are no lead.
type picker struct {
	schema    *value
	arguments any
	// endless is set when a reference ran in a circle; then nothing that the library says can be relied on.
	endless bool
}

func (p *picker) pick(tree *jsonschema.ValidationError) (failure, bool) {
	var best *failure
	p.each(tree, nil, func(f failure) {
		if best == nil || p.before(f, *best) {
			best = &f
		}
	})
	if best == nil || p.endless {
		return failure{}, false
	}
	chosen := p.descend(*best)
	p.preferValues(&chosen)
	return chosen, !p.endless
}

// each visits the failures of a tree. Groups, references and allOf are only the way to them.
func (p *picker) each(e *jsonschema.ValidationError, base []string, visit func(failure)) {
	f := failure{path: e.InstanceLocation, at: e.SchemaURL, cause: e}
	if base != nil {
		f.path = base
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		for _, cause := range e.Causes {
			p.each(cause, base, visit)
		}
		return
	case *kind.PropertyNames:
		// A name was validated as a value of its own; the place is the object that has it.
		for _, cause := range e.Causes {
			p.each(cause, append([]string{}, f.path...), visit)
		}
		return
	case *kind.RefCycle, *kind.InvalidJsonValue:
		p.endless = true
		return
	case *kind.FalseSchema:
		f.falseSchema()
	case *kind.Required:
		f.keyword, f.names = "required", k.Missing
	case *kind.AdditionalProperties:
		f.keyword, f.names = "additionalProperties", slices.Sorted(slices.Values(k.Properties))
	case *kind.DependentRequired:
		f.keyword, f.names = "dependentRequired", k.Missing
	case *kind.Dependency:
		f.keyword, f.names = "dependencies", k.Missing
	case *kind.Not:
		f.keyword = "not"
	case *kind.ExclusiveMinimum:
		f.keyword = p.bound(f, "exclusiveMinimum", "minimum")
	case *kind.ExclusiveMaximum:
		f.keyword = p.bound(f, "exclusiveMaximum", "maximum")
	default:
		f.keyword = strings.Join(e.ErrorKind.KeywordPath(), ".")
	}
	visit(f)
}

// bound names the keyword of an exclusive bound. In draft 4 exclusive is a boolean beside the bound, which is what
// fails.
func (p *picker) bound(f failure, exclusive, plain string) string {
	if v := p.schema.at(f.pointer()).get(exclusive); v != nil && v.kind == kindTrue {
		return plain
	}
	return exclusive
}

// falseSchema names the keyword under which a schema is just false. The unevaluated and additional ones speak of the
// value that has too much, not of what is too much.
func (f *failure) falseSchema() {
	tokens := strings.Split(f.pointer(), "/")
	last := len(tokens) - 1
	f.keyword = tokens[last]
	switch f.keyword {
	case "unevaluatedProperties", "unevaluatedItems", "items", "additionalItems", "additionalProperties":
		if n := len(f.path); n > 0 {
			f.names, f.path = f.path[n-1:], f.path[:n-1]
		}
	default:
		if last > 1 {
			f.keyword = tokens[last-1] // properties/<name>, patternProperties/<pattern>, allOf/<n>
		}
	}
}

// pointer is the JSON pointer of the schema node.
func (f failure) pointer() string {
	_, pointer, _ := strings.Cut(f.at, "#")
	return pointer
}

func (p *picker) before(a, b failure) bool {
	return cmp.Or(
		cmp.Compare(len(a.path), len(b.path)),
		cmp.Compare(a.branching(), b.branching()),
		comparePaths(a.path, b.path),
		p.compareText(a, b),
		slices.Compare(a.names, b.names),
	) < 0
}

// branching is 1 for anyOf and oneOf.
func (f failure) branching() int {
	if f.keyword == "anyOf" || f.keyword == "oneOf" {
		return 1
	}
	return 0
}

func comparePaths(a, b []string) int {
	return slices.CompareFunc(a, b, func(x, y string) int {
		i, errX := strconv.Atoi(x)
		j, errY := strconv.Atoi(y)
		if errX == nil && errY == nil && i != j {
			return cmp.Compare(i, j)
		}
		return strings.Compare(x, y)
	})
}

// compareText orders failures by where their keywords stand in the schema's text.
func (p *picker) compareText(a, b failure) int {
	if a.at == b.at && a.keyword == b.keyword {
		return 0
	}
	return slices.Compare(p.position(a), p.position(b))
}

func (p *picker) position(f failure) []int {
	node, way := p.schema.locate(f.pointer())
	if node == nil {
		return way
	}
	if i := slices.IndexFunc(node.members, func(m member) bool { return m.key == f.keyword }); i >= 0 {
		way = append(way, i)
	}
	return way
}

// descend follows an anyOf or oneOf into its branches while one failure there is ahead of all others.
func (p *picker) descend(f failure) failure {
	for f.branching() == 1 {
		var best failure
		found, tie := false, false
		for _, branch := range f.cause.Causes {
			p.each(branch, nil, func(g failure) {
				order := 1
				if found {
					order = p.compareBranches(g, best)
				}
				switch {
				case !found || order < 0:
					best, found, tie = g, true, len(g.names) > 1 && g.keyword != "additionalProperties"
				case order == 0:
					tie = true
				}
			})
		}
		if _, another := p.otherThanType(best); !found || tie || another {
			return f
		}
		f = best
	}
	return f
}

// compareBranches orders failures of branches: see [picker]. It has no tie breaker, since a tie means that no branch
// is clearly the one that was meant.
func (p *picker) compareBranches(a, b failure) int {
	return cmp.Or(
		-cmp.Compare(len(a.path), len(b.path)),
		comparePaths(a.path, b.path),
		cmp.Compare(b.branching(), a.branching()),
		cmp.Compare(p.mistyped(a), p.mistyped(b)),
	)
}

// mistyped is 0 if the schema of a failure names the type of the value there.
func (p *picker) mistyped(f failure) int {
	node := p.schema.at(f.pointer())
	if node == nil {
		return 1
	}
	t := node.get("type")
	if t == nil {
		return 1
	}
	words := t.strings()
	if t.kind == kindString {
		words = []string{t.text}
	}
	v, ok := at(p.arguments, f.path)
	if !ok {
		return 1
	}
	for _, word := range words {
		if isType(v, word) {
			return 0
		}
	}
	return 1
}

// preferValues tells an enum or a const that fails in the place of a type that comes after it.
func (p *picker) preferValues(f *failure) {
	if keyword, ok := p.otherThanType(*f); ok && p.compareText(failure{at: f.at, keyword: keyword}, *f) < 0 {
		f.keyword = keyword
	}
}

// otherThanType is the enum or the const, the first of them, that a value of the wrong type fails as well.
func (p *picker) otherThanType(f failure) (keyword string, fails bool) {
	if f.keyword != "type" {
		return "", false
	}
	node := p.schema.at(f.pointer())
	if node == nil {
		return "", false
	}
	v, _ := at(p.arguments, f.path)
	for _, m := range node.members {
		switch {
		case m.key == "const" && !m.value.equals(v),
			m.key == "enum" && !slices.ContainsFunc(m.value.items, func(item *value) bool { return item.equals(v) }):
			return m.key, true
		}
	}
	return "", false
}
