package catalog

import (
	"math"
	"math/bits"
	"slices"
	"strings"
	"sync"

	"toolsearch/subjects"
)

// This file is the near half of a search: what is told of a query that no tool matches.
//
// Every tool that has a word of the query gets a confidence, and the tools are offered if the best of them is
// confident enough. Let a word's rarity be its idf over the tools of the scope, and rarest the idf of a word that one
// tool has. Then
//
//	evidence   = sum over the words of the query that the tool has of rarity * tf*(k1+1) / (tf + k1*(1-b + b*length/average))
//	           + nearPair * the lesser rarity of each two words side by side in both the query and the tool
//	evidence  *= 1 + nearName * the share of the name's words that the query has
//	words      = evidence / (rarest * (k1+1))           how many words of the rarest kind, fully met, that is worth
//	coverage   = rarity of the words that the tool has / rarity of all words of the query, an unknown one counting as rarest
//	chance     = max(rarest, nearFloor) * (number of words that are looked for)^nearLength
//	confidence = words * sqrt(coverage) / chance
//
// tf and length count the words of a tool by field, weighed by [nearWeights]; b is that of a match, and k1 is [nearK1].
// Coverage asks for most of the query. Chance asks for more evidence among many tools, by the logarithm of their number,
// and of a long query: the more there are of either, the more words meet in one tool by chance.
//
// Words that say nothing are left out, unless there are no others; a repeated word counts once. The rarity of a word
// that says little, and of a number, is nearWeak of what it would be. A misspelt word counts by nearSpelling of the word
// that it is taken for.
const (
	nearK1       = 1 // less than that of a match: whether a tool has a word tells more than how often
	nearPair     = 0.5
	nearName     = 1
	nearWeak     = 0.3
	nearSpelling = 0.5
	nearFloor    = 3.5 // as if there were fifty tools, where there are fewer
	nearLength   = 0.1

	// NearConfidence is the least confidence at which tools are offered: the one number that trades answers against
	// noise.
	NearConfidence = 0.116
)

// nearWeights say what a word counts in each field of a tool, in tenths.
var nearWeights = fieldWeights{nameField: 40, sourceField: 15, aboutField: 10, parameterField: 10, detailField: 3}

// The bounds of the near half of one query.
const (
	// maxNearWords is how many different words are looked for.
	maxNearWords = 64
	// maxUnknownWords is how many unknown words are told.
	maxUnknownWords = 32
)

// NearPart names parts of the near half of a search, to be switched off where their worth is measured.
type NearPart uint16

// The parts. The zero value switches nothing off.
const (
	NearStopWords NearPart = 1 << iota // words that say nothing are looked for as well
	NearFields                         // every field weighs the same
	NearDetails                        // what the schema says about the parameters is not read
	NearPairs                          // words side by side are worth no more than apart
	NearName                           // a name that the query covers is worth no more than its words
	NearCoverage                       // the share of the query that a tool has is not asked for
	NearSize                           // the number of tools is not asked for
	NearSpelling                       // a misspelt word is an unknown word
	NearWeak                           // words that say little, and numbers, count as any other
	NearLength                         // the number of the query's words is not asked for
)

// Closest are the tools that answer most of a query, whatever their confidence.
type Closest struct {
	Names      []string // best first
	Confidence float64  // of the first; [Scope.Search] offers them from [NearConfidence] on
}

// Closest is for measuring the near half of a search: what [Scope.Search] would offer as near if it found no match, at
// most limit names, and how confident it is, without some parts of the formula.
func (s *Scope) Closest(query string, limit int, without NearPart) Closest {
	var c Closest
	for i, h := range near(s.catalog, s.deferred, query, limit, nil, without).hits {
		c.Names = append(c.Names, s.catalog.tools[h.doc].Name)
		if i == 0 {
			c.Confidence = h.score
		}
	}
	return c
}

// nearAnswer is what the near half of a search finds.
type nearAnswer struct {
	// hits are the best documents, with their confidence as score.
	hits []hit
	// unknown are the words that no document has, as they are written; suggestions are words for some of them.
	unknown     []string
	suggestions subjects.Ordered[string]
}

// confident reports whether the hits are worth telling.
func (a *nearAnswer) confident() bool { return len(a.hits) > 0 && a.hits[0].score >= NearConfidence }

