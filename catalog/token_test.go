package catalog

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"toolsearch/catalog/catalogtest"
)

func TestTokenizeVectors(t *testing.T) {
	t.Parallel()
	for v := range catalogtest.Vectors(t, "tokenize.jsonl") {
		t.Run(v.ID, func(t *testing.T) {
			t.Parallel()
			var given struct{ Text string }
			var want struct{ Tokens []string }
			v.DecodeGiven(t, &given)
			v.DecodeWant(t, &want)
			if diff := cmp.Diff(want.Tokens, tokenize(given.Text)); diff != "" {
				t.Errorf("tokens of %q (-want +got):\n%s", given.Text, diff)
			}
		})
	}
}

func TestTokenizeBeyondPlainWords(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, want string }{
		{"getUserProfile", "getuserprofil get user profil"},
		{"XMLHTTPFetch", "xmlhttpfetch xml http fetch"},
		{"getHTTPSURLByID getDNSSECKey JSONRPCError", "gethttpsurlbyid get https url by id getdnsseckey get dnssec key jsonrpcerror json rpc error"},
		{"HTTPServerStatus", "httpserverstatus http server status"},
		{"parseHTMLTable", "parsehtmlt pars html tabl"},
		{"bitable_v1_appTableRecord", "bitabl v1 v 1 apptablerecord app tabl record"},
		{"oauth2Token s3 base64Encode", "oauth2token oauth 2 token s3 s 3 base64encod base 64 encod"},
		// A plural of an acronym is one word, and so is the acronym of a version.
		{"URLs listURLs getIDsByName", "url listurl list url getidsbynam get id by name"},
		{"IPv4Address", "ipv4address ipv 4 address"},
		{"OAuth GitHub iOS", "oauth o auth github git hub io i os"},
		{"EC2Instance", "ec2inst ec 2 instanc"},
		// Words of one part stay one token in whatever case.
		{"Get GET get 365 A", "get get get 365 a"},
		{"café Café CAFÉ cafe cafe\u0301", "cafe cafe cafe cafe cafe"},
		{"naïve Ångström łódź Straße œuvre", "naiv angstrom lodz strass oeuvr"},
		{"créerUtilisateur ÉCOLE", "creerutilisateur creer utilisateur ecol"},
		{"Список ДРУЗЕЙ Ёлка", "список друзеи елка"},
		{"Σίσυφος ΣΊΣΥΦΟΣ", "σισυφοσ σισυφοσ"},
		{"שָׁלוֹם مُحَمَّد", "שלום محمد"},
		{"हिन्दी भाषा", "हिन्दी भाषा"},
		{"发送消息", "发送 送消 消息"},
		{"发 x", "发 x"},
		{"AWS中文API", "aw 中文 api"},
		{"メッセージを送信", "メッ ッセ セー ージ ジを を送 送信"},
		{"ﾒｯｾｰｼﾞ ｶﾞ", "メッ ッセ セー ージ ガ"},
		{"메시지 보내기", "메시 시지 보내 내기"},
		{"ＡＢＣ　１２３", "abc 123"},
		{"Foo™ 20℃ m² ⚠️ 💡 — … a\u2028b", "foo 20 m a b"},
		{"\x00\xff\xfea\xffb", "a b"},
		// What has very many parts is no identifier.
		{strings.Repeat("aB", maxParts+1), strings.Repeat("ab", maxParts+1)},
		{"", ""},
	} {
		if got := strings.Join(tokenize(test.text), " "); got != test.want {
			t.Errorf("tokenize(%q)\n got %s\nwant %s", test.text, got, test.want)
		}
	}
}

// TestTokenizePlainWords compares the tokeniser with the plainest one there is, over texts that need no more.
func TestTokenizePlainWords(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`([a-z]{1,9}[ _.:,;!?()\n-]{1,2}|[0-9]{1,3} ){0,20}`).Draw(t, "text")
		want := []string{}
		for _, w := range strings.FieldsFunc(text, func(r rune) bool { return byteClass[r] == 0 }) {
			want = append(want, stem(w))
		}
		if diff := cmp.Diff(want, tokenize(text)); diff != "" {
			t.Fatalf("tokens of %q (-want +got):\n%s", text, diff)
		}
	})
}

// TestTokenizeCaseAndAccents checks that writing a word in capitals or with accents taken apart changes nothing.
func TestTokenizeCaseAndAccents(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-zàâçéèêëîïôùûüñöа-яα-ω]{1,12}`).Draw(t, "word")
		if diff := cmp.Diff(tokenize(word), tokenize(strings.ToUpper(word))); diff != "" {
			t.Fatalf("tokens of %q and its capitals:\n%s", word, diff)
		}
	})
}

func FuzzTokenize(f *testing.F) {
	for _, text := range []string{
		"", "mcp__github__create_issue", "getUserProfile XMLHTTPFetch oauth2Token", "café naïve Straße", "发送消息 メッセージ 메시지",
		"\x00\xff", "a\u0301\u0301\u0301", "\u0301", "ﾞ", "⚠️1️⃣", strings.Repeat("aB1", 100), strings.Repeat("漢", 100), "İıſK", "0ͺ", "ﷺŉ㍿",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, token := range tokenize(text) {
			if token == "" {
				t.Errorf("an empty token of %q", text)
			}
			if !utf8.ValidString(token) {
				t.Errorf("a token of %q is no UTF-8: %q", text, token)
			}
			if strings.ContainsAny(token, " _.:-\x00") {
				t.Errorf("a separator in the token %q of %q", token, text)
			}
		}
		// The plain reading is that of ASCII words, whatever else there is.
		var plain []string
		s := wordScanner{text: text}
		for word, kind := s.next(); kind != noWord; word, kind = s.next() {
			plain = append(plain, expand(word, kind).plain...)
		}
		var want []string
		for _, w := range strings.FieldsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf || byteClass[r] == 0 }) {
			want = append(want, stem(strings.ToLower(w)))
		}
		if diff := cmp.Diff(want, plain); diff != "" {
			t.Errorf("plain tokens of %q (-want +got):\n%s", text, diff)
		}
	})
}
