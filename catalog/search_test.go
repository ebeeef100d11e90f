package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"toolsearch/catalog/catalogtest"
	"toolsearch/subjects"
)

// wantGroup is what a case states of one query's group.
type wantGroup struct {
	Query            string
	Matches          []string
	AvailableSources []subjects.AvailableSource `json:"available_sources"`
	Hint             *message
}

func TestSearchVectors(t *testing.T) {
	t.Parallel()
	runVectors(t, "search.jsonl", "search", func(t *testing.T, v catalogtest.Vector) {
		var given struct {
			scopeGiven
			Arguments json.RawMessage
		}
		var want struct {
			Error          *message
			Queries        []string
			TotalAvailable *int `json:"total_available"`
			Results        []wantGroup
			ToolNames      []string `json:"tool_names"`
			Tools          []struct {
				Name string
				subjects.ToolRecord
			}
		}
		v.DecodeGiven(t, &given)
		v.DecodeWant(t, &want)
		s := given.scope(t, v)
		q, err := s.ParseSearch(given.Arguments)
		checkToolError(t, want.Error, err)
		if err != nil {
			return
		}
		got := s.Search(q, nil)
		if want.Queries != nil {
			requireEqual(t, "queries", want.Queries, got.Queries)
		}
		requireStated(t, "total_available", want.TotalAvailable, got.TotalAvailable)
		if want.Results != nil {
			checkGroups(t, want.Results, got.Results)
		}
		if want.ToolNames != nil {
			requireEqual(t, "tool_names", want.ToolNames, namesBeforeNear(t, got))
		}
		for i, w := range want.Tools {
			if i >= len(got.Tools) {
				t.Fatalf("%d records, want %d", len(got.Tools), len(want.Tools))
			}
			requireEqual(t, "record", subjects.Pair[subjects.ToolRecord]{Key: w.Name, Value: w.ToolRecord}, got.Tools[i])
		}
		if encoded := got.AppendModel(nil); string(encoded) != string(modelBody(t, got)) {
			t.Errorf("the encoder wrote\n%s\ninstead of\n%s", encoded, modelBody(t, got))
		}
	})
}

// namesBeforeNear are the names that have a record, without those at the end that only stand in near.
func namesBeforeNear(t *testing.T, r *subjects.SearchReply) []string {
	t.Helper()
	near, matched := map[string]bool{}, map[string]bool{}
	for _, g := range r.Results {
		for _, name := range g.Matches {
			matched[name] = true
		}
		for _, name := range g.Near {
			near[name] = true
		}
		if len(g.Matches) > 0 && len(g.Near)+len(g.UnknownWords)+len(g.DidYouMean) > 0 {
			t.Errorf("%q has matches and near", g.Query)
		}
	}
	names := r.Tools.Keys()
	for len(names) > 0 && near[names[len(names)-1]] && !matched[names[len(names)-1]] {
		names = names[:len(names)-1]
	}
	return names
}

func checkGroups(t *testing.T, want []wantGroup, got []subjects.SearchGroup) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d groups, want %d", len(got), len(want))
	}
	for i, w := range want {
		requireEqual(t, "query", w.Query, got[i].Query)
		requireEqual(t, "matches", w.Matches, got[i].Matches)
		requireEqual(t, "available_sources", w.AvailableSources, got[i].AvailableSources)
		checkMessage(t, "hint", w.Hint, got[i].Hint)
	}
}

// checkToolError holds an error against the statement that the model made a mistake, or none.
func checkToolError(t *testing.T, want *message, err error) {
	t.Helper()
	var mistake *subjects.ToolError
	switch {
	case err == nil:
		checkMessage(t, "error", want, "")
	case errors.As(err, &mistake):
		checkMessage(t, "error", want, mistake.Message)
	default:
		t.Errorf("the error is %T: %v", err, err)
	}
}

func searchFor(t testing.TB, s *Scope, limit int, remote *RemoteSearch, queries ...string) *subjects.SearchReply {
	t.Helper()
	return s.Search(&SearchQuery{Queries: queries, Limit: limit}, remote)
}

