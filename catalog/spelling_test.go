package catalog

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"toolsearch/catalog/catalogtest"
	"toolsearch/subjects"
)

func TestDidYouMean(t *testing.T) {
	t.Parallel()
	s := newTestScope(t, []catalogtest.Element{
		catalogtest.Tool("mcp-github", "mcp__github__create_repository", "Creates repositories and their Calendars.", "issueNumber"),
		catalogtest.Tool("mcp-github", "mcp__github__list_issues", "Lists every issue of a Repository by label.", "labelName"),
		catalogtest.Tool("mcp-k8s", "mcp__k8s__getPods", "Kubernetes pods: cat, car, data of v2 and 2024.", "namespace"),
		catalogtest.Tool("mcp-odd", "mcp__odd__tools", "Организация documents the café's straße: this park, pages.", "x"),
	}, &subjects.AssembleRequest{}, nil)
	for word, want := range map[string]string{
		"isue": "issue", "isseu": "issue", "Isues": "issues", "repositry": "repository", "repositiories": "repositories",
		"REPOSTIORY": "repository", "calender": "calendars", "kuberntees": "kubernetes", "qubernetes": "kubernetes",
		"gihub": "github", "gitub": "github", "lable": "label", "namespaces": "", "nmespace": "namespace", "pdos": "pods", "numbr": "number", "creats": "",
		"организацыя": "организация", "cafe": "", "cfae": "café", "strase": "straße",
		"cot": "", "bat": "", // too short
		"gods": "",                          // short, and the first letter is another
		"v3":   "", "2025": "", "data2": "", // digits
		"want": "", "please": "", "hello": "", "particular": "", // they say nothing, or little
		"phishing": "", "thsi": "", "packages": "", // a stem that is short, or a word that says nothing
		"quokka": "", "elephant": "", "isssuees": "issues", "xrepositry": "repository", "xxrepositry": "",
		strings.Repeat("repository", 5): "",
	} {
		g := searchFor(t, s, 3, nil, word+" zzyzx").Results[0]
		got, ok := g.DidYouMean.Get(word)
		if got != want || ok != (want != "") {
			t.Errorf("%q may stand for %q, want %q; unknown are %q", word, got, want, g.UnknownWords)
		}
	}
}

// TestDidYouMeanPrefers has several words that are as near.
func TestDidYouMeanPrefers(t *testing.T) {
	t.Parallel()
	tools := []catalogtest.Element{
		catalogtest.Tool("mcp-a", "mcp__a__one", "barn bark"), catalogtest.Tool("mcp-a", "mcp__a__two", "bars bark"),
		catalogtest.Tool("mcp-a", "mcp__a__three", "channels charm"), catalogtest.Tool("mcp-a", "mcp__a__four", "channel"),
	}
	s := newTestScope(t, tools, &subjects.AssembleRequest{}, nil)
	for word, want := range map[string]string{
		"bark": "", "barx": "bark", // in two tools
		"chanels": "channels", "chanel": "channel", // the form nearest to the query
	} {
		got, _ := searchFor(t, s, 3, nil, word+" zzyzx").Results[0].DidYouMean.Get(word)
		if got != want {
			t.Errorf("%q may stand for %q, want %q", word, got, want)
		}
	}
}

// TestSlips compares the distance with its definition.
func TestSlips(t *testing.T) {
	t.Parallel()
	var naive func(a, b []rune) int
	naive = func(a, b []rune) int {
		switch {
		case len(a) == 0 || len(b) == 0:
			return len(a) + len(b)
		case a[0] == b[0]:
			return naive(a[1:], b[1:])
		}
		d := 1 + min(naive(a[1:], b), naive(a, b[1:]), naive(a[1:], b[1:]))
		if len(a) > 1 && len(b) > 1 && a[0] == b[1] && a[1] == b[0] {
			d = min(d, 1+naive(a[2:], b[2:]))
		}
		return d
	}
	word := rapid.SliceOfN(rapid.SampledFrom([]rune("abcé")), 0, 6)
	rapid.Check(t, func(t *rapid.T) {
		a, b, most := word.Draw(t, "a"), word.Draw(t, "b"), rapid.IntRange(0, 7).Draw(t, "most")
		got, want := SlipsBetween(a, b, most), naive(slices.Clone(a), slices.Clone(b))
		if want > most {
			want = most + 1
		}
		if got != want {
			t.Fatalf("%s and %s are %d slips apart, want %d of at most %d", string(a), string(b), got, want, most)
		}
	})
}

// TestLetterMask checks that the mask never hides a word that is near enough.
func TestLetterMask(t *testing.T) {
	t.Parallel()
	word := rapid.StringOfN(rapid.RuneFrom([]rune("abcdefghijklmnopqrstuvwxyzéжß")), 4, 12, -1)
	rapid.Check(t, func(t *rapid.T) {
		a := word.Draw(t, "a")
		b := []rune(a)
		for range rapid.IntRange(0, 2).Draw(t, "slips") {
			at := rapid.IntRange(0, len(b)-1).Draw(t, "at")
			switch rapid.IntRange(0, 3).Draw(t, "slip") {
			case 0:
				b = slices.Delete(b, at, at+1)
			case 1:
				b = slices.Insert(b, at, 'q')
			case 2:
				b[at] = 'q'
			case 3:
				b[at], b[len(b)-1-at] = b[len(b)-1-at], b[at]
			}
		}
		m, ok := newMisspelling(a, token(a))
		if ok && m.distance(string(b)) <= m.slips && !m.mayBe(letterMask(string(b))) {
			t.Fatalf("%q is passed over for %q", string(b), a)
		}
	})
}
