package catalog

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"toolsearch/catalog/catalogtest"
	"toolsearch/subjects"
)

func TestAssembleVectors(t *testing.T) {
	t.Parallel()
	runVectors(t, "assemble.jsonl", "assemble", func(t *testing.T, v catalogtest.Vector) {
		var given scopeGiven
		var want struct {
			Activated      *bool
			Tier           *int
			ListingForm    *string `json:"listing_form"`
			DeferredCount  *int    `json:"deferred_count"`
			DeferredTokens *int    `json:"deferred_tokens"`
			ListingBudget  *int    `json:"listing_budget"`
			Visible        []string
			Summarised     []string
		}
		v.DecodeGiven(t, &given)
		v.DecodeWant(t, &want)
		got := given.scope(t, v).Assemble()
		requireStated(t, "activated", want.Activated, got.Activated)
		requireStated(t, "tier", want.Tier, got.Tier)
		requireStated(t, "listing_form", want.ListingForm, got.ListingForm)
		requireStated(t, "deferred_count", want.DeferredCount, got.DeferredCount)
		requireStated(t, "deferred_tokens", want.DeferredTokens, got.DeferredTokens)
		requireStated(t, "listing_budget", want.ListingBudget, got.ListingBudget)
		if want.Visible != nil {
			requireEqual(t, "visible", want.Visible, namesOf(t, got.Tools))
		}
		if want.Summarised != nil && got.ListingForm != FormNone {
			l := readListing(t, listingOf(t, got.Tools))
			requireEqual(t, "summarised", want.Summarised, append([]string{}, l.summarised...))
		}
	})
}

func requireStated[T comparable](t *testing.T, what string, want *T, got T) {
	t.Helper()
	if want != nil && *want != got {
		t.Errorf("%s is %v, want %v", what, got, *want)
	}
}

func namesOf(t testing.TB, tools []json.RawMessage) []string {
	t.Helper()
	names := make([]string, len(tools))
	for i, definition := range tools {
		names[i] = functionOf(t, definition).Name
	}
	return names
}

// listingOf is the listing inside the description of tool_search, "" if there is none.
func listingOf(t testing.TB, tools []json.RawMessage) string {
	t.Helper()
	for _, definition := range tools {
		if f := functionOf(t, definition); f.Name == BridgeSearch {
			_, text, _ := strings.Cut(f.Description, "\n\n")
			_, text, _ = strings.Cut(text, "\n\n")
			return text
		}
	}
	return ""
}

// sampleTools are a few core tools and a few deferred ones.
func sampleTools() []catalogtest.Element {
	return []catalogtest.Element{
		catalogtest.Tool("terminal", "terminal", "Runs a command.", "command"),
		catalogtest.Tool("mcp-github", "mcp__github__create_issue", "Creates an issue.", "title", "body"),
		catalogtest.Tool("mcp-github", "mcp__github__list_issues", "Lists issues.", "state"),
		catalogtest.Tool("file", "read_file", "Reads a file.", "path"),
		catalogtest.Tool("mcp-slack", "mcp__slack__post_message", "Posts a message.", "channel", "text"),
		catalogtest.Tool("calendar", "calendar_add", "Adds an event.", "title"),
		catalogtest.Tool("desktop_ui", "focus_window", "Focuses a window.", "id"),
		catalogtest.Tool("", "loose_end", "Belongs to nothing."),
	}
}

