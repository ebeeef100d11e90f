package dispatch

import (
	"strings"
	"testing"
)

func TestPattern(t *testing.T) {
	t.Parallel()
	const email = `^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$`
	for _, tc := range []struct {
		pattern string
		yes, no []string
	}{
		{`b+`, []string{"abc"}, []string{"ac"}},
		{email, []string{"a.b@example.com"}, []string{".a@example.com", "a..b@example.com", "x"}},
		{`^(?=.*[0-9])(?=.*[a-z]).{3,}$`, []string{"ab1"}, []string{"abc", "123", "a1"}},
		{`^(?![(]\)|x[|)])[a-z(]`, []string{"a", "(a"}, []string{"()", "x|"}},
		{`^\u00e9\_$`, []string{"é_"}, []string{"e_"}},
		{`^(?<year>\d{4})$`, []string{"2024"}, []string{"20"}},
	} {
		p, err := compilePattern(tc.pattern)
		if err != nil {
			t.Errorf("%s: %v", tc.pattern, err)
			continue
		}
		if p.String() != tc.pattern {
			t.Errorf("%s is told as %s", tc.pattern, p)
		}
		for _, s := range tc.yes {
			if !p.MatchString(s) {
				t.Errorf("%s does not match %q", tc.pattern, s)
			}
		}
		for _, s := range tc.no {
			if p.MatchString(s) {
				t.Errorf("%s matches %q", tc.pattern, s)
			}
		}
	}
	for _, pattern := range []string{`(a)\1`, `a(?!b)`, `(?<=a)b`, `^(?!a)b|c`, `^(?!a`, `^(?!(?=a)b)c`, `[`, `^(?!a)(`, strings.Repeat("a", maxPattern+1)} {
		if patternFault(pattern) == nil {
			t.Errorf("%.40s is taken for usable", pattern)
		}
	}
}

func FuzzPattern(f *testing.F) {
	for _, s := range []string{`^(?!\.)(?!.*\.\.)x$`, `^(?=[(]\))a|b`, `\u00e9\`, `^(?!(`, `[\`} {
		f.Add(s, "xyz")
	}
	f.Fuzz(func(t *testing.T, pattern, s string) {
		p, err := compilePattern(pattern)
		if err != nil {
			return
		}
		p.MatchString(s)
		if p.cost() < 0 {
			t.Fatal("a negative cost")
		}
	})
}
