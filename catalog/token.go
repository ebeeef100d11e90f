package catalog

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// This file turns text into tokens, for the index and for queries alike.
//
// A run of ASCII letters and digits is a word: lower-cased and stemmed it is one token, and for plain text that is all.
// Beyond that, a word in camelCase, with an acronym or with digits yields its parts as well as the whole; letters of
// every script are words, without their accents; and a run of Chinese, Japanese or Korean characters, which has no
// spaces, yields its overlapping pairs.

// maxParts bounds the parts of one word. What has more is no identifier but a blob, and is only indexed as a whole.
const maxParts = 32

// wordKind says what a word yields.
type wordKind uint8

const (
	noWord      wordKind = iota // the text has ended
	plainWord                   // ASCII, one token
	mixedWord                   // ASCII with a change of case or with digits: maybe parts
	foreignWord                 // letters beyond ASCII
	pairWord                    // a run of Han, Hiragana, Katakana or Hangul
)

// wordScanner cuts text into words.
type wordScanner struct {
	text string
	pos  int
}

// Classes of ASCII bytes; zero separates.
const (
	lowerByte = iota + 1
	upperByte
	digitByte
)

var byteClass = func() (class [utf8.RuneSelf]uint8) {
	for b := range class {
		switch {
		case 'a' <= b && b <= 'z':
			class[b] = lowerByte
		case 'A' <= b && b <= 'Z':
			class[b] = upperByte
		case '0' <= b && b <= '9':
			class[b] = digitByte
		}
	}
	return class
}()

// next returns the next word as it is written.
func (s *wordScanner) next() (string, wordKind) {
	for s.pos < len(s.text) {
		start := s.pos
		if b := s.text[start]; b < utf8.RuneSelf {
			if byteClass[b] == 0 {
				s.pos++
				continue
			}
			return s.asciiWord(start)
		}
		r, n := utf8.DecodeRuneInString(s.text[start:])
		switch {
		case isPairRune(r):
			return s.pairWord(start)
		case isWordRune(r):
			return s.foreignWord(start)
		}
		s.pos += n
	}
	return "", noWord
}

func (s *wordScanner) asciiWord(start int) (string, wordKind) {
	var counts [4]int
	i := start
	for i < len(s.text) {
		b := s.text[i]
		if b >= utf8.RuneSelf {
			if r, _ := utf8.DecodeRuneInString(s.text[i:]); isWordRune(r) && !isPairRune(r) {
				return s.foreignWord(start)
			}
			break
		}
		if byteClass[b] == 0 {
			break
		}
		counts[byteClass[b]]++
		i++
	}
	s.pos = i
	word := s.text[start:i]
	upper, digits := counts[upperByte], counts[digitByte]
	oneCase := upper == 0 || upper == len(word) || upper == 1 && byteClass[word[0]] == upperByte
	if digits == len(word) || digits == 0 && oneCase {
		return word, plainWord
	}
	return word, mixedWord
}

func (s *wordScanner) foreignWord(start int) (string, wordKind) {
	s.pos = s.end(start, func(r rune) bool { return isWordRune(r) && !isPairRune(r) })
	return s.text[start:s.pos], foreignWord
}

func (s *wordScanner) pairWord(start int) (string, wordKind) {
	s.pos = s.end(start, isPairRune)
	return s.text[start:s.pos], pairWord
}

// end is the first position after start whose rune is not of the word.
func (s *wordScanner) end(start int, of func(rune) bool) int {
	for i, r := range s.text[start:] {
		if !of(r) {
			return start + i
		}
	}
	return len(s.text)
}

// isWordRune reports whether r can stand in a word. Marks can: scripts such as Devanagari write vowels with them.
func isWordRune(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= 0 && byteClass[r] != 0
	}
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd)
}

// isPairRune reports whether r belongs to a script that is indexed by pairs.
func isPairRune(r rune) bool {
	switch {
	case r < 0x1100:
		return false
	case 0x4E00 <= r && r <= 0x9FFF, 0xAC00 <= r && r <= 0xD7A3:
		return true
	case r == 0x30FC, r == 0xFF70: // the long vowel mark, which Unicode counts to no script
		return true
	case isKanaVoicing(r):
		return true
	}
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul)
}

// isKanaVoicing reports whether r is one of the marks that make another syllable of a kana.
func isKanaVoicing(r rune) bool {
	return r == 0x3099 || r == 0x309A || r == 0xFF9E || r == 0xFF9F
}

// expansion is what one word yields.
type expansion struct {
	// whole is the token of the word, "" for a run of pairs.
	whole string
	// parts are the tokens of its parts, or the pairs; empty for a word of one part.
	parts []string
	// plain are the tokens of a reader that knows ASCII only and splits nothing; see [rank] for what they are kept.
	plain []string
}

// isPlain reports whether the word is the same one token in both readings.
func (e expansion) isPlain() bool {
	return len(e.parts) == 0 && len(e.plain) == 1 && e.plain[0] == e.whole
}

