package catalog

import (
	"math"
	"math/bits"
	"strings"
	"sync"
)

// scratch is what one ranking needs besides its result. It is used again, so that a search allocates little however
// large the catalog is.
type scratch struct {
	bits    []uint64
	numbers map[string]int32 // from token to its place in tokens
	tokens  []queryToken
	terms   []queryTerm
	parts   []int32 // of all terms: places in tokens
	order   []queryWord
	tools   []uint32 // of all terms: the tools that match
	counts  []uint32 // of extra document i, how often it has token t, at i*len(tokens)+t
	sizes   []uint32 // of extra documents: their lengths
	exact   []int
	hits    []hit
}

var scratches = sync.Pool{New: func() any { return &scratch{numbers: map[string]int32{}} }}

func takeScratch() *scratch { return scratches.Get().(*scratch) }

// release gives the scratch back, unless an outsize query has made it too large to keep.
func (s *scratch) release() {
	if cap(s.tokens) > 1024 || cap(s.hits) > 4096 || cap(s.counts) > 1<<16 || cap(s.tools) > 1<<18 {
		return
	}
	// Nothing may hold on to the postings of a catalog that is no longer used.
	clear(s.tokens[:cap(s.tokens)])
	clear(s.terms[:cap(s.terms)])
	clear(s.numbers)
	scratches.Put(s)
}

func (s *scratch) reset() {
	clear(s.numbers)
	s.tokens, s.terms, s.parts, s.order = s.tokens[:0], s.terms[:0], s.parts[:0], s.order[:0]
	s.tools, s.counts, s.sizes, s.hits = s.tools[:0], s.counts[:0], s.sizes[:0], s.hits[:0]
}

// queryToken is a token that some word of the query consists of.
type queryToken struct {
	list []posting // of the whole catalog
	bits []uint64  // the same, for a token of many tools
	df   int       // how many of the ranked documents have it
	idf  float64
	at   int    // how far list has been read
	tf   uint32 // how often the document at hand has it
}

// queryTerm is a word of the query. Words of one token are one term; one with parts is another.
type queryTerm struct {
	whole   int32    // its token
	parts   []int32  // the tokens of its parts, empty for a word of one part
	tools   []uint32 // with parts: the tools of the set that match, ascending
	df      int      // how many of the ranked documents match
	ignored bool     // an unknown pair that straddles two words
	adds    float64  // to the score of the document at hand; 0 if that does not match
}

// queryWord is one place of the query.
type queryWord struct {
	term int32
	run  int32 // which run of pairs it stands in, from 1; 0 for a word
}

// withoutPrefix drops one leading mcp__ from a query, unless nothing but that is in it.
func withoutPrefix(query string) string {
	const prefix = "mcp__"
	if len(query) < len(prefix) || !strings.EqualFold(query[:len(prefix)], prefix) {
		return query
	}
	s := wordScanner{text: query[len(prefix):]}
	if _, kind := s.next(); kind == noWord {
		return query
	}
	return query[len(prefix):]
}

// readQuery takes the query apart.
func (r *ranking) readQuery(query string) {
	r.plainQuery = true
	run := int32(0)
	s := wordScanner{text: query}
	for word, kind := s.next(); kind != noWord; word, kind = s.next() {
		e := expand(word, kind)
		r.plainQuery = r.plainQuery && e.isPlain()
		switch {
		case r.plain:
			for _, t := range e.plain {
				r.addWord(t, nil, 0)
			}
		case kind == pairWord:
			run++
			for _, t := range e.parts {
				r.addWord(t, nil, run)
			}
		case e.whole != "":
			r.addWord(e.whole, e.parts, 0)
		}
		if len(r.order) == MaxQueryWords {
			return
		}
	}
}

func (r *ranking) addWord(whole string, parts []string, run int32) {
	if len(r.order) == MaxQueryWords {
		return
	}
	w := r.token(whole)
	for i := range r.terms {
		if t := &r.terms[i]; t.whole == w && (len(t.parts) > 0) == (len(parts) > 0) {
			r.order = append(r.order, queryWord{int32(i), run})
			return
		}
	}
	first := len(r.parts)
	for _, p := range parts {
		r.parts = append(r.parts, r.token(p))
	}
	r.order = append(r.order, queryWord{int32(len(r.terms)), run})
	r.terms = append(r.terms, queryTerm{whole: w, parts: r.parts[first:len(r.parts):len(r.parts)]})
}

// token is the place of a token in r.tokens.
func (r *ranking) token(token string) int32 {
	if at, ok := r.numbers[token]; ok {
		return at
	}
	at := int32(len(r.tokens))
	r.numbers[token] = at
	q := queryToken{}
	x := r.catalog.index
	if number, ok := x.vocabulary[token]; ok {
		q.list = x.list(number, r.plain)
		if !r.plain {
			q.bits = x.dense[number]
		}
	}
	r.tokens = append(r.tokens, q)
	return at
}

