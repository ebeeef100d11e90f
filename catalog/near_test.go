package catalog

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"toolsearch/catalog/catalogtest"
	"toolsearch/subjects"
)

// nearTools are tools of a few servers, with what their schemas say.
func nearTools() []catalogtest.Element {
	return []catalogtest.Element{
		catalogtest.Tool("mcp-github", "mcp__github__create_issue", "Creates an issue in a repository.", "title", "body"),
		catalogtest.Tool("mcp-github", "mcp__github__list_issues", "Lists the issues of a repository.", "state"),
		catalogtest.Tool("mcp-github", "mcp__github__merge_pull_request", "Merges a pull request.", "number"),
		catalogtest.Tool("mcp-slack", "mcp__slack__post_message", "Posts a message to a channel.", "channel", "text"),
		catalogtest.Tool("mcp-slack", "mcp__slack__list_channels", "Lists channels.", "cursor"),
		catalogtest.Tool("mcp-calendar", "mcp__calendar__add_event", "Adds an event to a calendar.", "start", "attendees"),
		{Toolset: "mcp-weather", Tool: json.RawMessage(`{"name":"mcp__weather__forecast","description":"Tells the weather of the next days.",
			"parameters":{"properties":{"city":{"type":"string","description":"Name of a municipality"},
			"unit":{"enum":["celsius","fahrenheit"]},"at":{"properties":{"zone":{"description":"Meridian"}}}}}}`)},
	}
}

func TestSearchNear(t *testing.T) {
	t.Parallel()
	s := newTestScope(t, nearTools(), &subjects.AssembleRequest{}, nil)
	for _, test := range []struct {
		query   string
		near    string // names without mcp__; of more than one the first
		unknown []string
		meant   subjects.Ordered[string]
	}{
		{"please create a github issue", "github__create_issue", []string{"please"}, nil},
		{"Create GitHub Isue", "github__create_issue", []string{"Isue"}, subjects.Ordered[string]{{Key: "Isue", Value: "issue"}}},
		{"merge pull reqeust", "github__merge_pull_request", []string{"reqeust"}, subjects.Ordered[string]{{Key: "reqeust", Value: "request"}}},
		{"post slack mesage quickly", "slack__post_message", []string{"mesage", "quickly"}, subjects.Ordered[string]{{Key: "mesage", Value: "message"}}},
		{"weather fahrenheit quokka", "weather__forecast", []string{"fahrenheit", "quokka"}, nil},
		{"forecast municipality", "weather__forecast", []string{"municipality"}, nil},
		{"forecast meridian", "weather__forecast", []string{"meridian"}, nil},
		{"list slack channels 2024-05-01", "slack__list_channels", []string{"2024", "05", "01"}, nil},
		{"order a pizza with extra cheese", "", []string{"order", "with", "extra", "pizza", "cheese"}, nil},
		{"quokka", "", []string{"quokka"}, nil},
		{"quokka Quokka QUOKKAS", "", []string{"quokka", "QUOKKAS"}, nil},
		{"the of a", "", nil, nil}, // words of tools, and nothing else
		{"🦘", "", nil, nil},
		{"message calendar issue event", "calendar__add_event", nil, nil}, // no tool has them all
	} {
		t.Run(test.query, func(t *testing.T) {
			t.Parallel()
			reply := searchFor(t, s, 3, nil, test.query)
			group := reply.Results[0]
			if len(group.Matches) > 0 {
				if len(group.Near)+len(group.UnknownWords)+len(group.DidYouMean) > 0 {
					t.Fatalf("matches and more: %+v", group)
				}
				if test.near != "" {
					t.Fatalf("it matches: %v", group.Matches)
				}
				return
			}
			slices.Sort(test.unknown)
			slices.Sort(group.UnknownWords)
			if diff := cmp.Diff(test.unknown, group.UnknownWords); diff != "" {
				t.Errorf("unknown words: %s", diff)
			}
			if diff := cmp.Diff(test.meant, group.DidYouMean); diff != "" {
				t.Errorf("did_you_mean: %s", diff)
			}
			if test.near == "" {
				if len(group.Near) > 0 || len(reply.Tools) > 0 || group.Hint != textEmptyGroup {
					t.Errorf("nothing fits, yet %v, %v: %s", group.Near, reply.Tools.Keys(), group.Hint)
				}
				return
			}
			if len(group.Near) == 0 || group.Near[0] != "mcp__"+test.near || len(group.Near) > 3 {
				t.Fatalf("near are %v", group.Near)
			}
			requireEqual(t, "records", group.Near, reply.Tools.Keys())
			for _, word := range append([]string{"near", "closest and not matches"}, test.unknown...) {
				if !strings.Contains(group.Hint, word) {
					t.Errorf("the hint does not mention %q: %s", word, group.Hint)
				}
			}
			if len(group.AvailableSources) != 4 {
				t.Errorf("sources are %v", group.AvailableSources)
			}
		})
	}
}

