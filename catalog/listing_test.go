package catalog

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"toolsearch/catalog/catalogtest"
	"toolsearch/subjects"
)

func TestShortDescriptionVectors(t *testing.T) {
	t.Parallel()
	runVectors(t, "short_desc.jsonl", "short_desc", func(t *testing.T, v catalogtest.Vector) {
		var given, want struct{ Text string }
		v.DecodeGiven(t, &given)
		v.DecodeWant(t, &want)
		requireEqual(t, "short description", want.Text, ShortDescription(given.Text))
	})
}

// shortDescriptionPlainly is the rule word for word, without regard to what it costs.
func shortDescriptionPlainly(text string) string {
	line := strings.Join(strings.Fields(text), " ")
	for i, r := range line {
		if !strings.ContainsRune(".!?", r) || i+1 < len(line) && line[i+1] != ' ' {
			continue
		}
		abbreviated := false
		for _, short := range []string{"e.g", "i.e", "etc"} {
			before, ok := strings.CutSuffix(line[:i], short)
			runes := []rune(before)
			abbreviated = abbreviated || ok && (len(runes) == 0 || !wordRune(runes[len(runes)-1]))
		}
		if !abbreviated {
			line = line[:i+1]
			break
		}
	}
	runes := []rune(line)
	if len(runes) <= 60 {
		return line
	}
	cut := string(runes[:60])
	if i := strings.LastIndex(cut, " "); i >= 0 {
		cut = cut[:i]
	}
	return strings.TrimRight(cut, ",;: ") + "…"
}

func TestShortDescriptionIsTheRule(t *testing.T) {
	t.Parallel()
	piece := rapid.SampledFrom([]string{"a", "word", "etc", "e.g", "i.e", ".", "!", "?", " ", "\n", "\u00a0", ",", ";", "é", "日本", "_", strings.Repeat("x", 20), strings.Repeat("y ", 10)})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(piece, 0, 30).Draw(t, "pieces"), "")
		if got, want := ShortDescription(text), shortDescriptionPlainly(text); got != want {
			t.Fatalf("ShortDescription(%q) = %q, want %q", text, got, want)
		}
	})
}

func TestListingVectors(t *testing.T) {
	t.Parallel()
	runVectors(t, "listing.jsonl", "listing", func(t *testing.T, v catalogtest.Vector) {
		var given struct {
			scopeGiven
			Budget int
		}
		var want struct {
			Form              string
			Blocks            []string
			Summarised, Names []string
		}
		v.DecodeGiven(t, &given)
		v.DecodeWant(t, &want)
		got := given.scope(t, v).listing(given.Budget)
		requireEqual(t, "form", want.Form, got.form)
		if want.Form == FormNone {
			requireEqual(t, "text", "", got.text)
			return
		}
		text := readListing(t, got.text)
		if want.Blocks != nil {
			requireEqual(t, "blocks", want.Blocks, text.blocks)
		}
		if want.Summarised != nil {
			requireEqual(t, "summarised", want.Summarised, append([]string{}, text.summarised...))
		}
		if want.Names != nil {
			requireEqual(t, "names", want.Names, text.names)
		}
		if n := runeLen(got.text); n > 4*given.Budget {
			t.Errorf("%d characters for a budget of %d tokens", n, given.Budget)
		}
	})
}

// namedGroups makes groups of n tools each, all with the same description.
func namedGroups(description string, sizes map[string]int) []*listedGroup {
	var groups []*listedGroup
	for label, n := range sizes {
		g := &listedGroup{label: label}
		for i := range n {
			g.tools = append(g.tools, listedTool{fmt.Sprintf("mcp__%s__tool_%03d", label, n-i), description})
		}
		groups = append(groups, g)
	}
	return groups
}

// TestLeftoverBuysDescriptions has a small server beside a huge one: the small one keeps its full listing.
func TestLeftoverBuysDescriptions(t *testing.T) {
	t.Parallel()
	sizes := map[string]int{"huge": 900, "small": 3, "middle": 40}
	mixed := newListing(namedGroups("Does one thing well.", sizes), nil, 400, false)
	requireEqual(t, "form", FormMixed, mixed.form)
	for _, line := range []string{
		"small tools (3):\n- mcp__small__tool_001: Does one thing well.",
		"middle tools (40):\nmcp__middle__tool_001, mcp__middle__tool_002",
		"huge (900 tools — names not listed",
	} {
		if !strings.Contains(mixed.text, line) {
			t.Errorf("no %q in\n%s", line, mixed.text)
		}
	}
	names := newListing(namedGroups("Does one thing well.", map[string]int{"small": 3, "middle": 40}), nil, 330, false)
	requireEqual(t, "form", FormNames, names.form)
	if !strings.Contains(names.text, "- mcp__small__tool_001: Does") || strings.Contains(names.text, "- mcp__middle") {
		t.Errorf("want the small group alone described:\n%s", names.text)
	}
}

