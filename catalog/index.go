package catalog

import (
	"math"
	"slices"
	"strings"
	"unicode"
	"unsafe"
)

// index is the inverted index of a catalog: for each token the tools that have it. Tools are known by their positions
// and tokens by small numbers, so that what a search walks through is flat memory. It is built once and never changed.
//
// It keeps two readings of the text apart: the full one, and the plain one of a reader that knows ASCII words only.
// They are the same for most words of most tools, and then stored once. See [rank] for what the plain reading serves.
type index struct {
	vocabulary map[string]uint32 // token to number
	postings   []posting         // of the full reading: token by token, and by position within one
	starts     []uint32          // the postings of token t are starts[t] to starts[t+1]
	// dense holds, for each token of many tools, its tools as bits, so that counting them within a set is quick.
	dense   map[uint32][]uint64
	lengths []uint32 // tokens of each tool
	total   uint64   // the sum of lengths

	// The plain reading where it differs from the full one; all nil where it never does.
	plainPostings map[uint32][]posting
	plainLengths  []uint32
	plainTotal    uint64

	fields    fieldIndex
	spellings spellings

	vocabularyBytes int64
}

// posting says how often a token occurs in one tool.
type posting struct{ tool, count uint32 }

// denseShare is the share of all tools, one in so many, over which a token is kept as bits as well. Its bits then take
// at most half the memory of its postings. A small catalog has no need of them.
const (
	denseShare    = 32
	denseMinTools = 1024
)

// list is the postings of a token in one of the readings.
func (x *index) list(token uint32, plain bool) []posting {
	if plain {
		if list, ok := x.plainPostings[token]; ok {
			return list
		}
	}
	return x.postings[x.starts[token]:x.starts[token+1]]
}

// lengthsOf is the number of tokens of each tool in one of the readings, and their sum.
func (x *index) lengthsOf(plain bool) (lengths []uint32, total uint64) {
	if plain && x.plainLengths != nil {
		return x.plainLengths, x.plainTotal
	}
	return x.lengths, x.total
}

// readsAlike reports whether both readings of every tool are the same.
func (x *index) readsAlike() bool { return x.plainLengths == nil }

func (x *index) size() int64 {
	const posting = int64(unsafe.Sizeof(posting{}))
	const entry = 2 * (16 + 4) // of the vocabulary: a string header and a number, at the load of a Go map
	n := int64(unsafe.Sizeof(*x)) + int64(len(x.postings))*posting
	n += int64(len(x.starts)+len(x.lengths)+len(x.plainLengths)) * 4
	n += int64(len(x.vocabulary))*entry + x.vocabularyBytes
	for _, words := range x.dense {
		n += int64(len(words))*8 + 2*(4+24)
	}
	for _, list := range x.plainPostings {
		n += int64(len(list))*posting + 2*(4+24)
	}
	return n + x.fields.size() + x.spellings.size()
}

// indexer builds an index, tool by tool.
type indexer struct {
	index *index
	// seen remembers what a word yields as it is written: the texts of a catalog repeat theirs many times over.
	seen    map[string]wordTokens
	records recordLog
	tool    uint32
	// mostWords is [MaxDifferentWords]; overflow says that there are more.
	mostWords uint32
	overflow  bool
	// The tokens of the tool at hand, and by token how often it has each.
	tokens  []uint32
	full    []uint32
	plain   []uint32
	fields  []packedCounts
	lengths [2]uint32
	// The field at hand, how many words of each the tool has, the hash of the last word in it, and all its pairs.
	field  textField
	counts fieldCounts
	last   uint32
	pairs  []uint32
}

// wordTokens are the tokens of a word in both readings. For a plain word, other is nil and its one token is in both.
type wordTokens struct {
	token uint32
	stop  bool // it says nothing, see [stopWords]
	other *otherTokens
}

type otherTokens struct {
	full, plain []uint32
	parts       []uint32 // of full: the parts, or the whole of a word without parts
}

// maxSeen bounds what is remembered of words as they are written, for texts that do not repeat theirs.
const maxSeen = 1 << 17

// record says how often a tool has a token in either reading.
type record struct {
	token, tool, full, plain uint32
	fields                   packedCounts
}

// recordLog holds records in the order of their tools. It grows in pieces, so that nothing is moved.
type recordLog [][]record

func (l *recordLog) add(r record) {
	const piece = 1 << 14
	last := len(*l) - 1
	if last < 0 || len((*l)[last]) == piece {
		*l = append(*l, make([]record, 0, piece))
		last++
	}
	(*l)[last] = append((*l)[last], r)
}

func (l recordLog) all(yield func(record) bool) {
	for _, piece := range l {
		for _, r := range piece {
			if !yield(r) {
				return
			}
		}
	}
}

func newIndexer() *indexer {
	return &indexer{
		index:     &index{vocabulary: map[string]uint32{}},
		seen:      map[string]wordTokens{},
		mostWords: MaxDifferentWords,
	}
}

