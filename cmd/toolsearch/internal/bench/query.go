package bench

import (
	"encoding/json"
	"math/rand/v2"
	"strings"

	"toolsearch/catalog"
	"toolsearch/subjects"
)

// load is the requests of one run: the same queries for the measure in this process and for the bus.
type load struct {
	arguments []json.RawMessage // of tool_search
	requests  [][]byte          // bodies
	replies   []int             // bytes of each reply
}

// queries makes n different queries of two to four words of one tool each, as a model would paraphrase it: equal
// catalogs give equal queries.
func queries(c *catalog.Catalog, n int) []string {
	rng := rand.New(rand.NewPCG(1, uint64(c.Len())))
	seen := make(map[string]bool, n)
	out := make([]string, 0, n)
	for tries := 0; len(out) < n && tries < 100*n; tries++ {
		q := query(c.Tool(rng.IntN(c.Len())), rng)
		if q != "" && !seen[q] {
			seen[q] = true
			out = append(out, q)
		}
	}
	return out
}

func query(t *catalog.Tool, rng *rand.Rand) string {
	words := strings.FieldsFunc(t.Name+" "+t.Description, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9')
	})
	if len(words) == 0 {
		return ""
	}
	picked := make([]string, 0, 4)
	for range 2 + rng.IntN(3) {
		picked = append(picked, strings.ToLower(words[rng.IntN(len(words))]))
	}
	return strings.Join(picked, " ")
}

// newLoad words the requests for a scope and learns each reply's size from the scope itself.
func newLoad(s *catalog.Scope, n int) (*load, error) {
	l := &load{}
	for _, q := range queries(s.Catalog(), n) {
		args, err := subjects.Marshal(map[string]any{"queries": []string{q}})
		if err != nil {
			return nil, err
		}
		body, err := subjects.AppendBridgeRequest(nil, &subjects.BridgeRequest{Scope: subjects.Handle(s.Handle()), Arguments: args})
		if err != nil {
			return nil, err
		}
		reply, err := search(s, args, nil)
		if err != nil {
			return nil, err
		}
		l.arguments = append(l.arguments, args)
		l.requests = append(l.requests, body)
		l.replies = append(l.replies, len(reply))
	}
	return l, nil
}

// search is what a worker does for one request, but for the bus and the cache of scopes.
func search(s *catalog.Scope, arguments json.RawMessage, dst []byte) ([]byte, error) {
	q, err := s.ParseSearch(arguments)
	if err != nil {
		return nil, err
	}
	return s.Search(q, nil).AppendModel(dst), nil
}

func (l *load) averages() (request, reply float64) {
	for i := range l.requests {
		request += float64(len(l.requests[i]))
		reply += float64(l.replies[i])
	}
	n := float64(max(1, len(l.requests)))
	return request / n, reply / n
}
