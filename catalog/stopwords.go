package catalog

import "strings"

// stopWords are words that say nothing about which tool is meant: the small words of English, and what people write
// around a wish. They are left out of what [Scope.Search] looks for beyond its matches, unless a query holds nothing
// else, and are never taken for a misspelling. Matches know no such words. Verbs that name what a tool does, such as
// get, show or find, are not among them.
var stopWords = wordSet(`
		a an the this that these those there here it its itself
		i me my mine myself we us our ours you your yours he him his she her they them their
		am is are was were be been being do does did doing done have has had having
		can could will would shall should may might must
		and or but nor if so than then as because while though although whether
		of in on at to for from with without by into onto about over under via per between
		up down out off near within upon
		not no yes ok okay very too also just only quite really even still
		some any all each every both either such same more most much many few lot lots
		what which who whom whose when where why how
		please thanks thank hello hi hey dear sorry
		want wants wanted need needs needed like help let lets tell give try wish hope
		use uses used using know thing things something anything everything etc
		im ive id ill youre dont doesnt didnt isnt cant wont ll ve re s t d m`)

// weakWords are words that say little about which tool is meant: how people ask for something, qualify it, and go on
// about it. Some tools are about such a word, so that they count, but by less than others.
var weakWords = wordSet(`
		provide provides provided providing assist assisting assistance ensure ensures ensuring allow allows allowing
		look looking looks interested curious wonder wondering think thinking consider considering prefer preferably try trying
		go goes going come comes coming take takes taking make makes making keep keeps keeping see sees seeing
		say says saying become happen happens happening mean means involve involves involving require requires required
		contain contains containing include includes included including given based related according regarding concerning following
		current currently possible possibly available specific specifically particular particularly certain various different several
		detailed comprehensive relevant additional appropriate suitable best good better great
		information details option options way ways kind kinds example examples reason reasons people person someone
		through during since until along well other another else
		easily quickly efficiently usually always never often now today already highly extremely
		kindly certainly sure urgent urgently immediate immediately exactly`)

func wordSet(list string) map[string]bool {
	words := map[string]bool{}
	for _, w := range strings.Fields(list) {
		words[w] = true
	}
	return words
}

// isStopWord reports whether a word, as it is written, says nothing about which tool is meant.
func isStopWord(word string) bool {
	const longest = 10
	return len(word) <= longest && stopWords[strings.ToLower(word)]
}

// isWeakWord reports whether a word, as it is written, says little about which tool is meant.
func isWeakWord(word string) bool {
	const longest = 13
	return len(word) <= longest && weakWords[strings.ToLower(word)]
}

// isNumber reports whether a token is a number: most are values, and not what a tool is about.
func isNumber(token string) bool {
	for _, b := range []byte(token) {
		if b < '0' || b > '9' {
			return false
		}
	}
	return token != ""
}
