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
	if s, ok := newerStems[word]; ok {
		return s
	}
	if len(word) > maxRemembered {
		return english.Stem(word, true)
	}
	slot := &remembered[maphash.String(seed, word)%uint64(len(remembered))]
	if r := slot.Load(); r != nil && r.word == word {
		return r.stem
	}
	r := &stemmed{word: strings.Clone(word)}
	r.stem = english.Stem(r.word, true)
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

// newerStems are the words whose stems the library, which follows an older release of Snowball, gets otherwise: later
// releases keep apart what organ-, inter-, univers-, emerg-, later- and past- once made one. The table holds those of
// the published vocabulary and of the words that occur in tools.
var newerStems = map[string]string{
	"added": "add", "adding": "add", "apologist": "apolog", "apologists": "apolog",
	"archaeologists": "archaeolog", "biologist": "biolog", "biologists": "biolog", "cardiologist": "cardiolog",
	"cardiologists": "cardiolog", "dermatologist": "dermatolog", "dermatologists": "dermatolog",
	"ebbed": "ebb", "ebbing": "ebb", "egged": "egg", "emergencies": "emergenc", "emergency": "emergenc",
	"emergent": "emergent", "entomologist": "entomolog", "erred": "err", "erring": "err", "evening": "evening",
	"evenings": "evening", "genealogist": "genealog", "geologist": "geolog", "geologists": "geolog",
	"hying": "hie", "interfered": "interfer", "interfering": "interfer", "internal": "internal",
	"internality": "internal", "internalization": "internal", "internalize": "internal",
	"internalized": "internal", "internalizes": "internal", "internally": "internal",
	"internalness": "internal", "internals": "internal", "international": "internat",
	"internationally": "internat", "internationals": "internat", "internment": "internment",
	"internments": "internment", "interval": "interval", "intervals": "interval", "lateral": "lateral",
	"laterally": "lateral", "neurologist": "neurolog", "neurologists": "neurolog", "offed": "off",
	"offing": "off", "oncologist": "oncolog", "oncologists": "oncolog", "organic": "organic",
	"organically": "organic", "organism": "organism", "organization": "organiz", "organizations": "organiz",
	"organize": "organiz", "organized": "organiz", "organizer": "organiz", "organizers": "organiz",
	"organizing": "organiz", "ornithologist": "ornitholog", "ornithologists": "ornitholog", "paste": "paste",
	"pasted": "paste", "pastes": "paste", "pasting": "paste", "psychologist": "psycholog",
	"psychologists": "psycholog", "radiologist": "radiolog", "radiologists": "radiolog",
	"sociologist": "sociolog", "sociologists": "sociolog", "technologist": "technolog",
	"technologists": "technolog", "universal": "universal", "universalize": "universal",
	"universally": "universal", "universities": "universiti", "university": "universiti",
	"urologist": "urolog", "urologists": "urolog", "vying": "vie", "zoologist": "zoolog",
	"zoologists": "zoolog",
}
