package catalog

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"toolsearch/subjects"
)

// The forms of a listing, from the richest to none. Mixed and names may keep the full blocks of small groups.
const (
	FormFull   = "full"   // every tool with its short description
	FormNames  = "names"  // every tool by name
	FormMixed  = "mixed"  // some groups by name, the largest in one line each
	FormGroups = "groups" // one line per group, or one line for all of them
	FormNone   = "none"   // no listing
)

const (
	charsPerToken     = 4
	shortDescription  = 60 // characters, the ellipsis not counted
	listingHeader     = "Deferred tools (read with `tool_describe`, run with `tool_call`):"
	blockLineOverhead = len("\n- ")
	describedOverhead = len(": ")
	namesSeparator    = ", "
)

// listedTool is one line of a full block.
type listedTool struct{ name, short string }

// listedGroup is what one label contributes: its tools, or the sentence that says why they are out of reach.
type listedGroup struct {
	label       string
	tools       []listedTool
	unavailable string // a finished line; then tools is empty

	fullChars, namesChars, summaryChars int // of the block in each form
	form                                string
}

// chars is the length of the group's block in its present form.
func (g *listedGroup) chars() int {
	switch g.form {
	case FormFull:
		return g.fullChars
	case FormNames:
		return g.namesChars
	}
	return g.summaryChars
}

// listing is the listing of a scope's deferred tools: the form that was chosen and its text, empty for none.
type listing struct{ form, text string }

// newListing fits the groups into a budget of tokens, in the richest form that does. forced takes the full form
// whatever the budget. Groups may come in any order, with their tools in any order.
func newListing(groups []*listedGroup, unavailable []subjects.UnavailableSource, budget int, forced bool) listing {
	rows, tools := listedRows(groups, unavailable)
	if len(rows) == 0 {
		return listing{form: FormNone}
	}
	room := budget * charsPerToken
	switch {
	case forced || setForms(rows, FormFull) <= room:
		setForms(rows, FormFull)
		return listing{FormFull, render(rows)}
	case setForms(rows, FormNames) <= room:
		describeSmall(rows, room)
		return listing{FormNames, render(rows)}
	}
	if form := summariseLarge(rows, room); form != FormNone {
		if form == FormMixed {
			describeSmall(rows, room)
		}
		return listing{form, render(rows)}
	}
	if line := textListingTotals(len(groups), tools); len(groups) > 0 && runeLen(line) <= room {
		return listing{FormGroups, line}
	}
	return listing{form: FormNone}
}

// listedRows orders the groups and the unavailable sources by label, measures them, and counts the tools. An
// available group wins over an unavailable source of the same label.
func listedRows(groups []*listedGroup, unavailable []subjects.UnavailableSource) (rows []*listedGroup, tools int) {
	rows = make([]*listedGroup, 0, len(groups)+len(unavailable))
	labels := make(map[string]bool, len(groups))
	for _, g := range groups {
		labels[g.label] = true
		g.measure()
		rows = append(rows, g)
		tools += len(g.tools)
	}
	for _, u := range unavailable {
		if !labels[u.Name] {
			row := &listedGroup{label: u.Name, unavailable: unavailableLine(u)}
			row.measure()
			rows = append(rows, row)
		}
	}
	slices.SortStableFunc(rows, func(a, b *listedGroup) int { return strings.Compare(a.label, b.label) })
	return rows, tools
}

// measure sorts the group's tools and finds the length of its block in each form.
func (g *listedGroup) measure() {
	if g.unavailable != "" {
		n := runeLen(g.unavailable)
		g.fullChars, g.namesChars, g.summaryChars = n, n, n
		return
	}
	byName := func(a, b listedTool) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.short, b.short))
	}
	if !slices.IsSortedFunc(g.tools, byName) {
		slices.SortFunc(g.tools, byName)
	}
	header := runeLen(g.header())
	g.fullChars, g.namesChars = header, header+1
	for i, t := range g.tools {
		name := runeLen(t.name)
		g.fullChars += blockLineOverhead + name
		if t.short != "" {
			g.fullChars += describedOverhead + runeLen(t.short)
		}
		g.namesChars += name
		if i > 0 {
			g.namesChars += len(namesSeparator)
		}
	}
	g.summaryChars = runeLen(g.summary())
}

// setForms puts every row into one form and returns the length of the whole text.
func setForms(rows []*listedGroup, form string) (chars int) {
	chars = runeLen(listingHeader)
	for _, g := range rows {
		g.form = form
		chars += 1 + g.chars()
	}
	return chars
}