func TestListingOfLastResort(t *testing.T) {
	t.Parallel()
	sizes := map[string]int{}
	for i := range 50 {
		sizes[fmt.Sprintf("server-%d", i)] = 10
	}
	one := newListing(namedGroups("", sizes), nil, 20, false)
	requireEqual(t, "form", FormGroups, one.form)
	if strings.Contains(one.text, "\n") || !strings.Contains(one.text, "50 servers") || !strings.Contains(one.text, "500 tools") {
		t.Errorf("want one line with the totals, got %q", one.text)
	}
	requireEqual(t, "nothing", listing{form: FormNone}, newListing(namedGroups("", sizes), nil, 5, false))
	requireEqual(t, "forced", FormFull, newListing(namedGroups("", sizes), nil, 0, true).form)
	requireEqual(t, "no groups", listing{form: FormNone}, newListing(nil, nil, 1000, true))
}

func TestListingUnavailable(t *testing.T) {
	t.Parallel()
	three := 3
	sources := []subjects.UnavailableSource{
		{Name: "zed", Reason: "It is not running."},
		{Name: "blender", ToolCount: &three, Reason: "Blender is\n not running."},
		{Name: "mail", Reason: "never shown: the tools are here"},
	}
	got := newListing(namedGroups("", map[string]int{"mail": 1}), sources, 1000, false)
	requireEqual(t, "blocks", []string{
		"blender (3 tools unavailable: Blender is not running.)",
		"mail tools (1):\n- mcp__mail__tool_001",
		"zed (tools unavailable: It is not running.)",
	}, readListing(t, got.text).blocks)
	only := newListing(nil, sources[:1], 1000, false)
	requireEqual(t, "form", FormFull, only.form)
}

func drawGroups(t *rapid.T) []*listedGroup {
	text := rapid.StringOfN(rapid.RuneFrom([]rune("abé日_- ")), 0, 20, -1)
	n := rapid.IntRange(0, 6).Draw(t, "groups")
	groups := make([]*listedGroup, 0, n)
	for i := range n {
		g := &listedGroup{label: fmt.Sprintf("g%d%s", i, text.Draw(t, "label"))}
		for range rapid.IntRange(1, 30).Draw(t, "tools") {
			g.tools = append(g.tools, listedTool{"n" + text.Draw(t, "name"), text.Draw(t, "short")})
		}
		groups = append(groups, g)
	}
	return groups
}

func copyGroups(groups []*listedGroup) []*listedGroup {
	out := make([]*listedGroup, len(groups))
	for i, g := range groups {
		out[i] = &listedGroup{label: g.label, tools: slices.Clone(g.tools)}
	}
	return out
}

// checkListing holds a listing against what is promised of every one.
func checkListing(t interface{ Fatalf(string, ...any) }, groups []*listedGroup, l listing, budget int) {
	if (l.form == FormNone) != (l.text == "") {
		t.Fatalf("form %s with the text %q", l.form, l.text)
	}
	if n := runeLen(l.text); n > 0 && (n+3)/4 > budget {
		t.Fatalf("%d characters in form %s for %d tokens", n, l.form, budget)
	}
	if l.form == FormFull || l.form == FormNames {
		for _, g := range groups {
			for _, tool := range g.tools {
				if !strings.Contains(l.text, tool.name) {
					t.Fatalf("form %s without %q", l.form, tool.name)
				}
			}
		}
	}
}

func TestListingProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		groups := drawGroups(t)
		budget := rapid.IntRange(0, 800).Draw(t, "budget")
		first := newListing(copyGroups(groups), nil, budget, false)
		checkListing(t, groups, first, budget)

		shuffled := rapid.Permutation(copyGroups(groups)).Draw(t, "shuffled")
		for _, g := range shuffled {
			g.tools = rapid.Permutation(g.tools).Draw(t, "tools")
		}
		if second := newListing(shuffled, nil, budget, false); second != first {
			t.Fatalf("another order of the tools changed the listing:\n%s\nand\n%s", first.text, second.text)
		}
	})
}

func FuzzListing(f *testing.F) {
	f.Add("github", "mcp__github__list", "Lists. More", uint16(40), "down")
	f.Add("", "\x00", "e.g. this", uint16(0), "")
	f.Fuzz(func(t *testing.T, label, name, description string, budget uint16, reason string) {
		name, label = strings.ReplaceAll(name, "\n", ""), strings.ReplaceAll(label, "\n", "")
		short := ShortDescription(description)
		if runeLen(short) > 61 || strings.Contains(short, "\n") {
			t.Fatalf("short description %q", short)
		}
		var groups []*listedGroup
		for i := range 3 {
			g := &listedGroup{label: fmt.Sprint(label, i)}
			for k := range 1 + i*10 {
				g.tools = append(g.tools, listedTool{fmt.Sprint(name, k), short})
			}
			groups = append(groups, g)
		}
		sources := []subjects.UnavailableSource{{Name: label, Reason: reason}}
		checkListing(t, groups, newListing(copyGroups(groups), sources, int(budget), false), int(budget))
	})
}
