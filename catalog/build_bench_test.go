//go:build unix

package catalog

import (
	"syscall"
	"testing"
	"time"

	"toolsearch/catalog/catalogtest"
)

// BenchmarkBuild measures reading and indexing a catalog, in CPU time of the process: the garbage collector's counts,
// what else runs on the machine does not.
func BenchmarkBuild(b *testing.B) {
	for name, elements := range benchmarkCatalogs(b) {
		b.Run(name, func(b *testing.B) {
			tools := catalogtest.Array(elements)
			b.ReportAllocs()
			b.SetBytes(int64(len(tools)))
			var c *Catalog
			start := cpuTime(b)
			for b.Loop() {
				var err error
				if c, err = Build(tools, Limits{}); err != nil {
					b.Fatal(err)
				}
			}
			n := float64(len(elements))
			b.ReportMetric(float64((cpuTime(b)-start).Nanoseconds())/1e3/float64(b.N)/n, "cpu_µs/tool")
			b.ReportMetric(float64(c.IndexSize())/n, "index_B/tool")
		})
	}
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
