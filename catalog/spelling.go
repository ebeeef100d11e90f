package catalog

import (
	"math/bits"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
	"unsafe"
)

// What is taken for a misspelling: a word of at least shortestMisspelling characters that one slip makes a known one (a
// character too many, too few, another, or two that changed places), or two slips from twoSlips characters on. A stem
// below anyFirst may be one slip away, and its first character must be right: short words have too many neighbours.
const (
	shortestMisspelling = 4
	anyFirst            = 6
	twoSlips            = 8
	longestSpelling     = 24
	// maxSpellings is how many unknown words of one query are compared.
	maxSpellings = 8
	// maxSpelledTools is in how many tools the written form of a suggestion is looked for.
	maxSpelledTools = 8
)

// spellings are the words of an index by their length, with a mask of their characters each, so that those which may be
// a slip away from a word are found in one walk over small numbers.
type spellings struct {
	words  []uint32 // numbers of words without digits, by length
	masks  []uint32
	starts [longestSpelling + 2]uint32 // those of length n are words[starts[n]:starts[n+1]]
}

func (s *spellings) size() int64 {
	return int64(unsafe.Sizeof(*s)) + int64(len(s.words)+len(s.masks))*4
}

// newSpellings takes the words that stand in a name, a description or the name of a parameter.
func newSpellings(x *index) spellings {
	var s spellings
	length := func(word string) int {
		n := utf8.RuneCountInString(word)
		if n < shortestMisspelling-1 || n > longestSpelling || !isSpelled(word) {
			return 0
		}
		return n
	}
	lengths := make([]uint8, len(x.fields.words))
	for t, word := range x.fields.words {
		if x.starts[t] == x.starts[t+1] {
			continue
		}
		lengths[t] = uint8(length(word))
		s.starts[lengths[t]+1]++
	}
	s.starts[1] = 0
	for n := 1; n < len(s.starts); n++ {
		s.starts[n] += s.starts[n-1]
	}
	total := s.starts[len(s.starts)-1]
	s.words, s.masks = make([]uint32, total), make([]uint32, total)
	next := s.starts
	for t, n := range lengths {
		if n > 0 {
			s.words[next[n]], s.masks[next[n]] = uint32(t), letterMask(x.fields.words[t])
			next[n]++
		}
	}
	return s
}

// isSpelled reports whether a word is made of letters, in a script that is written letter by letter.
func isSpelled(word string) bool {
	for _, r := range word {
		if !unicode.IsLetter(r) && !unicode.IsMark(r) || isPairRune(r) {
			return false
		}
	}
	return true
}

// letterMask has a bit for each character of a word; others may share it.
func letterMask(word string) (mask uint32) {
	for _, r := range word {
		mask |= 1 << (uint32(r) & 31)
	}
	return mask
}

// misspelling is a word that is compared with those that are known.
type misspelling struct {
	forms [3][]rune // as it is written, in small letters, its stem, and without a final s, which a slip may hide from the stemmer
	masks [3]uint32
	slips int
	known [longestSpelling]rune // the word at hand
}

func newMisspelling(word, stem string) (m misspelling, ok bool) {
	word = fold(word)
	n := utf8.RuneCountInString(word)
	if n < shortestMisspelling || n > longestSpelling || !isSpelled(word) {
		return m, false
	}
	m.slips = 1
	if n >= twoSlips {
		m.slips = 2
	}
	for i, form := range [...]string{word, stem, strings.TrimSuffix(word, "s")} {
		m.forms[i], m.masks[i] = []rune(form), letterMask(form)
	}
	return m, true
}

// distance is how many slips a known word is away, more than m.slips for too many.
func (m *misspelling) distance(known string) int {
	best := m.slips + 1
	word := m.known[:0]
	for _, r := range known {
		if len(word) == longestSpelling {
			return best
		}
		word = append(word, r)
	}
	for i, form := range m.forms {
		slips := m.slips
		if len(form) < anyFirst {
			slips = 1
		}
		if len(form) < anyFirst && form[0] != word[0] || i > 0 && slices.Equal(form, m.forms[0]) {
			continue
		}
		if d := SlipsBetween(form, word, slips); d <= slips {
			best = min(best, d)
		}
	}
	return best
}

// lengths are the least and the most characters of a word that may be near.
func (m *misspelling) lengths() (shortest, longest int) {
	shortest, longest = longestSpelling, 1
	for _, form := range m.forms {
		shortest, longest = min(shortest, len(form)-m.slips), max(longest, len(form)+m.slips)
	}
	return max(shortest, 1), min(longest, longestSpelling)
}

// mayBe reports whether a word with this mask may be near: a slip changes at most two bits.
func (m *misspelling) mayBe(mask uint32) bool {
	for _, own := range m.masks {
		if bits.OnesCount32(mask^own) <= 2*m.slips {
			return true
		}
	}
	return false
}

