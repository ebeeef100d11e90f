package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"toolsearch/catalog/catalogtest"
	"toolsearch/subjects"
)

func TestBuildRefuses(t *testing.T) {
	t.Parallel()
	for name, tools := range map[string]string{
		"nothing": ``, "blank": ` `, "null": `null`, "an object": `{}`, "a string": `"[]"`, "a number": `5`,
		"not JSON": `hello`, "cut short": `[{"tool":{"name":"n"}}`, "cut in a text": `[{"tool":{"name":"n`,
		"a comma too many": `[{"tool":{"name":"n"}},]`, "more after it": `[] []`, "a NUL after it": "[]\x00",
		"a bare key": `[{tool:1}]`, "bottomless": strings.Repeat("[", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := Build(json.RawMessage(tools), Limits{})
			var e *subjects.Error
			if c != nil || !errors.As(err, &e) || e.Code != subjects.CodeBadRequest || e.Details["field"] != "tools" {
				t.Fatalf("error %v", err)
			}
			if len(e.Message) > 300 {
				t.Errorf("a message of %d bytes", len(e.Message))
			}
		})
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	tooLarge := func(tools []byte, l Limits, bound string) {
		t.Helper()
		_, err := Build(tools, l)
		var e *subjects.Error
		if !errors.As(err, &e) || e.Code != subjects.CodeTooLarge || !strings.Contains(e.Message, bound) {
			t.Errorf("error %v, want TOO_LARGE that names %s", err, bound)
		}
	}
	tooLarge(make([]byte, DefaultMaxBytes+1), Limits{}, "67108864")
	many := func(n int) []byte {
		b := []byte("[")
		for i := range n {
			b = fmt.Appendf(b, `{"tool":{"name":"n%d"}},`, i)
		}
		b[len(b)-1] = ']'
		return b
	}
	tooLarge(many(DefaultMaxTools+1), Limits{}, "50000")
	if c, err := Build(many(DefaultMaxTools), Limits{}); err != nil || c.Len() != DefaultMaxTools {
		t.Errorf("50,000 tools: %v", err)
	}
	tooLarge(many(4), Limits{MaxTools: 3}, "3")
	tooLarge([]byte("[1,2,3,4]"), Limits{MaxTools: 3}, "3") // those that are rejected count too
	tooLarge([]byte("[] "), Limits{MaxBytes: 2}, "2 bytes")
	if _, err := Build([]byte("[]"), Limits{MaxBytes: 2, MaxTools: 1}); err != nil {
		t.Error(err)
	}
}

func TestDifferentWordsAreBounded(t *testing.T) {
	t.Parallel()
	for most, ok := range map[uint32]bool{7: true, 6: false, 1: false, 0: false} {
		b := newBuilder(json.RawMessage(`[{"tool":{"name":"one_two","description":"three four"}},{"tool":{"name":"five","description":"one sixSeven"}}]`))
		b.indexer.mostWords = most + 1 // the whole of sixSeven is a word too
		err := b.read(Limits{}.withDefaults())
		if ok != (err == nil) || !ok && !errors.Is(err, &subjects.Error{Code: subjects.CodeTooLarge}) {
			t.Errorf("%d words: %v", most, err)
		}
	}
}

func TestDigestIsOfTheExactBytes(t *testing.T) {
	t.Parallel()
	for _, tools := range []string{`[]`, ` [ ] `, `[{"tool":{"name":"n"}}]`} {
		c, err := Build(json.RawMessage(tools), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(tools))); c.Digest() != want || string(c.Raw()) != tools {
			t.Errorf("%q: digest %s, want %s", tools, c.Digest(), want)
		}
	}
}

