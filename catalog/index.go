package catalog

import (
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
	return n
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
	lengths [2]uint32
}

// wordTokens are the tokens of a word in both readings. For a plain word, other is nil and its one token is in both.
type wordTokens struct {
	token uint32
	other *otherTokens
}

type otherTokens struct{ full, plain []uint32 }

// maxSeen bounds what is remembered of words as they are written, for texts that do not repeat theirs.
const maxSeen = 1 << 17

// record says how often a tool has a token in either reading.
type record struct{ token, tool, full, plain uint32 }

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

// add indexes the next tool: its name, its group's label, its description and the names of its parameters. Nothing from
// deeper in the schema is indexed.
func (x *indexer) add(t *Tool, parameters [][]byte) {
	name := strings.TrimPrefix(t.Name, "mcp__")
	x.text(name)
	if _, source := t.Source(); source != "" {
		if label := t.Label(); !hasWord(name, label) {
			x.text(label)
		}
	}
	x.text(t.Description)
	for _, key := range keys(parameters) {
		x.text(key)
	}
	x.endTool()
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

func (x *indexer) text(text string) {
	s := wordScanner{text: text}
	for word, kind := s.next(); kind != noWord && !x.overflow; word, kind = s.next() {
		w, ok := x.seen[word]
		if !ok {
			if w = x.read(word, kind); len(x.seen) < maxSeen {
				x.seen[strings.Clone(word)] = w
			}
		}
		if w.other == nil {
			x.count(w.token, 1, 1)
			continue
		}
		for _, t := range w.other.full {
			x.count(t, 1, 0)
		}
		for _, t := range w.other.plain {
			x.count(t, 0, 1)
		}
	}
}

// read finds out what a new word yields.
func (x *indexer) read(word string, kind wordKind) wordTokens {
	e := expand(word, kind)
	if e.isPlain() {
		return wordTokens{token: x.number(e.whole)}
	}
	o := new(otherTokens)
	if e.whole != "" {
		o.full = append(o.full, x.number(e.whole))
	}
	for _, p := range e.parts {
		o.full = append(o.full, x.number(p))
	}
	for _, p := range e.plain {
		o.plain = append(o.plain, x.number(p))
	}
	return wordTokens{other: o}
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
	x.full, x.plain = append(x.full, 0), append(x.plain, 0)
	return n
}

func (x *indexer) count(token, full, plain uint32) {
	if x.full[token]+x.plain[token] == 0 {
		x.tokens = append(x.tokens, token)
	}
	x.full[token] += full
	x.plain[token] += plain
	x.lengths[0] += full
	x.lengths[1] += plain
}

func (x *indexer) endTool() {
	for _, t := range x.tokens {
		x.records.add(record{t, x.tool, x.full[t], x.plain[t]})
		x.full[t], x.plain[t] = 0, 0
	}
	x.tokens = x.tokens[:0]
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
	i.starts = make([]uint32, tokens+1)
	differs := make([]bool, tokens)
	alike := true
	for r := range x.records.all {
		if r.full > 0 {
			i.starts[r.token+1]++
		}
		if r.full != r.plain {
			differs[r.token], alike = true, false
		}
	}
	for t := range tokens {
		i.starts[t+1] += i.starts[t]
	}
	// Records come in the order of the tools, so each token's postings do too.
	i.postings = make([]posting, i.starts[tokens])
	next := append([]uint32(nil), i.starts[:tokens]...)
	for r := range x.records.all {
		if r.full > 0 {
			i.postings[next[r.token]] = posting{r.tool, r.full}
			next[r.token]++
		}
	}
	if alike {
		i.plainLengths, i.plainTotal = nil, 0
	} else {
		i.plainPostings = plainLists(x.records, differs)
	}
	i.dense = denseTokens(i)
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