func TestAssembleKeepsBytes(t *testing.T) {
	t.Parallel()
	odd := "{ \"type\" : \"function\",\n\t\"function\":{\"name\":\"terminal\",\"description\":\"a\\u00e9\\/<&>\\u2028\",\"parameters\":{\"x\": 1.0e+2 }}, \"z\":0}"
	tools := json.RawMessage(`[{"toolset":"terminal","tool":` + odd + `},{"toolset":"mcp-a","tool":{"name":"mcp__a__b"}}]`)
	c, err := Build(tools, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewScope(c, testOwner, &subjects.AssembleRequest{}, DefaultConfig(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	reply := s.Assemble()
	reply.ExpiresAt = time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC)
	body := AppendAssembleReply(nil, reply)
	if !strings.Contains(string(body), `"tools":[`+odd+`,{"type":"function"`) {
		t.Errorf("the visible definition changed:\n%s", body)
	}
	var decoded subjects.AssembleReply
	if err := json.Unmarshal(body, &decoded); err != nil {
		t.Fatal(err)
	}
	requireEqual(t, "reply", *reply, decoded)
	if again := AppendAssembleReply(nil, s.Assemble()); string(AppendAssembleReply(nil, s.Assemble())) != string(again) {
		t.Error("two assemblies of one scope differ")
	}
}

// TestAppendAssembleReplyIsJSON compares with encoding/json, which only the bytes of definitions may tell apart.
func TestAppendAssembleReplyIsJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		reply := &subjects.AssembleReply{
			Scope: rapid.String().Draw(t, "scope"), Catalog: "sha256:x", ExpiresAt: time.Unix(rapid.Int64Range(0, 1<<35).Draw(t, "expires"), 5).UTC(),
			Activated: rapid.Bool().Draw(t, "activated"), Tier: rapid.IntRange(0, 2).Draw(t, "tier"), ListingForm: FormFull,
			DeferredCount: rapid.Int().Draw(t, "count"), DeferredTokens: 3, ListingBudget: 4,
			UnknownToolsets: rapid.SliceOfN(rapid.String(), 1, 3).Draw(t, "unknown"),
			RejectedTools:   []subjects.RejectedTool{{Name: rapid.String().Draw(t, "name"), Toolset: "t", Reason: "r"}, {}},
			Tools:           []json.RawMessage{json.RawMessage(`{"a":1}`), json.RawMessage(`{}`)},
		}
		want, err := subjects.Marshal(reply)
		if err != nil {
			t.Fatal(err)
		}
		if got := AppendAssembleReply([]byte("kept"), reply); string(got) != "kept"+string(want) {
			t.Fatalf("wrote\n%s\nwant\n%s", got, want)
		}
	})
}

func TestAssembleConnectors(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	manage := catalogtest.Tool("connections", ManageConnections, "Manages connections.")
	for _, c := range []struct {
		name       string
		tools      []catalogtest.Element
		connectors *bool
		granted    bool
		activated  bool
	}{
		{"by the tool", append(sampleTools(), manage), nil, true, true},
		{"without the tool", sampleTools(), nil, false, true},
		{"stated", sampleTools(), &yes, true, true},
		{"denied", append(sampleTools(), manage), &no, false, true},
		{"alone", []catalogtest.Element{manage}, nil, true, true},
		{"alone and denied", []catalogtest.Element{manage}, &no, false, false},
		{"of no tools", nil, &yes, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newTestScope(t, c.tools, &subjects.AssembleRequest{Connectors: c.connectors}, nil)
			requireEqual(t, "granted", c.granted, s.Connectors())
			reply := s.Assemble()
			requireEqual(t, "activated", c.activated, reply.Activated)
			text := ""
			for _, d := range reply.Tools {
				if f := functionOf(t, d); f.Name == BridgeSearch {
					text = f.Description
				}
			}
			requireEqual(t, "told", c.granted, strings.Contains(text, ManageConnections))
		})
	}
}

// TestAssembleTwice feeds the assembled tools back in: the bridge does not pile up.
func TestAssembleTwice(t *testing.T) {
	t.Parallel()
	first := newTestScope(t, sampleTools(), &subjects.AssembleRequest{}, nil).Assemble()
	tools := sampleTools()
	for _, d := range first.Tools[len(first.Tools)-3:] {
		tools = append(tools, catalogtest.Element{Toolset: "bridge", Tool: d})
	}
	second := newTestScope(t, tools, &subjects.AssembleRequest{}, nil).Assemble()
	requireEqual(t, "tools", namesOf(t, first.Tools), namesOf(t, second.Tools))
	requireEqual(t, "bytes", fmt.Sprintf("%s", first.Tools), fmt.Sprintf("%s", second.Tools))
}

