package catalog

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"toolsearch/catalog/catalogtest"
	"toolsearch/subjects"
)

// rankScopes holds the scopes of the cases: many cases search the same tools.
var rankScopes sync.Map // from folder and given.tools to *Scope

func rankScope(t testing.TB, v catalogtest.Vector, tools json.RawMessage) (*Catalog, *Set) {
	t.Helper()
	key := v.Folder + string(tools)
	s, ok := rankScopes.Load(key)
	if !ok {
		s, _ = rankScopes.LoadOrStore(key, newTestScope(t, v.Tools(t, tools), &subjects.AssembleRequest{}, nil))
	}
	return s.(*Scope).Catalog(), s.(*Scope).Deferred()
}

func TestRankVectors(t *testing.T) {
	t.Parallel()
	runVectors(t, "rank.jsonl", "rank", func(t *testing.T, v catalogtest.Vector) {
		var given struct {
			Tools json.RawMessage
			Query string
			Limit int
		}
		var want struct {
			Matches []string
			Scores  []*float64
		}
		v.DecodeGiven(t, &given)
		v.DecodeWant(t, &want)
		c, deferred := rankScope(t, v, given.Tools)
		hits, total := rank(c, deferred, given.Query, given.Limit, nil)
		requireEqual(t, "matches", want.Matches, append([]string{}, hitNames(c, hits, nil)...))
		if total < len(hits) {
			t.Errorf("%d hits of a total of %d", len(hits), total)
		}
		for i, score := range want.Scores {
			switch {
			case i >= len(hits):
			case score == nil && !math.IsInf(hits[i].score, 1):
				t.Errorf("score %d is %v, want that of the exact name", i, hits[i].score)
			case score != nil && math.Abs(hits[i].score-*score) > 1e-9:
				t.Errorf("score %d is %v, want %v", i, hits[i].score, *score)
			}
		}
	})
}

func TestFindVectors(t *testing.T) {
	t.Parallel()
	runVectors(t, "beyond.jsonl", "find", func(t *testing.T, v catalogtest.Vector) {
		var given struct {
			Tools json.RawMessage
			Query string
		}
		var want struct {
			First string
			Among []string
		}
		v.DecodeGiven(t, &given)
		v.DecodeWant(t, &want)
		c, deferred := rankScope(t, v, given.Tools)
		hits, _ := rank(c, deferred, given.Query, 25, nil)
		names := hitNames(c, hits, nil)
		if len(names) == 0 {
			t.Fatalf("%q finds nothing", given.Query)
		}
		if want.First != "" && names[0] != want.First {
			t.Errorf("%q finds %v, want %s first", given.Query, names, want.First)
		}
		if want.Among != nil && !slices.Contains(want.Among, names[0]) {
			t.Errorf("%q finds %v first, want one of %v", given.Query, names, want.Among)
		}
		for _, name := range want.Among {
			if !slices.Contains(names, name) {
				t.Errorf("%q finds %v, without %s", given.Query, names, name)
			}
		}
	})
}

func hitNames(c *Catalog, hits []hit, extra []extraDoc) []string {
	var names []string
	for _, h := range hits {
		if h.doc < c.Len() {
			names = append(names, c.Tool(h.doc).Name)
		} else {
			names = append(names, extra[h.doc-c.Len()].name)
		}
	}
	return names
}

// oracle ranks by the rules as they are written, over documents held as plain lists of tokens. It shares the tokeniser
// with the index and nothing else.
type oracle struct {
	names []string
	docs  [2][][]string // by reading: full, plain
}

func newOracle(c *Catalog, positions []int, extra []extraDoc) *oracle {
	o := &oracle{}
	for _, i := range positions {
		o.add(c.Tool(i).Name, indexedText(c.Tool(i)))
	}
	for _, e := range extra {
		o.add(e.name, e.text)
	}
	return o
}

// indexedText is the text that is indexed of a tool.
func indexedText(t *Tool) string {
	words := strings.FieldsFunc(strings.TrimPrefix(t.Name, "mcp__"), func(r rune) bool { return strings.ContainsRune("_.:- ", r) })
	text := strings.Join(words, " ")
	if _, source := t.Source(); source != "" && !slices.Contains(words, t.Label()) {
		text += " " + t.Label()
	}
	text += " " + t.Description
	var schema struct{ Properties json.RawMessage }
	_ = json.Unmarshal(t.Parameters, &schema)
	if len(schema.Properties) > 0 && schema.Properties[0] == '{' {
		d := json.NewDecoder(strings.NewReader(string(schema.Properties)))
		_, _ = d.Token()
		seen := map[json.Token]bool{}
		for d.More() {
			key, _ := d.Token()
			var value json.RawMessage
			_ = d.Decode(&value)
			if !seen[key] {
				text += fmt.Sprint(" ", key)
			}
			seen[key] = true
		}
	}
	return text
}

