package catalog

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// The parameters of BM25.
const (
	bm25K1 = 1.5
	bm25B  = 0.75
)

// coverageFrom is the number of different answerable words from which on a document must have half of them.
const coverageFrom = 4

// hit is one document that a query found.
type hit struct {
	doc   int     // a position of the catalog, or Len()+i for extra document i
	score float64 // +Inf for the exact name
}

// extraDoc is a document beside the catalog's, indexed for one query.
type extraDoc struct {
	name string // as a query may spell it in full
	text string // what is indexed of it
	// The same by field, for the near half of a search.
	source, title, about string
}

// rank finds the documents of set, and the extra ones, that answer a query: best first, at most limit of them, and how
// many there are in all. The set belongs to the catalog. Every statistic is counted over exactly the set and the extra
// documents, as if nothing else were indexed.
//
// A document answers if it has the query's rarest word (of equally rare ones the first) and, of four or more different
// words, at least half. The score is BM25, summed in the order of the query, a repeated word as often as it stands
// there. A document whose name is the query, in whatever case, answers in any case and comes first. Equal scores keep
// the order of the catalog, extra documents last. A word that no document has lets nothing pass.
//
// A word of the query in camelCase or with digits matches by its whole or by all of its parts, whichever scores higher.
// A pair of a run of Chinese, Japanese or Korean characters that no document has is ignored if it straddles two words,
// that is, if both of its neighbours in the run are known. One leading mcp__ is dropped.
//
// None of that may empty an answer that ASCII words alone would give. So a query that finds nothing is asked once more
// in the plain reading of query and documents alike.
func rank(c *Catalog, set *Set, query string, limit int, extra []extraDoc) (hits []hit, total int) {
	if limit <= 0 || set.n != len(c.tools) || set.count+len(extra) == 0 {
		return nil, 0
	}
	query = strings.TrimSpace(query)
	r := ranking{catalog: c, set: set, extra: extra, limit: limit, name: strings.ToLower(query)}
	r.scratch = takeScratch()
	defer r.release()

	words := withoutPrefix(query)
	hits, total = r.run(words, false)
	if total == 0 && (!r.plainQuery || words != query || !c.index.readsAlike() || len(extra) > 0) {
		hits, total = r.run(query, true)
	}
	return hits, total
}

// ranking is one query over one set of documents.
type ranking struct {
	*scratch
	catalog *Catalog
	set     *Set
	extra   []extraDoc
	limit   int
	name    string // the query in lower case

	plain      bool // which reading of the documents is ranked
	plainQuery bool // the query has the same tokens in both readings

	members []uint64 // the set as bits, nil for all tools of the catalog
	lengths []uint32
	docs    float64 // how many documents there are
	average float64 // length of a document, at least 1
	needed  int     // how many different words of the query a document must have
	total   int
}

func (r *ranking) run(query string, plain bool) ([]hit, int) {
	r.reset()
	r.plain, r.total = plain, 0
	r.readQuery(query)
	if len(r.order) == 0 {
		return nil, 0
	}
	r.measure()
	r.countTokens()
	r.countTerms()
	r.ignoreStraddling()
	r.findExact()
	if gate := r.gate(); gate.df > 0 {
		r.scoreTools(gate)
		r.scoreExtra(gate)
	}
	slices.SortFunc(r.hits, compareHits)
	return slices.Clone(r.hits), r.total
}

// setLengths are the summed lengths of the documents of a set, in both readings.
type setLengths struct {
	index                 *index
	full, plain, weighted uint64
}

// measure finds the set's bits and the number and lengths of all documents, extra ones included.
func (r *ranking) measure() {
	x := r.catalog.index
	var sum uint64
	r.lengths, sum = x.lengthsOf(r.plain)
	r.members = nil
	if r.set.count < r.set.n {
		r.members = r.set.bitmap(r.bits)
		if r.set.words == nil {
			r.bits = r.members
		}
		l := r.set.lengthsIn(x)
		sum = l.full
		if r.plain {
			sum = l.plain
		}
	}
	r.readExtra()
	for _, n := range r.sizes {
		sum += uint64(n)
	}
	r.docs = float64(r.set.count + len(r.extra))
	r.average = max(float64(sum)/r.docs, 1)
}

// lengthsIn sums up the documents of the set, once: many queries are asked of one set.
func (s *Set) lengthsIn(x *index) *setLengths {
	if l := s.lengths.Load(); l != nil && l.index == x {
		return l
	}
	l := &setLengths{index: x}
	plain, _ := x.lengthsOf(true)
	for i := range s.All() {
		l.full += uint64(x.lengths[i])
		l.plain += uint64(plain[i])
		l.weighted += uint64(x.fields.weighted[i])
	}
	s.lengths.Store(l)
	return l
}

func (r *ranking) has(tool uint32) bool {
	return r.members == nil || r.members[tool>>6]>>(tool&63)&1 != 0
}

