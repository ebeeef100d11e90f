package catalog

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// WrongDoor is the answer to a name that the bridge cannot reach in this scope: what is wrong with it and what to do
// instead. The name is as the model wrote it; a name of [Scope.Deferred] has no wrong door.
//
// What was not granted is never proposed. That it exists is told only to who names it exactly.
func (s *Scope) WrongDoor(name string) string {
	name = strings.TrimSpace(name)
	if s.elsewhere(name) {
		return textOutOfScope(name)
	}
	folded := foldName(name)
	if spelled := s.spelledLike(s.deferred, folded); len(spelled) > 0 {
		return textUnknown(name, spelled)
	}
	if s.hidden(folded) {
		return textNotOffered(folded)
	}
	if IsBridge(folded) || folded == ManageConnections && s.suppliesConnections() {
		return textDirect(folded)
	}
	if spelled := s.spelledLike(s.visible, folded); len(spelled) > 0 {
		return textDirect(s.direct(spelled, name, folded))
	}
	if s.known(folded) {
		return textNotOffered(folded)
	}
	return textUnknown(name, s.endingIn(name, folded))
}

// elsewhere reports a tool that would be deferred, had it been granted: one of the catalog, or one that only the defer
// list knows.
func (s *Scope) elsewhere(name string) bool {
	toolset := ""
	if i, ok := s.catalog.Lookup(name); ok {
		if s.grants(i) {
			return false
		}
		toolset = s.catalog.tools[i].Toolset
	}
	return newDeferral(s.config, s.core).defers(name, toolset)
}

// known reports a name of the core list or of the catalog, granted or not.
func (s *Scope) known(name string) bool {
	core := s.core
	if core == nil {
		core = coreTools
	}
	_, ok := s.catalog.Lookup(name)
	return ok || slices.Contains(core, name)
}

// spelledLike lists the tools of a set whose names are this one in some spelling, sorted.
func (s *Scope) spelledLike(set *Set, folded string) []string {
	return s.named(set, func(name string) bool { return sameFolded(name, folded) })
}

// endingIn lists the deferred tools whose last part is the name, sorted; in some other spelling where none has it
// exactly.
func (s *Scope) endingIn(name, folded string) []string {
	if name == "" {
		return nil
	}
	suffix := "__" + name
	exact := s.named(s.deferred, func(full string) bool { return strings.HasSuffix(full, suffix) })
	if len(exact) > 0 {
		return exact
	}
	return s.named(s.deferred, func(full string) bool {
		// Folding may change the length in bytes, so the part is found from its separator on.
		for from := 0; ; {
			at := strings.Index(full[from:], "__")
			if at < 0 {
				return false
			}
			from += at + len("__")
			if sameFolded(full[from:], folded) {
				return true
			}
		}
	})
}

func (s *Scope) named(set *Set, match func(string) bool) []string {
	var names []string
	for i := range set.All() {
		if name := s.catalog.tools[i].Name; match(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// direct picks among the tools in view that are spelled like a name: itself, its folded spelling, or the first.
func (s *Scope) direct(spelled []string, name, folded string) string {
	for _, want := range [...]string{name, folded} {
		if slices.Contains(spelled, want) {
			return want
		}
	}
	return spelled[0]
}

// foldName is a name without the differences in spelling that models make: case, and hyphens or spaces for underscores.
func foldName(name string) string {
	return strings.Map(foldRune, strings.TrimSpace(name))
}

func foldRune(r rune) rune {
	if r == '-' || r == ' ' {
		return '_'
	}
	return unicode.ToLower(r)
}

// sameFolded reports whether a name folds to what was folded already, without folding it first.
func sameFolded(name, folded string) bool {
	for _, r := range name {
		f, n := utf8.DecodeRuneInString(folded)
		if n == 0 || foldRune(r) != f {
			return false
		}
		folded = folded[n:]
	}
	return folded == ""
}