func (o *oracle) add(name, text string) {
	var plain []string
	s := wordScanner{text: text}
	for word, kind := s.next(); kind != noWord; word, kind = s.next() {
		plain = append(plain, expand(word, kind).plain...)
	}
	o.names = append(o.names, name)
	o.docs[0] = append(o.docs[0], tokenize(text))
	o.docs[1] = append(o.docs[1], plain)
}

// oracleWord is a word of the query: its alternatives, each a list of tokens that must all be there.
type oracleWord struct {
	alternatives [][]string
	run          int
}

func (w oracleWord) key() string { return fmt.Sprint(w.alternatives) }

func (o *oracle) rank(query string, limit int) ([]string, int) {
	query = strings.TrimSpace(query)
	stripped := query
	if strings.HasPrefix(strings.ToLower(query), "mcp__") && len(tokenize(query[5:])) > 0 {
		stripped = query[5:]
	}
	names, total := o.rankReading(query, oracleQuery(stripped, false), limit, 0)
	if total == 0 {
		names, total = o.rankReading(query, oracleQuery(query, true), limit, 1)
	}
	return names, total
}

func oracleQuery(query string, plain bool) []oracleWord {
	var words []oracleWord
	run := 0
	s := wordScanner{text: query}
	for word, kind := s.next(); kind != noWord; word, kind = s.next() {
		e := expand(word, kind)
		switch {
		case plain:
			for _, p := range e.plain {
				words = append(words, oracleWord{alternatives: [][]string{{p}}})
			}
		case kind == pairWord:
			run++
			for _, p := range e.parts {
				words = append(words, oracleWord{alternatives: [][]string{{p}}, run: run})
			}
		case e.whole != "" && len(e.parts) > 0:
			words = append(words, oracleWord{alternatives: [][]string{{e.whole}, e.parts}})
		case e.whole != "":
			words = append(words, oracleWord{alternatives: [][]string{{e.whole}}})
		}
	}
	return words
}

func (o *oracle) rankReading(query string, words []oracleWord, limit, reading int) ([]string, int) {
	docs := o.docs[reading]
	if len(words) == 0 || len(docs) == 0 || limit <= 0 {
		return nil, 0
	}
	tf := func(d int, token string) float64 {
		n := 0.0
		for _, t := range docs[d] {
			if t == token {
				n++
			}
		}
		return n
	}
	has := func(d int, w oracleWord) bool {
		return slices.ContainsFunc(w.alternatives, func(tokens []string) bool {
			return !slices.ContainsFunc(tokens, func(t string) bool { return tf(d, t) == 0 })
		})
	}
	df := map[string]int{}
	length := 0
	for d := range docs {
		length += len(docs[d])
	}
	for _, w := range words {
		if _, ok := df[w.key()]; !ok {
			df[w.key()] = 0
			for d := range docs {
				if has(d, w) {
					df[w.key()]++
				}
			}
		}
	}
	idf := func(token string) float64 {
		n := 0.0
		for d := range docs {
			n += min(tf(d, token), 1)
		}
		return math.Log(1 + (float64(len(docs))-n+0.5)/(n+0.5))
	}
	average := max(float64(length)/float64(len(docs)), 1)
	tokenScore := func(d int, token string) float64 {
		n := tf(d, token)
		return idf(token) * n * 2.5 / (n + 1.5*(0.25+0.75*float64(len(docs[d]))/average))
	}
	known := func(i, run int) bool {
		return i >= 0 && i < len(words) && words[i].run == run && df[words[i].key()] > 0
	}
	// Unknown pairs that straddle two words wherever they stand.
	ignored := map[string]bool{}
	for i, w := range words {
		if df[w.key()] == 0 {
			straddles := w.run > 0 && known(i-1, w.run) && known(i+1, w.run)
			if before, seen := ignored[w.key()]; seen {
				straddles = straddles && before
			}
			ignored[w.key()] = straddles
		}
	}
	words = slices.DeleteFunc(words, func(w oracleWord) bool { return ignored[w.key()] })
	gate, answerable := words[0], map[string]oracleWord{}
	for _, w := range words {
		if df[w.key()] < df[gate.key()] {
			gate = w
		}
		if df[w.key()] > 0 {
			answerable[w.key()] = w
		}
	}
	needed := 1
	if len(answerable) >= 4 {
		needed = (len(answerable) + 1) / 2
	}
	var found []hit
	exact := strings.ToLower(query)
	for d, name := range o.names {
		if strings.ToLower(name) == exact {
			found = append(found, hit{d, math.Inf(1)})
			continue
		}
		n := 0
		for _, w := range answerable {
			if has(d, w) {
				n++
			}
		}
		if !has(d, gate) || n < needed {
			continue
		}
		score := 0.0
		for _, w := range words {
			best := 0.0
			for _, tokens := range w.alternatives {
				sum := 0.0
				if !slices.ContainsFunc(tokens, func(t string) bool { return tf(d, t) == 0 }) {
					for _, t := range tokens {
						sum += tokenScore(d, t)
					}
				}
				best = max(best, sum)
			}
			score += best
		}
		found = append(found, hit{d, score})
	}
	slices.SortStableFunc(found, func(a, b hit) int {
		if math.Abs(a.score-b.score) < 1e-12 || a.score == b.score {
			return 0
		}
		return -int(math.Copysign(1, a.score-b.score))
	})
	var names []string
	for _, h := range found[:min(limit, len(found))] {
		names = append(names, o.names[h.doc])
	}
	return names, len(found)
}