// near finds the documents of set, and the extra ones, that answer most of a query: best first, at most limit. As in
// [rank], every statistic is counted over exactly these.
func near(c *Catalog, set *Set, query string, limit int, extra []extraDoc, without NearPart) nearAnswer {
	if limit <= 0 || set.n != len(c.tools) || set.count+len(extra) == 0 {
		return nearAnswer{}
	}
	n := nearSearch{catalog: c, set: set, extra: extra, limit: limit, without: without, nearScratch: takeNearScratch()}
	defer n.release()
	n.measure()
	n.read(withoutPrefix(strings.TrimSpace(query)))
	if len(n.terms) > 0 {
		n.weigh()
		n.scoreTools()
		n.scoreExtra()
	}
	return nearAnswer{slices.Clone(n.hits), n.unknown, n.suggestions}
}

// nearBlock is how many tools are scored at a time, so that what scoring needs does not grow with the catalog.
const nearBlock = 2048

// nearScratch is what one search needs besides its result, used again.
type nearScratch struct {
	bits  []uint64
	terms []nearTerm
	hits  []hit
	// Of the tools of a block: what their words are worth, the rarity of these words, which terms they are, and how
	// many of them stand in the name.
	score, cover [nearBlock]float64
	mask         [nearBlock]uint64
	named        [nearBlock]uint8
}

var nearScratches = sync.Pool{New: func() any { return new(nearScratch) }}

func takeNearScratch() *nearScratch { return nearScratches.Get().(*nearScratch) }

func (s *nearScratch) release() {
	clear(s.terms[:cap(s.terms)]) // nothing may hold on to a catalog that is no longer used
	s.terms, s.hits = s.terms[:0], s.hits[:0]
	nearScratches.Put(s)
}

// nearTerm is one word that is looked for.
type nearTerm struct {
	token string
	hash  uint32
	list  []fieldPosting
	at    int // how far list has been read
	df    int
	idf   float64
	weak  bool // it says little
	guess bool // it is what an unknown word is taken for
}

// nearSearch is one query over one set of documents.
type nearSearch struct {
	*nearScratch
	catalog *Catalog
	set     *Set
	extra   []extraDoc
	limit   int
	without NearPart

	weights *fieldWeights
	members []uint64      // the set as bits, nil for all tools of the catalog
	fields  []extraFields // of the extra documents
	docs    float64
	average float64 // weighed length of a document, at least 1
	rarest  float64
	total   float64 // rarity of all terms
	scale   float64 // what evidence is divided by

	unknown     []string
	suggestions subjects.Ordered[string]
}

func (n *nearSearch) off(part NearPart) bool { return n.without&part != 0 }

// measure finds the set's bits and the number and lengths of all documents.
func (n *nearSearch) measure() {
	weights := nearWeights
	if n.off(NearFields) {
		weights = fieldWeights{10, 10, 10, 10, 10}
	}
	if n.off(NearDetails) {
		weights[detailField] = 0
	}
	n.weights = &weights
	if n.set.count < n.set.n {
		n.members = n.set.bitmap(n.bits)
		if n.set.words == nil {
			n.bits = n.members
		}
	}
	sum := n.lengths()
	n.fields = make([]extraFields, len(n.extra))
	for i := range n.extra {
		n.fields[i].read(&n.extra[i])
		sum += uint64(n.fields[i].lengths.weigh(n.weights))
	}
	n.docs = float64(n.set.count + len(n.extra))
	n.average = max(float64(sum)/n.docs, 1)
	n.rarest = n.idf(1)
}

// lengths is the sum of the weighed lengths of the set's tools.
func (n *nearSearch) lengths() (sum uint64) {
	x := n.catalog.index
	switch {
	case *n.weights != nearWeights:
		for i := range n.set.All() {
			sum += uint64(x.fields.lengths[i].weigh(n.weights))
		}
		return sum
	case n.members == nil:
		return x.fields.total
	}
	return n.set.lengthsIn(x).weighted
}

func (n *nearSearch) idf(df int) float64 {
	d := float64(df)
	return math.Log(1 + (n.docs-d+0.5)/(d+0.5))
}

func (n *nearSearch) has(tool uint32) bool {
	return n.members == nil || n.members[tool>>6]>>(tool&63)&1 != 0
}