func TestSearchNearRecordsFollowThoseOfMatches(t *testing.T) {
	t.Parallel()
	s := newTestScope(t, nearTools(), &subjects.AssembleRequest{}, nil)
	reply := searchFor(t, s, 1, nil, "create github issue quokka", "post message", "list slack channels please")
	if g := reply.Results[1]; len(g.Near)+len(g.UnknownWords) > 0 || len(g.Matches) != 1 {
		t.Errorf("a group with matches: %+v", g)
	}
	requireEqual(t, "records", []string{"mcp__slack__post_message", "mcp__github__create_issue", "mcp__slack__list_channels"}, reply.Tools.Keys())
	requireEqual(t, "total", 7, reply.TotalAvailable)
}

func TestSearchNearJoinsConnectors(t *testing.T) {
	t.Parallel()
	s := newTestScope(t, nearTools(), &subjects.AssembleRequest{}, nil)
	remote := &RemoteSearch{Groups: [][]RemoteTool{
		{remoteTool("Gmail", "SEND_EMAIL", "Sends an email message.", "to"), remoteTool("Gmail", "LIST_LABELS", "Lists labels.")},
	}}
	const send, query = "connectors__gmail__SEND_EMAIL", "send emial quokka"
	with, without := searchFor(t, s, 5, remote, query, query), searchFor(t, s, 5, nil, query)
	group := with.Results[0]
	if len(group.Near) == 0 || group.Near[0] != send {
		t.Fatalf("near are %v", group.Near)
	}
	requireEqual(t, "unknown", []string{"emial", "quokka"}, group.UnknownWords)
	requireEqual(t, "meant", subjects.Ordered[string]{{Key: "emial", Value: "email"}}, group.DidYouMean)
	record, ok := with.Tools.Get(send)
	requireEqual(t, "record", subjects.ToolRecord{Source: "connectors", SourceName: "Gmail", Description: "Sends an email message.", Required: []string{"to"}}, record)
	if !ok || with.TotalAvailable != 7 {
		t.Errorf("%d tools are available in all", with.TotalAvailable)
	}
	// A query that the gateway found nothing for knows nothing of what it found for another.
	if diff := cmp.Diff(without.Results[0], with.Results[1]); diff != "" {
		t.Error(diff)
	}
	if g := without.Results[0]; len(g.Near) > 0 || len(g.DidYouMean) > 0 {
		t.Errorf("without connectors: %+v", g)
	}
	// Beside an empty scope too.
	empty := newTestScope(t, nil, &subjects.AssembleRequest{}, nil)
	if g := searchFor(t, empty, 5, remote, query).Results[0]; len(g.Near) == 0 || g.Near[0] != send || g.Hint == "" {
		t.Errorf("beside no tools: %+v", g)
	}
}

// nearOracle is the formula as it is written, over documents that are read anew for each query.
type nearOracle struct{ docs []nearDoc }

