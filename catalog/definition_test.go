package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"toolsearch/catalog/catalogtest"
)

// one builds a catalog of one element.
func one(t testing.TB, element string) *Catalog {
	t.Helper()
	c, err := Build(json.RawMessage("["+element+"]"), Limits{})
	if err != nil {
		t.Fatalf("%s: %v", element, err)
	}
	return c
}

func TestFourShapes(t *testing.T) {
	t.Parallel()
	schema := `{ "type":"object", "properties":{"b":{"type":"string"},"a":{}} }`
	for name, definition := range map[string]string{
		"openai":    `{ "type":"function", "function":{"name":"n","description":"d","parameters":` + schema + `} }`,
		"bare":      `{"name":"n", "description":"d","parameters":` + schema + `}`,
		"mcp":       `{"name":"n","title":"T","description":"d","inputSchema":` + schema + `,"annotations":{"readOnlyHint":true}}`,
		"anthropic": `{"type":"custom","input_schema":` + schema + `,"description":"d","name":"n"}`,
		"responses": `{"type":"function","name":"n","description":"d","parameters":` + schema + `,"strict":true}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := one(t, `{"toolset":"mcp-x","tool": `+definition+` ,"host":"h-1","parallel":true}`)
			if c.Len() != 1 {
				t.Fatalf("rejected: %v", c.Rejected())
			}
			tool := c.Tool(0)
			if tool.Name != "n" || tool.Description != "d" || tool.Toolset != "mcp-x" || tool.Host != "h-1" || !tool.Parallel {
				t.Errorf("read %+v", tool)
			}
			if string(tool.Definition) != definition || string(tool.Parameters) != schema {
				t.Errorf("definition %s\nparameters %s", tool.Definition, tool.Parameters)
			}
			if hits, _ := rank(c, FullSet(1), "b", 1, nil); len(hits) != 1 {
				t.Error("a parameter's name is not indexed")
			}
		})
	}
}

func TestDefinitionFields(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		element string
		want    Tool
	}{
		"nothing but a name":     {`{"tool":{"name":"n"}}`, Tool{Name: "n"}},
		"nulls":                  {`{"toolset":null,"host":null,"parallel":null,"tool":{"name":"n","description":null,"parameters":null}}`, Tool{Name: "n"}},
		"empty texts":            {`{"toolset":"","host":"","tool":{"name":"n","description":""}}`, Tool{Name: "n"}},
		"unknown fields":         {`{"x":[{}],"tool":{"name":"n","x":{"name":"m"}}}`, Tool{Name: "n"}},
		"the last of two fields": {`{"toolset":"a","toolset":"b","tool":{"name":"m"},"tool":{"name":"n","name":"k"}}`, Tool{Name: "k", Toolset: "b"}},
		"a later definition replaces all of an earlier one": {
			`{"tool":{"function":{"name":"m","description":"d"}},"tool":{"name":"n"}}`, Tool{Name: "n"}},
		"a boolean schema":          {`{"tool":{"name":"n","parameters":true}}`, Tool{Name: "n"}},
		"the wrapper counts":        {`{"tool":{"name":"m","function":{"name":"n"}}}`, Tool{Name: "n"}},
		"a function that is null":   {`{"tool":{"name":"n","function":null}}`, Tool{Name: "n"}},
		"escapes":                   {`{"t\u006fol":{"\u006eame":"\u006e\ud83d\ude00"}}`, Tool{Name: "n😀"}},
		"bad UTF-8 in a text":       {"{\"tool\":{\"name\":\"n\",\"description\":\"a\xffb\\ud800\"}}", Tool{Name: "n", Description: "a\ufffdb\ufffd"}},
		"a NUL in a text":           {`{"tool":{"name":"n","description":"a\u0000b"}}`, Tool{Name: "n", Description: "a\x00b"}},
		"its own source":            {`{"tool":{"type":"function","function":{"name":"n"},"` + sourceNameKey + `":"s"}}`, Tool{Name: "n", SourceName: "s"}},
		"a toolset over its source": {`{"toolset":"t","tool":{"name":"n","` + sourceNameKey + `":"s"}}`, Tool{Name: "n", Toolset: "t"}},
		"a name of a bridge":        {`{"tool":{"name":"tool_search"}}`, Tool{Name: "tool_search"}},
		"a name beyond ASCII":       {`{"tool":{"name":"发送"}}`, Tool{Name: "发送"}},
		"the longest name":          {`{"tool":{"name":"` + strings.Repeat("n", MaxName) + `"}}`, Tool{Name: strings.Repeat("n", MaxName)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := one(t, test.element)
			if c.Len() != 1 {
				t.Fatalf("rejected: %v", c.Rejected())
			}
			got := c.Tool(0)
			if got.Name != test.want.Name || got.Description != test.want.Description || got.Toolset != test.want.Toolset ||
				got.SourceName != test.want.SourceName || got.Host != "" || got.Parallel || got.Parameters != nil {
				t.Errorf("read %+v", got)
			}
		})
	}
}

func TestRejectedElements(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":`, MaxNesting) + "1" + strings.Repeat("}", MaxNesting)
	for name, test := range map[string]struct{ element, name, toolset, reason string }{
		"no object":            {`5`, "", "", "no object"},
		"a string":             {`"x"`, "", "", "no object"},
		"an array":             {`[{"tool":{"name":"n"}}]`, "", "", "no object"},
		"null":                 {`null`, "", "", "no object"},
		"no tool":              {`{"toolset":"t","name":"n"}`, "", "t", "no field tool"},
		"tool null":            {`{"tool":null}`, "", "", "tool is no object"},
		"tool a string":        {`{"tool":"{}"}`, "", "", "tool is no object"},
		"no name":              {`{"toolset":"t","tool":{"description":"d"}}`, "", "t", "no name"},
		"no name in function":  {`{"tool":{"name":"n","function":{}}}`, "", "", "no name"},
		"name null":            {`{"tool":{"name":null}}`, "", "", "no name"},
		"name empty":           {`{"tool":{"name":""}}`, "", "", "no name"},
		"name blank":           {`{"tool":{"name":" "}}`, " ", "", "no name"},
		"name a number":        {`{"tool":{"name":5}}`, "", "", "name is no string"},
		"name an object":       {`{"tool":{"name":{}}}`, "", "", "name is no string"},
		"name too long":        {`{"tool":{"name":"` + strings.Repeat("é", 10_000) + `"}}`, strings.Repeat("é", 64) + "…", "", "20000 bytes, over the bound of 256"},
		"name no UTF-8":        {"{\"tool\":{\"name\":\"a\xff\"}}", "a\ufffd", "", "no valid UTF-8"},
		"name half a pair":     {`{"tool":{"name":"a\ud800"}}`, "a\ufffd", "", "no valid UTF-8"},
		"name with NUL":        {`{"tool":{"name":"a\u0000"}}`, "a\x00", "", "control character"},
		"name with a newline":  {`{"tool":{"name":"a\nb"}}`, "a\nb", "", "control character"},
		"toolset a number":     {`{"toolset":7,"tool":{"name":"n"}}`, "n", "", "toolset is no string"},
		"toolset too long":     {`{"toolset":"` + strings.Repeat("t", 300) + `","tool":{"name":"n"}}`, "n", strings.Repeat("t", 64) + "…", "toolset has 300 bytes"},
		"host a number":        {`{"host":7,"tool":{"name":"n"}}`, "n", "", "host is no string"},
		"host with a dot":      {`{"host":"a.b","tool":{"name":"n"}}`, "n", "", "host is no subject token"},
		"host wild":            {`{"host":">","tool":{"name":"n"}}`, "n", "", "host is no subject token"},
		"parallel a string":    {`{"parallel":"true","tool":{"name":"n"}}`, "n", "", "parallel is no boolean"},
		"description a number": {`{"tool":{"name":"n","description":5}}`, "n", "", "description is no string"},
		"parameters a string":  {`{"tool":{"name":"n","parameters":"{}"}}`, "n", "", "parameters is no object"},
		"schema an array":      {`{"tool":{"name":"n","inputSchema":[]}}`, "n", "", "parameters is no object"},
		"nested too deep":      {`{"tool":{"name":"n","parameters":` + deep + `}}`, "n", "", "nested deeper than 256 levels"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The others of the catalog are read all the same.
			c, err := Build(json.RawMessage(`[{"tool":{"name":"before"}},`+test.element+`,{"tool":{"name":"after"}}]`), Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if c.Len() != 2 || len(c.Rejected()) != 1 {
				t.Fatalf("%d tools, rejected %v", c.Len(), c.Rejected())
			}
			got := c.Rejected()[0]
			if got.Name != test.name || got.Toolset != test.toolset || !strings.Contains(got.Reason, test.reason) {
				t.Errorf("rejected %+v, want %q of %q for %q", got, test.name, test.toolset, test.reason)
			}
		})
	}
}

