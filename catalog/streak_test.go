package catalog

import (
	"strings"
	"testing"

	"toolsearch/subjects"
)

func TestFollowTellsTheSameQuery(t *testing.T) {
	t.Parallel()
	s := newTestScope(t, sampleTools(), &subjects.AssembleRequest{}, nil)
	streak := subjects.SearchStreak{}
	search := func(longest int, queries ...string) *subjects.SearchReply {
		q := &SearchQuery{Queries: queries, Limit: 5}
		reply := s.Search(q, nil)
		streak = q.Follow(streak, longest, reply)
		return reply
	}
	first := search(12, "list issues", "quokka")
	if strings.Contains(first.Results[0].Hint+first.Results[1].Hint, textSameQuery) {
		t.Errorf("a first search is told to be a second: %+v", first.Results)
	}
	again := search(12, "post message", "Quokkas!", "mcp__LIST_issue")
	for i, same := range []bool{false, true, true} {
		if got := strings.Contains(again.Results[i].Hint, textSameQuery); got != same {
			t.Errorf("%q: told %v, want %v: %q", again.Queries[i], got, same, again.Results[i].Hint)
		}
	}
	if !strings.HasPrefix(again.Results[1].Hint, "No tool") || len(again.Results[2].Matches) == 0 {
		t.Errorf("the sentence stands besides the rest: %+v", again.Results)
	}
	if other := search(12, "issues list"); other.Results[0].Hint != "" {
		t.Errorf("another order of words is another query: %q", other.Results[0].Hint)
	}
	if streak.Searches != 3 || len(streak.Queries) != 4 {
		t.Errorf("the streak is %+v", streak)
	}
	streak = subjects.SearchStreak{}
	if fresh := search(12, "quokka"); strings.Contains(fresh.Results[0].Hint, textSameQuery) {
		t.Error("after a describe or call a query may come again")
	}
}

func TestFollowTellsManySearches(t *testing.T) {
	t.Parallel()
	s := newTestScope(t, sampleTools(), &subjects.AssembleRequest{}, nil)
	for name, c := range map[string]struct{ before, longest, told int }{
		"one short": {10, 12, 0}, "the longest": {11, 12, 12}, "longer": {40, 12, 41}, "off": {40, 0, 0}, "never": {40, -1, 0}, "at once": {0, 1, 1},
	} {
		q := &SearchQuery{Queries: []string{"list issues", "quokka"}, Limit: 5}
		reply := s.Search(q, nil)
		plain := reply.Results[1].Hint
		after := q.Follow(subjects.SearchStreak{Searches: c.before}, c.longest, reply)
		want := ""
		if c.told > 0 {
			want = textSearchStreak(c.told)
		}
		if reply.Results[0].Hint != want || reply.Results[1].Hint != plain || after.Searches != c.before+1 {
			t.Errorf("%s: %d, %q and %q", name, after.Searches, reply.Results[0].Hint, reply.Results[1].Hint)
		}
	}
}