type nearDoc struct {
	doc    int
	counts map[string]float64 // weighed
	length float64
	detail map[string]float64 // of it, from what the schema says
	name   map[string]bool
	pairs  map[[2]string]bool
}

func (d *nearDoc) read(text string, weight float64, isName, detail bool) {
	last := ""
	s := wordScanner{text: text}
	for word, kind := s.next(); kind != noWord; word, kind = s.next() {
		e := expand(word, kind)
		parts := e.parts
		if len(parts) == 0 && e.whole != "" {
			parts = []string{e.whole}
		}
		for _, token := range append(slices.Clone(e.parts), e.whole) {
			if token != "" {
				d.counts[token] += weight
				d.length += weight
				if detail {
					d.detail[token] += weight
				}
			}
		}
		for _, p := range parts {
			if isName {
				d.name[p] = true
			}
			if !isStopWord(word) && !detail {
				d.pairs[[2]string{last, p}] = last != ""
				last = p
			}
		}
	}
}

func newNearDoc(i int) nearDoc {
	return nearDoc{doc: i, counts: map[string]float64{}, detail: map[string]float64{}, name: map[string]bool{}, pairs: map[[2]string]bool{}}
}

func newNearOracle(c *Catalog, positions []int, extra []extraDoc) *nearOracle {
	o := new(nearOracle)
	for _, i := range positions {
		t := c.Tool(i)
		d := newNearDoc(i)
		server, name := splitName(t.Name)
		d.read(server, 1.5, false, false)
		d.read(indexedLabel(t), 1.5, false, false)
		d.read(name, 4, true, false)
		d.read(t.Description, 1, false, false)
		var p struct {
			Properties map[string]struct{ Description string }
		}
		_ = json.Unmarshal(t.Parameters, &p)
		for key, about := range p.Properties {
			d.read(key, 1, false, false)
			d.read(about.Description, 0.3, false, true)
		}
		o.docs = append(o.docs, d)
	}
	for i, e := range extra {
		d := newNearDoc(c.Len() + i)
		d.read(e.source, 1.5, false, false)
		d.read(e.title, 4, true, false)
		d.read(e.about, 1, false, false)
		o.docs = append(o.docs, d)
	}
	return o
}

// withoutDetails is the oracle of who does not read what the schema says.
func (o *nearOracle) withoutDetails() *nearOracle {
	bare := new(nearOracle)
	for _, d := range o.docs {
		b := d
		b.counts = map[string]float64{}
		for token, n := range d.counts {
			if n -= d.detail[token]; n > 1e-6 {
				b.counts[token] = n
			}
			b.length -= d.detail[token]
		}
		bare.docs = append(bare.docs, b)
	}
	return bare
}

func (o *nearOracle) df(token string) (df int) {
	for _, d := range o.docs {
		if d.counts[token] > 0 {
			df++
		}
	}
	return df
}

func (o *nearOracle) idf(df int) float64 {
	return math.Log(1 + (float64(len(o.docs))-float64(df)+0.5)/(float64(df)+0.5))
}

// terms are the words that are looked for, and which of them say more than a little.
func (o *nearOracle) terms(query string) (terms []string, loud map[string]bool) {
	var said, quiet []string
	loud = map[string]bool{}
	weak := false
	add := func(list *[]string, tokens ...string) {
		for _, t := range tokens {
			if t != "" && !slices.Contains(*list, t) {
				*list = append(*list, t)
			}
			if !weak && strings.Trim(t, "0123456789") != "" {
				loud[t] = true
			}
		}
	}
	s := wordScanner{text: withoutPrefix(strings.TrimSpace(query))}
	for word, kind := s.next(); kind != noWord; word, kind = s.next() {
		e := expand(word, kind)
		weak = weakWords[strings.ToLower(word)]
		switch {
		case kind == pairWord:
			for i, p := range e.parts {
				straddles := i > 0 && i+1 < len(e.parts) && o.df(e.parts[i-1]) > 0 && o.df(e.parts[i+1]) > 0
				if o.df(p) > 0 || !straddles {
					add(&said, p)
				}
			}
		case isStopWord(word):
			add(&quiet, e.whole)
		case o.df(e.whole) > 0 || len(e.parts) == 0:
			add(&said, e.whole)
		default:
			add(&said, e.parts...)
		}
	}
	if len(said) == 0 {
		return quiet, loud
	}
	return said, loud
}

