package dispatch

import (
	"slices"
	"strconv"
	"strings"
)

// shape is what coercion needs to know of one schema: a view with local references followed.
type shape struct {
	one  string   // type, where it is one word
	many []string // type, where it is a list of words
	// null, array and object say what is accepted, by the type, by nullable or by any branch.
	null, array, object bool
	// demands says that the schema names required properties.
	demands    bool
	properties map[string]*shape
	// visible maps the spelling under which a provider shows a property to the property's own name.
	visible map[string]string
	items   *shape
}

// idle reports whether no value below this schema is ever changed.
func (s *shape) idle() bool {
	return s == nil || s.properties == nil && s.items == nil && !s.array && !s.object
}

// shapes builds the view of a schema, each node once: a schema that contains itself gives a shape that does so too.
type shapes struct {
	root *value
	made map[*value]*shape
}

func newShape(root *value) *shape {
	b := shapes{root: root, made: map[*value]*shape{}}
	return b.of(root)
}

// of returns the shape of a schema; nil for a boolean, an empty object and anything that is no schema.
func (b *shapes) of(v *value) *shape {
	if v == nil || v.kind != kindObject || len(v.members) == 0 {
		return nil
	}
	if s, ok := b.made[v]; ok {
		return s
	}
	s := &shape{}
	b.made[v] = s
	chain := b.follow(v)
	switch t := first(chain, "type"); {
	case t == nil:
	case t.kind == kindString:
		s.one = t.text
	default:
		s.many = t.strings()
	}
	s.null = b.allowsNull(v)
	s.array, s.object = b.accepts(v, "array", map[*value]bool{}), b.accepts(v, "object", map[*value]bool{})
	if r := first(chain, "required"); r != nil {
		s.demands = len(r.items) > 0
	}
	if p := first(chain, "properties"); p != nil && p.kind == kindObject {
		s.properties = make(map[string]*shape, len(p.members))
		for _, m := range p.members {
			s.properties[m.key] = b.of(m.value)
		}
		s.visible = visibleKeys(p.members)
	}
	s.items = b.of(first(chain, "items"))
	return s
}

// maxReferences is how many references are followed one after the other, maxBranches how many branches are searched
// for an accepted type.
const (
	maxReferences = 32
	maxBranches   = 256
)

// follow returns the schema and those that its reference leads to, one after the other. An outside or dangling
// reference and a circle end the chain.
func (b *shapes) follow(v *value) []*value {
	chain := []*value{v}
	for len(chain) <= maxReferences {
		ref := chain[len(chain)-1].str("$ref")
		if ref == "" {
			break
		}
		next := b.root.resolve(ref)
		if next == nil || next.kind != kindObject || slices.Contains(chain, next) {
			break
		}
		chain = append(chain, next)
	}
	return chain
}

// first returns a keyword's value in the first schema of a chain that has it.
func first(chain []*value, keyword string) *value {
	for _, v := range chain {
		if k := v.get(keyword); k != nil {
			return k
		}
	}
	return nil
}

// accepts reports whether a schema admits a type by its own type or by any branch; seen are the nodes looked at.
func (b *shapes) accepts(v *value, word string, seen map[*value]bool) bool {
	if v.kind != kindObject || seen[v] || len(seen) >= maxBranches {
		return false
	}
	seen[v] = true
	chain := b.follow(v)
	if first(chain, "type").names(word) {
		return true
	}
	for _, keyword := range []string{"anyOf", "oneOf", "allOf"} {
		if branches := first(chain, keyword); branches != nil {
			for _, branch := range branches.items {
				if b.accepts(branch, word, seen) {
					return true
				}
			}
		}
	}
	return false
}

// names reports whether the value of type, one word or a list, has a word.
func (v *value) names(word string) bool {
	return v != nil && (v.kind == kindString && v.text == word || slices.Contains(v.strings(), word))
}

// allowsNull reports whether a schema admits null by its type, by OpenAPI's nullable or by a branch that is just null.
func (b *shapes) allowsNull(v *value) bool {
	chain := b.follow(v)
	if first(chain, "type").names("null") {
		return true
	}
	if n := first(chain, "nullable"); n != nil && n.kind == kindTrue {
		return true
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		if branches := first(chain, keyword); branches != nil {
			for _, branch := range branches.items {
				if branch.kind == kindObject {
					if t := first(b.follow(branch), "type"); t != nil && t.text == "null" {
						return true
					}
				}
			}
		}
	}
	return false
}

// maxVisibleKey is the longest property name that every provider takes.
const maxVisibleKey = 64

// visibleKeys maps the spellings under which providers show properties, 1 to 64 of A-Z a-z 0-9 _ . -, to the
// properties whose own name is not of that form; nil if all are. Two that would look alike are told apart by _2, _3.
func visibleKeys(properties []member) map[string]string {
	var visible map[string]string
	taken := make(map[string]bool, len(properties))
	for _, m := range properties {
		if safeKey(m.key) {
			taken[m.key] = true
		}
	}
	for _, m := range properties {
		if safeKey(m.key) {
			continue
		}
		base := visibleKey(m.key)
		key := base
		for n := 2; taken[key]; n++ {
			suffix := "_" + strconv.Itoa(n)
			key = base[:min(len(base), maxVisibleKey-len(suffix))] + suffix
		}
		taken[key] = true
		if visible == nil {
			visible = map[string]string{}
		}
		visible[key] = m.key
	}
	return visible
}

func safeKey(key string) bool {
	return key != "" && len(key) <= maxVisibleKey && strings.IndexFunc(key, unsafeRune) < 0
}

// visibleKey replaces what is not safe in a key and cuts it.
func visibleKey(key string) string {
	key = strings.Map(func(r rune) rune {
		if unsafeRune(r) {
			return '_'
		}
		return r
	}, key)
	if key == "" {
		return "param"
	}
	return key[:min(len(key), maxVisibleKey)]
}

func unsafeRune(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '.', r == '-':
		return false
	}
	return true
}
