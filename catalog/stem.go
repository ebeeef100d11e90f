package catalog

import (
	"hash/maphash"
	"strings"
	"sync/atomic"

	"github.com/kljensen/snowball/english"
)

// stem is the stem of a word of lower-case ASCII letters and digits, by Snowball's English stemmer as of 3.1.1.
func stem(word string) string {
	if len(word) < 3 {
		return word
	}
	if len(word) > maxRemembered {
		return stemOf(word)
	}
	slot := &remembered[maphash.String(seed, word)%uint64(len(remembered))]
	if r := slot.Load(); r != nil && r.word == word {
		return r.stem
	}
	r := &stemmed{word: strings.Clone(word)}
	r.stem = stemOf(r.word)
	slot.Store(r)
	return r.stem
}

// remembered holds the stems of words that came lately, one to a slot: stemming is most of what a short query costs,
// and queries share their words. It is bounded by its slots and by the length of what it takes, and changes no answer.
var (
	remembered [4096]atomic.Pointer[stemmed]
	seed       = maphash.MakeSeed()
)

type stemmed struct{ word, stem string }

// maxRemembered is the longest word that is remembered, in bytes.
const maxRemembered = 32

// stemOf is the stem of a word of three letters and more. The library follows an older release of Snowball, so the words
// that the releases may read in two ways go by the newer rules.
func stemOf(word string) string {
	if newer(word) {
		return publishedStem(word)
	}
	return english.Stem(word, true)
}

// newerBeginnings are what later releases keep apart, as organ- from organize, and the words with an ending of their own.
var newerBeginnings = []string{
	"emerg", "inter", "later", "organ", "past", "univers", "even", "exceed", "proceed", "succeed",
}

// newer reports whether a word of three letters and more is one that the releases of Snowball may read in two ways:
// beside those of the beginnings, words as biologist, added, and vying.
func newer(word string) bool {
	for _, b := range newerBeginnings {
		if strings.HasPrefix(word, b) {
			return true
		}
	}
	return word[1] == word[2] && strings.IndexByte("aeo", word[0]) >= 0 ||
		strings.HasPrefix(word[1:], "ying") || strings.Contains(word, "ogist")
}
