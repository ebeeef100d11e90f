package connectors

import (
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"

	"toolsearch/catalog"
)

// Name is a connector tool's name taken apart. Case and spaces are kept as they came.
type Name struct {
	Connector string // such as "gmail"
	Tool      string // such as "SEND_EMAIL"; may itself hold "__"
}

// IsName reports whether s belongs to a connector at all. A malformed connector name is one too: it is answered as a
// connector's, never as a local tool's.
func IsName(s string) bool { return strings.HasPrefix(s, catalog.ConnectorPrefix) }

// ParseName takes connectors__<connector>__<tool> apart. The name is cut at the first two "__" only, so a tool may
// hold more of them; both parts must be non-empty.
func ParseName(s string) (Name, bool) {
	rest, ok := strings.CutPrefix(s, catalog.ConnectorPrefix)
	if !ok {
		return Name{}, false
	}
	connector, tool, ok := strings.Cut(rest, "__")
	if !ok || connector == "" || tool == "" {
		return Name{}, false
	}
	return Name{Connector: connector, Tool: tool}, true
}

// FormatName composes the name that a model sees from a connector and a gateway's slug: one leading
// UPPER(connector)_ of the slug is dropped. Two slugs may give one name, and a slug that is nothing but that prefix
// gives a name that does not parse.
func FormatName(connector, slug string) string {
	tool := strings.TrimPrefix(slug, upper(connector)+"_")
	return catalog.ConnectorPrefix + connector + "__" + tool
}

// String is the name as a model writes it. Unlike [FormatName] it drops nothing, so it is the inverse of [ParseName].
func (n Name) String() string { return catalog.ConnectorPrefix + n.Connector + "__" + n.Tool }

// Slugs are the two gateway slugs that the name may stand for, in the order in which they are tried: prefixed with the
// connector in capitals, then the literal one.
func (n Name) Slugs() [2]string { return [2]string{upper(n.Connector) + "_" + n.Tool, n.Tool} }

// upper is full Unicode upper-casing: "ß" becomes "SS", which strings.ToUpper does not do.
func upper(s string) string {
	if ascii(s) {
		return strings.ToUpper(s)
	}
	return cases.Upper(language.Und).String(s)
}

// lower is full Unicode lower-casing.
func lower(s string) string {
	if ascii(s) {
		return strings.ToLower(s)
	}
	return cases.Lower(language.Und).String(s)
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
