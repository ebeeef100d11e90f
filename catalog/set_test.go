package catalog

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawPositions draws sets of every kind: scattered, in runs, full, empty.
func drawPositions(t *rapid.T, n int) []int {
	member := make([]bool, n)
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		for i := range member {
			member[i] = rapid.Bool().Draw(t, "member")
		}
	case 1:
		for range rapid.IntRange(1, 4).Draw(t, "runs") {
			start := rapid.IntRange(0, n).Draw(t, "start")
			for i := start; i < min(n, start+rapid.IntRange(1, n+1).Draw(t, "length")); i++ {
				member[i] = true
			}
		}
	case 2:
		for i := range member {
			member[i] = true
		}
	}
	var positions []int
	for i, m := range member {
		if m {
			positions = append(positions, i)
		}
	}
	return positions
}

func TestSetIsItsPositions(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 300).Draw(t, "n")
		positions := drawPositions(t, n)
		shuffled := rapid.Permutation(positions).Draw(t, "order")
		s := NewSet(n, slices.Values(append(shuffled, -1, n, n+64)))
		if s.Len() != len(positions) || s.n != n || !slices.Equal(slices.Collect(s.All()), positions) {
			t.Fatalf("%d of %d: %v, want %v", s.Len(), s.n, slices.Collect(s.All()), positions)
		}
		bitmap := s.bitmap([]uint64{^uint64(0), 5, 7, 9, 11, 13})
		for i := -2; i < n+70; i++ {
			in := slices.Contains(positions, i)
			if s.Contains(i) != in {
				t.Fatalf("Contains(%d) is %v, of %v", i, !in, positions)
			}
			if i >= 0 && i < n && (bitmap[i>>6]>>(i&63)&1 != 0) != in {
				t.Fatalf("bit %d is %v, of %v", i, !in, positions)
			}
		}
		if most := int64(wordsFor(n)*8) + s.Size() - int64(cap(s.runs)*8+cap(s.words)*8); s.Size() > most {
			t.Fatalf("%d bytes for %d positions of %d", s.Size(), len(positions), n)
		}
	})
}

func TestSetSurvivesItsBytes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 300).Draw(t, "n")
		s := NewSet(n, slices.Values(drawPositions(t, n)))
		p, err := s.AppendBinary([]byte("before"))
		if err != nil || string(p[:6]) != "before" {
			t.Fatal(err)
		}
		p = p[6:]
		if len(p) > 1+(n+7)/8 {
			t.Fatalf("%d bytes for a set over %d", len(p), n)
		}
		back, err := ParseSet(n, p)
		if err != nil || !back.Equal(s) || !s.Equal(back) {
			t.Fatalf("%v becomes %v: %v", slices.Collect(s.All()), back, err)
		}
		if again, _ := back.AppendBinary(nil); string(again) != string(p) {
			t.Fatalf("bytes %x become %x", p, again)
		}
		// A smaller catalog refuses positions that it does not have.
		if last := slices.Collect(s.All()); len(last) > 0 {
			if _, err := ParseSet(last[len(last)-1], p); !errors.Is(err, errSet) {
				t.Fatalf("a set with %d is read for a catalog of as many tools: %v", last[len(last)-1], err)
			}
		}
	})
}

func TestSetFilter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 200).Draw(t, "n")
		a, b := NewSet(n, slices.Values(drawPositions(t, n))), NewSet(n, slices.Values(drawPositions(t, n)))
		both := a.Filter(b.Contains)
		for i := range n {
			if both.Contains(i) != (a.Contains(i) && b.Contains(i)) {
				t.Fatalf("position %d of %v and %v", i, slices.Collect(a.All()), slices.Collect(b.All()))
			}
		}
		if !both.Equal(b.Filter(a.Contains)) || a.Equal(b) != slices.Equal(slices.Collect(a.All()), slices.Collect(b.All())) {
			t.Fatal("the order of the sides matters")
		}
	})
	s := NewSet(9, slices.Values([]int{1, 2, 5}))
	if s.Filter(func(int) bool { return true }) != s {
		t.Error("a set that stays as it is is another one")
	}
}

func TestParseSetRefuses(t *testing.T) {
	t.Parallel()
	for name, p := range map[string][]byte{
		"nothing":            nil,
		"another form":       {'x', 1, 1},
		"half a run":         {'r', 1},
		"an empty run":       {'r', 1, 0},
		"a run beyond":       {'r', 5, 6},
		"an endless run":     {'r', 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1},
		"a wrapping run":     {'r', 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
		"an endless varint":  {'r', 0xff, 0xff},
		"a bit beyond":       {'b', 0, 0b100},
		"bytes of bits over": {'b', 0, 0, 0, 0, 0, 0, 0, 0, 0},
	} {
		if s, err := ParseSet(10, p); !errors.Is(err, errSet) {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
}

func FuzzParseSet(f *testing.F) {
	f.Add(10, []byte("r\x01\x02"))
	f.Add(64, []byte("b\xff\x01"))
	f.Add(0, []byte("r"))
	f.Fuzz(func(t *testing.T, n int, p []byte) {
		if n < 0 || n > 1<<16 {
			return
		}
		s, err := ParseSet(n, p)
		if err != nil {
			return
		}
		for i := range s.All() {
			if i < 0 || i >= n {
				t.Fatalf("position %d of %d", i, n)
			}
		}
		q, _ := s.AppendBinary(nil)
		if back, err := ParseSet(n, q); err != nil || !back.Equal(s) {
			t.Fatalf("%x becomes %x: %v", p, q, err)
		}
	})
}

// TestSetIsCompact states what scopes count on.
func TestSetIsCompact(t *testing.T) {
	t.Parallel()
	const n = 9000
	for name, test := range map[string]struct {
		keep func(int) bool
		most int64
	}{
		"all":          {func(int) bool { return true }, 200},
		"ten toolsets": {func(i int) bool { return i%900 < 100 }, 300},
		"one in two":   {func(i int) bool { return i%2 == 0 }, 1300},
	} {
		if s := FullSet(n).Filter(test.keep); s.Size() > test.most {
			t.Errorf("%s: %d bytes, want at most %d", name, s.Size(), test.most)
		}
	}
}