func (o *nearOracle) near(query string, limit int) (hits []hit) {
	terms, loud := o.terms(query)
	rarity := func(term string, df int) float64 {
		if loud[term] {
			return o.idf(df)
		}
		return 0.3 * o.idf(df)
	}
	average, total := 0.0, 0.0
	for _, d := range o.docs {
		average += d.length / float64(len(o.docs))
	}
	worths := map[string]float64{} // counted once: over thousands of documents it takes its time
	for _, t := range terms {
		df := o.df(t)
		total += rarity(t, max(df, 1))
		worths[t] = rarity(t, df)
	}
	for _, d := range o.docs {
		evidence, covered, named := 0.0, 0.0, 0.0
		for i, t := range terms {
			tf, worth := d.counts[t], worths[t]
			if tf == 0 {
				continue
			}
			evidence += worth * tf * 2 / (tf + 0.25 + 0.75*d.length/average)
			covered += worth
			if d.name[t] {
				named++
			}
			if i > 0 && d.counts[terms[i-1]] > 0 && d.pairs[[2]string{terms[i-1], t}] {
				evidence += 0.5 * min(worth, worths[terms[i-1]])
			}
		}
		if covered > 0 {
			if len(d.name) > 0 {
				evidence *= 1 + named/float64(len(d.name))
			}
			words := evidence / (2 * o.idf(1))
			chance := max(o.idf(1), 3.5) * math.Pow(float64(len(terms)), 0.1)
			hits = append(hits, hit{d.doc, words * math.Sqrt(covered/total) / chance})
		}
	}
	slices.SortStableFunc(hits, compareHits)
	return hits[:min(limit, len(hits))]
}

// sameHits reports whether hits are the same up to what rounding may change: the last digits, and the order of equals.
func sameHits(got, want []hit) bool {
	if len(got) != len(want) {
		return false
	}
	for i := range got {
		if math.Abs(got[i].score-want[i].score) > 1e-9 {
			return false
		}
		alone := func(k int) bool {
			return (k == 0 || math.Abs(want[k-1].score-want[k].score) > 1e-9) && k+1 < len(want) && math.Abs(want[k+1].score-want[k].score) > 1e-9
		}
		if alone(i) && got[i].doc != want[i].doc {
			return false
		}
	}
	return true
}

func drawNearExtra(t *rapid.T) []extraDoc {
	extra := make([]extraDoc, rapid.IntRange(0, 3).Draw(t, "extra"))
	for i := range extra {
		extra[i] = extraDoc{
			name: fmt.Sprintf("connectors__c__%d", i), source: drawText(t, "source", 1), title: drawText(t, "title", 3), about: drawText(t, "about", 6),
		}
	}
	return extra
}

// TestNearByTheFormula compares the index with the formula as it is written.
func TestNearByTheFormula(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := drawCatalog(t)
		positions, set := drawSet(t, c)
		extra := drawNearExtra(t)
		query := drawQuery(t, c) + " " + drawText(t, "more", 3)
		query += rapid.SampledFrom([]string{"", " options", " Options optional", " currently possible 2024"}).Draw(t, "weak")
		limit := rapid.IntRange(0, 6).Draw(t, "limit")
		got := near(c, set, query, limit, extra, NearSpelling)
		if want := newNearOracle(c, positions, extra).near(query, limit); !sameHits(got.hits, want) {
			t.Fatalf("%q of %v comes near %v, want %v", query, positions, got.hits, want)
		}
	})
}