func TestNestingWithinTheBound(t *testing.T) {
	t.Parallel()
	levels := MaxNesting - 3 // the element, the definition and the schema are levels too
	deep := `{"properties":` + strings.Repeat(`{"a":`, levels) + "1" + strings.Repeat("}", levels) + "}"
	if c := one(t, `{"tool":{"name":"n","parameters":`+deep+`}}`); c.Len() != 1 {
		t.Errorf("rejected: %v", c.Rejected())
	}
}

func TestSourceAndLabel(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		tool              Tool
		kind, name, label string
	}{
		{Tool{Toolset: "mcp-github"}, "mcp", "mcp-github", "github"},
		{Tool{Toolset: "mcp-mcp-x"}, "mcp", "mcp-mcp-x", "mcp-x"},
		{Tool{Toolset: "calendar"}, "plugin", "calendar", "calendar"},
		{Tool{SourceName: "mcp-own"}, "plugin", "mcp-own", "own"},
		{Tool{}, "other", "", "other"},
	} {
		kind, name := test.tool.Source()
		if kind != test.kind || name != test.name || test.tool.Label() != test.label {
			t.Errorf("%+v comes from %s %q, label %q", test.tool, kind, name, test.tool.Label())
		}
	}
}

// TestIndexedText checks what of a definition can be found.
func TestIndexedText(t *testing.T) {
	t.Parallel()
	tool := `{"name":"mcp__a-b__do.it:now","description":"Some text.","parameters":{"properties":{"first":{"description":"deep"},
		"first":{"enum":["deeper"]},"second":{}},"required":["third"],"title":"fourth"}}`
	for toolset, words := range map[string]string{
		"mcp-a-b": "a b a b do it now some text first second", // a label with a hyphen is no word of the name
		"mcp-do":  "a b do it now some text first second",     // a label that is one is not repeated
		"mcp-Do":  "a b do do it now some text first second",  // in just that case
		"":        "a b do it now some text first second",     // no label for a tool without a source
	} {
		c := one(t, fmt.Sprintf(`{"toolset":%q,"tool":%s}`, toolset, tool))
		if c.Len() != 1 {
			t.Fatal(c.Rejected())
		}
		counts := map[string]uint32{}
		for _, w := range strings.Fields(words) {
			counts[stem(w)]++
		}
		x := c.index
		for token, number := range x.vocabulary {
			if list := x.list(number, false); len(list) > 0 && counts[token] != list[0].count {
				t.Errorf("toolset %q: %q is indexed %d times, want %d", toolset, token, list[0].count, counts[token])
			}
			delete(counts, token)
		}
		if len(counts) > 0 {
			t.Errorf("toolset %q: not indexed: %v", toolset, counts)
		}
	}
}

