package dispatch

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
)

// tickFormat is the value of "format" in every rewritten schema. Formats are not asserted: the library's check of this
// one counts the steps of a validation instead (see checker).
const tickFormat = "toolsearch-step"

// The reasons why a schema is not used for validation.
var (
	errOutside   = errors.New("the schema refers outside itself")
	errDialect   = errors.New("the schema's dialect is not supported")
	errPattern   = errors.New("the schema has a pattern that cannot be used here")
	errNoPattern = errors.New("the schema has a pattern that is no regular expression")
	errFormat    = errors.New("the schema has a format that is no text")
	errBound     = errors.New("the schema has a bound that is beyond all floating-point numbers")
)

// literals are the keywords whose values are data, whatever they look like, and the objects that hold no schemas.
var literals = []string{
	"const", "default", "enum", "example", "examples", "required", "type", "dependentRequired", "$vocabulary",
}

// namedSchemas are the keywords whose values map names of the author's choice to schemas.
var namedSchemas = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}

// counts are the keywords that bound a size, magnitudes those that bound a number.
var (
	counts = []string{
		"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains",
	}
	magnitudes = []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
)

// negations are the keywords below which a weaker schema can refuse more.
var negations = []string{"not", "oneOf", "if", "contains"}

// rewriter makes the copy of a schema that is compiled:
//
//   - OpenAPI's nullable is removed; where it was true, the type gains null, or, where there is none, the node becomes
//     {"anyOf": [node, {"type": "null"}]}. In const, default, enum, example and examples nothing is touched.
//   - format becomes the step counter.
//   - What a draft does not know it does not assert: dependencies went with 2019-09. What drafts 6 and 7 do not mind, a
//     value that is twice in an enum, is there once.
//   - A pattern of ECMA that Go's linear-time engine lacks (look-around, back references) is dropped, and the rest
//     still holds. Where that could refuse a valid call, under a negation, the schema is not used at all, and neither
//     is one with a pattern that is none in any dialect: it is malformed.
//   - A size beyond any that there can be becomes the largest one that the library can hold. A bound that no float holds
//     means nothing: the schema is not used at all.
//   - A dialect that is not known counts as 2020-12.
type rewriter struct {
	dropped    bool // a pattern was dropped
	negatedRef bool // a reference stands below a negation
	draft      int  // 4, 6, 7, or 2019 for that and what came after it
	err        error
	enumerated int // the cost of comparing a value with those of all enums
}

// rewrite returns the copy of a root schema, or why it cannot be used.
func (r *rewriter) rewrite(root *value) (*value, error) {
	copied := *root
	copied.members = slices.DeleteFunc(slices.Clone(root.members), func(m member) bool {
		// At the root there is no place for null: arguments are an object.
		return m.key == "nullable" || m.key == "$schema" && m.value.kind == kindString && unknownDialect(m.value.text)
	})
	if oldDialect(root.str("$schema")) {
		return nil, errDialect
	}
	r.draft = draft(root.str("$schema"))
	out := r.schema(&copied, false)
	if r.err == nil && r.dropped && r.negatedRef {
		r.err = errPattern
	}
	return out, r.err
}

// dialects are the ones that the library knows, without scheme and empty fragment.
var dialects = []string{
	"json-schema.org/schema", "json-schema.org/draft/2020-12/schema", "json-schema.org/draft/2019-09/schema",
	"json-schema.org/draft-07/schema", "json-schema.org/draft-06/schema", "json-schema.org/draft-04/schema",
}

func unknownDialect(uri string) bool { return !slices.Contains(dialects, dialectName(uri)) }

// oldDialect is draft 3 or before, in which required is a boolean of the property: not the default dialect at all.
func oldDialect(uri string) bool {
	name := dialectName(uri)
	return name == "json-schema.org/draft-03/schema" || name == "json-schema.org/draft-02/schema"
}

// draft is the draft that a dialect is of.
func draft(uri string) int {
	switch dialectName(uri) {
	case "json-schema.org/draft-04/schema":
		return 4
	case "json-schema.org/draft-06/schema":
		return 6
	case "json-schema.org/draft-07/schema":
		return 7
	}
	return 2019
}

func dialectName(uri string) string {
	uri = strings.TrimSuffix(uri, "#")
	if _, rest, ok := strings.Cut(uri, "://"); ok {
		return rest
	}
	return uri
}

// schema rewrites one node. What is no object is left: the compiler judges it.
func (r *rewriter) schema(v *value, negated bool) *value {
	if v.kind != kindObject || r.err != nil {
		return v
	}
	out := &value{kind: kindObject, members: make([]member, 0, len(v.members)+1)}
	nullable := false
	for _, m := range v.members {
		switch {
		case m.key == "nullable":
			nullable = m.value.kind == kindTrue
		case m.key == "format":
			if m.value.kind != kindString {
				r.err = errFormat
			}
		case m.key == "dependencies" && r.draft == 2019:
			r.keyword(m, negated) // for a reference that leads outside
		case m.key == "$schema" && m.value.kind == kindString && unknownDialect(m.value.text):
		case m.key == "pattern" && m.value.kind == kindString && r.unusable(m.value.text, negated):
		default:
			out.members = append(out.members, member{m.key, r.keyword(m, negated)})
		}
	}
	if len(out.members) == 0 && !nullable {
		return out // {} is true, and cheaper than a step
	}
	if nullable && out.get("type") != nil {
		out.allowNull()
		nullable = false
	}
	out.members = append(out.members, member{"format", &value{kind: kindString, text: tickFormat}})
	if nullable {
		return orNull(out)
	}
	return out
}

