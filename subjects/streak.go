package subjects

import (
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
)

// HeaderSearchStreak is on the reply of a search: the number of searches in a row so far and, after it, marks of their
// queries. It is what the next search of the session passes on as search_streak, as it stands; see [SearchStreak].
const HeaderSearchStreak = "Toolsearch-Search-Streak"

// maxStreakQueries is how many queries a streak remembers, the last ones.
const maxStreakQueries = 32

// SearchStreak is a session's searches in a row, without a describe or a call between them. Workers remember nothing
// of a session: the caller passes on what the reply of its last search said in [HeaderSearchStreak], and drops it when
// the model describes or calls a tool. [Session] does so by itself. The zero value is no search yet.
//
// Its text is the number of searches and then, each after a space, 11 characters of base64url for each query. A caller
// that only counts may send the number alone.
type SearchStreak struct {
	// Searches is how many there were.
	Searches int
	// Queries are marks of what was asked, oldest first: equal for queries of equal words.
	Queries []uint64
}

// IsZero reports that there was no search yet.
func (s SearchStreak) IsZero() bool { return s.Searches == 0 && len(s.Queries) == 0 }

// After is the streak once another search was answered, which asked these queries.
func (s SearchStreak) After(queries []uint64) SearchStreak {
	all := slices.Clip(s.Queries)
	for _, q := range queries {
		all = slices.DeleteFunc(slices.Clone(all), func(old uint64) bool { return old == q })
		all = append(all, q)
	}
	return SearchStreak{Searches: s.Searches + 1, Queries: all[max(0, len(all)-maxStreakQueries):]}
}

// String writes the streak as it travels.
func (s SearchStreak) String() string {
	b := strconv.AppendInt(nil, int64(s.Searches), 10)
	for _, q := range s.Queries {
		b = append(b, ' ')
		b = base64.RawURLEncoding.AppendEncode(b, binary.BigEndian.AppendUint64(nil, q))
	}
	return string(b)
}

// ParseSearchStreak reads what [SearchStreak.String] wrote. An empty text is the zero streak. The error is a *[Error],
// BAD_REQUEST with details {"field": "search_streak"}.
func ParseSearchStreak(text string) (SearchStreak, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return SearchStreak{}, nil
	}
	n, err := strconv.Atoi(words[0])
	if err != nil || n < 0 || n > maxStreakSearches || len(words)-1 > maxStreakQueries {
		return SearchStreak{}, badStreak()
	}
	s := SearchStreak{Searches: n}
	for _, word := range words[1:] {
		p, err := base64.RawURLEncoding.DecodeString(word)
		if err != nil || len(p) != 8 {
			return SearchStreak{}, badStreak()
		}
		s.Queries = append(s.Queries, binary.BigEndian.Uint64(p))
	}
	return s, nil
}

// maxStreakSearches is more than a session ever makes.
const maxStreakSearches = 1 << 30

func badStreak() error {
	return &Error{
		Code: CodeBadRequest, Details: map[string]any{"field": "search_streak"},
		Message: "search_streak must be what the last search's header " + HeaderSearchStreak + " said, or the number of searches alone",
	}
}
