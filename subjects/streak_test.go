package subjects_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"toolsearch/subjects"
)

func TestSearchStreakRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		want := subjects.SearchStreak{
			Searches: rapid.IntRange(0, 1000).Draw(rt, "searches"),
			Queries:  rapid.SliceOfN(rapid.Uint64(), 0, 32).Draw(rt, "queries"),
		}
		if len(want.Queries) == 0 {
			want.Queries = nil
		}
		got, err := subjects.ParseSearchStreak(want.String())
		if err != nil || !cmp.Equal(got, want) {
			rt.Fatalf("%q: %v, %s", want, err, cmp.Diff(want, got))
		}
		p, err := subjects.AppendBridgeRequest(nil, &subjects.BridgeRequest{Scope: subjects.Handle("h"), SearchStreak: want.String()})
		if err != nil {
			rt.Fatal(err)
		}
		var r subjects.BridgeRequest
		if err := json.Unmarshal(p, &r); err != nil || r.SearchStreak != want.String() {
			rt.Fatalf("%s: %v, %q", p, err, r.SearchStreak)
		}
	})
}

func TestSearchStreakAfter(t *testing.T) {
	t.Parallel()
	var s subjects.SearchStreak
	s = s.After([]uint64{1, 2, 1})
	first := s
	s = s.After([]uint64{3, 2})
	if diff := cmp.Diff(subjects.SearchStreak{Searches: 2, Queries: []uint64{1, 3, 2}}, s); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(subjects.SearchStreak{Searches: 1, Queries: []uint64{2, 1}}, first); diff != "" {
		t.Errorf("a later search changed an earlier streak: %s", diff)
	}
	for q := range uint64(100) {
		s = s.After([]uint64{q + 10})
	}
	if n := len(s.Queries); n != 32 || s.Queries[n-1] != 109 || s.Queries[0] != 78 || s.Searches != 102 {
		t.Errorf("remembers %d queries, %d to %d, of %d searches", n, s.Queries[0], s.Queries[n-1], s.Searches)
	}
}

func TestSearchStreakReads(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": 0, " ": 0, "0": 0, "3": 3, " 3  AAAAAAAAAAE ": 3} {
		if s, err := subjects.ParseSearchStreak(text); err != nil || s.Searches != want {
			t.Errorf("%q: %+v, %v", text, s, err)
		}
	}
	for _, text := range []string{
		"-1", "1.5", "1e3", "x", "1 x", "1 AAAAAAAAAAE=", "1 AAAAAAAAAAEA", "99999999999999999999",
		"1" + strings.Repeat(" AAAAAAAAAAE", 33), strings.Repeat("9", 1<<16),
	} {
		s, err := subjects.ParseSearchStreak(text)
		var e *subjects.Error
		if !errors.As(err, &e) || e.Code != subjects.CodeBadRequest || e.Details["field"] != "search_streak" || !s.IsZero() {
			t.Errorf("%.40s: %+v, %v", text, s, err)
		}
	}
}

func FuzzParseSearchStreak(f *testing.F) {
	f.Add("3 AAAAAAAAAAE")
	f.Add("-1")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := subjects.ParseSearchStreak(text)
		if err != nil {
			return
		}
		again, err := subjects.ParseSearchStreak(s.String())
		if err != nil || !cmp.Equal(s, again) {
			t.Fatalf("%q became %q: %v", text, s, err)
		}
	})
}
