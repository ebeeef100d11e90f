package subjects

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// The two replies that are written most often have encoders of their own, which need no reflection and one pass.
// Their bytes are those of [MarshalModel] for every reply whose raw parts are valid JSON.

// AppendModel appends the reply as a model reads it. The bytes are those of [MarshalModel].
func (r *SearchReply) AppendModel(dst []byte) []byte {
	dst = append(dst, `{"queries": `...)
	dst = appendStrings(dst, r.Queries)
	dst = append(dst, `, "total_available": `...)
	dst = strconv.AppendInt(dst, int64(r.TotalAvailable), 10)
	dst = append(dst, `, "results": `...)
	dst = appendList(dst, r.Results, (*SearchGroup).appendModel)
	dst = append(dst, `, "tools": {`...)
	for i := range r.Tools {
		dst = appendKey(dst, i, r.Tools[i].Key)
		dst = r.Tools[i].Value.appendModel(dst)
	}
	dst = append(dst, '}')
	if r.Connectors != nil {
		dst = append(dst, `, "connectors": `...)
		dst = r.Connectors.appendModel(dst)
	}
	return append(dst, '}')
}

func (g *SearchGroup) appendModel(dst []byte) []byte {
	dst = append(dst, `{"query": `...)
	dst = appendText(dst, g.Query)
	dst = append(dst, `, "matches": `...)
	dst = appendStrings(dst, g.Matches)
	if len(g.AvailableSources) > 0 {
		dst = append(dst, `, "available_sources": `...)
		dst = appendList(dst, g.AvailableSources, (*AvailableSource).appendModel)
	}
	if g.Hint != "" {
		dst = append(dst, `, "hint": `...)
		dst = appendText(dst, g.Hint)
	}
	dst = g.appendNear(dst)
	if g.TotalMatches != 0 {
		dst = append(dst, `, "total_matches": `...)
		dst = strconv.AppendInt(dst, int64(g.TotalMatches), 10)
	}
	if g.Truncated {
		dst = append(dst, `, "truncated": true`...)
	}
	return append(dst, '}')
}

// appendNear writes what an empty group may tell besides: near misses, words that no tool knows, corrections.
func (g *SearchGroup) appendNear(dst []byte) []byte {
	if len(g.Near) > 0 {
		dst = append(dst, `, "near": `...)
		dst = appendStrings(dst, g.Near)
	}
	if len(g.UnknownWords) > 0 {
		dst = append(dst, `, "unknown_words": `...)
		dst = appendStrings(dst, g.UnknownWords)
	}
	if len(g.DidYouMean) == 0 {
		return dst
	}
	dst = append(dst, `, "did_you_mean": {`...)
	for i := range g.DidYouMean {
		dst = appendKey(dst, i, g.DidYouMean[i].Key)
		dst = appendText(dst, g.DidYouMean[i].Value)
	}
	return append(dst, '}')
}

func (s *AvailableSource) appendModel(dst []byte) []byte {
	dst = append(dst, `{"name": `...)
	dst = appendText(dst, s.Name)
	if s.ToolCount != nil {
		dst = append(dst, `, "tool_count": `...)
		dst = strconv.AppendInt(dst, int64(*s.ToolCount), 10)
	}
	if s.Unavailable != "" {
		dst = append(dst, `, "unavailable": `...)
		dst = appendText(dst, s.Unavailable)
	}
	return append(dst, '}')
}

func (t *ToolRecord) appendModel(dst []byte) []byte {
	dst = append(dst, `{"source": `...)
	dst = appendText(dst, t.Source)
	dst = append(dst, `, "source_name": `...)
	dst = appendText(dst, t.SourceName)
	dst = append(dst, `, "description": `...)
	dst = appendText(dst, t.Description)
	dst = append(dst, `, "required": `...)
	dst = appendStrings(dst, t.Required)
	return append(dst, '}')
}

func (c *ConnectorsCondition) appendModel(dst []byte) []byte {
	dst = append(dst, `{"status": `...)
	dst = appendText(dst, c.Status)
	if c.Reason != "" {
		dst = append(dst, `, "reason": `...)
		dst = appendText(dst, c.Reason)
	}
	dst = append(dst, `, "hint": `...)
	dst = appendText(dst, c.Hint)
	if len(c.Names) > 0 {
		dst = append(dst, `, "names": `...)
		dst = appendStrings(dst, c.Names)
	}
	return append(dst, '}')
}

