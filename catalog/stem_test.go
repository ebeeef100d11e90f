package catalog

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"toolsearch/catalog/catalogtest"
)

// TestStemVocabulary checks every word of the published vocabulary.
func TestStemVocabulary(t *testing.T) {
	t.Parallel()
	for _, folder := range catalogtest.VectorFolders(t) {
		data, err := os.ReadFile(filepath.Join(folder, "stems.tsv"))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		words := 0
		for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
			line := lines.Text()
			word, want, ok := strings.Cut(line, "\t")
			if !ok || strings.HasPrefix(line, "#") || strings.Contains(word, "'") {
				continue
			}
			words++
			if got := stem(word); got != want {
				t.Errorf("stem(%q) = %q, want %q", word, got, want)
			}
			if got := publishedStem(word); got != want {
				t.Errorf("publishedStem(%q) = %q, want %q", word, got, want)
			}
		}
		if words < 1000 {
			t.Errorf("%s: only %d words were read", folder, words)
		}
	}
}

// TestStemOfCatalogWords compares with the algorithm as it is published, over words that tools are really made of, most
// of which the vocabulary does not have.
func TestStemOfCatalogWords(t *testing.T) {
	t.Parallel()
	written, seen := map[string]bool{}, map[string]bool{}
	for _, file := range catalogtest.Files(t) {
		s := wordScanner{text: string(catalogtest.Read(t, file))}
		for word, kind := s.next(); kind != noWord; word, kind = s.next() {
			if written[word] || kind != plainWord && kind != mixedWord {
				continue
			}
			written[word] = true
			for _, w := range append(split(word), word) {
				if w = strings.ToLower(w); !seen[w] {
					seen[w] = true
					if got, want := stem(w), publishedStem(w); got != want {
						t.Errorf("stem(%q) = %q, want %q", w, got, want)
					}
				}
			}
		}
	}
	if len(seen) < 5000 {
		t.Errorf("only %d words were read", len(seen))
	}
}

// TestStemOfInflectedWords has words that no vocabulary has, as models write them, of the kinds that the library reads
// by older rules.
func TestStemOfInflectedWords(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"apping": "app", "appingly": "app", "anning": "ann", "erredly": "err", "orred": "orr", "bying": "bie", "pying": "pie",
		"yying": "yie", "nyings": "nie", "organizes": "organiz", "organing": "organe", "organizationed": "organiz",
		"universality": "universal", "interized": "interiz", "lateralism": "lateral", "pastingly": "paste",
		"emergeize": "emergeiz", "proceedly": "proceed", "mailogists": "mailog", "logistically": "logist",
	} {
		if got := stem(word); got != want {
			t.Errorf("stem(%q) = %q, want %q", word, got, want)
		}
	}
}

// TestStemIsAsPublished compares the two over made-up words, which end as English ones do.
func TestStemIsAsPublished(t *testing.T) {
	t.Parallel()
	beginning := rapid.OneOf(rapid.StringMatching(`[aeioy]?[a-z]{2,6}`), rapid.StringMatching(`[aeo](bb|dd|ff|gg|mm|nn|pp|rr|tt)`),
		rapid.SampledFrom([]string{"ad", "app", "by", "organ", "inter", "past", "even", "inn", "proc", "geol", "create"}))
	ending := rapid.SampledFrom([]string{
		"", "s", "es", "ed", "ing", "ingly", "edly", "eed", "eedly", "ying", "er", "ation", "ational", "ize", "izer", "ive",
		"iveness", "ful", "less", "li", "ly", "ment", "able", "bility", "al", "ality", "alism", "ity", "ies", "ied", "y",
		"ogist", "ogists", "ogy", "ical", "ence", "ency", "ance", "icate", "ion", "e", "0",
	})
	rapid.Check(t, func(t *rapid.T) {
		word := beginning.Draw(t, "beginning") + ending.Draw(t, "ending") + ending.Draw(t, "second ending")
		if got, want := stem(word), publishedStem(word); got != want {
			t.Fatalf("stem(%q) = %q, want %q", word, got, want)
		}
	})
}

// FuzzStem holds stem against the algorithm as it is published, for words of any kind.
func FuzzStem(f *testing.F) {
	for _, w := range []string{"", "a", "running", "organization", "yyyy", "sses", "ied", "42s", "s3", strings.Repeat("ing", 500)} {
		f.Add(w)
	}
	f.Fuzz(func(t *testing.T, word string) {
		word = strings.Map(func(r rune) rune {
			if r >= 0x80 || byteClass[r] == 0 {
				return -1
			}
			return r
		}, strings.ToLower(word))
		got := stem(word)
		if want := publishedStem(word); got != want {
			t.Errorf("stem(%q) = %q, want %q", word, got, want)
		}
		if len(got) > len(word)+1 || word != "" && got == "" {
			t.Errorf("stem(%q) = %q", word, got)
		}
	})
}