func TestSearchSaysWhatWasCut(t *testing.T) {
	t.Parallel()
	s := newTestScope(t, catalogtest.Generated(300), &subjects.AssembleRequest{}, nil)
	cut := searchFor(t, s, 3, nil, "invoice").Results[0]
	if len(cut.Matches) != 3 || !cut.Truncated || cut.TotalMatches <= 3 {
		t.Errorf("want three of more matches, got %+v", cut)
	}
	whole := searchFor(t, s, 1000, nil, "invoice").Results[0]
	if len(whole.Matches) != cut.TotalMatches || whole.Truncated || whole.TotalMatches != 0 {
		t.Errorf("want all %d matches and nothing more, got %d, %v, %d", cut.TotalMatches, len(whole.Matches), whole.Truncated, whole.TotalMatches)
	}
}

func remoteTool(connector, tool, description string, required ...string) RemoteTool {
	return RemoteTool{
		Name: ConnectorPrefix + strings.ToLower(connector) + "__" + tool, Connector: connector,
		Slug: strings.ToUpper(connector) + "_" + tool, Description: description, Required: required,
	}
}

func TestSearchJoinsConnectors(t *testing.T) {
	t.Parallel()
	s := newTestScope(t, sampleTools(), &subjects.AssembleRequest{}, nil)
	remote := &RemoteSearch{Groups: [][]RemoteTool{
		{remoteTool("Gmail", "SEND_EMAIL", "Sends an email message.", "to"), remoteTool("Gmail", "LIST_LABELS", "Lists labels.")},
		nil,
	}}
	got := searchFor(t, s, 5, remote, "gmail send email", "post message", "slack message")
	requireEqual(t, "first", []string{"connectors__gmail__SEND_EMAIL"}, got.Results[0].Matches)
	requireEqual(t, "second", []string{"mcp__slack__post_message"}, got.Results[1].Matches)
	requireEqual(t, "third", []string{"mcp__slack__post_message"}, got.Results[2].Matches)
	requireEqual(t, "total", 5, got.TotalAvailable)
	record, _ := got.Tools.Get("connectors__gmail__SEND_EMAIL")
	requireEqual(t, "record", subjects.ToolRecord{
		Source: "connectors", SourceName: "Gmail", Description: "Sends an email message.", Required: []string{"to"},
	}, record)
	if got.Connectors != nil {
		t.Error("a condition without a failure")
	}
}

func TestSearchRanksBothAsOne(t *testing.T) {
	t.Parallel()
	s := newTestScope(t, sampleTools(), &subjects.AssembleRequest{}, nil)
	remote := &RemoteSearch{Groups: [][]RemoteTool{{remoteTool("mail", "POST_MESSAGE", "Posts a message by mail.")}}}
	got := searchFor(t, s, 5, remote, "post message").Results[0].Matches
	if len(got) != 2 {
		t.Errorf("want the local and the connector's tool, got %v", got)
	}
	one := searchFor(t, s, 1, remote, "post message").Results[0]
	if len(one.Matches) != 1 || one.TotalMatches != 2 || !one.Truncated {
		t.Errorf("want one limit for both, got %+v", one)
	}
	exact := searchFor(t, s, 1, remote, "connectors__mail__post_message").Results[0].Matches
	requireEqual(t, "exact name", []string{"connectors__mail__POST_MESSAGE"}, exact)
}

// TestSearchCondition has a gateway that failed: the local results are as they would be without it.
func TestSearchCondition(t *testing.T) {
	t.Parallel()
	s := newTestScope(t, sampleTools(), &subjects.AssembleRequest{}, nil)
	condition := &subjects.ConnectorsCondition{Status: "unavailable", Reason: "unreachable", Hint: "later"}
	with, without := searchFor(t, s, 5, &RemoteSearch{Condition: condition}, "list issues"), searchFor(t, s, 5, nil, "list issues")
	requireEqual(t, "condition", condition, with.Connectors)
	with.Connectors = nil
	requireEqual(t, "the rest", without, with)
}

func TestSearchUnavailableSources(t *testing.T) {
	t.Parallel()
	three, two, one := 3, 2, 1
	s := newTestScope(t, sampleTools(), &subjects.AssembleRequest{UnavailableSources: []subjects.UnavailableSource{
		{Name: "blender", ToolCount: &three, Reason: "Blender is not running."},
		{Name: "github", Reason: "never shown: its tools are here"},
		{Name: "mystery", Reason: "No endpoint."},
	}}, nil)
	group := searchFor(t, s, 5, nil, "quokka").Results[0]
	requireEqual(t, "sources", []subjects.AvailableSource{
		{Name: "blender", ToolCount: &three, Unavailable: "Blender is not running."},
		{Name: "calendar", ToolCount: &one},
		{Name: "github", ToolCount: &two},
		{Name: "mystery", Unavailable: "No endpoint."},
		{Name: "slack", ToolCount: &one},
	}, group.AvailableSources)
	if group.Hint == "" {
		t.Error("no hint")
	}
}

