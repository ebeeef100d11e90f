package catalog

import (
	"bytes"
	"slices"
	"strings"
)

// This file is Snowball's English stemmer, release 3.1.1, written down step by step from its prose. [stem] takes it for
// the words that the library reads by the rules of an older release.

// publishedStem is the stem of a word of lower-case ASCII letters and digits.
func publishedStem(word string) string {
	if s, ok := wholeWords[word]; ok {
		return s
	}
	if len(word) < 3 {
		return word
	}
	w := newStemming(word)
	w.plurals()
	w.pastAndProgressive()
	w.finalY()
	w.derived()
	w.adjectives()
	w.residues()
	w.finalEOrL()
	return strings.ReplaceAll(string(w.b), "Y", "y")
}

// wholeWords are words that no rule reads well.
var wholeWords = map[string]string{
	"skis": "ski", "skies": "sky", "idly": "idl", "gently": "gentl", "ugly": "ugli", "early": "earli",
	"only": "onli", "singly": "singl", "sky": "sky", "news": "news", "howe": "howe", "atlas": "atlas",
	"cosmos": "cosmos", "bias": "bias", "andes": "andes",
}

// keptBeginnings end where R1 begins, whatever follows them.
var keptBeginnings = []string{"gener", "commun", "arsen", "past", "univers", "later", "emerg", "organ", "inter"}

// stemming is a word on its way to its stem. A consonant y is written Y. What begins at p1 or later is in R1, what
// begins at p2 or later in R2.
type stemming struct {
	b      []byte
	p1, p2 int
}

func newStemming(word string) *stemming {
	w := &stemming{b: []byte(word)}
	for i, b := range w.b {
		if b == 'y' && (i == 0 || vowel(w.b[i-1])) {
			w.b[i] = 'Y'
		}
	}
	w.p1 = w.region(0)
	for _, kept := range keptBeginnings {
		if bytes.HasPrefix(w.b, []byte(kept)) {
			w.p1 = len(kept)
		}
	}
	w.p2 = w.region(w.p1)
	return w
}

func vowel(b byte) bool { return strings.IndexByte("aeiouy", b) >= 0 }

// region is the position after the first non-vowel that follows a vowel, from a position on.
func (w *stemming) region(from int) int {
	for i := from + 1; i < len(w.b); i++ {
		if vowel(w.b[i-1]) && !vowel(w.b[i]) {
			return i + 1
		}
	}
	return len(w.b)
}

// longest is the longest of the suffixes that the word ends in.
func (w *stemming) longest(suffixes ...string) string {
	found := ""
	for _, s := range suffixes {
		if len(s) > len(found) && bytes.HasSuffix(w.b, []byte(s)) {
			found = s
		}
	}
	return found
}

// before is what precedes a suffix.
func (w *stemming) before(suffix string) []byte { return w.b[:len(w.b)-len(suffix)] }

func (w *stemming) replace(suffix, by string) { w.b = append(w.before(suffix), by...) }

func (w *stemming) inR1(suffix string) bool { return len(w.b)-len(suffix) >= w.p1 }
func (w *stemming) inR2(suffix string) bool { return len(w.b)-len(suffix) >= w.p2 }

// endsInOneOf reports whether the last byte of x is one of those.
func endsInOneOf(x []byte, bytes string) bool {
	return len(x) > 0 && strings.IndexByte(bytes, x[len(x)-1]) >= 0
}

func shortSyllable(x []byte) bool {
	n := len(x)
	switch {
	case n >= 3 && !vowel(x[n-3]) && vowel(x[n-2]) && !vowel(x[n-1]) && !endsInOneOf(x, "wxY"):
		return true
	case n == 2 && vowel(x[0]) && !vowel(x[1]):
		return true
	}
	return bytes.HasSuffix(x, []byte("past"))
}

func (w *stemming) plurals() {
	switch s := w.longest("sses", "ied", "ies", "us", "ss", "s"); s {
	case "sses":
		w.replace(s, "ss")
	case "ied", "ies":
		if len(w.before(s)) >= 2 {
			w.replace(s, "i")
		} else {
			w.replace(s, "ie")
		}
	case "s":
		if x := w.before(s); len(x) > 1 && slices.ContainsFunc(x[:len(x)-1], vowel) {
			w.replace(s, "")
		}
	}
}

