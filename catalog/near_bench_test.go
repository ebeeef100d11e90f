package catalog

import (
	"strings"
	"testing"
)

// BenchmarkSearchNear measures a search that finds no match and goes on: one word of each query is in no tool, another is
// misspelt. Figures are of both halves together.
func BenchmarkSearchNear(b *testing.B) {
	for name, elements := range benchmarkCatalogs(b) {
		c := buildTest(b, elements)
		sets := map[string]*Set{"": FullSet(c.Len()), "/scoped": FullSet(c.Len()).Filter(func(i int) bool { return i/100%3 > 0 })}
		queries := benchmarkQueries(c, 1000)
		for i, q := range queries {
			queries[i] = q + " zzyzxqq " + strings.Replace(strings.Fields(q)[0]+"s", "e", "", 1)
		}
		for scope, set := range sets {
			b.Run(name+scope, func(b *testing.B) {
				reportMedian(b, func(i int) {
					q := queries[i%len(queries)]
					if hits, _ := rank(c, set, q, 5, nil); len(hits) == 0 {
						near(c, set, q, 5, nil, 0)
					}
				})
			})
		}
	}
}