// find is the number of documents that have a token, and its postings.
func (n *nearSearch) find(token string) (list []fieldPosting, df int) {
	if number, ok := n.catalog.index.vocabulary[token]; ok {
		list = n.catalog.index.fields.list(number)
		df = n.countMembers(list)
	}
	for i := range n.fields {
		if _, ok := n.fields[i].counts[token]; ok {
			df++
		}
	}
	return list, df
}

func (n *nearSearch) countMembers(list []fieldPosting) (df int) {
	if n.weights[detailField] == 0 {
		for _, p := range list {
			if n.has(p.tool) && p.counts.weigh(n.weights) > 0 {
				df++
			}
		}
		return df
	}
	if n.members == nil {
		return len(list)
	}
	for _, p := range list {
		df += int(n.members[p.tool>>6] >> (p.tool & 63) & 1)
	}
	return df
}

// told reports whether a document has a token in what a match reads: not only in what the schema says about parameters.
func (n *nearSearch) told(token string) bool {
	if number, ok := n.catalog.index.vocabulary[token]; ok {
		for _, p := range n.catalog.index.list(number, false) {
			if n.has(p.tool) {
				return true
			}
		}
	}
	for i := range n.fields {
		if _, ok := n.fields[i].counts[token]; ok {
			return true
		}
	}
	return false
}

// read takes the query apart. What no document has is told, whether it is looked for or not.
func (n *nearSearch) read(query string) {
	var quiet []string // words that say nothing
	words := 0
	s := wordScanner{text: query}
	for word, kind := s.next(); kind != noWord && words < MaxQueryWords; word, kind = s.next() {
		words++
		e := expand(word, kind)
		if kind == pairWord {
			n.readRun(word, e.parts)
			continue
		}
		if e.whole == "" {
			continue
		}
		stop, weak := isStopWord(word) && !n.off(NearStopWords), isWeakWord(word)
		if n.readUnknown(word, &e, stop || weak) {
			continue
		}
		if stop {
			quiet = append(quiet, e.whole)
			continue
		}
		n.readWord(&e, weak)
	}
	if len(n.terms) == 0 {
		for _, token := range quiet {
			n.lookUp(token, false)
		}
	}
}

// readWord looks for a word: for its whole if a document has that, else for its parts.
func (n *nearSearch) readWord(e *expansion, weak bool) {
	if list, df := n.find(e.whole); df > 0 || len(e.parts) == 0 {
		n.look(e.whole, list, df, weak)
		return
	}
	for _, p := range e.parts {
		n.lookUp(p, weak)
	}
}

// readUnknown tells a word that no document has, and looks for the word that it is taken for. It reports whether it
// did so. A word that is spelt right is taken for no other.
func (n *nearSearch) readUnknown(word string, e *expansion, right bool) bool {
	if n.told(e.whole) || len(e.parts) > 0 && !slices.ContainsFunc(e.parts, func(p string) bool { return !n.told(p) }) {
		return false
	}
	same := func(p subjects.Pair[string]) bool { return strings.EqualFold(p.Key, word) }
	if !n.tellUnknown(word) {
		return slices.ContainsFunc(n.suggestions, same) && !n.off(NearSpelling)
	}
	if right || len(n.unknown) > maxSpellings {
		return false
	}
	if _, df := n.find(e.whole); df > 0 { // only in what a schema says, but spelt so
		return false
	}
	token, suggestion := n.correct(word, e.whole)
	if suggestion == "" {
		return false
	}
	n.suggestions = append(n.suggestions, subjects.Pair[string]{Key: word, Value: suggestion})
	if n.off(NearSpelling) {
		return false
	}
	n.lookUp(token, false)
	if last := &n.terms[len(n.terms)-1]; last.token == token { // unless the query has it besides
		last.guess = true
	}
	return true
}

// tellUnknown enters an unknown word, and reports whether it is a new one.
func (n *nearSearch) tellUnknown(word string) bool {
	if len(n.unknown) == maxUnknownWords || slices.ContainsFunc(n.unknown, func(u string) bool { return strings.EqualFold(u, word) }) {
		return false
	}
	n.unknown = append(n.unknown, word)
	return true
}