func TestSearchRecordClips(t *testing.T) {
	t.Parallel()
	required := []string{`"` + strings.Repeat("é", 70) + `"`, "7", "null"}
	for i := range 40 {
		required = append(required, fmt.Sprintf("%q", fmt.Sprint("p", i)))
	}
	tools := []catalogtest.Element{
		{Toolset: "mcp-a", Tool: json.RawMessage(`{"name":"long","description":"` + strings.Repeat("é", 501) +
			`","parameters":{"required":[` + strings.Join(required, ",") + `]}}`)},
		{Toolset: "mcp-a", Tool: json.RawMessage(`{"name":"odd","description":"` + strings.Repeat("x", 500) + `","parameters":{"required":"all"}}`)},
		{Toolset: "mcp-a", Tool: json.RawMessage(`{"name":"bare"}`)},
	}
	got := searchFor(t, newTestScope(t, tools, &subjects.AssembleRequest{}, nil), 5, nil, "long", "odd", "bare").Tools
	long, _ := got.Get("long")
	requireEqual(t, "description", strings.Repeat("é", 500)+"…", long.Description)
	requireEqual(t, "first required", strings.Repeat("é", 64), long.Required[0])
	requireEqual(t, "second required", "p0", long.Required[1])
	requireEqual(t, "required", 32, len(long.Required))
	odd, _ := got.Get("odd")
	requireEqual(t, "odd", subjects.ToolRecord{Source: "mcp", SourceName: "mcp-a", Description: strings.Repeat("x", 500), Required: []string{}}, odd)
	bare, _ := got.Get("bare")
	requireEqual(t, "bare", subjects.ToolRecord{Source: "mcp", SourceName: "mcp-a", Required: []string{}}, bare)

	many := remoteTool("x", "Y", strings.Repeat("z", 600), append(strings.Fields(strings.Repeat("r ", 40)), strings.Repeat("é", 70))...)
	record := remoteRecord(&many)
	if len(record.Required) != 32 || runeLen(record.Description) != 501 {
		t.Errorf("a connector's record of %d names and %d characters", len(record.Required), runeLen(record.Description))
	}
}

func TestParseSearchBadInput(t *testing.T) {
	t.Parallel()
	s := newTestScope(t, sampleTools(), &subjects.AssembleRequest{}, nil)
	for _, c := range []struct {
		name, arguments string
		want            string // a part of the text for the model
	}{
		{"absent", ``, `"queries" must be an array`},
		{"null", `null`, `"queries" must be an array`},
		{"blank string", `"  "`, `"queries" must be an array`},
		{"other case", `{"Queries":["a"]}`, `"queries" must be an array`},
		{"number", `{"queries":3}`, `"queries" must be an array`},
		{"string of an array", `"[1]"`, "it is a JSON array"},
		{"string of a broken object", `"{\"queries\":["`, "not a JSON object"},
		{"string of prose", `"find github"`, "not a JSON object"},
		{"nothing but falsehood", `{"queries":[null,false,0,-0.0,"",[],{}]}`, "nothing but blanks"},
		{"long", `{"queries":["` + strings.Repeat("q", 1<<20) + `"]}`, "1048576 characters"},
		{"many", `{"queries":[` + strings.Repeat(`"q",`, 100_000) + `"q"]}`, "100001 are too many"},
		{"deep", `"{\"queries\":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}"`, "not a JSON object"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := s.ParseSearch(json.RawMessage(c.arguments))
			checkToolError(t, &message{ID: c.name, Mentions: []string{c.want}}, err)
			if err != nil && len(err.Error()) > 3000 {
				t.Errorf("a text of %d bytes", len(err.Error()))
			}
		})
	}
	for _, arguments := range []string{`5`, `true`, `[]`, `["a"]`, `{`, `{"queries":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`} {
		_, err := s.ParseSearch(json.RawMessage(arguments))
		var fault *subjects.Error
		if !errors.As(err, &fault) || fault.Code != subjects.CodeBadRequest || fault.Details["field"] != "arguments" {
			t.Errorf("%.40s: %v", arguments, err)
		}
	}
}

