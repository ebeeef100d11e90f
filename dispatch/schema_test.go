package dispatch

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"toolsearch/catalog"
	"toolsearch/catalog/catalogtest"
)

// Every schema of the real tool lists is used; if one no longer compiles, its tools would go unchecked.
func TestRealSchemasCompile(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("compiles 6,476 schemas")
	}
	n := 0
	for _, file := range catalogtest.Files(t) {
		c, err := catalog.Build(catalogtest.Array(catalogtest.File(t, file)), catalog.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range c.Len() {
			tool := c.Tool(i)
			if tool.Parameters == nil {
				continue
			}
			n++
			if s := newSchema(tool.Parameters); s.broken != nil {
				t.Errorf("%s: %v", tool.Name, s.broken)
			}
		}
	}
	t.Logf("%d schemas", n)
}

func TestSchemaCacheIsBounded(t *testing.T) {
	t.Parallel()
	schema := func(i int) json.RawMessage {
		return fmt.Appendf(nil, `{"properties":{"p%d":{"type":"string","description":"some words"}}}`, i)
	}
	one := newSchemaCache(1 << 20)
	one.of(schema(0))
	c := newSchemaCache(10 * one.bytes)
	for i := range 100 {
		c.of(schema(i))
		if c.bytes > c.limit {
			t.Fatalf("%d bytes, more than %d", c.bytes, c.limit)
		}
	}
	if n := c.lru.Len(); n < 5 || n > 10 {
		t.Errorf("%d schemas are kept, want about 10", n)
	}
	last := c.of(schema(99))
	if again := c.of(schema(99)); again != last {
		t.Error("the last schema was not kept")
	}
	sum := 0
	for _, e := range c.lru.Values() {
		sum += e.size
	}
	if sum != c.bytes {
		t.Errorf("counted %d bytes, kept are %d", c.bytes, sum)
	}
}

func TestSchemaCacheReadsOnce(t *testing.T) {
	t.Parallel()
	c := newSchemaCache(1 << 20)
	var wg sync.WaitGroup
	got := make([]*schema, 32)
	for i := range got {
		wg.Go(func() { got[i] = c.of(json.RawMessage(`{"properties":{"a":{"type":"integer"}}}`)) })
	}
	wg.Wait()
	for _, s := range got {
		if s != got[0] {
			t.Fatal("the same schema was read twice")
		}
	}
}

// One schema under many calls at once: the copies that count steps must not be shared.
func TestValidateSideBySide(t *testing.T) {
	t.Parallel()
	schema := json.RawMessage(`{"properties":{"a":{"type":"array","items":{"type":"integer","maximum":900}}}}`)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 50 {
				n := i*100 + j
				_, err := Validate("t", schema, fmt.Appendf(nil, `{"a":[1,2,%d]}`, n))
				if (err != nil) != (n > 900) {
					t.Errorf("%d: %v", n, err)
				}
			}
		})
	}
	wg.Wait()
}