func TestAssembleUnavailable(t *testing.T) {
	t.Parallel()
	three := 3
	req := &subjects.AssembleRequest{UnavailableSources: []subjects.UnavailableSource{
		{Name: "blender", ToolCount: &three, Reason: "Blender is\nnot running."}, {Name: "two\nlines", Reason: "r"}, {Name: "silent", Reason: " "},
	}}
	reply := newTestScope(t, sampleTools(), req, nil).Assemble()
	text := listingOf(t, reply.Tools)
	if !strings.Contains(text, "\nblender (3 tools unavailable: Blender is not running.)\ncalendar tools") || strings.Contains(text, "silent") {
		t.Errorf("listing:\n%s", text)
	}
	if !strings.Contains(text, "\ntwo lines (tools unavailable: r)") {
		t.Errorf("a source on two lines:\n%s", text)
	}
	requireEqual(t, "count", 4, reply.DeferredCount)
}

// TestAssemblePermuted promises that the order of the deferred tools changes nothing in the assembled tools.
func TestAssemblePermuted(t *testing.T) {
	t.Parallel()
	visible := sampleTools()[:1]
	visible = append(visible, sampleTools()[3], sampleTools()[6])
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "tools")
		deferred := catalogtest.Generated(n * 10)[:n]
		for i := range deferred {
			deferred[i].Toolset = fmt.Sprintf("mcp-s%d", rapid.IntRange(0, 4).Draw(t, "toolset"))
		}
		context := rapid.Int64Range(1, 100_000).Draw(t, "context")
		req := &subjects.AssembleRequest{ContextLength: &context}
		want := ""
		for _, tools := range [][]catalogtest.Element{deferred, rapid.Permutation(deferred).Draw(t, "permuted")} {
			// The visible tools keep their order and stand anywhere between the others.
			mixed := append([]catalogtest.Element{}, tools...)
			at := 0
			for _, v := range visible {
				at = rapid.IntRange(at, len(mixed)).Draw(t, "at")
				mixed = append(mixed[:at:at], append([]catalogtest.Element{v}, mixed[at:]...)...)
				at++
			}
			c, err := Build(catalogtest.Array(mixed), Limits{})
			if err != nil {
				t.Fatal(err)
			}
			s, err := NewScope(c, testOwner, req, DefaultConfig(), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			reply := s.Assemble()
			got := fmt.Sprintf("%s", reply.Tools)
			if want == "" {
				want = got
			} else if got != want {
				t.Fatalf("another order of the deferred tools gave\n%s\nfor\n%s", got, want)
			}
		}
	})
}

// TestBridgeStaysSmall bounds what the bridge costs beside 500 verbose tools.
func TestBridgeStaysSmall(t *testing.T) {
	t.Parallel()
	reply := newTestScope(t, catalogtest.Generated(500), &subjects.AssembleRequest{}, nil).Assemble()
	chars := compactChars(reply.Tools[0])
	if reply.ListingForm == FormFull || reply.ListingForm == FormNone || chars/4 > 4500 {
		t.Errorf("form %s with %d tokens", reply.ListingForm, chars/4)
	}
}

func TestAppendAssembleReplyShape(t *testing.T) {
	t.Parallel()
	got := string(AppendAssembleReply(nil, &subjects.AssembleReply{}))
	requireEqual(t, "empty reply", `{"scope":"","catalog":"","expires_at":"0001-01-01T00:00:00Z","activated":false,"tier":0,"listing_form":"",`+
		`"deferred_count":0,"deferred_tokens":0,"listing_budget":0,"unknown_toolsets":[],"rejected_tools":[],"tools":[]}`, got)
}

func BenchmarkAssemble(b *testing.B) {
	tools := append(sampleTools(), catalogtest.File(b, "cloudflare.json", "github_rest.json")...)
	for _, c := range []struct {
		name    string
		context int64
	}{{"full", 0}, {"summary", 8_000}} {
		req := &subjects.AssembleRequest{ContextLength: &c.context}
		if c.context == 0 {
			req.Config = json.RawMessage(`{"listing":"on"}`)
		}
		catalog := buildTest(b, tools)
		s, err := NewScope(catalog, testOwner, req, DefaultConfig(), nil, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(c.name+"/assemble", func(b *testing.B) {
			b.ReportAllocs()
			var body []byte
			for b.Loop() {
				body = AppendAssembleReply(body[:0], s.Assemble())
			}
		})
		b.Run(c.name+"/scope", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := NewScope(catalog, testOwner, req, DefaultConfig(), nil, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
