package catalog

import (
	"encoding/binary"
	"hash/fnv"

	"toolsearch/subjects"
)

// DefaultSearchStreak is after how many searches in a row, without a describe or a call, the model is told to make use
// of what it found.
const DefaultSearchStreak = 12

// Follow counts an answered search into the session's searches in a row, and says so in the reply's hints: in the hint
// of a query that was asked before, and from longest searches on in the first group's; longest 0 or less is never. It
// returns the streak to go on with.
//
// Queries are the same if their words are: case, stems and what stands between words do not matter.
func (q *SearchQuery) Follow(before subjects.SearchStreak, longest int, reply *subjects.SearchReply) subjects.SearchStreak {
	asked := make(map[uint64]bool, len(before.Queries))
	for _, mark := range before.Queries {
		asked[mark] = true
	}
	marks := make([]uint64, 0, len(q.Queries))
	for i, query := range q.Queries {
		mark := queryMark(query)
		marks = append(marks, mark)
		if asked[mark] && i < len(reply.Results) {
			addHint(&reply.Results[i], textSameQuery)
		}
	}
	after := before.After(marks)
	if longest > 0 && after.Searches >= longest && len(reply.Results) > 0 {
		addHint(&reply.Results[0], textSearchStreak(after.Searches))
	}
	return after
}

func addHint(g *subjects.SearchGroup, text string) {
	if g.Hint != "" {
		g.Hint += " "
	}
	g.Hint += text
}

// queryMark is the same for queries of the same words in the same order.
func queryMark(query string) uint64 {
	h := fnv.New64a()
	for _, token := range tokenize(withoutPrefix(query)) {
		h.Write(binary.AppendUvarint(nil, uint64(len(token)))) // so that no two lists of words have the same bytes
		h.Write([]byte(token))
	}
	return h.Sum64()
}