// readRun looks for the pairs of a run of characters. A pair that no document has is ignored where it only came about
// between two that are known. Characters that stand in no known pair are an unknown word.
func (n *nearSearch) readRun(run string, pairs []string) {
	known := make([]bool, len(pairs)+2) // with a border, so that pair i is known[i+1]
	for i, p := range pairs {
		_, df := n.find(p)
		known[i+1] = df > 0
	}
	for i, p := range pairs {
		if known[i+1] || !(known[i] && known[i+2]) {
			n.lookUp(p, false)
		}
	}
	runes := []rune(run)
	if len(runes) != len(pairs)+1 { // one character, or compatibility forms that come apart
		if !slices.Contains(known, true) {
			n.tellUnknown(run)
		}
		return
	}
	for start := 0; start < len(runes); start++ {
		end := start
		for end < len(runes) && !known[end] && !known[end+1] { // the pairs that end and begin with the character
			end++
		}
		if end > start {
			n.tellUnknown(string(runes[start:end]))
			start = end
		}
	}
}

// lookUp looks for a token.
func (n *nearSearch) lookUp(token string, weak bool) {
	list, df := n.find(token)
	n.look(token, list, df, weak)
}

// look adds a term, once: a token that df documents have. It is weak if every word of the query that yields it is.
func (n *nearSearch) look(token string, list []fieldPosting, df int, weak bool) {
	weak = weak || isNumber(token)
	if at := slices.IndexFunc(n.terms, func(t nearTerm) bool { return t.token == token }); at >= 0 {
		n.terms[at].weak = n.terms[at].weak && weak
		return
	}
	if len(n.terms) < maxNearWords {
		n.terms = append(n.terms, nearTerm{token: token, hash: hashWord(token), list: list, df: df, weak: weak})
	}
}

// weigh finds the rarity of the terms, and what of the confidence is the same for all documents.
func (n *nearSearch) weigh() {
	for i := range n.terms {
		t := &n.terms[i]
		t.idf = n.idf(max(t.df, 1))
		if t.weak && !n.off(NearWeak) {
			t.idf *= nearWeak
		}
		n.total += t.idf
		if t.guess {
			t.idf *= nearSpelling
		}
	}
	n.scale = n.rarest * (nearK1 + 1)
	if !n.off(NearSize) {
		n.scale *= max(n.rarest, nearFloor)
	}
	if !n.off(NearLength) {
		n.scale *= math.Pow(float64(len(n.terms)), nearLength)
	}
}

// scoreTools scores the tools that have a term, block by block.
func (n *nearSearch) scoreTools() {
	x := &n.catalog.index.fields
	perLength := float64(nearK1*bm25B) / n.average
	weighted := x.weighted
	if *n.weights != nearWeights {
		weighted = nil
	}
	for base := 0; base < len(n.catalog.tools); base += nearBlock {
		end := uint32(min(base+nearBlock, len(n.catalog.tools)))
		for i := range n.terms {
			t := &n.terms[i]
			for ; t.at < len(t.list) && t.list[t.at].tool < end; t.at++ {
				p := t.list[t.at]
				if !n.has(p.tool) {
					continue
				}
				tf := float64(p.counts.weigh(n.weights)) / 10
				if tf == 0 {
					continue
				}
				length := 0.0
				if weighted != nil {
					length = float64(weighted[p.tool])
				} else {
					length = float64(x.lengths[p.tool].weigh(n.weights))
				}
				k := int(p.tool) - base
				n.score[k] += float64(t.idf*tf*(nearK1+1)) / (tf + nearK1*(1-bm25B) + float64(perLength*length))
				n.cover[k] += t.idf
				n.mask[k] |= 1 << i
				n.named[k] += uint8(p.counts >> 31)
			}
		}
		for k := range int(end) - base {
			if n.mask[k] == 0 {
				continue
			}
			n.consider(base+k, nearMeasures{
				score: n.score[k], cover: n.cover[k], mask: n.mask[k], named: int(n.named[k]), names: int(x.named[base+k]),
			})
			n.score[k], n.cover[k], n.mask[k], n.named[k] = 0, 0, 0, 0
		}
	}
}

func (n *nearSearch) scoreExtra() {
	perLength := float64(nearK1*bm25B) / n.average
	for d := range n.fields {
		f := &n.fields[d]
		length := float64(f.lengths.weigh(n.weights))
		m := nearMeasures{names: f.named}
		for i := range n.terms {
			t := &n.terms[i]
			counts, ok := f.counts[t.token]
			if !ok {
				continue
			}
			tf := float64(counts.weigh(n.weights)) / 10
			m.score += float64(t.idf*tf*(nearK1+1)) / (tf + nearK1*(1-bm25B) + float64(perLength*length))
			m.cover += t.idf
			m.mask |= 1 << i
			m.named += int(counts >> 31)
		}
		if m.mask != 0 {
			n.consider(len(n.catalog.tools)+d, m)
		}
	}
}

