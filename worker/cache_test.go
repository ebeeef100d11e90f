package worker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func TestCacheEndsWithItsBlob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var gone []string
		c := newCache[int](1<<20, func(key string) { gone = append(gone, key) })
		c.add("a", 1, 10, time.Now().Add(time.Hour))
		c.add("b", 2, 10, time.Now().Add(time.Hour))
		time.Sleep(30 * time.Minute)
		c.until("b", time.Now().Add(time.Hour))
		c.until("none", time.Now().Add(time.Hour))
		if v, ends, ok := c.get("a"); !ok || v != 1 || time.Until(ends) != 30*time.Minute {
			t.Fatalf("before its end: %v %v %v", v, ends, ok)
		}
		time.Sleep(30 * time.Minute)
		if _, _, ok := c.get("a"); ok {
			t.Fatal("an entry outlived its blob")
		}
		if v, _, ok := c.get("b"); !ok || v != 2 {
			t.Fatal("a renewed entry ended early")
		}
		if n, bytes := c.usage(); n != 1 || bytes != 10+entryOverhead+1 {
			t.Fatalf("%d entries of %d bytes stay", n, bytes)
		}
		if len(gone) != 1 || gone[0] != "a" {
			t.Fatalf("told of %v", gone)
		}
	})
}

func TestCacheDropsWhatWasUsedLeast(t *testing.T) {
	t.Parallel()
	later := time.Now().Add(time.Hour)
	c := newCache[string](3*(entryOverhead+1+100), nil)
	for _, k := range []string{"a", "b", "c"} {
		if !c.add(k, k, 100, later) {
			t.Fatalf("%s was not kept", k)
		}
	}
	c.get("a")
	c.touch("b")
	c.add("d", "d", 100, later)
	if _, _, ok := c.get("c"); ok {
		t.Fatal("the one that was used least stayed")
	}
	for _, k := range []string{"a", "b", "d"} {
		if _, ok := c.peek(k); !ok {
			t.Fatalf("%s left", k)
		}
	}
	if c.add("huge", "", 1<<20, later) {
		t.Fatal("a value over the budget was kept")
	}
	c.removeIf(func(v string) bool { return v == "a" })
	if n, _ := c.usage(); n != 2 {
		t.Fatalf("%d entries", n)
	}
}

// Whatever is done, the bytes are those of the entries that are there, and never over the budget.
func TestCacheBudget(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		budget := int64(rapid.IntRange(0, 8000).Draw(t, "budget"))
		sizes := map[string]int64{}
		var c *cache[int]
		c = newCache[int](budget, func(key string) {
			if _, there := c.peek(key); !there {
				delete(sizes, key)
			}
		})
		later := time.Now().Add(time.Hour)
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			key := fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "key"))
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0, 1:
				size := int64(rapid.IntRange(0, 3000).Draw(t, "size"))
				if c.add(key, 1, size, later) {
					sizes[key] = size + entryOverhead + int64(len(key))
				}
			case 2:
				c.get(key)
			case 3:
				c.remove(key)
			case 4:
				c.until(key, later.Add(time.Hour))
			}
			want := int64(0)
			for _, s := range sizes {
				want += s
			}
			if n, bytes := c.usage(); bytes != want || bytes > budget || n != len(sizes) {
				t.Fatalf("%d entries of %d bytes, want %d of %d, at most %d", n, bytes, len(sizes), want, budget)
			}
		}
	})
}

func TestLedgerForgetsWithItsConnection(t *testing.T) {
	t.Parallel()
	connection := uint64(0)
	l := newLedger(func() uint64 { return connection })
	now := time.Now()
	l.set("a", now, now)
	if n, ok := l.get("a"); !ok || !n.at.Equal(now) {
		t.Fatal("nothing known")
	}
	connection++
	if _, ok := l.get("a"); ok {
		t.Fatal("known of another connection")
	}
	l.set("a", now, now)
	l.forget("a")
	if _, ok := l.get("a"); ok {
		t.Fatal("known although forgotten")
	}
}
