package catalog

import "iter"

// names finds positions by name in lower case. Names that differ in case only share an entry, so one map serves the
// exact look-up and the search for a name in whatever case.
type names struct {
	first map[string]int32
	next  map[int32]int32 // from one position to the next of the same name in lower case; nearly always empty
	bytes int64
}

func newNames() names { return names{first: map[string]int32{}, next: map[int32]int32{}} }

// add enters the name of a position. Positions come in ascending order.
func (n *names) add(lower string, position int) {
	at, ok := n.first[lower]
	if !ok {
		n.first[lower] = int32(position)
		n.bytes += int64(len(lower))
		return
	}
	for {
		after, ok := n.next[at]
		if !ok {
			n.next[at] = int32(position)
			return
		}
		at = after
	}
}

// folded yields the positions of all names that are this one in lower case, in ascending order.
func (n *names) folded(lower string) iter.Seq[int] {
	return func(yield func(int) bool) {
		at, ok := n.first[lower]
		for ok && yield(int(at)) {
			at, ok = n.next[at]
		}
	}
}

func (n *names) size() int64 {
	const entry = 16 + 4 + 4 // of a map: key header, value, and its share of control bytes and slack
	return n.bytes + int64(len(n.first)+len(n.next))*entry*2
}
