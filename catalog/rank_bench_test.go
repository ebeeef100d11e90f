package catalog

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"toolsearch/catalog/catalogtest"
)

// benchmarkQueries are queries as models write them: two to four words of one tool's name and description, so that most
// find something, the same on every call.
func benchmarkQueries(c *Catalog, n int) []string {
	random := rand.New(rand.NewPCG(1, 2))
	queries := make([]string, n)
	for i := range queries {
		t := c.Tool(random.IntN(c.Len()))
		words := append(strings.FieldsFunc(strings.TrimPrefix(t.Name, "mcp__"), func(r rune) bool { return strings.ContainsRune("_-", r) }),
			strings.Fields(t.Description)[:min(6, len(strings.Fields(t.Description)))]...)
		var picked []string
		for range 2 + random.IntN(3) {
			picked = append(picked, words[random.IntN(len(words))])
		}
		queries[i] = strings.Join(picked, " ")
	}
	return queries
}

// reportMedian runs a function over and over, and reports the median of its times besides the mean.
func reportMedian(b *testing.B, run func(i int)) time.Duration {
	b.Helper()
	times := make([]time.Duration, 0, 1<<20)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		run(i)
		if len(times) < cap(times) {
			times = append(times, time.Since(start))
		}
	}
	slices.Sort(times)
	median := times[len(times)/2]
	b.ReportMetric(float64(median.Nanoseconds())/1e3, "p50_µs")
	b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds())/1e3, "p99_µs")
	return median
}

// BenchmarkSearch measures one search of five over real and generated catalogs of growing size.
func BenchmarkSearch(b *testing.B) {
	for name, elements := range benchmarkCatalogs(b) {
		b.Run(name, func(b *testing.B) {
			c := buildTest(b, elements)
			set := FullSet(c.Len())
			queries := benchmarkQueries(c, 1000)
			reportMedian(b, func(i int) { rank(c, set, queries[i%len(queries)], 5, nil) })
		})
	}
}

func benchmarkCatalogs(b *testing.B) func(yield func(string, []catalogtest.Element) bool) {
	return func(yield func(string, []catalogtest.Element) bool) {
		_ = yield("rest", catalogtest.File(b, "cloudflare.json", "github_rest.json", "github.json", "gitlab.json")) &&
			yield("real", catalogtest.File(b, catalogtest.Files(b)...)) &&
			yield("1000", catalogtest.Generated(1_000)) &&
			yield("9000", catalogtest.Generated(9_000)) &&
			yield("30000", catalogtest.Generated(30_000))
	}
}

// BenchmarkSearchScoped measures scopes of one catalog of 9,000 tools beside a search of all of it, in one run.
func BenchmarkSearchScoped(b *testing.B) {
	c := buildTest(b, catalogtest.Generated(9_000))
	queries := benchmarkQueries(c, 1000)
	all := FullSet(c.Len())
	for name, keep := range map[string]func(int) bool{
		"toolsets": func(i int) bool { return i/100%2 == 0 },
		"mixed":    func(i int) bool { return (i*2654435761)>>7%3 > 0 },
		"nearly":   func(i int) bool { return i%1000 != 0 },
	} {
		set := all.Filter(keep)
		b.Run(name, func(b *testing.B) {
			var times [2][]time.Duration
			for i := 0; b.Loop(); i++ {
				for k, s := range [...]*Set{all, set} {
					start := time.Now()
					rank(c, s, queries[i%len(queries)], 5, nil)
					times[k] = append(times[k], time.Since(start))
				}
			}
			slices.Sort(times[0])
			slices.Sort(times[1])
			median := func(k int) float64 { return float64(times[k][len(times[k])/2].Nanoseconds()) / 1e3 }
			b.ReportMetric(median(0), "unscoped_p50_µs")
			b.ReportMetric(median(1), "scoped_p50_µs")
			b.ReportMetric(median(1)/median(0), "ratio")
		})
	}
}

// BenchmarkSearchExtra measures a search with the hits of connectors joined to it.
func BenchmarkSearchExtra(b *testing.B) {
	c := buildTest(b, catalogtest.Generated(1_000))
	extra := make([]extraDoc, 20)
	for i := range extra {
		t := c.Tool(i * 37)
		extra[i] = extraDoc{name: fmt.Sprintf("connectors__c__%d", i), text: t.Name + " " + t.Description}
	}
	queries := benchmarkQueries(c, 1000)
	set := FullSet(c.Len())
	reportMedian(b, func(i int) { rank(c, set, queries[i%len(queries)], 5, extra) })
}