// nearMeasures is what the words of one document come to.
type nearMeasures struct {
	score, cover float64
	mask         uint64 // which terms it has
	named, names int    // words of its name that the query has, and all
}

// consider keeps a document if it is among the best.
func (n *nearSearch) consider(doc int, m nearMeasures) {
	if adjacent := m.mask & (m.mask << 1); adjacent != 0 && !n.off(NearPairs) {
		// The most that pairs can add tells most documents from the best without a look at theirs.
		most := m.score
		for rest := adjacent; rest != 0; rest &= rest - 1 {
			most += nearPair * n.pairRarity(bits.TrailingZeros64(rest))
		}
		if len(n.hits) == n.limit && n.confidence(most, &m) < n.hits[n.limit-1].score {
			return
		}
		for rest := adjacent; rest != 0; rest &= rest - 1 {
			if i := bits.TrailingZeros64(rest); n.hasPair(doc, pairOf(n.terms[i-1].hash, n.terms[i].hash)) {
				m.score += nearPair * n.pairRarity(i)
			}
		}
	}
	n.admit(hit{doc, n.confidence(m.score, &m)})
}

// pairRarity is the lesser rarity of term i and the one before it.
func (n *nearSearch) pairRarity(i int) float64 { return min(n.terms[i-1].idf, n.terms[i].idf) }

func (n *nearSearch) hasPair(doc int, pair uint32) bool {
	if tools := len(n.catalog.tools); doc >= tools {
		return slices.Contains(n.fields[doc-tools].pairs, pair)
	}
	return n.catalog.index.fields.hasPair(doc, pair)
}

// confidence is the formula above. The conversions keep compilers from fusing operations, so that it is the same on
// every machine.
func (n *nearSearch) confidence(score float64, m *nearMeasures) float64 {
	if m.names > 0 && !n.off(NearName) {
		score = float64(score * (1 + float64(nearName*float64(m.named)/float64(m.names))))
	}
	share := 1.0
	if !n.off(NearCoverage) {
		share = m.cover / n.total
	}
	return float64(score*math.Sqrt(share)) / n.scale
}

// admit keeps the best hits, in order.
func (n *nearSearch) admit(h hit) {
	if len(n.hits) == n.limit && compareHits(h, n.hits[n.limit-1]) > 0 {
		return
	}
	at, _ := slices.BinarySearchFunc(n.hits, h, compareHits)
	if len(n.hits) == n.limit {
		n.hits = n.hits[:n.limit-1]
	}
	n.hits = slices.Insert(n.hits, at, h)
}

// extraFields is what is known of an extra document, as [fieldIndex] knows it of a tool.
type extraFields struct {
	counts  map[string]packedCounts
	lengths fieldCounts
	named   int
	pairs   []uint32
}

func (x *extraFields) read(e *extraDoc) {
	x.counts = map[string]packedCounts{}
	x.text(sourceField, e.source)
	x.text(nameField, e.title)
	x.text(aboutField, e.about)
	for _, c := range x.counts {
		if c&covers != 0 {
			x.named++
		}
	}
	x.named = min(x.named, 255)
}

func (x *extraFields) text(f textField, text string) {
	last := uint32(0)
	s := wordScanner{text: text}
	for word, kind := s.next(); kind != noWord; word, kind = s.next() {
		e := expand(word, kind)
		parts := e.parts
		if e.whole != "" {
			x.count(f, e.whole, len(parts) == 0)
			if len(parts) == 0 {
				parts = []string{e.whole}
			}
		}
		for _, p := range e.parts {
			x.count(f, p, true)
		}
		if isStopWord(word) {
			continue
		}
		for _, p := range parts {
			hash := hashWord(p)
			if last != 0 {
				x.pairs = append(x.pairs, pairOf(last, hash))
			}
			last = hash
		}
	}
}

func (x *extraFields) count(f textField, token string, cover bool) {
	c := x.counts[token].plus(f)
	if f == nameField && cover {
		c |= covers
	}
	x.counts[token] = c
	if x.lengths[f] < math.MaxUint16 {
		x.lengths[f]++
	}
}
