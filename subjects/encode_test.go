package subjects

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

// modelText draws strings that an encoder may get wrong: quotes, controls, line separators, bytes that are no UTF-8.
func modelText() *rapid.Generator[string] {
	odd := rapid.SampledFrom([]string{"\u2028", "\u2029", "<&>", `\u2028`, `\\u2029`, "\xff", "\xed\xa0\x80", "\x00\x1f\x7f", "\"\\/", "\b\f\n\r\t", "é日", "\ufffd", ", : "})
	return rapid.Custom(func(t *rapid.T) string {
		s := ""
		for range rapid.IntRange(0, 3).Draw(t, "parts") {
			s += rapid.OneOf(odd, rapid.String()).Draw(t, "part")
		}
		return s
	})
}

// modelSchema draws valid JSON with blanks and spellings that must be kept or dropped.
func modelSchema() *rapid.Generator[json.RawMessage] {
	return rapid.Custom(func(t *rapid.T) json.RawMessage {
		text := modelText().Draw(t, "text")
		quoted, err := json.Marshal(text) // escapes HTML and the line separators, as a caller may
		if err != nil {
			t.Fatal(err)
		}
		return rapid.SampledFrom([]json.RawMessage{
			json.RawMessage(`{}`),
			json.RawMessage("{ \"type\" :\t\"object\",\r\n \"b\": [1.0, 1e5,-0 ,{}], \"d\": " + string(quoted) + "}"),
			json.RawMessage(`{"\u2028":"\\u2028\\\u2029\u00e9\/"}`),
			json.RawMessage(`[" , : ", true ,null,[ ] ]`),
			nil,
		}).Draw(t, "schema")
	})
}

func modelStrings() *rapid.Generator[[]string] {
	return rapid.OneOf(rapid.Just[[]string](nil), rapid.SliceOfN(modelText(), 0, 3))
}

func modelWords() *rapid.Generator[Ordered[string]] {
	return rapid.Custom(func(t *rapid.T) Ordered[string] {
		var words Ordered[string]
		for range rapid.IntRange(0, 2).Draw(t, "words") {
			words = append(words, Pair[string]{modelText().Draw(t, "word"), modelText().Draw(t, "suggestion")})
		}
		return words
	})
}

func modelCondition() *rapid.Generator[*ConnectorsCondition] {
	return rapid.Custom(func(t *rapid.T) *ConnectorsCondition {
		if rapid.Bool().Draw(t, "none") {
			return nil
		}
		return &ConnectorsCondition{
			Status: modelText().Draw(t, "status"), Reason: modelText().Draw(t, "reason"),
			Hint: modelText().Draw(t, "hint"), Names: modelStrings().Draw(t, "names"),
		}
	})
}

func modelSources() *rapid.Generator[[]AvailableSource] {
	one := rapid.Custom(func(t *rapid.T) AvailableSource {
		return AvailableSource{
			Name: modelText().Draw(t, "name"), ToolCount: rapid.Ptr(rapid.Int(), true).Draw(t, "count"),
			Unavailable: modelText().Draw(t, "unavailable"),
		}
	})
	return rapid.SliceOfN(one, 0, 3)
}

func TestSearchReplyAppendModel(t *testing.T) {
	t.Parallel()
	group := rapid.Custom(func(t *rapid.T) SearchGroup {
		return SearchGroup{
			Query: modelText().Draw(t, "query"), Matches: modelStrings().Draw(t, "matches"),
			AvailableSources: modelSources().Draw(t, "sources"), Hint: modelText().Draw(t, "hint"),
			Near: modelStrings().Draw(t, "near"), UnknownWords: modelStrings().Draw(t, "unknown"), DidYouMean: modelWords().Draw(t, "did_you_mean"),
			TotalMatches: rapid.IntRange(-1, 9).Draw(t, "total"), Truncated: rapid.Bool().Draw(t, "truncated"),
		}
	})
	record := rapid.Custom(func(t *rapid.T) Pair[ToolRecord] {
		return Pair[ToolRecord]{modelText().Draw(t, "key"), ToolRecord{
			Source: modelText().Draw(t, "source"), SourceName: modelText().Draw(t, "source_name"),
			Description: modelText().Draw(t, "description"), Required: modelStrings().Draw(t, "required"),
		}}
	})
	rapid.Check(t, func(t *rapid.T) {
		reply := &SearchReply{
			Queries: modelStrings().Draw(t, "queries"), TotalAvailable: rapid.Int().Draw(t, "total"),
			Results:    rapid.OneOf(rapid.Just[[]SearchGroup](nil), rapid.SliceOfN(group, 0, 3)).Draw(t, "results"),
			Tools:      rapid.SliceOfN(record, 0, 3).Draw(t, "tools"),
			Connectors: modelCondition().Draw(t, "connectors"),
		}
		requireModelBytes(t, reply, reply.AppendModel([]byte("kept")))
	})
}

func TestDescribeReplyAppendModel(t *testing.T) {
	t.Parallel()
	schema := rapid.Custom(func(t *rapid.T) Pair[ToolSchema] {
		return Pair[ToolSchema]{modelText().Draw(t, "key"), ToolSchema{
			Description: modelText().Draw(t, "description"), Parameters: modelSchema().Draw(t, "parameters"),
		}}
	})
	failure := rapid.Custom(func(t *rapid.T) Pair[string] {
		return Pair[string]{modelText().Draw(t, "key"), modelText().Draw(t, "error")}
	})
	rapid.Check(t, func(t *rapid.T) {
		reply := &DescribeReply{
			Tools: rapid.SliceOfN(schema, 0, 3).Draw(t, "tools"), NotFound: modelStrings().Draw(t, "not_found"),
			Hint: modelText().Draw(t, "hint"), Errors: rapid.SliceOfN(failure, 0, 2).Draw(t, "errors"),
			Connectors: modelCondition().Draw(t, "connectors"),
		}
		requireModelBytes(t, reply, reply.AppendModel([]byte("kept")))
	})
}

func requireModelBytes(t *rapid.T, reply any, got []byte) {
	t.Helper()
	want, err := MarshalModel(reply)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != "kept"+string(want) {
		t.Fatalf("AppendModel wrote\n%s\nand MarshalModel\n%s", got, want)
	}
}

func BenchmarkSearchReplyAppendModel(b *testing.B) {
	reply := &SearchReply{Queries: []string{"github create issue"}, TotalAvailable: 3000, Results: []SearchGroup{{
		Query: "github create issue", Matches: []string{"a", "b", "c", "d", "e"}, TotalMatches: 40, Truncated: true,
	}}}
	long := make([]byte, 400)
	for i := range long {
		long[i] = "issues are tracked here "[i%24]
	}
	for _, name := range []string{"mcp__github__a", "mcp__github__b", "mcp__github__c", "mcp__github__d", "mcp__github__e"} {
		reply.Tools = append(reply.Tools, Pair[ToolRecord]{name, ToolRecord{"mcp", "mcp-github", string(long), []string{"owner", "repo", "title"}}})
	}
	dst := reply.AppendModel(nil)
	b.SetBytes(int64(len(dst)))
	b.ReportAllocs()
	for b.Loop() {
		dst = reply.AppendModel(dst[:0])
	}
}