// TestDefinitionsKeepTheirBytes checks every real definition.
func TestDefinitionsKeepTheirBytes(t *testing.T) {
	t.Parallel()
	for _, file := range catalogtest.Files(t) {
		elements := catalogtest.File(t, file)
		c := buildTest(t, elements)
		if c.Len() != len(elements) || len(c.Rejected()) > 0 {
			t.Errorf("%s: %d of %d tools, rejected %v", file, c.Len(), len(elements), c.Rejected())
			continue
		}
		for i, e := range elements {
			tool := c.Tool(i)
			var d struct {
				Function struct {
					Name, Description string
					Parameters        json.RawMessage
				}
			}
			if err := json.Unmarshal(e.Tool, &d); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(tool.Definition, e.Tool) || tool.Name != d.Function.Name ||
				tool.Description != d.Function.Description || !bytes.Equal(tool.Parameters, d.Function.Parameters) {
				t.Errorf("%s: %s is read otherwise than it is written", file, tool.Name)
			}
		}
	}
}

func FuzzDefinition(f *testing.F) {
	for _, s := range []string{
		`{"toolset":"mcp-x","tool":{"type":"function","function":{"name":"n","description":"d","parameters":{"properties":{"a":{}}}}}}`,
		`{"tool":{"name":"n","inputSchema":{"properties":{"a":1,"a":2}}},"host":"h","parallel":true}`,
		`{"tool":{"name":"n","input_schema":{"properties":null}}}`, `{"tool":{"name":"n"}},{"tool":{"name":"n"}}`,
		`{"tool":{"function":{"function":{"name":"n"}}}}`, `null,5,[],{}`, `{"tool":{"name":"\ud800"}}`, "{\"tool\":{\"name\":\"\xff\"}}",
		`{"tool":{"name":"a\u0000"}}`, strings.Repeat(`{"tool":`, 300), `{"tool":{"name":"n"},}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tools := append(append([]byte("["), data...), ']')
		c, err := Build(tools, Limits{MaxTools: 100})
		if err != nil {
			return
		}
		if !json.Valid(tools) {
			t.Fatalf("%q is no JSON and is read", tools)
		}
		names := map[string]bool{}
		for i := range c.Len() {
			tool := c.Tool(i)
			if !utf8.ValidString(tool.Name) || !utf8.ValidString(tool.Description) || tool.Name == "" || names[tool.Name] {
				t.Fatalf("%q: tool %q, %q", tools, tool.Name, tool.Description)
			}
			names[tool.Name] = true
			if at, ok := c.Lookup(tool.Name); !ok || at != i {
				t.Fatalf("%q: tool %q is found at %d", tools, tool.Name, at)
			}
			if !json.Valid(tool.Definition) || tool.Parameters != nil && (!json.Valid(tool.Parameters) || tool.Parameters[0] != '{') {
				t.Fatalf("%q: definition %q, parameters %q", tools, tool.Definition, tool.Parameters)
			}
			rank(c, FullSet(c.Len()), tool.Name+" "+tool.Description, 5, nil)
		}
		for _, r := range c.Rejected() {
			if r.Reason == "" {
				t.Fatalf("%q: %+v has no reason", tools, r)
			}
		}
		again, err := Build(append([]byte(nil), tools...), Limits{MaxTools: 100})
		if err != nil || again.Digest() != c.Digest() || again.Len() != c.Len() || again.IndexSize() != c.IndexSize() {
			t.Fatalf("%q is read otherwise the second time: %v", tools, err)
		}
	})
}