// Pairs are kept as hashes. Two of these had one hash when it had 16 bits, and a tool was offered for words that it does
// not have side by side.
func TestNearTellsPairsApart(t *testing.T) {
	t.Parallel()
	c := buildTest(t, []catalogtest.Element{catalogtest.Tool("", "mcp__github__get", "GetUser issue")})
	query := "GetUser get"
	got, want := near(c, FullSet(1), query, 1, nil, NearSpelling).hits, newNearOracle(c, []int{0}, nil).near(query, 1)
	if !sameHits(got, want) {
		t.Errorf("%q comes near %v, want %v", query, got, want)
	}
}

// TestNearOfManyTools is the same over more tools than are scored at a time.
func TestNearOfManyTools(t *testing.T) {
	t.Parallel()
	elements := catalogtest.File(t, "cloudflare.json", "github_rest.json", "lark.json")
	c := buildTest(t, elements)
	if c.Len() <= nearBlock {
		t.Fatalf("only %d tools", c.Len())
	}
	set := FullSet(c.Len()).Filter(func(i int) bool { return i%5 != 0 })
	o := newNearOracle(c, slices.Collect(set.All()), nil).withoutDetails()
	for _, query := range benchmarkQueries(c, 10) {
		query = strings.Map(func(r rune) rune { // parameters inside parameters are not in the oracle
			if r > 127 {
				return ' '
			}
			return r
		}, query) + " quokka"
		got, want := near(c, set, query, 8, nil, NearSpelling|NearDetails), o.near(query, 8)
		if !sameHits(got.hits, want) {
			t.Errorf("%q comes near %v, want %v", query, got.hits, want)
		}
	}
}

// answerOf is all that the near half tells, with documents by name.
func answerOf(c *Catalog, extra []extraDoc, a nearAnswer) string {
	names := hitNames(c, a.hits, extra)
	scores := make([]float64, len(a.hits))
	for i, h := range a.hits {
		scores[i] = h.score
	}
	return fmt.Sprint(names, scores, a.unknown, a.suggestions)
}

// misspellings are queries of the words of a catalog, with slips.
func drawMisspelt(t *rapid.T) string {
	words := strings.Fields(drawText(t, "query", 5))
	for i, word := range words {
		runes := []rune(word)
		at := rapid.IntRange(0, len(runes)-1).Draw(t, "at")
		switch rapid.IntRange(0, 4).Draw(t, "slip") {
		case 0:
			words[i] = string(slices.Delete(runes, at, at+1))
		case 1:
			words[i] = string(slices.Insert(runes, at, 'x'))
		case 2:
			words[i] = string(runes[:at]) + "x" + string(runes[at+1:])
		}
	}
	return strings.Join(words, " ")
}

// TestNearScopeAnswersAsItsOwnCatalog checks that what is outside of a set cannot be felt: in names, confidence, unknown
// words, suggestions or how these are written.
func TestNearScopeAnswersAsItsOwnCatalog(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := drawCatalog(t)
		positions, set := drawSet(t, c)
		var raws []string
		for _, i := range positions {
			raws = append(raws, fmt.Sprintf(`{"toolset":%q,"tool":%s}`, c.Tool(i).Toolset, c.Tool(i).Definition))
		}
		own, err := Build(json.RawMessage("["+strings.Join(raws, ",")+"]"), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		extra := drawNearExtra(t)
		query := drawMisspelt(t)
		got, want := answerOf(c, extra, near(c, set, query, 5, extra, 0)), answerOf(own, extra, near(own, FullSet(own.Len()), query, 5, extra, 0))
		if got != want {
			t.Fatalf("%q of %v:\n%s\nin a catalog of its own:\n%s", query, positions, got, want)
		}
	})
}