// keyword rewrites the value of one keyword.
func (r *rewriter) keyword(m member, negated bool) *value {
	v := m.value
	negated = negated || slices.Contains(negations, m.key)
	switch {
	case m.key == "enum":
		if r.draft == 6 || r.draft == 7 {
			v = withoutRepeats(v)
		}
		for _, item := range v.items {
			r.enumerated += comparisonCost(item)
		}
		return v
	case slices.Contains(literals, m.key):
		return v
	case v.kind == kindNumber && (slices.Contains(counts, m.key) || slices.Contains(magnitudes, m.key)):
		return r.bound(m)
	case m.key == "$ref" || m.key == "$dynamicRef" || m.key == "$recursiveRef":
		if v.kind == kindString && !strings.HasPrefix(v.text, "#") {
			r.err = errOutside
		}
		r.negatedRef = r.negatedRef || negated
		return v
	case slices.Contains(namedSchemas, m.key) && v.kind == kindObject:
		out := &value{kind: kindObject, members: make([]member, len(v.members))}
		for i, named := range v.members {
			if m.key == "patternProperties" && patternFault(named.key) != nil {
				r.err = errPattern // without it additionalProperties would refuse what it allows
			}
			out.members[i] = member{named.key, r.schema(named.value, negated)}
		}
		return out
	case v.kind == kindArray:
		out := &value{kind: kindArray, items: make([]*value, len(v.items))}
		for i, item := range v.items {
			out.items[i] = r.schema(item, negated)
		}
		return out
	}
	return r.schema(v, negated)
}

// bound rewrites the number of a keyword that bounds.
func (r *rewriter) bound(m member) *value {
	f, err := strconv.ParseFloat(m.value.text, 64)
	switch {
	case err != nil:
		r.err = errBound
	case f >= math.MaxInt64 && slices.Contains(counts, m.key):
		return &value{kind: kindNumber, text: strconv.Itoa(math.MaxInt)}
	}
	return m.value
}

// withoutRepeats is an array with the first of equal texts only.
func withoutRepeats(v *value) *value {
	seen := make(map[string]bool, len(v.items))
	out := *v
	out.items = nil
	for _, item := range v.items {
		if text := string(item.append(nil)); !seen[text] {
			seen[text] = true
			out.items = append(out.items, item)
		}
	}
	return &out
}

// comparisonCost weighs the comparison of a value: numbers are compared as exact fractions, the rest at once or soon.
func comparisonCost(v *value) int {
	switch v.kind {
	case kindNumber:
		return 50
	case kindArray, kindObject:
		return 10 + len(v.items) + len(v.members)
	}
	return 1
}

// unusable reports whether a pattern is left out, and notes where the schema cannot be used without it.
func (r *rewriter) unusable(pattern string, negated bool) bool {
	fault := patternFault(pattern)
	if fault == nil {
		return false
	}
	r.dropped = true
	if negated || errors.Is(fault, errNoPattern) {
		r.err = fault
	}
	return true
}

// allowNull adds null to the type of a node.
func (v *value) allowNull() {
	null := &value{kind: kindString, text: "null"}
	for i, m := range v.members {
		if m.key != "type" {
			continue
		}
		switch {
		case m.value.kind == kindString && m.value.text != "null":
			v.members[i].value = &value{kind: kindArray, items: []*value{m.value, null}}
		case m.value.kind == kindArray && !slices.Contains(m.value.strings(), "null"):
			v.members[i].value = &value{kind: kindArray, items: append(slices.Clone(m.value.items), null)}
		}
	}
}

// withoutTicks is a rewritten value as it can be shown: without the step counter, which is no author's.
func withoutTicks(v *value) *value {
	out := *v
	out.items = make([]*value, len(v.items))
	for i, item := range v.items {
		out.items[i] = withoutTicks(item)
	}
	out.members = make([]member, 0, len(v.members))
	for _, m := range v.members {
		if m.key != "format" || m.value.text != tickFormat {
			out.members = append(out.members, member{m.key, withoutTicks(m.value)})
		}
	}
	return &out
}

// orNull is {"anyOf": [v, {"type": "null"}]}.
func orNull(v *value) *value {
	null := &value{kind: kindObject, members: []member{{"type", &value{kind: kindString, text: "null"}}}}
	branches := &value{kind: kindArray, items: []*value{v, null}}
	return &value{kind: kindObject, members: []member{{"anyOf", branches}}}
}