// Words of which the properties below make tools and queries: rich in every way, and few, so that queries match.
var propertyWords = strings.Fields("get list user issue team GetUser getUserProfile userID v2 oauth2 s3 XMLHTTPFetch URLs café cafe naïve caf " +
	"na ve v 2 s 3 发送消息 查询文档 发送 文档 消息 メッセージ 메시지 список РАБОТА of the mcp github GitHub hub git s's")

func drawText(t *rapid.T, label string, most int) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(propertyWords), 0, most).Draw(t, label), " ")
}

func drawCatalog(t *rapid.T) *Catalog {
	n := rapid.IntRange(1, 14).Draw(t, "tools")
	elements := make([]catalogtest.Element, n)
	for i := range elements {
		toolset := rapid.SampledFrom([]string{"", "mcp-github", "mcp-a-b", "plugin"}).Draw(t, "toolset")
		name := fmt.Sprintf("mcp__%s__%s%d", rapid.SampledFrom([]string{"github", "x", "a-b"}).Draw(t, "server"),
			rapid.SampledFrom(propertyWords).Draw(t, "name"), i)
		elements[i] = catalogtest.Tool(toolset, name, drawText(t, "description", 8),
			rapid.SliceOfN(rapid.SampledFrom(propertyWords), 0, 3).Draw(t, "parameters")...)
	}
	c, err := Build(catalogtest.Array(elements), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func drawSet(t *rapid.T, c *Catalog) ([]int, *Set) {
	var positions []int
	for i := range c.Len() {
		if rapid.Bool().Draw(t, "member") {
			positions = append(positions, i)
		}
	}
	return positions, NewSet(c.Len(), slices.Values(positions))
}

func drawQuery(t *rapid.T, c *Catalog) string {
	if rapid.IntRange(0, 5).Draw(t, "kind") == 0 {
		name := c.Tool(rapid.IntRange(0, c.Len()-1).Draw(t, "exact")).Name
		return rapid.SampledFrom([]string{name, strings.ToUpper(name), " " + name, name + "s"}).Draw(t, "spelling")
	}
	return drawText(t, "query", 5)
}

func drawExtra(t *rapid.T) []extraDoc {
	extra := make([]extraDoc, rapid.IntRange(0, 3).Draw(t, "extra"))
	for i := range extra {
		extra[i] = extraDoc{name: fmt.Sprintf("connectors__c__%d", i), text: drawText(t, "text", 6)}
	}
	return extra
}

// TestRankByTheRules compares the index with the rules as they are written.
func TestRankByTheRules(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := drawCatalog(t)
		positions, set := drawSet(t, c)
		extra := drawExtra(t)
		query := drawQuery(t, c)
		limit := rapid.IntRange(0, 6).Draw(t, "limit")
		hits, total := rank(c, set, query, limit, extra)
		want, wantTotal := newOracle(c, positions, extra).rank(query, limit)
		if diff := cmp.Diff(want, hitNames(c, hits, extra)); diff != "" || total != wantTotal {
			t.Fatalf("%q of %v finds %d, want %d (-want +got):\n%s", query, positions, total, wantTotal, diff)
		}
	})
}