func TestParseSearchReads(t *testing.T) {
	t.Parallel()
	s := newTestScope(t, sampleTools(), &subjects.AssembleRequest{}, nil)
	for arguments, want := range map[string]SearchQuery{
		`{"queries":"a"}`:                             {[]string{"a"}, 5},
		`"{\"queries\":[\" a \"],\"limit\":2}"`:       {[]string{"a"}, 2},
		`{"queries":[5, 5.0, true, {"a": [1, "b"]}]}`: {[]string{"5", "5.0", "True", `{"a":[1,"b"]}`}, 5},
		`{"queries":["a"],"limit":false}`:             {[]string{"a"}, 1},
		`{"queries":["a"],"limit":1e400}`:             {[]string{"a"}, 5},
		`{"queries":["a"],"limit":99999999999999999}`: {[]string{"a"}, 25},
		`{"queries":["a"],"limit":-1e30}`:             {[]string{"a"}, 1},
		`{"queries":["a` + "\xff" + `"]}`:             {[]string{"a\ufffd"}, 5},
		`{"queries":["x"],"queries":["a"]}`:           {[]string{"a"}, 5},
	} {
		got, err := s.ParseSearch(json.RawMessage(arguments))
		if err != nil {
			t.Errorf("%s: %v", arguments, err)
			continue
		}
		requireEqual(t, arguments, want, *got)
	}
}

func FuzzParseSearch(f *testing.F) {
	f.Add(`{"queries":["a",1,null],"limit":"3"}`)
	f.Add(`"{\"queries\":\"a\"}"`)
	f.Add(`[`)
	s := newTestScope(f, sampleTools(), &subjects.AssembleRequest{}, nil)
	f.Fuzz(func(t *testing.T, arguments string) {
		q, err := s.ParseSearch(json.RawMessage(arguments))
		if err != nil {
			var mistake *subjects.ToolError
			var fault *subjects.Error
			if !errors.As(err, &mistake) && !errors.As(err, &fault) {
				t.Fatalf("an error of type %T", err)
			}
			return
		}
		if len(q.Queries) < 1 || len(q.Queries) > MaxQueries || q.Limit < 1 || q.Limit > 25 {
			t.Fatalf("read %+v", q)
		}
		reply := s.Search(q, nil)
		if got := reply.AppendModel(nil); !json.Valid(got) {
			t.Fatalf("a reply that is no JSON: %s", got)
		}
	})
}

// TestSearchStaysInScope promises that what was not granted is neither found nor felt: a scope answers like a catalog
// of only its tools.
func TestSearchStaysInScope(t *testing.T) {
	t.Parallel()
	all := catalogtest.Generated(400)
	whole := buildTest(t, all)
	alone := map[int]*Catalog{} // by which of the four toolsets are granted
	words := strings.Fields("list invoice create issue calendar message by identifier kindba search ticket server-2 filter quokka invoise lst please")
	rapid.Check(t, func(rt *rapid.T) {
		mask := rapid.IntRange(0, 15).Draw(rt, "granted")
		var granted []catalogtest.Element
		toolsets := []string{}
		for i := range 4 {
			if mask>>i&1 != 0 {
				toolsets = append(toolsets, fmt.Sprintf("server-%d", i))
				granted = append(granted, all[i*100:(i+1)*100]...)
			}
		}
		if alone[mask] == nil {
			alone[mask] = buildTest(t, granted)
		}
		q := &SearchQuery{
			Queries: []string{strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 1, 6).Draw(rt, "words"), " ")},
			Limit:   rapid.IntRange(1, 25).Draw(rt, "limit"),
		}
		answer := func(c *Catalog, req *subjects.AssembleRequest) string {
			s, err := NewScope(c, testOwner, req, DefaultConfig(), nil, nil)
			if err != nil {
				rt.Fatal(err)
			}
			return string(s.Search(q, nil).AppendModel(nil))
		}
		got := answer(whole, &subjects.AssembleRequest{EnabledToolsets: &toolsets})
		if want := answer(alone[mask], &subjects.AssembleRequest{}); got != want {
			rt.Fatalf("%q in the scope gave\n%s\nand alone\n%s", q.Queries, got, want)
		}
	})
}