// expand says what a word yields.
func expand(word string, kind wordKind) expansion {
	switch kind {
	case plainWord:
		t := asciiToken(word)
		return expansion{whole: t, plain: []string{t}}
	case mixedWord:
		t := asciiToken(word)
		return expansion{whole: t, parts: tokensOf(split(word)), plain: []string{t}}
	case foreignWord:
		return expansion{whole: token(word), parts: tokensOf(split(word)), plain: asciiRuns(word)}
	case pairWord:
		return expansion{parts: pairs(word)}
	}
	return expansion{}
}

// tokenize is every token of a text, in order: of each word the whole, then the parts.
func tokenize(text string) []string {
	tokens := []string{}
	s := wordScanner{text: text}
	for word, kind := s.next(); kind != noWord; word, kind = s.next() {
		e := expand(word, kind)
		if e.whole != "" {
			tokens = append(tokens, e.whole)
		}
		tokens = append(tokens, e.parts...)
	}
	return tokens
}

func asciiToken(word string) string { return stem(strings.ToLower(word)) }

// token is the token of a word or part in any script, "" if nothing of it is left without its marks.
func token(word string) string {
	word = fold(word)
	for i := range len(word) {
		if word[i] >= utf8.RuneSelf {
			return word
		}
	}
	return stem(word)
}

func tokensOf(words []string) []string {
	tokens := words[:0]
	for _, w := range words {
		if t := token(w); t != "" {
			tokens = append(tokens, t)
		}
	}
	return tokens
}

// asciiRuns are the tokens of the ASCII words inside a word with other letters.
func asciiRuns(word string) []string {
	var tokens []string
	for _, run := range strings.FieldsFunc(word, func(r rune) bool { return r >= utf8.RuneSelf }) {
		tokens = append(tokens, asciiToken(run))
	}
	return tokens
}

// pairs are the overlapping pairs of a run of characters; a single character is itself.
func pairs(run string) []string {
	runes := []rune(norm.NFKC.String(run))
	if len(runes) == 1 {
		return []string{string(runes)}
	}
	tokens := make([]string, 0, len(runes)-1)
	for i := 1; i < len(runes); i++ {
		tokens = append(tokens, string(runes[i-1:i+1]))
	}
	return tokens
}

// split cuts a word where it changes between letters and digits, before a capital after a small letter, before the last
// capital of an acronym that a small letter follows, and between acronyms that stand together: get|User|Profile,
// oauth|2|Token, XML|HTTP|Fetch. It returns nil for a word of one part, or of too many.
func split(word string) []string {
	runes := []rune(norm.NFC.String(word))
	var parts []string
	start := 0
	for i := 1; i <= len(runes); i++ {
		if i < len(runes) && !boundary(runes, i) {
			continue
		}
		parts = appendAcronyms(parts, string(runes[start:i]))
		start = i
		if len(parts) > maxParts {
			return nil
		}
	}
	if len(parts) == 1 {
		return nil
	}
	return parts
}

// boundary reports whether a part of the word begins at i, which is over 0.
func boundary(word []rune, i int) bool {
	before, here := word[i-1], word[i]
	if unicode.IsDigit(before) != unicode.IsDigit(here) {
		return !unicode.IsMark(here)
	}
	if !unicode.IsUpper(here) {
		return false
	}
	if !unicode.IsUpper(before) {
		return true
	}
	return isSmall(word, i+1) && !endsAcronym(word, i+1)
}

// isSmall reports whether a letter that is no capital stands at i.
func isSmall(word []rune, i int) bool {
	return i < len(word) && unicode.IsLetter(word[i]) && !unicode.IsUpper(word[i])
}

// endsAcronym reports whether the small letter at i belongs to the capitals before it, as in URLs and IPv4.
func endsAcronym(word []rune, i int) bool {
	switch word[i] {
	case 's':
		return !isSmall(word, i+1)
	case 'v':
		return i+1 < len(word) && unicode.IsDigit(word[i+1])
	}
	return false
}

// unaccented are letters that Unicode does not take apart into a letter and a mark.
var unaccented = strings.NewReplacer(
	"ß", "ss", "æ", "ae", "œ", "oe", "ø", "o", "đ", "d", "ð", "d", "þ", "th", "ł", "l", "ħ", "h", "ı", "i", "ς", "σ",
)

// fold lower-cases a word and takes its accents away. ASCII comes back in lower case only.
func fold(word string) string {
	ascii := true
	for i := range len(word) {
		ascii = ascii && word[i] < utf8.RuneSelf
	}
	if ascii {
		return strings.ToLower(word)
	}
	bare := strings.Map(func(r rune) rune {
		if isAccent(r) || !isWordRune(r) { // some letters come apart into a space and a mark
			return -1
		}
		return r
	}, norm.NFKD.String(word))
	return norm.NFKC.String(unaccented.Replace(strings.ToLower(bare)))
}

// isAccent reports whether r only decorates the letter before it: the marks that many scripts share, and the points of
// Hebrew. Marks such as the vowels of Devanagari are letters to their readers and stay.
func isAccent(r rune) bool {
	return r >= 0x300 && unicode.Is(unicode.M, r) && unicode.In(r, unicode.Inherited, unicode.Hebrew) && !isKanaVoicing(r)
}