// TestScopeRanksAsItsOwnCatalog checks that what is outside of a set can neither be found nor be felt.
func TestScopeRanksAsItsOwnCatalog(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := drawCatalog(t)
		positions, set := drawSet(t, c)
		var raws []string
		for _, i := range positions {
			tool := c.Tool(i)
			raws = append(raws, fmt.Sprintf(`{"toolset":%q,"tool":%s}`, tool.Toolset, tool.Definition))
		}
		own, err := Build(json.RawMessage("["+strings.Join(raws, ",")+"]"), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		extra := drawExtra(t)
		query := drawQuery(t, c)
		hits, total := rank(c, set, query, 5, extra)
		want, wantTotal := rank(own, FullSet(own.Len()), query, 5, extra)
		for i := range want {
			if want[i].doc < own.Len() {
				want[i].doc = positions[want[i].doc]
			} else {
				want[i].doc += c.Len() - own.Len()
			}
		}
		if !slices.Equal(hits, want) || total != wantTotal {
			t.Fatalf("%q finds %v of %d in the set, %v of %d in a catalog of its own", query, hits, total, want, wantTotal)
		}
		for _, h := range hits {
			if h.doc < c.Len() && !set.Contains(h.doc) {
				t.Fatalf("%q finds tool %d outside of the set", query, h.doc)
			}
		}
	})
}

// TestRankScopesOfRealCatalogs is the same over thousands of real tools, where words are kept as bits too.
func TestRankScopesOfRealCatalogs(t *testing.T) {
	t.Parallel()
	elements := catalogtest.File(t, "cloudflare.json", "github_rest.json", "gitlab.json", "lark.json")
	c := buildTest(t, elements)
	for name, keep := range map[string]func(int) bool{
		"a run":       func(i int) bool { return i >= 500 && i < 2900 },
		"every third": func(i int) bool { return i%3 == 0 },
		"few":         func(i int) bool { return i%97 == 5 },
		"none":        func(int) bool { return false },
		"all":         func(int) bool { return true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var own []catalogtest.Element
			var positions []int
			for i, e := range elements {
				if keep(i) {
					own, positions = append(own, e), append(positions, i)
				}
			}
			small := buildTest(t, own)
			set := FullSet(c.Len()).Filter(keep)
			for _, query := range benchmarkQueries(c, 200) {
				hits, total := rank(c, set, query, 25, nil)
				want, wantTotal := rank(small, FullSet(small.Len()), query, 25, nil)
				for i := range want {
					want[i].doc = positions[want[i].doc]
				}
				if !slices.Equal(hits, want) || total != wantTotal {
					t.Errorf("%q finds %v of %d in the set, %v of %d in a catalog of its own", query, hits, total, want, wantTotal)
				}
			}
		})
	}
}

// TestPlainAnswerIsNeverLost checks that richer tokens empty no answer that plain ones give.
func TestPlainAnswerIsNeverLost(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := drawCatalog(t)
		query := drawQuery(t, c)
		positions := make([]int, c.Len())
		for i := range positions {
			positions[i] = i
		}
		_, plain := newOracle(c, positions, nil).rankReading(query, oracleQuery(query, true), 5, 1)
		if _, total := rank(c, FullSet(c.Len()), query, 5, nil); plain > 0 && total == 0 {
			t.Fatalf("%q finds %d tools by plain words and none by richer ones", query, plain)
		}
	})
}