// add indexes the next tool: its name, its group's label, its description and the names of its parameters. What stands
// deeper in the schema is for the near half of a search alone.
func (x *indexer) add(t *Tool, s *schema) {
	server, name := splitName(t.Name)
	x.text(sourceField, server)
	x.text(nameField, name)
	if label := indexedLabel(t); label != "" {
		x.text(sourceField, label)
	}
	x.text(aboutField, t.Description)
	if s != nil {
		for _, key := range keys(s.properties) {
			x.text(parameterField, key)
		}
		x.details(s.details)
	}
	x.endTool()
}

// splitName parts a name mcp__<server>__<tool> into its server and the rest. Any other name has no server in it.
func splitName(full string) (server, name string) {
	rest, ok := strings.CutPrefix(full, "mcp__")
	if server, name, found := strings.Cut(rest, "__"); ok && found {
		return server, name
	}
	return "", rest
}

// indexedLabel is the label of a tool's group where it is indexed: it is not if the name says it already.
func indexedLabel(t *Tool) string {
	_, source := t.Source()
	if label := t.Label(); source != "" && !hasWord(strings.TrimPrefix(t.Name, "mcp__"), label) {
		return label
	}
	return ""
}

// hasWord reports whether label is literally one of the words of a name, which are parted by _ . : - and spaces.
func hasWord(name, label string) bool {
	for word := range strings.FieldsFuncSeq(name, func(r rune) bool {
		return strings.ContainsRune("_.:-", r) || unicode.IsSpace(r)
	}) {
		if word == label {
			return true
		}
	}
	return false
}

// keys are the keys of an object, each once.
func keys(written [][]byte) []string {
	all := make([]string, 0, len(written))
	seen := make(map[string]bool, len(written))
	for _, w := range written {
		if key := string(w); !seen[key] {
			seen[key] = true
			all = append(all, key)
		}
	}
	return all
}

func (x *indexer) text(f textField, text string) {
	x.field, x.last = f, 0
	s := wordScanner{text: text}
	for word, kind := s.next(); kind != noWord && !x.overflow; word, kind = s.next() {
		w := x.tokensOf(word, kind)
		if w.other == nil {
			x.count(w.token, 1, 1)
			x.countField(w.token, covers)
		} else {
			x.countOther(w.other)
		}
		if !w.stop {
			x.countPairs(&w)
		}
	}
}

// details indexes what the schema says about the parameters.
func (x *indexer) details(texts [][]byte) {
	x.field = detailField
	words := 0
	for _, raw := range texts {
		text, _ := unquote(raw)
		s := wordScanner{text: text}
		for word, kind := s.next(); kind != noWord && !x.overflow; word, kind = s.next() {
			if words++; words > maxDetailWords {
				return
			}
			w := x.tokensOf(word, kind)
			if w.other == nil {
				x.countField(w.token, 0)
				continue
			}
			for _, t := range w.other.full {
				x.countField(t, 0)
			}
		}
	}
}

// tokensOf is what a word yields, found out once.
func (x *indexer) tokensOf(word string, kind wordKind) wordTokens {
	w, ok := x.seen[word]
	if !ok {
		if w = x.read(word, kind); len(x.seen) < maxSeen {
			x.seen[strings.Clone(word)] = w
		}
	}
	return w
}

func (x *indexer) countOther(o *otherTokens) {
	for _, t := range o.full {
		x.count(t, 1, 0)
		x.countField(t, 0)
	}
	for _, t := range o.parts {
		x.cover(t)
	}
	for _, t := range o.plain {
		x.count(t, 0, 1)
	}
}

// countPairs enters the pairs that a word ends. Words that say nothing stand in no pair and between none.
func (x *indexer) countPairs(w *wordTokens) {
	parts := []uint32{w.token}
	if w.other != nil {
		parts = w.other.parts
	}
	for _, t := range parts {
		hash := x.index.fields.hashes[t]
		if x.last != 0 {
			x.pairs = append(x.pairs, pairOf(x.last, hash))
		}
		x.last = hash
	}
}

// read finds out what a new word yields.
func (x *indexer) read(word string, kind wordKind) wordTokens {
	e := expand(word, kind)
	if e.isPlain() {
		return wordTokens{token: x.number(e.whole), stop: isStopWord(word)}
	}
	o := new(otherTokens)
	if e.whole != "" {
		o.full = append(o.full, x.number(e.whole))
	}
	for _, p := range e.parts {
		o.full = append(o.full, x.number(p))
	}
	o.parts = o.full
	if e.whole != "" && len(e.parts) > 0 {
		o.parts = o.full[1:]
	}
	for _, p := range e.plain {
		o.plain = append(o.plain, x.number(p))
	}
	return wordTokens{stop: isStopWord(word), other: o}
}