// summariseLarge turns groups from names to one line each, the longest first, until the text fits. It returns the
// form that fits: mixed, groups where no group kept its names, or none.
func summariseLarge(rows []*listedGroup, room int) string {
	chars := setForms(rows, FormNames)
	open := groupsOnly(rows)
	slices.SortStableFunc(open, func(a, b *listedGroup) int { return cmp.Compare(b.namesChars, a.namesChars) })
	for i, g := range open {
		chars += g.summaryChars - g.namesChars
		g.form = FormGroups
		if chars > room {
			continue
		}
		if i == len(open)-1 {
			return FormGroups
		}
		return FormMixed
	}
	return FormNone
}

// describeSmall spends what is left of the budget on descriptions, one whole group at a time, the cheapest first.
func describeSmall(rows []*listedGroup, room int) {
	left := room - runeLen(listingHeader)
	for _, g := range rows {
		left -= 1 + g.chars()
	}
	named := slices.DeleteFunc(groupsOnly(rows), func(g *listedGroup) bool { return g.form != FormNames })
	price := func(g *listedGroup) int { return g.fullChars - g.namesChars }
	slices.SortStableFunc(named, func(a, b *listedGroup) int { return cmp.Compare(price(a), price(b)) })
	for _, g := range named {
		if price(g) > left {
			return
		}
		left -= price(g)
		g.form = FormFull
	}
}

// groupsOnly is the rows that have tools, in a slice of its own.
func groupsOnly(rows []*listedGroup) []*listedGroup {
	out := make([]*listedGroup, 0, len(rows))
	for _, g := range rows {
		if g.unavailable == "" {
			out = append(out, g)
		}
	}
	return out
}

// render writes the header and the blocks, one line feed between them.
func render(rows []*listedGroup) string {
	var b strings.Builder
	b.WriteString(listingHeader)
	for _, g := range rows {
		b.WriteByte('\n')
		g.render(&b)
	}
	return b.String()
}

func (g *listedGroup) render(b *strings.Builder) {
	switch {
	case g.unavailable != "":
		b.WriteString(g.unavailable)
	case g.form == FormFull:
		b.WriteString(g.header())
		for _, t := range g.tools {
			b.WriteString("\n- ")
			b.WriteString(t.name)
			if t.short != "" {
				b.WriteString(": ")
				b.WriteString(t.short)
			}
		}
	case g.form == FormNames:
		b.WriteString(g.header())
		b.WriteByte('\n')
		for i, t := range g.tools {
			if i > 0 {
				b.WriteString(namesSeparator)
			}
			b.WriteString(t.name)
		}
	default:
		b.WriteString(g.summary())
	}
}

func (g *listedGroup) header() string {
	return g.label + " tools (" + strconv.Itoa(len(g.tools)) + "):"
}

func (g *listedGroup) summary() string {
	return g.label + " (" + strconv.Itoa(len(g.tools)) + " tools — names not listed; discover via `tool_search`)"
}

// unavailableLine tells of a declared server whose tools cannot be reached.
func unavailableLine(u subjects.UnavailableSource) string {
	count := ""
	if u.ToolCount != nil {
		count = strconv.Itoa(*u.ToolCount) + " "
	}
	return u.Name + " (" + count + "tools unavailable: " + oneLine(u.Reason) + ")"
}

// oneLine collapses every run of white space to one space and trims the ends.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// ShortDescription is the first sentence of a description on one line, at most 60 characters and then an ellipsis.
// A sentence ends with . ! or ? before white space or the end, unless "e.g", "i.e" or "etc" stands right before it.
func ShortDescription(text string) string {
	// A longer text is cut anyway, so no more of it than this is ever read.
	line := make([]rune, 0, shortDescription+1)
	gap := false
	for _, r := range text {
		if unicode.IsSpace(r) {
			gap = len(line) > 0
			if gap && endsSentence(line) {
				break
			}
			continue
		}
		if gap && len(line) < shortDescription {
			line = append(line, ' ')
		}
		gap = false
		if len(line) == shortDescription {
			return cutSentence(line)
		}
		line = append(line, r)
	}
	return string(line)
}

// endsSentence reports whether the line ends with a mark that closes a sentence, given that white space follows.
func endsSentence(line []rune) bool {
	last := len(line) - 1
	if mark := line[last]; mark != '.' && mark != '!' && mark != '?' {
		return false
	}
	for _, short := range []string{"e.g", "i.e", "etc"} {
		start := last - len(short)
		if start >= 0 && string(line[start:last]) == short && (start == 0 || !wordRune(line[start-1])) {
			return false
		}
	}
	return true
}

// cutSentence ends a line that is too long at its last space, without the punctuation before that.
func cutSentence(line []rune) string {
	s := string(line)
	if i := strings.LastIndexByte(s, ' '); i >= 0 {
		s = s[:i]
	}
	return strings.TrimRight(s, ",;: ") + "…"
}

func wordRune(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) }
