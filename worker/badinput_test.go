package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"toolsearch/subjects"
)

// Whatever comes, the answer is the contract's and the worker goes on.
func TestBadInput(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{})
	scope := b.assemble(30).Scope
	tool := `{"toolset":"mcp-x","tool":{"name":"mcp__x__y","description":"d","parameters":{}}}`
	type wrong struct {
		name  string
		verb  subjects.Verb
		body  string
		code  subjects.Code
		field string
	}
	cases := []wrong{
		{"utf-8 assemble", subjects.VerbAssemble, "{\"tools\":[{\"tool\":{\"name\":\"a\xff\"}}]}", subjects.CodeBadRequest, "body"},
		{"no tools", subjects.VerbAssemble, `{}`, subjects.CodeBadRequest, "tools"},
		{"null tools", subjects.VerbAssemble, `{"tools":null}`, subjects.CodeBadRequest, "tools"},
		{"both", subjects.VerbAssemble, `{"tools":[],"catalog":"` + subjects.Digest(nil) + `"}`, subjects.CodeBadRequest, "tools"},
		{"tools a string", subjects.VerbAssemble, `{"tools":"x"}`, subjects.CodeBadRequest, "tools"},
		{"tools an object", subjects.VerbAssemble, `{"tools":{}}`, subjects.CodeBadRequest, "tools"},
		{"catalog no name", subjects.VerbAssemble, `{"catalog":"latest"}`, subjects.CodeBadRequest, "catalog"},
		{"unknown catalog", subjects.VerbAssemble, `{"catalog":"` + subjects.Digest([]byte("?")) + `"}`, subjects.CodeCatalogNotFound, ""},
		{"parent no name", subjects.VerbAssemble, `{"tools":[],"parent_scope":"mine"}`, subjects.CodeBadRequest, "parent_scope"},
		{"surface unknown", subjects.VerbAssemble, `{"tools":[],"surface":"hologram"}`, subjects.CodeBadRequest, "surface"},
		{"format unknown", subjects.VerbAssemble, `{"tools":[],"format":"xml"}`, subjects.CodeBadRequest, "format"},
		{"hooks timeout", subjects.VerbAssemble, `{"tools":[],"hooks":{"pre":true,"timeout_ms":-1}}`, subjects.CodeBadRequest, "hooks.timeout_ms"},
		{"source without name", subjects.VerbAssemble, `{"tools":[],"unavailable_sources":[{"reason":"x"}]}`, subjects.CodeBadRequest, "unavailable_sources[0].name"},
		{"no scope", subjects.VerbSearch, `{"arguments":{"queries":["x"]}}`, subjects.CodeBadRequest, "scope"},
		{"null scope", subjects.VerbSearch, `{"scope":null,"arguments":{"queries":["x"]}}`, subjects.CodeBadRequest, "scope"},
		{"scope a number", subjects.VerbSearch, `{"scope":5,"arguments":{"queries":["x"]}}`, subjects.CodeBadRequest, "scope"},
		{"scope a list", subjects.VerbSearch, `{"scope":[],"arguments":{"queries":["x"]}}`, subjects.CodeBadRequest, "scope"},
		{"scope no name", subjects.VerbSearch, `{"scope":"x","arguments":{"queries":["x"]}}`, subjects.CodeBadRequest, "scope"},
		{"empty inline scope", subjects.VerbSearch, `{"scope":{},"arguments":{"queries":["x"]}}`, subjects.CodeBadRequest, "scope.tools"},
		{"arguments a number", subjects.VerbSearch, fmt.Sprintf(`{"scope":%q,"arguments":5}`, scope), subjects.CodeBadRequest, "arguments"},
	}
	for _, verb := range []subjects.Verb{subjects.VerbAssemble, subjects.VerbSearch, subjects.VerbDescribe} {
		for name, body := range map[string]string{
			"nothing": "", "no JSON": "hello", "half": `{"scope":`, "array": "[]", "null": "null", "number": "7", "text": `"x"`,
			"after the end": "{} {}", "bom": "\xef\xbb\xbf{}", "utf-8": "{\"scope\":\"\xc3\x28\"}",
			"deep": strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000),
		} {
			cases = append(cases, wrong{name + " " + string(verb), verb, body, subjects.CodeBadRequest, "body"})
		}
	}
	// A value of the wrong type in every field.
	for field, values := range map[string][]string{
		"catalog": {`5`, `{}`, `[]`, `true`}, "parent_scope": {`5`, `{}`},
		"enabled_toolsets": {`5`, `"x"`, `{}`, `[5]`}, "disabled_toolsets": {`5`, `"x"`, `{}`, `[{}]`}, "required_toolsets": {`5`, `"x"`, `[null,5]`},
		"context_length": {`"x"`, `{}`, `1.5`, `1e99`}, "core_tools": {`5`, `"x"`}, "connectors": {`5`, `"x"`},
		"surface": {`5`, `{}`}, "format": {`5`, `[]`}, "hooks": {`5`, `"x"`, `[]`}, "hooks.pre": {`{"pre":5}`},
		"hooks.timeout_ms": {`{"timeout_ms":"x"}`}, "unavailable_sources": {`5`, `{}`, `["x"]`},
	} {
		for _, v := range values {
			name, _, _ := strings.Cut(field, ".")
			cases = append(cases, wrong{field + " is " + v, subjects.VerbAssemble, `{"tools":[],` + fmt.Sprintf(`%q:%s}`, name, v), subjects.CodeBadRequest, field})
		}
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := b.ask(c.verb, c.body)
			e := fails(t, m)
			if e.Code != c.code {
				t.Fatalf("got %v", e)
			}
			field, _ := e.Details["field"].(string)
			if c.field != "" && !strings.HasPrefix(field, c.field) {
				t.Errorf("names the field %q, want %q: %v", field, c.field, e)
			}
			if c.field == "" && e.Details["field"] != nil {
				t.Errorf("names the field %v", e.Details)
			}
			if len(m.Data) > 2048 {
				t.Errorf("an error of %d bytes", len(m.Data))
			}
		})
	}

	// What a tool list may hold costs that tool only.
	for name, c := range map[string]struct{ tools, rejected string }{
		"a name of 10,000 characters": {`[{"tool":{"name":"` + strings.Repeat("n", 10_000) + `"}},` + tool + `]`, "name"},
		"no name":                     {`[{"tool":{"description":"d"}},` + tool + `]`, "name"},
		"no definition":               {`[{"toolset":"x"},5,null,"x",[],` + tool + `]`, ""},
		"one name in two toolsets":    {`[` + tool + `,{"toolset":"mcp-z","tool":{"name":"mcp__x__y"}}]`, "mcp__x__y"},
		"deep nesting":                {`[{"tool":{"name":"deep","parameters":` + strings.Repeat(`{"a":`, 2000) + "1" + strings.Repeat("}", 2000) + `}},` + tool + `]`, "deep"},
	} {
		t.Run(name, func(t *testing.T) {
			m := b.ask(subjects.VerbAssemble, `{"tools":`+c.tools+`}`)
			var reply subjects.AssembleReply
			if err := json.Unmarshal(ok(t, m), &reply); err != nil {
				t.Fatal(err)
			}
			if len(reply.RejectedTools) == 0 || reply.DeferredCount != 1 {
				t.Fatalf("%d deferred, rejected %+v", reply.DeferredCount, reply.RejectedTools)
			}
			if len(m.Data) > 64<<10 {
				t.Fatalf("a reply of %d bytes", len(m.Data))
			}
		})
	}

	// A model's query of any size is answered.
	t.Run("a query of a megabyte", func(t *testing.T) {
		query := strings.Repeat("order number ", (1<<20-4096)/13)
		var found subjects.SearchReply
		reply := b.ask(subjects.VerbSearch, search(scope, query))
		if e := subjects.ReplyError(reply.Header, reply.Data); e != nil && !errors.Is(e, &subjects.Error{Code: subjects.CodeTooLarge}) {
			t.Fatal(e)
		} else if e == nil {
			if err := json.Unmarshal(reply.Data, &found); err != nil {
				t.Fatal(err)
			}
		}
	})

	b.assemble(30)
	ok(t, b.ask(subjects.VerbSearch, search(scope, "order_7")))
}