func TestNearScopesOfRealCatalogs(t *testing.T) {
	t.Parallel()
	elements := catalogtest.File(t, "github_rest.json", "gitlab.json", "lark.json", "slack-ref.json", "notion.json")
	c := buildTest(t, elements)
	queries := benchmarkQueries(c, 60)
	for i, q := range queries {
		words := strings.Fields(q)
		word := []rune(words[i%len(words)])
		words[i%len(words)] = string(slices.Delete(word, len(word)/2, len(word)/2+1))
		queries[i] = strings.Join(words, " ") + " quokka"
	}
	for name, keep := range map[string]func(int) bool{
		"a run":       func(i int) bool { return i >= 900 && i < 1500 },
		"every third": func(i int) bool { return i%3 == 0 },
		"few":         func(i int) bool { return i%97 == 5 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var own []catalogtest.Element
			for i, e := range elements {
				if keep(i) {
					own = append(own, e)
				}
			}
			small := buildTest(t, own)
			set := FullSet(c.Len()).Filter(keep)
			for _, query := range queries {
				got, want := answerOf(c, nil, near(c, set, query, 25, nil, 0)), answerOf(small, nil, near(small, FullSet(small.Len()), query, 25, nil, 0))
				if got != want {
					t.Fatalf("%q:\n%s\nin a catalog of its own:\n%s", query, got, want)
				}
			}
		})
	}
}

// TestNearParts checks that every part can be switched off, and does something.
func TestNearParts(t *testing.T) {
	t.Parallel()
	s := newTestScope(t, nearTools(), &subjects.AssembleRequest{}, nil)
	for part, query := range map[NearPart]string{
		NearStopWords: "would you post a message", NearFields: "github create quokka", NearDetails: "forecast municipality",
		NearPairs: "pull request quokka", NearName: "create issue quokka", NearCoverage: "create issue quokka",
		NearSpelling: "creat isue", NearSize: "create issue quokka", NearWeak: "currently create issue", NearLength: "create issue quokka",
	} {
		whole, without := s.Closest(query, 5, 0), s.Closest(query, 5, part)
		if whole.Confidence == without.Confidence {
			t.Errorf("%q has the confidence %v with and without part %b", query, whole.Confidence, part)
		}
	}
}

// TestNearWeakWords: what says little takes little from the confidence, unless the same is said another way as well.
func TestNearWeakWords(t *testing.T) {
	t.Parallel()
	s := newTestScope(t, nearTools(), &subjects.AssembleRequest{}, nil)
	confidence := func(query string) float64 { return s.Closest(query, 5, 0).Confidence }
	loud := confidence("slack message quokka")
	for _, word := range []string{"currently", "Specific", "comprehensive", "2024", "options"} {
		if c := confidence("slack message " + word); c <= loud {
			t.Errorf("%q counts as much as a word that no tool has: %v, %v", word, c, loud)
		}
	}
	for _, query := range []string{"slack message optional", "slack message options optional", "slack message optional options"} {
		if c := confidence(query); c != loud {
			t.Errorf("%q has the confidence %v, want %v", query, c, loud)
		}
	}
	for token, want := range map[string]bool{"2024": true, "0": true, "": false, "v2": false, "2nd": false, "٣": false} {
		if isNumber(token) != want {
			t.Errorf("isNumber(%q) is not %v", token, want)
		}
	}
}

// TestNearNumberOfTools: the more tools, the more has to be met.
func TestNearNumberOfTools(t *testing.T) {
	t.Parallel()
	last := math.Inf(1)
	for _, n := range []int{30, 300, 3000} {
		s := newTestScope(t, append(nearTools(), catalogtest.Generated(n)...), &subjects.AssembleRequest{}, nil)
		if c := s.Closest("weather quokka", 5, 0).Confidence; c >= last {
			t.Errorf("among %d tools the confidence is %v, among fewer it was %v", n, c, last)
		} else {
			last = c
		}
	}
}

