package catalog

import (
	"runtime"
	"testing"

	"toolsearch/catalog/catalogtest"
	"toolsearch/subjects"
)

// BenchmarkScopeMemory reports the heap that each of many scopes over one catalog takes.
func BenchmarkScopeMemory(b *testing.B) {
	c := buildTest(b, append(sampleTools(), catalogtest.Generated(9_000)...))
	enabled := []string{"terminal", "file", "server-3", "server-50", "server-80"}
	req := &subjects.AssembleRequest{EnabledToolsets: &enabled}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	var scopes []*Scope
	for b.Loop() {
		s, err := NewScope(c, testOwner, req, DefaultConfig(), nil, nil)
		if err != nil {
			b.Fatal(err)
		}
		scopes = append(scopes, s)
	}
	b.ReportMetric(float64(heap()-before)/float64(len(scopes)), "B/scope")
	b.ReportMetric(float64(scopes[0].Size()), "B/scope-by-Size")
	runtime.KeepAlive(scopes)
}

func BenchmarkOpenScope(b *testing.B) {
	c := buildTest(b, append(sampleTools(), catalogtest.Generated(9_000)...))
	s, err := NewScope(c, testOwner, &subjects.AssembleRequest{}, DefaultConfig(), nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	doc := s.Document()
	b.ReportAllocs()
	for b.Loop() {
		d, err := ParseScopeDocument(doc)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := OpenScope(c, d); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAnswer is a whole tool_search and a whole tool_describe, from what the model wrote to the reply's bytes.
func BenchmarkAnswer(b *testing.B) {
	c := buildTest(b, append(sampleTools(), catalogtest.File(b, "cloudflare.json", "github_rest.json")...))
	s, err := NewScope(c, testOwner, &subjects.AssembleRequest{}, DefaultConfig(), nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	var dst []byte
	b.Run("search", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			q, err := s.ParseSearch([]byte(`{"queries":["create repository secret"]}`))
			if err != nil {
				b.Fatal(err)
			}
			dst = s.Search(q, nil).AppendModel(dst[:0])
		}
	})
	b.Run("describe", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			names, err := s.ParseDescribe([]byte(`{"names":["mcp__github_rest__issues_create"]}`))
			if err != nil {
				b.Fatal(err)
			}
			dst = s.Describe(names, nil).AppendModel(dst[:0])
		}
	})
	b.Run("empty", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			dst = searchFor(b, s, 5, nil, "quokka").AppendModel(dst[:0])
		}
	})
}
