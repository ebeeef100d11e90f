package catalog

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"toolsearch/catalog/catalogtest"
	"toolsearch/subjects"
)

// message is how the conformance cases state a text that the product words itself.
type message struct {
	ID       string
	Mentions []string
}

func (m *message) check(t *testing.T, text string) {
	t.Helper()
	if text == "" {
		t.Errorf("no text for %s", m.ID)
	}
	for _, s := range m.Mentions {
		if !strings.Contains(text, s) {
			t.Errorf("%s: %q does not mention %q", m.ID, text, s)
		}
	}
}

// checkMessage compares an optional text with an optional statement about it.
func checkMessage(t *testing.T, what string, want *message, got string) {
	t.Helper()
	switch {
	case want != nil:
		want.check(t, got)
	case got != "":
		t.Errorf("unexpected %s: %s", what, got)
	}
}

// scopeGiven is what the cases say about the scope that they run in.
type scopeGiven struct {
	Tools         json.RawMessage
	Withheld      json.RawMessage
	Config        json.RawMessage
	ContextLength *int64 `json:"context_length"`
}

func (g *scopeGiven) scope(t *testing.T, v catalogtest.Vector) *Scope {
	t.Helper()
	req := &subjects.AssembleRequest{Config: g.Config, ContextLength: g.ContextLength}
	granted := v.Tools(t, g.Tools)
	withheld := v.Tools(t, g.Withheld)
	if len(withheld) == 0 {
		return newTestScope(t, granted, req, nil)
	}
	// What a parent does not hold exists and is not granted.
	parent := newTestScope(t, granted, &subjects.AssembleRequest{}, nil)
	return newTestScope(t, append(granted[:len(granted):len(granted)], withheld...), req, parent)
}

var testOwner = Owner{Tenant: "tenant", Session: "session"}

func newTestScope(t testing.TB, tools []catalogtest.Element, req *subjects.AssembleRequest, parent *Scope) *Scope {
	t.Helper()
	s, err := NewScope(buildTest(t, tools), testOwner, req, DefaultConfig(), nil, parent)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func buildTest(t testing.TB, tools []catalogtest.Element) *Catalog {
	t.Helper()
	c, err := Build(catalogtest.Array(tools), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// runVectors runs the cases of one op as parallel subtests.
func runVectors(t *testing.T, file, op string, run func(*testing.T, catalogtest.Vector)) {
	t.Helper()
	ran := 0
	for v := range catalogtest.Vectors(t, file) {
		if v.Op != op {
			continue
		}
		ran++
		t.Run(v.ID, func(t *testing.T) {
			t.Parallel()
			run(t, v)
		})
	}
	if ran == 0 {
		t.Fatalf("%s has no case of op %s", file, op)
	}
}

func requireEqual(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(listing{})); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// modelBody is a reply as the model reads it.
func modelBody(t testing.TB, reply any) []byte {
	t.Helper()
	p, err := subjects.MarshalModel(reply)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// listed is what a listing's text says.
type listed struct {
	blocks     []string // each block with all its lines
	summarised []string
	names      []string
}

// readListing takes a listing apart, by its form on the page and not by the code that wrote it.
func readListing(t *testing.T, text string) listed {
	t.Helper()
	header, rest, _ := strings.Cut(text, "\n")
	if n := runeLen(header); n < 20 || n > 120 {
		t.Errorf("the header has %d characters: %q", n, header)
	}
	var l listed
	for _, line := range strings.Split(rest, "\n") {
		switch {
		case strings.HasSuffix(line, " tools — names not listed; discover via `tool_search`)"):
			l.blocks = append(l.blocks, line)
			l.summarised = append(l.summarised, line[:strings.LastIndex(line, " (")])
		case strings.HasSuffix(line, "):"):
			l.blocks = append(l.blocks, line)
		case strings.HasPrefix(line, "- "):
			l.blocks[len(l.blocks)-1] += "\n" + line
			name, _, _ := strings.Cut(strings.TrimPrefix(line, "- "), ": ")
			l.names = append(l.names, name)
		case strings.Contains(line, "tools unavailable: "):
			l.blocks = append(l.blocks, line)
		default:
			l.blocks[len(l.blocks)-1] += "\n" + line
			l.names = append(l.names, strings.Split(line, ", ")...)
		}
	}
	return l
}

// openAIFunction is the part of a definition that the tests look at.
type openAIFunction struct {
	Name, Description string
	Parameters        json.RawMessage
}

// functionOf reads a definition of any of the four shapes.
func functionOf(t testing.TB, definition json.RawMessage) openAIFunction {
	t.Helper()
	var d struct {
		openAIFunction
		Function    *openAIFunction
		InputSchema json.RawMessage
		Anthropic   json.RawMessage `json:"input_schema"`
	}
	if err := json.Unmarshal(bytes.TrimSpace(definition), &d); err != nil {
		t.Fatalf("%v: %s", err, definition)
	}
	if d.Function != nil {
		return *d.Function
	}
	for _, p := range []json.RawMessage{d.InputSchema, d.Anthropic} {
		if p != nil {
			d.Parameters = p
		}
	}
	return d.openAIFunction
}
