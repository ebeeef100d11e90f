package catalog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"sync/atomic"
	"unsafe"
)

// Set is an immutable set of positions of one catalog. It is held in the smaller of two forms, runs of neighbouring
// positions (toolsets mostly stand together) or one bit per position, so that a set over n positions never takes more
// than n/8 bytes. A Set must not be copied; share the pointer.
type Set struct {
	n     int // positions are 0 to n-1
	count int
	runs  []run    // ascending, apart by at least one position; nil if words is used
	words []uint64 // bit i%64 of word i/64

	// lengths remembers the text lengths of the set's documents for the catalog that it was last ranked in.
	lengths atomic.Pointer[setLengths]
}

// run is the positions start to end-1.
type run struct{ start, end uint32 }

// FullSet is the set of all positions of a catalog with n tools.
func FullSet(n int) *Set {
	s := &Set{n: n, count: n}
	if n > 0 {
		s.runs = []run{{0, uint32(n)}}
	}
	return s
}

// NewSet is the set of the given positions of a catalog with n tools, in whatever order they come. A position outside
// of 0 to n-1 is left out.
func NewSet(n int, positions iter.Seq[int]) *Set {
	words := make([]uint64, wordsFor(n))
	for i := range positions {
		if i >= 0 && i < n {
			words[i>>6] |= 1 << (i & 63)
		}
	}
	return setOfWords(n, words)
}

func wordsFor(n int) int { return (n + 63) / 64 }

// setOfWords makes a set of words, which it may keep.
func setOfWords(n int, words []uint64) *Set {
	s := &Set{n: n}
	runs := 0
	var carry uint64 // 1 if the position before this word is in the set
	for _, w := range words {
		s.count += bits.OnesCount64(w)
		runs += bits.OnesCount64(w &^ (w<<1 | carry))
		carry = w >> 63
	}
	if uintptr(runs)*unsafe.Sizeof(run{}) > uintptr(len(words))*8 {
		s.words = words
		return s
	}
	s.runs = make([]run, 0, runs)
	for i := range onesOf(words) {
		if last := len(s.runs) - 1; last >= 0 && s.runs[last].end == uint32(i) {
			s.runs[last].end++
		} else {
			s.runs = append(s.runs, run{uint32(i), uint32(i) + 1})
		}
	}
	return s
}

// Len is the number of positions in the set.
func (s *Set) Len() int { return s.count }

// Contains reports whether position i is in the set.
func (s *Set) Contains(i int) bool {
	if i < 0 || i >= s.n {
		return false
	}
	if s.words != nil {
		return s.words[i>>6]>>(i&63)&1 != 0
	}
	at, found := slices.BinarySearchFunc(s.runs, uint32(i), func(r run, i uint32) int {
		return int(r.start) - int(i)
	})
	return found || at > 0 && uint32(i) < s.runs[at-1].end
}

// All yields the positions in ascending order.
func (s *Set) All() iter.Seq[int] {
	if s.words != nil {
		return onesOf(s.words)
	}
	return func(yield func(int) bool) {
		for _, r := range s.runs {
			for i := r.start; i < r.end; i++ {
				if !yield(int(i)) {
					return
				}
			}
		}
	}
}