func (w *stemming) pastAndProgressive() {
	s := w.longest("eed", "eedly", "ed", "edly", "ing", "ingly")
	x := w.before(s)
	switch {
	case s == "":
		return
	case strings.HasPrefix(s, "eed"):
		if w.inR1(s) && !slices.Contains([]string{"proc", "exc", "succ"}, string(x)) {
			w.replace(s, "ee")
		}
		return
	case s == "ing" && len(x) == 2 && !vowel(x[0]) && x[1] == 'y':
		w.replace("ying", "ie")
		return
	case s == "ing" && slices.Contains([]string{"inn", "out", "cann", "herr", "earr", "even"}, string(x)):
		return
	case !slices.ContainsFunc(x, vowel):
		return
	}
	w.replace(s, "")
	switch {
	case w.longest("at", "bl", "iz") != "":
		w.b = append(w.b, 'e')
	case w.longest("bb", "dd", "ff", "gg", "mm", "nn", "pp", "rr", "tt") != "":
		if len(w.b) != 3 || strings.IndexByte("aeo", w.b[0]) < 0 {
			w.b = w.b[:len(w.b)-1]
		}
	case len(w.b) == w.p1 && shortSyllable(w.b):
		w.b = append(w.b, 'e')
	}
}

func (w *stemming) finalY() {
	n := len(w.b)
	if n > 2 && endsInOneOf(w.b, "yY") && !vowel(w.b[n-2]) {
		w.b[n-1] = 'i'
	}
}

// ending is a suffix and what takes its place.
type ending struct{ suffix, by string }

var derivedEndings = []ending{
	{"tional", "tion"}, {"enci", "ence"}, {"anci", "ance"}, {"abli", "able"}, {"entli", "ent"}, {"izer", "ize"},
	{"ization", "ize"}, {"ational", "ate"}, {"ation", "ate"}, {"ator", "ate"}, {"alism", "al"}, {"aliti", "al"},
	{"alli", "al"}, {"fulness", "ful"}, {"ousli", "ous"}, {"ousness", "ous"}, {"iveness", "ive"}, {"iviti", "ive"},
	{"biliti", "ble"}, {"bli", "ble"}, {"ogist", "og"}, {"ogi", "og"}, {"fulli", "ful"}, {"lessli", "less"}, {"li", ""},
}

var adjectiveEndings = []ending{
	{"tional", "tion"}, {"ational", "ate"}, {"alize", "al"}, {"icate", "ic"}, {"iciti", "ic"}, {"ical", "ic"},
	{"ful", ""}, {"ness", ""}, {"ative", ""},
}

// ending is the one of the longest suffix that the word ends in, if that is in R1.
func (w *stemming) ending(of []ending) (found ending, ok bool) {
	for _, e := range of {
		if len(e.suffix) > len(found.suffix) && bytes.HasSuffix(w.b, []byte(e.suffix)) {
			found = e
		}
	}
	return found, found.suffix != "" && w.inR1(found.suffix)
}

func (w *stemming) derived() {
	e, ok := w.ending(derivedEndings)
	switch x := w.before(e.suffix); {
	case !ok, e.suffix == "ogi" && !endsInOneOf(x, "l"), e.suffix == "li" && !endsInOneOf(x, "cdeghkmnrt"):
	default:
		w.replace(e.suffix, e.by)
	}
}

func (w *stemming) adjectives() {
	if e, ok := w.ending(adjectiveEndings); ok && (e.suffix != "ative" || w.inR2(e.suffix)) {
		w.replace(e.suffix, e.by)
	}
}

func (w *stemming) residues() {
	s := w.longest("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ism", "ate", "iti",
		"ous", "ive", "ize", "ion")
	if s != "" && w.inR2(s) && (s != "ion" || endsInOneOf(w.before(s), "st")) {
		w.replace(s, "")
	}
}

func (w *stemming) finalEOrL() {
	switch s := w.longest("e", "ll"); {
	case s == "e" && (w.inR2("e") || w.inR1("e") && !shortSyllable(w.before("e"))), s == "ll" && w.inR2("l"):
		w.b = w.b[:len(w.b)-1]
	}
}
