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

// reopened is the scope that another worker makes of the document.
func reopened(t interface {
	Helper()
	Fatal(...any)
}, s *Scope) *Scope {
	t.Helper()
	d, err := ParseScopeDocument(s.Document())
	if err != nil {
		t.Fatal(err)
	}
	if d.Tenant != s.owner.Tenant || d.Session != s.owner.Session || d.Catalog != s.catalog.Digest() {
		t.Fatal("the document tells of another scope")
	}
	open, err := OpenScope(s.catalog, d)
	if err != nil {
		t.Fatal(err)
	}
	return open
}

func TestScopeDocument(t *testing.T) {
	t.Parallel()
	s := newTestScope(t, sampleTools(), &subjects.AssembleRequest{}, nil)
	requireEqual(t, "document of defaults", `{"v":1,"tenant":"tenant","session":"session","catalog":"`+s.catalog.Digest()+`",`+
		`"toolsets":["calendar","desktop_ui","file","mcp-github","mcp-slack","terminal"],"connectors":false,`+
		`"config":{"enabled":"auto","threshold_pct":5,"search_default_limit":5,"max_search_limit":25,"listing":"auto","listing_max_tokens":4000,"defer":null},`+
		`"surface":"link","format":"openai"}`, string(s.Document()))
	requireEqual(t, "handle", subjects.Digest(s.Document()), s.Handle())
}