func TestBadSubjects(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{})
	for subject, field := range map[string]string{
		"toolsearch.v1.req.*.s1.search":                               "subject",
		"toolsearch.v1.req.acme.>.search":                             "subject",
		"toolsearch.v1.req.ac:me.s1.search":                           "subject",
		"toolsearch.v1.req." + strings.Repeat("x", 65) + ".s1.search": "subject",
		"toolsearch.v1.req.acmé.s1.search":                            "subject",
	} {
		e := fails(t, b.send(subject, nil, "{}"))
		if e.Code != subjects.CodeBadRequest || e.Details["field"] != field {
			t.Errorf("%s: %v %v", subject, e, e.Details)
		}
	}
	// An empty token and an unknown verb reach nobody.
	for _, subject := range []string{"toolsearch.v1.req..s1.search", "toolsearch.v1.req.acme..search", "toolsearch.v1.req.acme.s1.dance", "toolsearch.v1.req.acme.search"} {
		_, err := b.nc.Request(subject, nil, wait)
		if !errors.Is(err, nats.ErrNoResponders) && !errors.Is(err, nats.ErrBadSubject) {
			t.Errorf("%s: %v", subject, err)
		}
	}
	b.assemble(5)
}

// Catalogs over the bounds come by claim check and are refused within bounds of memory.
func TestTooLarge(t *testing.T) {
	if testing.Short() {
		t.Skip("moves 70 MB")
	}
	b := setup(t, Options{RequestTimeout: 3 * time.Minute})
	send := func(body []byte) *subjects.Error {
		t.Helper()
		ref, err := b.w.bodies.Put(t.Context(), "acme", body)
		if err != nil {
			t.Fatal(err)
		}
		h := nats.Header{}
		ref.Set(h)
		m, err := b.nc.RequestMsg(&nats.Msg{Subject: subjects.DefaultRoot.Request("acme", "s1", subjects.VerbAssemble), Header: h}, 3*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return fails(t, m)
	}
	var many bytes.Buffer
	many.WriteString(`{"tools":[`)
	for i := range 60_000 {
		fmt.Fprintf(&many, `{"tool":{"name":"t%d"}},`, i)
	}
	many.Truncate(many.Len() - 1)
	many.WriteString(`]}`)
	if e := send(many.Bytes()); e.Code != subjects.CodeTooLarge || !strings.Contains(e.Message, "50000") {
		t.Errorf("60,000 tools: %v", e)
	}
	large := []byte(`{"tools":[{"tool":{"name":"x","description":"` + strings.Repeat("d", 70_000_000) + `"}}]}`)
	if e := send(large); e.Code != subjects.CodeTooLarge || !strings.Contains(e.Message, "67108864") {
		t.Errorf("70 MB: %v", e)
	}
	large = nil
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > 400<<20 {
		t.Errorf("%d MiB are held afterwards", m.HeapAlloc>>20)
	}
	b.assemble(5)
}

// What is wrong within a list or an inline scope is named by its own place, in the details and in the message.
func TestBadInputNamesItsPlace(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{})
	type wrong struct{ body, field, message string }
	cases := []wrong{
		{`"enabled_toolsets":[1]`, "enabled_toolsets[0]", "must be a string, not number"},
		{`"enabled_toolsets":["x",null]`, "enabled_toolsets[1]", "must be a string, not null"},
		{`"enabled_toolsets":"x"`, "enabled_toolsets", "must be an array, not string"},
		{`"disabled_toolsets":[[]]`, "disabled_toolsets[0]", "must be a string, not array"},
		{`"required_toolsets":[null]`, "required_toolsets[0]", "must be a string, not null"},
		{`"core_tools":["a",true]`, "core_tools[1]", "must be a string, not bool"},
		{`"core_tools":{}`, "core_tools", "must be an array, not object"},
		{`"unavailable_sources":["x"]`, "unavailable_sources[0]", "must be a JSON object"},
		{`"unavailable_sources":[{"name":"a"},null]`, "unavailable_sources[1]", "must be a JSON object"},
		{`"unavailable_sources":[{"name":5}]`, "unavailable_sources[0].name", "must be a string, not number"},
		{`"unavailable_sources":[{"reason":"x"}]`, "unavailable_sources[0].name", "must not be empty"},
		{`"parent_scope":"mine"`, "parent_scope", "must be sha256:"},
		{`"surface":"wall"`, "surface", "must be link"},
		{`"format":7`, "format", "must be a string, not number"},
		{`"hooks":{"timeout_ms":-1}`, "hooks.timeout_ms", "must be 0 to"},
	}
	for _, c := range cases {
		for at, m := range map[string]*nats.Msg{
			"":       b.ask(subjects.VerbAssemble, `{"tools":[],`+c.body+`}`),
			"scope.": b.ask(subjects.VerbSearch, `{"arguments":{"queries":["x"]},"scope":{"tools":[],`+c.body+`}}`),
		} {
			e := fails(t, m)
			if e.Code != subjects.CodeBadRequest || e.Details["field"] != at+c.field || !strings.HasPrefix(e.Message, at+c.field+" ") || !strings.Contains(e.Message, c.message) {
				t.Errorf("%s: got %v, field %v; want %s%s", c.body, e, e.Details["field"], at, c.field)
			}
		}
	}
	for scope, field := range map[string]string{
		`{"catalog":"latest"}`: "scope.catalog", `{}`: "scope.tools", `{"tools":"x"}`: "scope.tools", `{"tools":[],"catalog":"x"}`: "scope.tools",
	} {
		if e := fails(t, b.ask(subjects.VerbDescribe, `{"arguments":{"names":["x"]},"scope":`+scope+`}`)); e.Details["field"] != field {
			t.Errorf("%s: got %v, field %v; want %s", scope, e, e.Details["field"], field)
		}
	}
	// null is the whole list that is not given.
	ok(t, b.ask(subjects.VerbAssemble, `{"tools":[],"enabled_toolsets":null,"core_tools":null,"unavailable_sources":null}`))
}
