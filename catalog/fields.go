package catalog

import (
	"hash/fnv"
	"slices"
	"unsafe"
)

// field of a tool's text, as far as the near half of a search tells them apart.
type textField uint8

const (
	nameField      textField = iota // the name without its server
	sourceField                     // the server in the name, and the label of the group
	aboutField                      // the description
	parameterField                  // the names of the parameters
	detailField                     // what the schema says about the parameters: descriptions and enum values
	textFields
)

// fieldIndex is the part of an index that only the near half of a search reads. It knows of each word in which fields
// of a tool it stands, which a match does not ask, and it covers what the schema says about the parameters, of which
// matches know nothing. Words have the same numbers as in the [index].
type fieldIndex struct {
	postings []fieldPosting // word by word, and by position within one
	starts   []uint32       // the postings of word t are starts[t] to starts[t+1]
	lengths  []fieldCounts  // of each tool: its words by field
	weighted []uint32       // of each tool: the same, weighed by [nearWeights]
	total    uint64         // the sum of weighted
	named    []uint8        // of each tool: how many different words its name has
	// pairs holds of each tool the words that stand side by side, as hashes, ascending: those of tool i are
	// pairs[pairStarts[i]:pairStarts[i+1]]. A hash follows from the words alone, never from their numbers, for a tool
	// must look the same from every catalog that it stands in.
	pairs      []uint32
	pairStarts []uint32
	hashes     []uint32 // of each word
	words      []string // by number
}

// fieldPosting says how often a word stands in each field of one tool.
type fieldPosting struct {
	tool   uint32
	counts packedCounts
}

// packedCounts are the counts of a word by field, each cut off at the most that its bits hold, and a mark.
type packedCounts uint32

// covers marks a word that the query must have for the name to be covered. The whole of a name's part in camelCase is
// none: its parts are.
const covers packedCounts = 1 << 31

var (
	fieldShift = [textFields]uint8{nameField: 0, sourceField: 4, aboutField: 7, parameterField: 16, detailField: 23}
	fieldMost  = [textFields]packedCounts{nameField: 15, sourceField: 7, aboutField: 511, parameterField: 127, detailField: 255}
)

func (p packedCounts) of(f textField) uint32 { return uint32(p >> fieldShift[f] & fieldMost[f]) }

func (p packedCounts) plus(f textField) packedCounts {
	if p>>fieldShift[f]&fieldMost[f] == fieldMost[f] {
		return p
	}
	return p + 1<<fieldShift[f]
}

// weigh is the sum of the counts, each times its field's weight.
func (p packedCounts) weigh(weights *fieldWeights) uint32 {
	return p.of(nameField)*weights[nameField] + p.of(sourceField)*weights[sourceField] + p.of(aboutField)*weights[aboutField] +
		p.of(parameterField)*weights[parameterField] + p.of(detailField)*weights[detailField]
}

// fieldCounts are numbers of words by field.
type fieldCounts [textFields]uint16

func (c *fieldCounts) weigh(weights *fieldWeights) uint32 {
	sum := uint32(0)
	for f, n := range c {
		sum += uint32(n) * weights[f]
	}
	return sum
}

// fieldWeights say what a word counts in each field, in tenths: sums of them are exact.
type fieldWeights [textFields]uint32

func (x *fieldIndex) list(token uint32) []fieldPosting {
	return x.postings[x.starts[token]:x.starts[token+1]]
}

// hasPair reports whether two words stand side by side in a tool.
func (x *fieldIndex) hasPair(tool int, pair uint32) bool {
	_, found := slices.BinarySearch(x.pairs[x.pairStarts[tool]:x.pairStarts[tool+1]], pair)
	return found
}

func (x *fieldIndex) size() int64 {
	const posting = int64(unsafe.Sizeof(fieldPosting{}))
	n := int64(unsafe.Sizeof(*x)) + int64(len(x.postings))*posting
	n += int64(len(x.pairs)+len(x.starts)+len(x.pairStarts)+len(x.hashes)+len(x.weighted))*4 + int64(len(x.named))
	return n + int64(len(x.lengths))*int64(unsafe.Sizeof(fieldCounts{})) + int64(len(x.words))*int64(unsafe.Sizeof(""))
}

func hashWord(word string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(word)) // never fails
	return h.Sum32()
}

// pairOf is the hash of two words that stand side by side, in their order.
func pairOf(first, second uint32) uint32 {
	h := (uint64(first)<<32 | uint64(second)) * 0x9E3779B97F4A7C15
	return uint32(h >> 32)
}

// The bounds of what is read of one schema beyond the names of its parameters. They keep the index small where a schema
// holds a manual; the first words of one say what it is about.
const (
	maxDetailDepth = 3   // parameters inside parameters
	maxDetailTexts = 64  // descriptions and enum values
	maxDetailWords = 100 // words of those
)

// endTool enters what is known of the next tool as a whole. Its pairs are sorted in place.
func (x *fieldIndex) endTool(counts fieldCounts, named int, pairs []uint32) {
	if len(x.pairStarts) == 0 {
		x.pairStarts = append(x.pairStarts, 0)
	}
	slices.Sort(pairs)
	x.pairs = append(x.pairs, slices.Compact(pairs)...)
	x.pairStarts = append(x.pairStarts, uint32(len(x.pairs)))
	x.lengths = append(x.lengths, counts)
	x.named = append(x.named, uint8(min(named, 255)))
}

// finish weighs the lengths and gives back what was grown too far.
func (x *fieldIndex) finish() {
	x.pairs, x.lengths, x.named = slices.Clip(x.pairs), slices.Clip(x.lengths), slices.Clip(x.named)
	x.words, x.hashes, x.pairStarts = slices.Clip(x.words), slices.Clip(x.hashes), slices.Clip(x.pairStarts)
	x.weighted = make([]uint32, len(x.lengths))
	for i := range x.lengths {
		x.weighted[i] = x.lengths[i].weigh(&nearWeights)
		x.total += uint64(x.weighted[i])
	}
}