func TestDuplicateNames(t *testing.T) {
	t.Parallel()
	const first = `{"toolset":"a","tool":{"name":"n","description":"first"}}`
	for name, test := range map[string]struct{ second, reason string }{
		"equal":              {first, ""},
		"equal, spaced":      {`{ "tool":{"name":"n","description":"first"}, "toolset":"a" }`, ""},
		"another toolset":    {`{"toolset":"b","tool":{"name":"n","description":"first"}}`, `under the toolset "a"`},
		"no toolset":         {`{"tool":{"name":"n","description":"first"}}`, `under the toolset "a"`},
		"another definition": {`{"toolset":"a","tool":{"name":"n","description":"second"}}`, "another definition"},
		"other bytes":        {`{"toolset":"a","tool":{"name":"n", "description":"first"}}`, "another definition"},
		"another host":       {`{"toolset":"a","host":"h","tool":{"name":"n","description":"first"}}`, "another host or another parallel"},
		"parallel":           {`{"toolset":"a","parallel":true,"tool":{"name":"n","description":"first"}}`, "another host or another parallel"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := one(t, first+","+test.second+`,{"tool":{"name":"N"}}`)
			if c.Len() != 2 || c.Tool(0).Description != "first" || c.Tool(0).Toolset != "a" {
				t.Fatalf("tools %v", c.tools)
			}
			if test.reason == "" {
				if len(c.Rejected()) > 0 {
					t.Errorf("rejected %v", c.Rejected())
				}
				return
			}
			if len(c.Rejected()) != 1 || c.Rejected()[0].Name != "n" || !strings.Contains(c.Rejected()[0].Reason, test.reason) {
				t.Errorf("rejected %v, want a reason with %s", c.Rejected(), test.reason)
			}
		})
	}
	c := one(t, `{"tool":{"name":"n"}},{"toolset":"a","tool":{"name":"n"}}`)
	if c.Len() != 1 || len(c.Rejected()) != 1 || !strings.Contains(c.Rejected()[0].Reason, "without a toolset") {
		t.Errorf("rejected %v", c.Rejected())
	}
}

func TestLookupIsExact(t *testing.T) {
	t.Parallel()
	c := one(t, `{"tool":{"name":"Get"}},{"tool":{"name":"get"}},{"tool":{"name":"GET"}},{"tool":{"name":"x"}}`)
	for i, name := range []string{"Get", "get", "GET", "x"} {
		if at, ok := c.Lookup(name); !ok || at != i {
			t.Errorf("%s is found at %d, %v", name, at, ok)
		}
	}
	for _, name := range []string{"gEt", "X", "", "get "} {
		if at, ok := c.Lookup(name); ok {
			t.Errorf("%q is found at %d", name, at)
		}
	}
	hits, total := rank(c, FullSet(4), "gET", 9, nil)
	if total != 3 || hits[0].doc != 0 || hits[1].doc != 1 || hits[2].doc != 2 {
		t.Errorf("%v of %d, want all three spellings in their order", hits, total)
	}
}

// TestEqualInputsGiveEqualCatalogs builds twice and compares all that can be seen.
func TestEqualInputsGiveEqualCatalogs(t *testing.T) {
	t.Parallel()
	tools := catalogtest.Array(catalogtest.Generated(500))
	a, errA := Build(tools, Limits{})
	b, errB := Build(bytes.Clone(tools), Limits{})
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	if a.Digest() != b.Digest() || a.Size() != b.Size() || a.IndexSize() != b.IndexSize() {
		t.Errorf("%s of %d bytes, %s of %d", a.Digest(), a.Size(), b.Digest(), b.Size())
	}
}

// TestSizesAreTrue compares what a catalog says it takes with what it takes. It measures the heap, so it runs alone.
func TestSizesAreTrue(t *testing.T) { //nolint:paralleltest // other tests allocate as well
	tools := catalogtest.Array(catalogtest.File(t, "cloudflare.json", "github_rest.json", "lark.json"))
	measure := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := measure()
	c, err := Build(tools, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	taken := measure() - before
	said := c.Size() - int64(len(tools))
	t.Logf("%d tools: %d bytes beside the JSON, said to be %d; index %d B/tool", c.Len(), taken, said, c.IndexSize()/int64(c.Len()))
	if taken > said*5/4 || taken < said/2 {
		t.Errorf("the catalog takes %d bytes beside the JSON and says %d", taken, said)
	}
	if perTool := c.IndexSize() / int64(c.Len()); perTool > 2500 {
		t.Errorf("the index takes %d bytes a tool", perTool)
	}
	runtime.KeepAlive(c)
	runtime.KeepAlive(tools)
}

// TestSearchAllocatesLittle checks that what a search allocates does not grow with the catalog.
func TestSearchAllocatesLittle(t *testing.T) { //nolint:paralleltest // testing.AllocsPerRun counts for the process
	bytesOf := func(n int, scoped bool) float64 {
		c := buildTest(t, catalogtest.Generated(n))
		set := FullSet(n)
		if scoped {
			set = set.Filter(func(i int) bool { return i%7 != 0 })
		}
		search := func() { rank(c, set, "listInvoices list invoice by identifier", 5, nil) }
		search()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		const runs = 100
		for range runs {
			search()
		}
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc-before.TotalAlloc) / runs
	}
	for _, scoped := range []bool{false, true} {
		if small, large := bytesOf(200, scoped), bytesOf(20_000, scoped); large > 2*small+1024 {
			t.Errorf("a search allocates %.0f bytes among 200 tools and %.0f among 20,000 (scoped %v)", small, large, scoped)
		}
	}
}