// number is the number of a token, a new one if it has none yet.
func (x *indexer) number(token string) uint32 {
	if n, ok := x.index.vocabulary[token]; ok {
		return n
	}
	n := uint32(len(x.full))
	if n == x.mostWords {
		x.overflow = true
		return 0
	}
	x.index.vocabulary[token] = n
	x.index.vocabularyBytes += int64(len(token))
	x.full, x.plain, x.fields = append(x.full, 0), append(x.plain, 0), append(x.fields, 0)
	f := &x.index.fields
	f.words, f.hashes = append(f.words, token), append(f.hashes, hashWord(token))
	return n
}

// meet notes that the tool has a token.
func (x *indexer) meet(token uint32) {
	if x.full[token]+x.plain[token]+uint32(x.fields[token]) == 0 {
		x.tokens = append(x.tokens, token)
	}
}

// countField counts a token in the field at hand; mark is set on it if that is the name.
func (x *indexer) countField(token uint32, mark packedCounts) {
	x.meet(token)
	x.fields[token] = x.fields[token].plus(x.field)
	if x.counts[x.field] < math.MaxUint16 {
		x.counts[x.field]++
	}
	if mark != 0 {
		x.cover(token)
	}
}

// cover notes that a query must have the token to cover the name.
func (x *indexer) cover(token uint32) {
	if x.field == nameField {
		x.fields[token] |= covers
	}
}

func (x *indexer) count(token, full, plain uint32) {
	x.meet(token)
	x.full[token] += full
	x.plain[token] += plain
	x.lengths[0] += full
	x.lengths[1] += plain
}

func (x *indexer) endTool() {
	named := 0
	for _, t := range x.tokens {
		x.records.add(record{t, x.tool, x.full[t], x.plain[t], x.fields[t]})
		if x.fields[t]&covers != 0 {
			named++
		}
		x.full[t], x.plain[t], x.fields[t] = 0, 0, 0
	}
	x.tokens = x.tokens[:0]
	x.index.fields.endTool(x.counts, named, x.pairs)
	x.counts, x.pairs = fieldCounts{}, x.pairs[:0]
	i := x.index
	i.lengths = append(i.lengths, x.lengths[0])
	i.total += uint64(x.lengths[0])
	i.plainLengths = append(i.plainLengths, x.lengths[1])
	i.plainTotal += uint64(x.lengths[1])
	x.lengths = [2]uint32{}
	x.tool++
}

// finish lays the index out in its final form.
func (x *indexer) finish() *index {
	i := x.index
	tokens := len(x.full)
	i.starts, i.fields.starts = make([]uint32, tokens+1), make([]uint32, tokens+1)
	differs := make([]bool, tokens)
	alike := true
	for r := range x.records.all {
		if r.full > 0 {
			i.starts[r.token+1]++
		}
		if r.fields != 0 {
			i.fields.starts[r.token+1]++
		}
		if r.full != r.plain {
			differs[r.token], alike = true, false
		}
	}
	for t := range tokens {
		i.starts[t+1] += i.starts[t]
		i.fields.starts[t+1] += i.fields.starts[t]
	}
	// Records come in the order of the tools, so each token's postings do too.
	i.postings, i.fields.postings = make([]posting, i.starts[tokens]), make([]fieldPosting, i.fields.starts[tokens])
	next, nextField := slices.Clone(i.starts[:tokens]), slices.Clone(i.fields.starts[:tokens])
	for r := range x.records.all {
		if r.full > 0 {
			i.postings[next[r.token]] = posting{r.tool, r.full}
			next[r.token]++
		}
		if r.fields != 0 {
			i.fields.postings[nextField[r.token]] = fieldPosting{r.tool, r.fields}
			nextField[r.token]++
		}
	}
	if alike {
		i.plainLengths, i.plainTotal = nil, 0
	} else {
		i.plainPostings = plainLists(x.records, differs)
	}
	i.dense = denseTokens(i)
	i.fields.finish()
	i.spellings = newSpellings(i)
	x.seen, x.records = nil, nil
	return i
}

func plainLists(records recordLog, differs []bool) map[uint32][]posting {
	lists := map[uint32][]posting{}
	for t, d := range differs {
		if d {
			lists[uint32(t)] = nil
		}
	}
	for r := range records.all {
		if differs[r.token] && r.plain > 0 {
			lists[r.token] = append(lists[r.token], posting{r.tool, r.plain})
		}
	}
	for t, list := range lists {
		lists[t] = append([]posting(nil), list...)
	}
	return lists
}

func denseTokens(i *index) map[uint32][]uint64 {
	dense := map[uint32][]uint64{}
	if len(i.lengths) < denseMinTools {
		return dense
	}
	for t := range uint32(len(i.starts) - 1) {
		list := i.list(t, false)
		if len(list) <= len(i.lengths)/denseShare {
			continue
		}
		words := make([]uint64, wordsFor(len(i.lengths)))
		for _, p := range list {
			words[p.tool>>6] |= 1 << (p.tool & 63)
		}
		dense[t] = words
	}
	return dense
}