// AppendModel appends the reply as a model reads it. The bytes are those of [MarshalModel]: a schema keeps the order
// of its keys and the spelling of its numbers, only the blanks between its parts change.
func (r *DescribeReply) AppendModel(dst []byte) []byte {
	dst = append(dst, `{"tools": {`...)
	for i := range r.Tools {
		dst = appendKey(dst, i, r.Tools[i].Key)
		dst = append(dst, `{"description": `...)
		dst = appendText(dst, r.Tools[i].Value.Description)
		dst = append(dst, `, "parameters": `...)
		dst = appendRaw(dst, r.Tools[i].Value.Parameters)
		dst = append(dst, '}')
	}
	dst = append(dst, '}')
	if len(r.NotFound) > 0 {
		dst = append(dst, `, "not_found": `...)
		dst = appendStrings(dst, r.NotFound)
	}
	if r.Hint != "" {
		dst = append(dst, `, "hint": `...)
		dst = appendText(dst, r.Hint)
	}
	if len(r.Errors) > 0 {
		dst = append(dst, `, "errors": {`...)
		for i := range r.Errors {
			dst = appendKey(dst, i, r.Errors[i].Key)
			dst = appendText(dst, r.Errors[i].Value)
		}
		dst = append(dst, '}')
	}
	if r.Connectors != nil {
		dst = append(dst, `, "connectors": `...)
		dst = r.Connectors.appendModel(dst)
	}
	return append(dst, '}')
}

// appendKey starts the member at position i of an object.
func appendKey(dst []byte, i int, key string) []byte {
	if i > 0 {
		dst = append(dst, ", "...)
	}
	dst = AppendString(dst, key)
	return append(dst, ": "...)
}

// appendList appends an array; a nil one is null, as encoding/json has it.
func appendList[T any](dst []byte, list []T, one func(*T, []byte) []byte) []byte {
	if list == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '[')
	for i := range list {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = one(&list[i], dst)
	}
	return append(dst, ']')
}

func appendStrings(dst []byte, list []string) []byte {
	return appendList(dst, list, func(s *string, dst []byte) []byte { return appendText(dst, *s) })
}

// appendText is [AppendString] for a string that encoding/json would write: a byte that is no UTF-8 becomes an
// escape there and not the character itself. Runs of plain text, nearly all of it, are copied whole.
func appendText(dst []byte, s string) []byte {
	var scratch [8]byte
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		if plainText[s[i]] {
			i++
			continue
		}
		if s[i] < utf8.RuneSelf {
			dst = append(dst, s[start:i]...)
			quoted := AppendString(scratch[:0], s[i:i+1])
			dst = append(dst, quoted[1:len(quoted)-1]...)
			i++
			start = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			dst = append(dst, s[start:i]...)
			dst = append(dst, `\ufffd`...)
			start = i + 1
		}
		i += n
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// plainText marks the bytes that stand for themselves in a JSON string.
var plainText = func() (plain [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		plain[c] = c != '"' && c != '\\'
	}
	return plain
}()

// appendRaw appends valid JSON with the blanks of [AppendSpaced] and no others, and U+2028 and U+2029 unescaped.
func appendRaw(dst []byte, raw json.RawMessage) []byte {
	if raw == nil {
		return append(dst, "null"...)
	}
	for i := 0; i < len(raw); {
		switch c := raw[i]; c {
		case ' ', '\t', '\n', '\r':
			i++
		case ',', ':':
			dst = append(dst, c, ' ')
			i++
		case '"':
			end := stringEnd(raw, i)
			dst = appendUnescapedLines(dst, raw[i:end])
			i = end
		default:
			dst = append(dst, c)
			i++
		}
	}
	return dst
}

// stringEnd is the position after the string that begins at i.
func stringEnd(raw []byte, i int) int {
	for i++; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(raw)
}

// appendUnescapedLines appends a JSON string without its escapes of U+2028 and U+2029.
func appendUnescapedLines(dst, text []byte) []byte {
	start := 0
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		if len(text)-i >= 6 && string(text[i+1:i+5]) == "u202" && (text[i+5] == '8' || text[i+5] == '9') {
			dst = append(dst, text[start:i]...)
			dst = utf8.AppendRune(dst, 0x2020+rune(text[i+5]-'0'))
			i += 5
			start = i + 1
			continue
		}
		i++
	}
	return append(dst, text[start:]...)
}