func TestRankBeyondPlainWords(t *testing.T) {
	t.Parallel()
	tool := func(name, description string) catalogtest.Element {
		return catalogtest.Tool("mcp-x", "mcp__x__"+name, description)
	}
	c := buildTest(t, []catalogtest.Element{
		tool("getUserProfile", "One profile."),
		tool("get_user_list", "Several people."),
		tool("github_sync", "Keeps two sides equal."),
		tool("query_docs", "查询文档"),
		tool("send", "发送消息"),
		tool("menu", "café"),
		tool("upload", "Uploads to S3 buckets."),
		tool("mcp_bridge", "Speaks mcp."),
	})
	for _, test := range []struct{ query, want string }{
		{"getUserList", "mcp__x__get_user_list"},              // by its parts
		{"GetUserProfile", "mcp__x__getUserProfile"},          // by its whole
		{"GitHub sync", "mcp__x__github_sync"},                // whole, though "git" and "hub" are unknown
		{"发送 文档", "mcp__x__send"},                             // the first of two equally rare words gates
		{"查询消息", "mcp__x__query_docs"},                        // 询消 straddles two known words
		{"删除文档", ""},                                          // 删除 is a word that no tool has
		{"send message 发", ""},                                // message is unknown
		{"send 短信", "mcp__x__send"},                           // the plain words answer alone
		{"caf", "mcp__x__menu"},                               // as a reader of ASCII only would find it
		{"CAFE", "mcp__x__menu"},                              //
		{"s3", "mcp__x__upload"},                              //
		{"MCP__x__send", "mcp__x__send"},                      // exact
		{"mcp__x__sends", "mcp__x__send"},                     // without the prefix
		{"mcp__", "mcp__x__mcp_bridge"},                       // the prefix alone is a word
		{"mcp", "mcp__x__mcp_bridge"},                         //
		{"uploading\u2028s3\u0000 buckets", "mcp__x__upload"}, //
	} {
		hits, _ := rank(c, FullSet(c.Len()), test.query, 1, nil)
		got := strings.Join(hitNames(c, hits, nil), " ")
		if got != test.want {
			t.Errorf("%q finds %q, want %q", test.query, got, test.want)
		}
	}
}

func TestRankExtraDocuments(t *testing.T) {
	t.Parallel()
	c := buildTest(t, []catalogtest.Element{
		catalogtest.Tool("mcp-mail", "mcp__mail__send", "Sends mail."),
		catalogtest.Tool("mcp-mail", "mcp__mail__list", "Lists mail."),
	})
	extra := []extraDoc{
		{name: "connectors__gmail__SEND_EMAIL", text: "gmail GMAIL SEND EMAIL Sends one email"},
		{name: "connectors__gmail__SEND_DRAFT", text: "gmail GMAIL SEND EMAIL Sends one email"},
	}
	hits, total := rank(c, FullSet(c.Len()), "send email", 5, extra)
	if got := hitNames(c, hits, extra); total != 2 || got[0] != extra[0].name || got[1] != extra[1].name {
		t.Errorf("found %v of %d, want the extra documents in their order", got, total)
	}
	hits, _ = rank(c, FullSet(c.Len()), "CONNECTORS__gmail__send_draft", 1, extra)
	if got := hitNames(c, hits, extra); len(got) != 1 || got[0] != extra[1].name || !math.IsInf(hits[0].score, 1) {
		t.Errorf("found %v, want the exact name", hits)
	}
	empty := buildTest(t, nil)
	if hits, total := rank(empty, FullSet(0), "gmail", 5, extra); total != 2 || hits[0].doc != 0 {
		t.Errorf("found %v of %d beside an empty catalog", hits, total)
	}
}

func TestRankHugeQuery(t *testing.T) {
	t.Parallel()
	c := buildTest(t, catalogtest.Generated(2000))
	set := FullSet(c.Len())
	for name, query := range map[string]string{
		"one word":   strings.Repeat("a", 1<<20),
		"one name":   strings.Repeat("aB1", 1<<20/3),
		"known":      strings.Repeat("list ", 1<<20/5),
		"many words": strings.Join(slices.Repeat(objects(c), 1<<20/(8*c.Len())), " "),
		"pairs":      strings.Repeat("漢字", 1<<20/6),
		"nothing":    strings.Repeat("\x00\xff", 1<<19),
	} {
		hits, total := rank(c, set, query, 5, nil)
		if len(hits) > 5 || name == "known" && total == 0 {
			t.Errorf("%s: %d hits of %d", name, len(hits), total)
		}
	}
}

// objects is one word of each tool.
func objects(c *Catalog) []string {
	words := make([]string, c.Len())
	for i := range words {
		words[i] = c.Tool(i).Name[strings.LastIndexByte(c.Tool(i).Name, '_')+1:]
	}
	return words
}

func TestRankIsForConcurrentUse(t *testing.T) {
	t.Parallel()
	c := buildTest(t, catalogtest.Generated(1500))
	set := FullSet(c.Len()).Filter(func(i int) bool { return i%7 != 0 })
	queries := benchmarkQueries(c, 50)
	want := make([]string, len(queries))
	for i, q := range queries {
		hits, total := rank(c, FullSet(c.Len()).Filter(set.Contains), q, 5, nil)
		want[i] = fmt.Sprint(hits, total)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i, q := range queries {
				if hits, total := rank(c, set, q, 5, nil); fmt.Sprint(hits, total) != want[i] {
					t.Errorf("%q finds %v of %d, want %s", q, hits, total, want[i])
				}
			}
		})
	}
	all.Wait()
}