// TestScopeReopens promises that a scope answers alike wherever its document is opened.
func TestScopeReopens(t *testing.T) {
	t.Parallel()
	tools := append(sampleTools(), catalogtest.Tool("bridge", BridgeCall, ""))
	tools = append(tools, catalogtest.Generated(250)...)
	c := buildTest(t, tools)
	three := 3
	rapid.Check(t, func(t *rapid.T) {
		maybe := func(list []string, what string) *[]string {
			if rapid.Bool().Draw(t, what) {
				return nil
			}
			picked := rapid.SliceOfN(rapid.SampledFrom(list), 0, 4).Draw(t, what)
			return &picked
		}
		toolsets := []string{"github", "mcp-slack", "calendar", "file", "nope", "server-1"}
		req := &subjects.AssembleRequest{
			EnabledToolsets: maybe(toolsets, "enabled"), CoreTools: maybe([]string{"terminal", "calendar_add"}, "core"),
			DisabledToolsets: rapid.SliceOfN(rapid.SampledFrom(toolsets), 0, 2).Draw(t, "disabled"),
			Config:           json.RawMessage(rapid.SampledFrom([]string{`null`, `false`, `{"defer":[]}`, `{"defer":["terminal"],"threshold_pct":0.7}`, `{"listing":"on"}`}).Draw(t, "config")),
			ContextLength:    rapid.Ptr(rapid.Int64Range(-1, 100_000), true).Draw(t, "context"),
			Connectors:       rapid.Ptr(rapid.Bool(), true).Draw(t, "connectors"),
			Surface:          rapid.SampledFrom([]subjects.Surface{"", "link", "card", "side"}).Draw(t, "surface"),
			Format:           rapid.SampledFrom([]subjects.Format{"", "openai", "bare", "mcp", "anthropic"}).Draw(t, "format"),
			Hooks:            rapid.Ptr(rapid.Just(subjects.Hooks{Pre: rapid.Bool().Draw(t, "pre")}), true).Draw(t, "hooks"),
		}
		if rapid.Bool().Draw(t, "unavailable") {
			req.UnavailableSources = []subjects.UnavailableSource{{Name: "blender", ToolCount: &three, Reason: " It\nsleeps. "}}
		}
		s, err := NewScope(c, testOwner, req, DefaultConfig(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		open := reopened(t, s)
		if string(open.Document()) != string(s.Document()) || open.Handle() != s.Handle() {
			t.Fatalf("reopened as\n%s\nfrom\n%s", open.Document(), s.Document())
		}
		if !open.Granted().Equal(s.Granted()) || !open.Deferred().Equal(s.Deferred()) {
			t.Fatal("other sets")
		}
		if a, b := AppendAssembleReply(nil, s.Assemble()), AppendAssembleReply(nil, open.Assemble()); string(a) != string(b) {
			t.Fatalf("assembled as\n%s\nand\n%s", a, b)
		}
		q := &SearchQuery{Queries: []string{"create issue", "quokka"}, Limit: 3}
		if a, b := s.Search(q, nil).AppendModel(nil), open.Search(q, nil).AppendModel(nil); string(a) != string(b) {
			t.Fatalf("found\n%s\nand\n%s", a, b)
		}
	})
}

// TestScopeHandles says what a handle tells apart and what it does not.
func TestScopeHandles(t *testing.T) {
	t.Parallel()
	list := func(names ...string) *[]string { return &names }
	base := newTestScope(t, sampleTools(), &subjects.AssembleRequest{}, nil)
	core := DefaultCoreTools()
	for name, req := range map[string]*subjects.AssembleRequest{
		"stated defaults": {Surface: "link", Format: "openai", Config: json.RawMessage(`{"enabled":"auto"}`), CoreTools: &core, Hooks: &subjects.Hooks{TimeoutMS: 5}},
		"no context":      {ContextLength: new(int64)},
	} {
		if got := newTestScope(t, sampleTools(), req, nil).Handle(); got != base.Handle() {
			t.Errorf("%s make another handle", name)
		}
	}
	for name, req := range map[string]*subjects.AssembleRequest{
		"a toolset less": {DisabledToolsets: []string{"slack"}},
		"a surface":      {Surface: "side"},
		"a format":       {Format: "bare"},
		"a limit":        {Config: json.RawMessage(`{"search_default_limit":4}`)},
		"a hook":         {Hooks: &subjects.Hooks{Pre: true}},
		"a core list":    {CoreTools: list("terminal")},
		"unknown ones":   {DisabledToolsets: []string{"nope"}},
	} {
		if got := newTestScope(t, sampleTools(), req, nil).Handle(); got == base.Handle() {
			t.Errorf("%s makes no other handle", name)
		}
	}
	by := func(toolset string) string {
		return newTestScope(t, sampleTools(), &subjects.AssembleRequest{EnabledToolsets: list(toolset)}, nil).Handle()
	}
	requireEqual(t, "handle by either name", by("mcp-github"), by("github"))
	for _, o := range []Owner{{"other", "session"}, {"tenant", "other"}} {
		s, err := NewScope(base.Catalog(), o, &subjects.AssembleRequest{}, DefaultConfig(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if s.Handle() == base.Handle() || s.Owner() != o {
			t.Errorf("owner %v has the handle of another", o)
		}
	}
}

func TestScopeAccessors(t *testing.T) {
	t.Parallel()
	s := newTestScope(t, sampleTools(), &subjects.AssembleRequest{
		Surface: "card", Hooks: &subjects.Hooks{Post: true}, Config: json.RawMessage(`{"max_search_limit":"many"}`),
	}, nil)
	requireEqual(t, "surface", subjects.SurfaceCard, s.Surface())
	requireEqual(t, "hooks", &subjects.Hooks{Post: true, TimeoutMS: 300_000}, s.Hooks())
	requireEqual(t, "warnings", 1, len(s.Warnings()))
	requireEqual(t, "config", DefaultConfig(), s.Config())
	if none := newTestScope(t, sampleTools(), &subjects.AssembleRequest{Hooks: &subjects.Hooks{}}, nil); none.Hooks() != nil || none.Surface() != "link" {
		t.Errorf("hooks %v, surface %q", none.Hooks(), none.Surface())
	}
}

func TestNewScopeRefuses(t *testing.T) {
	t.Parallel()
	c := buildTest(t, sampleTools())
	many := make([]string, MaxScopeNames+1)
	for i := range many {
		many[i] = fmt.Sprint("name", i)
	}
	defers, _ := json.Marshal(map[string]any{"defer": many})
	minus := -1
	sources := make([]subjects.UnavailableSource, MaxScopeNames)
	for i := range sources {
		sources[i] = subjects.UnavailableSource{Name: fmt.Sprint(i), Reason: strings.Repeat("r", 200)}
	}
	for _, r := range []struct {
		name  string
		req   subjects.AssembleRequest
		code  subjects.Code
		field string
	}{
		{"surface", subjects.AssembleRequest{Surface: "Link"}, subjects.CodeBadRequest, "surface"},
		{"format", subjects.AssembleRequest{Format: "xml"}, subjects.CodeBadRequest, "format"},
		{"negative wait", subjects.AssembleRequest{Hooks: &subjects.Hooks{TimeoutMS: -1}}, subjects.CodeBadRequest, "hooks.timeout_ms"},
		{"endless wait", subjects.AssembleRequest{Hooks: &subjects.Hooks{TimeoutMS: MaxHookTimeoutMS + 1}}, subjects.CodeBadRequest, "hooks.timeout_ms"},
		{"source without a name", subjects.AssembleRequest{UnavailableSources: []subjects.UnavailableSource{{Reason: "r"}}}, subjects.CodeBadRequest, "unavailable_sources[0].name"},
		{"source of less than nothing", subjects.AssembleRequest{UnavailableSources: []subjects.UnavailableSource{{Name: "n", ToolCount: &minus}}}, subjects.CodeBadRequest, "unavailable_sources[0].tool_count"},
		{"enabled", subjects.AssembleRequest{EnabledToolsets: &many}, subjects.CodeTooLarge, "enabled_toolsets"},
		{"disabled", subjects.AssembleRequest{DisabledToolsets: many}, subjects.CodeTooLarge, "disabled_toolsets"},
		{"required", subjects.AssembleRequest{RequiredToolsets: many}, subjects.CodeTooLarge, "required_toolsets"},
		{"core", subjects.AssembleRequest{CoreTools: &many}, subjects.CodeTooLarge, "core_tools"},
		{"defer", subjects.AssembleRequest{Config: defers}, subjects.CodeTooLarge, "config.defer"},
		{"document", subjects.AssembleRequest{UnavailableSources: sources}, subjects.CodeTooLarge, ""},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			_, err := NewScope(c, testOwner, &r.req, DefaultConfig(), nil, nil)
			var fault *subjects.Error
			if !errors.As(err, &fault) || fault.Code != r.code {
				t.Fatalf("error %v, want %s", err, r.code)
			}
			if r.field != "" && fault.Details["field"] != r.field {
				t.Errorf("field %v, want %s", fault.Details["field"], r.field)
			}
			if r.code == subjects.CodeTooLarge && !strings.Contains(fault.Message, "bound of ") {
				t.Errorf("the bound is not named: %s", fault.Message)
			}
		})
	}
	parent, err := NewScope(c, Owner{"stranger", "s"}, &subjects.AssembleRequest{}, DefaultConfig(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewScope(c, testOwner, &subjects.AssembleRequest{}, DefaultConfig(), nil, parent); !errors.Is(err, &subjects.Error{Code: subjects.CodeScopeForbidden}) {
		t.Errorf("a parent of another tenant: %v", err)
	}
}

func TestParseScopeDocumentRefuses(t *testing.T) {
	t.Parallel()
	s := newTestScope(t, sampleTools(), &subjects.AssembleRequest{DisabledToolsets: []string{"slack"}, Hooks: &subjects.Hooks{Pre: true}}, nil)
	good := string(s.Document())
	replaced := func(from, to string) string {
		if !strings.Contains(good, from) {
			t.Fatalf("no %s in %s", from, good)
		}
		return strings.Replace(good, from, to, 1)
	}
	for name, doc := range map[string]string{
		"nothing":         ``,
		"null":            `null`,
		"no object":       `[1]`,
		"cut":             good[:len(good)/2],
		"later version":   replaced(`"v":1`, `"v":2`),
		"wild tenant":     replaced(`"tenant":"tenant"`, `"tenant":"*"`),
		"empty session":   replaced(`"session":"session"`, `"session":""`),
		"no digest":       replaced(`"catalog":"sha256:`, `"catalog":"md5:`),
		"surface":         replaced(`"surface":"link"`, `"surface":"ring"`),
		"format":          replaced(`"format":"openai"`, `"format":""`),
		"limits":          replaced(`"max_search_limit":25`, `"max_search_limit":0`),
		"switch":          replaced(`"enabled":"auto"`, `"enabled":"perhaps"`),
		"wrong type":      replaced(`"connectors":false`, `"connectors":"no"`),
		"hooks":           replaced(`"timeout_ms":300000`, `"timeout_ms":-1`),
		"not base64":      replaced(`"granted":"`, `"granted":"!`),
		"too long":        strings.Repeat(" ", MaxScopeDocument+1),
		"deep":            strings.Repeat("[", 20_000),
		"empty set bytes": replaced(`"granted":"`, `"granted":"","x":"`),
	} {
		d, err := ParseScopeDocument([]byte(doc))
		if err == nil {
			_, err = OpenScope(s.catalog, d)
		}
		if !errors.Is(err, &subjects.Error{Code: subjects.CodeScopeNotFound}) {
			t.Errorf("%s: %v", name, err)
		}
	}
	d, err := ParseScopeDocument([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenScope(buildTest(t, toolsetTools()), d); !errors.Is(err, &subjects.Error{Code: subjects.CodeInternal}) {
		t.Errorf("another catalog: %v", err)
	}
}

func FuzzParseScopeDocument(f *testing.F) {
	c := buildTest(f, sampleTools())
	for _, req := range []*subjects.AssembleRequest{{}, {DisabledToolsets: []string{"slack"}}, {CoreTools: &[]string{}}} {
		s, err := NewScope(c, testOwner, req, DefaultConfig(), nil, nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(s.Document())
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		d, err := ParseScopeDocument(doc)
		if err != nil {
			return
		}
		d.Catalog = c.Digest()
		s, err := OpenScope(c, d)
		if err != nil {
			return
		}
		if !json.Valid(AppendAssembleReply(nil, s.Assemble())) {
			t.Fatal("a reply that is no JSON")
		}
		if _, err := ParseScopeDocument(s.Document()); err != nil && len(s.Document()) <= MaxScopeDocument {
			t.Fatalf("the scope's own document cannot be read: %v", err)
		}
	})
}

// TestScopeIsSmall bounds the memory of a scope over 9,000 tools.
func TestScopeIsSmall(t *testing.T) {
	t.Parallel()
	tools := append(sampleTools(), catalogtest.Generated(9_000-len(sampleTools()))...)
	var scattered []catalogtest.Element // the toolsets mixed so that no set of them has long runs
	for i := range 90 {
		for at := i; at < len(tools); at += 90 {
			scattered = append(scattered, tools[at])
		}
	}
	some := []string{}
	for i := range 45 {
		some = append(some, fmt.Sprintf("server-%d", i*2))
	}
	some = append(some, "terminal", "file")
	for name, list := range map[string][]catalogtest.Element{"together": tools, "scattered": scattered} {
		c := buildTest(t, list)
		for _, req := range []*subjects.AssembleRequest{{}, {EnabledToolsets: &some}, {DisabledToolsets: some}} {
			s, err := NewScope(c, testOwner, req, DefaultConfig(), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if n := s.Size(); n > 2<<10 {
				t.Errorf("%s: %d bytes for %d of %d tools", name, n, s.Granted().Len(), c.Len())
			}
			if n := reopened(t, s).Size(); n > 2<<10 {
				t.Errorf("%s: %d bytes when reopened", name, n)
			}
		}
	}
}