func TestNearBounds(t *testing.T) {
	t.Parallel()
	c := buildTest(t, catalogtest.Generated(3000))
	set := FullSet(c.Len())
	for name, query := range map[string]string{
		"many words":      strings.Repeat("list invoice kindba quokka ", 1000),
		"different words": strings.Join(strings.Fields(fmt.Sprint(make([]struct{ A, B int }, 3000))), " "),
		"unknown words": strings.Join(func() (w []string) {
			for i := range 2000 {
				w = append(w, "q"+letters(i)+"vwx")
			}
			return w
		}(), " "),
		"one word": strings.Repeat("a", 1<<20),
		"one run":  strings.Repeat("发送消息", 1<<16),
		"one name": strings.Repeat("aB1", 1<<16),
	} {
		a := near(c, set, query, 25, nil, 0)
		if len(a.unknown) > maxUnknownWords || len(a.suggestions) > maxSpellings || len(a.hits) > 25 {
			t.Errorf("%s: %d unknown words, %d suggestions, %d hits", name, len(a.unknown), len(a.suggestions), len(a.hits))
		}
	}
}

func letters(i int) string {
	var b strings.Builder
	for ; i > 0; i /= 20 {
		b.WriteByte("bcdfghjklmnpqrstvwxz"[i%20])
	}
	return b.String()
}

// TestIndexStaysSmall holds the promise of at most 2.5 KB for each tool.
func TestIndexStaysSmall(t *testing.T) {
	t.Parallel()
	for name, elements := range map[string][]catalogtest.Element{
		"real": catalogtest.File(t, catalogtest.Files(t)...), "generated": catalogtest.Generated(30_000),
	} {
		c := buildTest(t, elements)
		if n := c.IndexSize() / int64(c.Len()); n > 2500 {
			t.Errorf("%s: %d bytes of index for each of %d tools", name, n, c.Len())
		}
	}
}

// FuzzNear promises of whatever is asked of whatever tools: near only where nothing matches, names of the scope, words
// of the query.
func FuzzNear(f *testing.F) {
	f.Add("create isue in github", "List the issues", "mcp__github__list_issues")
	f.Add("发送消息 quokka", "发送消息到群聊", "mcp__feishu__send")
	f.Add("\xff\xfe isue", "\xffissue", "x")
	f.Add("İstanbul straße ǆ", "ISTANBUL STRASSE", "mcp__ß")
	f.Fuzz(func(t *testing.T, query, description, name string) {
		tools := append(nearTools(), catalogtest.Tool("mcp-fuzz", name, description, query))
		c, err := Build(catalogtest.Array(tools), Limits{})
		if err != nil {
			return
		}
		s, err := NewScope(c, testOwner, &subjects.AssembleRequest{}, DefaultConfig(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		remote := &RemoteSearch{Groups: [][]RemoteTool{{remoteTool("Fuzz", "DO", description)}}}
		for _, remote := range []*RemoteSearch{nil, remote} {
			reply := s.Search(&SearchQuery{Queries: []string{query}, Limit: 3}, remote)
			if got := reply.AppendModel(nil); !json.Valid(got) || string(got) != string(s.Search(&SearchQuery{Queries: []string{query}, Limit: 3}, remote).AppendModel(nil)) {
				t.Fatalf("no JSON, or another answer the second time: %s", got)
			}
			group := reply.Results[0]
			if len(group.Matches) > 0 && len(group.Near)+len(group.UnknownWords)+len(group.DidYouMean) > 0 || len(group.Near) > 3 {
				t.Fatalf("%+v", group)
			}
			for _, near := range group.Near {
				if _, ok := reply.Tools.Get(near); !ok {
					t.Fatalf("%q has no record", near)
				}
			}
			for _, word := range group.UnknownWords {
				if !strings.Contains(query, word) {
					t.Fatalf("%q is no word of %q", word, query)
				}
			}
			for _, p := range group.DidYouMean {
				if !slices.Contains(group.UnknownWords, p.Key) || p.Value == "" {
					t.Fatalf("%q for %q of %q", p.Value, p.Key, group.UnknownWords)
				}
			}
		}
	})
}