// gate is the rarest word of the query, the first of several.
func (r *ranking) gate() *queryTerm {
	var gate *queryTerm
	for _, w := range r.order {
		if t := &r.terms[w.term]; !t.ignored && (gate == nil || t.df < gate.df) {
			gate = t
		}
	}
	answerable := 0
	for i := range r.terms {
		if r.terms[i].df > 0 {
			answerable++
		}
	}
	r.needed = 1
	if answerable >= coverageFrom {
		r.needed = (answerable + 1) / 2
	}
	return gate
}

// findExact finds the documents whose name is the query.
func (r *ranking) findExact() {
	r.exact = r.exact[:0]
	for i := range r.catalog.names.folded(r.name) {
		if r.has(uint32(i)) {
			r.exact = append(r.exact, i)
		}
	}
	for i, e := range r.extra {
		if strings.ToLower(e.name) == r.name {
			r.exact = append(r.exact, len(r.catalog.tools)+i)
		}
	}
	for _, doc := range r.exact {
		r.admit(hit{doc, math.Inf(1)})
	}
}

// scoreTools scores the tools that have the gate. No others can answer, so the work follows the rarest word.
func (r *ranking) scoreTools(gate *queryTerm) {
	for i := range r.tokens {
		r.tokens[i].at = 0
	}
	if len(gate.parts) > 0 {
		for _, tool := range gate.tools {
			r.scoreTool(tool)
		}
		return
	}
	for _, p := range r.tokens[gate.whole].list {
		if r.has(p.tool) {
			r.scoreTool(p.tool)
		}
	}
}

// scoreTool scores one tool. Tools come in ascending order.
func (r *ranking) scoreTool(tool uint32) {
	for i := range r.tokens {
		r.tokens[i].tf = r.tokens[i].advance(tool)
	}
	r.score(int(tool), r.lengths[tool])
}

func (r *ranking) scoreExtra(gate *queryTerm) {
	for i := range r.extra {
		for t := range r.tokens {
			r.tokens[t].tf = r.counts[i*len(r.tokens)+t]
		}
		if r.matches(gate) {
			r.score(len(r.catalog.tools)+i, r.sizes[i])
		}
	}
}

// score admits the document at hand, which has the gate, if it has enough words of the query. The conversions keep
// compilers from fusing a multiplication with an addition, so that scores are the same on every machine.
func (r *ranking) score(doc int, length uint32) {
	if slices.Contains(r.exact, doc) {
		return
	}
	norm := float64(bm25K1 * ((1 - bm25B) + float64(bm25B*float64(length))/r.average))
	has := 0
	for i := range r.terms {
		t := &r.terms[i]
		t.adds = r.termScore(t, norm)
		if t.adds > 0 {
			has++
		}
	}
	if has < r.needed {
		return
	}
	score := 0.0
	for _, w := range r.order {
		score += r.terms[w.term].adds
	}
	r.admit(hit{doc, score})
}

// termScore is what a term adds to the score of the document at hand, 0 if the document does not have it.
func (r *ranking) termScore(t *queryTerm, norm float64) float64 {
	whole := r.tokens[t.whole].score(norm)
	if len(t.parts) == 0 {
		return whole
	}
	parts := 0.0
	for _, p := range t.parts {
		s := r.tokens[p].score(norm)
		if s == 0 {
			return whole
		}
		parts += s
	}
	return max(whole, parts)
}

// score is the token's share of BM25; it is over 0 if the document has the token, since idf is.
func (q *queryToken) score(norm float64) float64 {
	if q.tf == 0 {
		return 0
	}
	tf := float64(q.tf)
	return float64(float64(float64(q.idf*tf)*(bm25K1+1)) / (tf + norm))
}

// admit counts a document and keeps it if it is among the best. The hits are a heap with the worst on top.
func (r *ranking) admit(h hit) {
	r.total++
	if len(r.hits) < r.limit {
		r.hits = append(r.hits, h)
		for i := len(r.hits) - 1; i > 0; {
			above := (i - 1) / 2
			if compareHits(r.hits[i], r.hits[above]) < 0 {
				return
			}
			r.hits[i], r.hits[above] = r.hits[above], r.hits[i]
			i = above
		}
		return
	}
	if compareHits(h, r.hits[0]) > 0 {
		return
	}
	r.hits[0] = h
	for i := 0; ; {
		worst := i
		for _, below := range [...]int{2*i + 1, 2*i + 2} {
			if below < len(r.hits) && compareHits(r.hits[below], r.hits[worst]) > 0 {
				worst = below
			}
		}
		if worst == i {
			return
		}
		r.hits[i], r.hits[worst] = r.hits[worst], r.hits[i]
		i = worst
	}
}

// compareHits orders by score, the best first, then by position.
func compareHits(a, b hit) int {
	if c := cmp.Compare(b.score, a.score); c != 0 {
		return c
	}
	return cmp.Compare(a.doc, b.doc)
}