// correction is a known word that a misspelling may stand for.
type correction struct {
	token    string
	distance int
	df       int
}

// better reports whether c is to be preferred: the nearer, of equally near ones the more frequent, then by spelling.
func (c *correction) better(o *correction) bool {
	switch {
	case o.token == "" || c.distance != o.distance:
		return o.token == "" || c.distance < o.distance
	case c.df != o.df:
		return c.df > o.df
	}
	return c.token < o.token
}

// correct finds the word of the documents that an unknown word is a near miss of: its token, and how it is written.
// Both are "" if there is none.
func (n *nearSearch) correct(word, token string) (found, written string) {
	m, ok := newMisspelling(word, token)
	if !ok {
		return "", ""
	}
	var best correction
	consider := func(known string) {
		if d := m.distance(known); d <= m.slips && (best.token == "" || d <= best.distance) && !isStopWord(known) && n.told(known) {
			_, df := n.find(known)
			if c := (correction{known, d, df}); c.better(&best) {
				best = c
			}
		}
	}
	x := n.catalog.index
	shortest, longest := m.lengths()
	first, last := x.spellings.starts[shortest], x.spellings.starts[longest+1]
	for i := first; i < last; i++ {
		if m.mayBe(x.spellings.masks[i]) {
			consider(x.fields.words[x.spellings.words[i]])
		}
	}
	for i := range n.fields {
		for known := range n.fields[i].counts {
			if isSpelled(known) {
				consider(known)
			}
		}
	}
	if best.token == "" {
		return "", ""
	}
	return best.token, n.writtenForm(best.token, m.forms[0])
}

// writtenForm is how the first documents that have a token write it, in small letters: of several forms the one nearest
// to what the query has.
func (n *nearSearch) writtenForm(token string, near []rune) string {
	best, distance := "", 0
	look := func(texts ...string) {
		for _, text := range texts {
			for form := range formsOf(text, token) {
				if d := SlipsBetween(near, []rune(form), longestSpelling); best == "" || d < distance || d == distance && form < best {
					best, distance = form, d
				}
			}
		}
	}
	looked := 0
	if number, ok := n.catalog.index.vocabulary[token]; ok {
		for _, p := range n.catalog.index.list(number, false) {
			if looked == maxSpelledTools {
				break
			}
			if n.has(p.tool) {
				looked++
				t := &n.catalog.tools[p.tool]
				look(t.Name, indexedLabel(t), t.Description, parameterNames(t))
			}
		}
	}
	for i := range n.extra {
		if _, ok := n.fields[i].counts[token]; ok && looked < maxSpelledTools {
			looked++
			look(n.extra[i].source, n.extra[i].title, n.extra[i].about)
		}
	}
	return best
}

// parameterNames are the names of a tool's parameters, parted by spaces.
func parameterNames(t *Tool) string {
	r := definitionReader{cursor: cursor{data: t.Parameters}}
	var s schema
	if t.Parameters != nil {
		_ = r.schema(&s) // it was read before, so it has no error of syntax
	}
	return strings.Join(keys(s.properties), " ")
}

// formsOf yields the words of a text, and parts of words, that have a token, in small letters.
func formsOf(text, want string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		s := wordScanner{text: text}
		for word, kind := s.next(); kind != noWord; word, kind = s.next() {
			if kind == pairWord {
				continue
			}
			var forms []string
			if kind != plainWord {
				forms = split(word)
			}
			for _, form := range append(forms, word) {
				if token(form) == want && !yield(strings.ToLower(form)) {
					return
				}
			}
		}
	}
}

// SlipsBetween is the edit distance of two words in which two neighbours that changed places are one slip, or more than
// most if it is over that. Words of 50 characters and more are over it.
func SlipsBetween(a, b []rune, most int) int {
	if len(a)-len(b) > most || len(b)-len(a) > most {
		return most + 1
	}
	var rows [3][2*longestSpelling + 2]uint8 // small, for they are cleared at every call
	if len(a) >= len(rows[0]) || len(b) >= len(rows[0]) {
		return most + 1
	}
	two, one, row := rows[0][:len(b)+1], rows[1][:len(b)+1], rows[2][:len(b)+1]
	for j := range row {
		one[j] = uint8(j)
	}
	for i := 1; i <= len(a); i++ {
		row[0] = uint8(i)
		least := row[0]
		for j := 1; j <= len(b); j++ {
			d := one[j-1]
			if a[i-1] != b[j-1] {
				d = 1 + min(d, one[j], row[j-1])
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, two[j-2]+1)
			}
			row[j] = d
			least = min(least, d)
		}
		if int(least) > most {
			return most + 1
		}
		two, one, row = one, row, two
	}
	return min(int(one[len(b)]), most+1)
}