func onesOf(words []uint64) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range words {
			for ; w != 0; w &= w - 1 {
				if !yield(i<<6 + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

// Filter is the set of those positions that keep holds. A set that stays as it is is returned itself, so that equal
// sets of one scope take their memory once.
func (s *Set) Filter(keep func(int) bool) *Set {
	words := make([]uint64, wordsFor(s.n))
	kept := 0
	for i := range s.All() {
		if keep(i) {
			words[i>>6] |= 1 << (i & 63)
			kept++
		}
	}
	if kept == s.count {
		return s
	}
	return setOfWords(s.n, words)
}

// Equal reports whether both sets belong to catalogs of one size and hold the same positions.
func (s *Set) Equal(o *Set) bool {
	// The form follows from the positions, so equal sets have equal forms.
	return s == o || s.n == o.n && s.count == o.count && slices.Equal(s.runs, o.runs) && slices.Equal(s.words, o.words)
}

// Size is the memory that the set takes, in bytes.
func (s *Set) Size() int64 {
	return int64(unsafe.Sizeof(*s)) + int64(cap(s.runs))*int64(unsafe.Sizeof(run{})) + int64(cap(s.words))*8 +
		int64(unsafe.Sizeof(setLengths{}))
}

// bitmap is the set as words, written over buf if the set is not held so. The result is for reading.
func (s *Set) bitmap(buf []uint64) []uint64 {
	if s.words != nil {
		return s.words
	}
	buf = slices.Grow(buf[:0], wordsFor(s.n))[:wordsFor(s.n)]
	clear(buf)
	for _, r := range s.runs {
		first, last := r.start>>6, (r.end-1)>>6
		low, high := ^uint64(0)<<(r.start&63), ^uint64(0)>>(63-(r.end-1)&63)
		if first == last {
			buf[first] |= low & high
			continue
		}
		buf[first] |= low
		for i := first + 1; i < last; i++ {
			buf[i] = ^uint64(0)
		}
		buf[last] |= high
	}
	return buf
}

// The two forms of the bytes of a set.
const (
	setRuns = 'r' // for each run: the gap since the last run's end, then its length, as varints
	setBits = 'b' // one bit per position, eight to a byte, lowest first, without trailing zero bytes
)

// AppendBinary appends the set in the shorter of two forms. Equal sets give equal bytes.
func (s *Set) AppendBinary(dst []byte) ([]byte, error) {
	start := len(dst)
	dst = append(dst, setRuns)
	bitsLen := 1
	end := -1
	for r := range s.allRuns() {
		dst = binary.AppendUvarint(dst, uint64(int(r.start)-max(end, 0)))
		dst = binary.AppendUvarint(dst, uint64(r.end-r.start))
		end = int(r.end)
		bitsLen = 1 + (end+7)/8
	}
	if len(dst)-start <= bitsLen {
		return dst, nil
	}
	dst = append(dst[:start], setBits)
	for _, w := range s.bitmap(nil) {
		dst = binary.LittleEndian.AppendUint64(dst, w)
	}
	for len(dst) > start+1 && dst[len(dst)-1] == 0 {
		dst = dst[:len(dst)-1]
	}
	return dst, nil
}

// allRuns yields the runs of the set, in whichever form it is held.
func (s *Set) allRuns() iter.Seq[run] {
	if s.words == nil {
		return slices.Values(s.runs)
	}
	return func(yield func(run) bool) {
		var r run
		for i := range onesOf(s.words) {
			if r.end == uint32(i) && r.end > r.start {
				r.end++
				continue
			}
			if r.end > r.start && !yield(r) {
				return
			}
			r = run{uint32(i), uint32(i) + 1}
		}
		if r.end > r.start {
			yield(r)
		}
	}
}

var errSet = errors.New("catalog: bytes that are no set")

// ParseSet reads what [Set.AppendBinary] wrote, for a catalog with n tools. A position outside of it is an error.
func ParseSet(n int, p []byte) (*Set, error) {
	if len(p) == 0 {
		return nil, errSet
	}
	words := make([]uint64, wordsFor(n))
	switch form, p := p[0], p[1:]; form {
	case setRuns:
		runs, err := parseRuns(n, p)
		if err != nil {
			return nil, err
		}
		(&Set{n: n, runs: runs}).bitmap(words)
	case setBits:
		if len(p) > len(words)*8 {
			return nil, fmt.Errorf("%w: a position over %d", errSet, n)
		}
		for i, b := range p {
			words[i>>3] |= uint64(b) << (i & 7 * 8)
		}
		if rest := n & 63; rest != 0 && words[len(words)-1]>>rest != 0 {
			return nil, fmt.Errorf("%w: a position over %d", errSet, n)
		}
	default:
		return nil, errSet
	}
	return setOfWords(n, words), nil
}

func parseRuns(n int, p []byte) ([]run, error) {
	var runs []run
	end := uint64(0)
	for len(p) > 0 {
		gap, k := binary.Uvarint(p)
		if k <= 0 {
			return nil, errSet
		}
		length, l := binary.Uvarint(p[k:])
		if l <= 0 || length == 0 {
			return nil, errSet
		}
		p = p[k+l:]
		if gap > uint64(n) || length > uint64(n) || end+gap+length > uint64(n) {
			return nil, fmt.Errorf("%w: a position over %d", errSet, n)
		}
		runs = append(runs, run{uint32(end + gap), uint32(end + gap + length)})
		end += gap + length
	}
	return runs, nil
}