// readExtra counts the query's tokens in the extra documents, and their lengths.
func (r *ranking) readExtra() {
	for _, e := range r.extra {
		first, length := len(r.counts), uint32(0)
		r.counts = append(r.counts, make([]uint32, len(r.tokens))...)
		count := func(token string) {
			length++
			if at, ok := r.numbers[token]; ok {
				r.counts[first+int(at)]++
			}
		}
		s := wordScanner{text: e.text}
		for word, kind := s.next(); kind != noWord; word, kind = s.next() {
			e := expand(word, kind)
			tokens := e.plain
			if !r.plain {
				tokens = e.parts
				if e.whole != "" {
					count(e.whole)
				}
			}
			for _, t := range tokens {
				count(t)
			}
		}
		r.sizes = append(r.sizes, length)
	}
}

// countTokens finds how many documents have each token.
func (r *ranking) countTokens() {
	for i := range r.tokens {
		q := &r.tokens[i]
		q.df = r.countMembers(q)
		for e := range r.extra {
			q.df += int(min(r.counts[e*len(r.tokens)+i], 1))
		}
		df := float64(q.df)
		q.idf = math.Log(1 + (r.docs-df+0.5)/(df+0.5))
	}
}

// countMembers is how many tools of the set have the token.
func (r *ranking) countMembers(q *queryToken) int {
	if r.members == nil {
		return len(q.list)
	}
	n := 0
	if q.bits != nil {
		for i, w := range q.bits {
			n += bits.OnesCount64(w & r.members[i])
		}
		return n
	}
	for _, p := range q.list {
		n += int(r.members[p.tool>>6] >> (p.tool & 63) & 1)
	}
	return n
}

// countTerms finds how many documents match each term.
func (r *ranking) countTerms() {
	for i := range r.terms {
		t := &r.terms[i]
		if len(t.parts) == 0 {
			t.df = r.tokens[t.whole].df
			continue
		}
		t.tools = r.toolsMatching(t)
		t.df = len(t.tools)
		for e := range r.extra {
			for k := range r.tokens {
				r.tokens[k].tf = r.counts[e*len(r.tokens)+k]
			}
			if r.matches(t) {
				t.df++
			}
		}
	}
}

// matches reports whether the document at hand has the term.
func (r *ranking) matches(t *queryTerm) bool {
	if r.tokens[t.whole].tf > 0 {
		return true
	}
	for _, p := range t.parts {
		if r.tokens[p].tf == 0 {
			return false
		}
	}
	return len(t.parts) > 0
}

// toolsMatching are the tools of the set that have a term's whole or all of its parts, ascending.
func (r *ranking) toolsMatching(t *queryTerm) []uint32 {
	withParts := r.toolsWithParts(t.parts)
	first := len(r.tools)
	for _, p := range r.tokens[t.whole].list {
		if !r.has(p.tool) {
			continue
		}
		for len(withParts) > 0 && withParts[0] <= p.tool {
			if withParts[0] < p.tool {
				r.tools = append(r.tools, withParts[0])
			}
			withParts = withParts[1:]
		}
		r.tools = append(r.tools, p.tool)
	}
	r.tools = append(r.tools, withParts...)
	return r.tools[first:len(r.tools):len(r.tools)]
}

// toolsWithParts are the tools of the set that have every one of the parts, ascending.
func (r *ranking) toolsWithParts(parts []int32) []uint32 {
	rarest := parts[0]
	for _, p := range parts {
		r.tokens[p].at = 0
		if len(r.tokens[p].list) < len(r.tokens[rarest].list) {
			rarest = p
		}
	}
	first := len(r.tools)
next:
	for _, p := range r.tokens[rarest].list {
		if !r.has(p.tool) {
			continue
		}
		for _, other := range parts {
			if other != rarest && r.tokens[other].advance(p.tool) == 0 {
				continue next
			}
		}
		r.tools = append(r.tools, p.tool)
	}
	return r.tools[first:len(r.tools):len(r.tools)]
}

// advance is how often the tool has the token. Tools are asked for in ascending order: it reads on from where it is, in
// steps that double, so that a rare word walks through the list of a common one quickly.
func (q *queryToken) advance(tool uint32) uint32 {
	list := q.list
	if q.at < len(list) && list[q.at].tool < tool {
		low, step := q.at, 1
		for low+step < len(list) && list[low+step].tool < tool {
			low += step
			step *= 2
		}
		high := min(low+step, len(list))
		for low+1 < high { // list[low] is before tool, list[high] is not
			if middle := int(uint(low+high) >> 1); list[middle].tool < tool {
				low = middle
			} else {
				high = middle
			}
		}
		q.at = high
	}
	if q.at < len(list) && list[q.at].tool == tool {
		return list[q.at].count
	}
	return 0
}

// ignoreStraddling marks the unknown pairs that only came about where two known words meet.
func (r *ranking) ignoreStraddling() {
	known := func(i int, run int32) bool {
		return i >= 0 && i < len(r.order) && r.order[i].run == run && r.terms[r.order[i].term].df > 0
	}
	for i, w := range r.order {
		if t := &r.terms[w.term]; t.df == 0 {
			t.ignored = w.run > 0 && known(i-1, w.run) && known(i+1, w.run)
		}
	}
	// A pair that stands elsewhere as well, where it does not straddle, is a word that is not known.
	for i, w := range r.order {
		if t := &r.terms[w.term]; t.ignored && !(known(i-1, w.run) && known(i+1, w.run)) {
			t.ignored = false
		}
	}
}
