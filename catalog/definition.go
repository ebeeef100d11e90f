package catalog

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"toolsearch/subjects"
)

// Tool is one accepted element of a catalog. It is immutable.
type Tool struct {
	// Name is 1 to [MaxName] bytes of UTF-8 without control characters, unique in its catalog.
	Name string
	// Description is "" if the definition has none. Bytes that are no UTF-8 are U+FFFD in it.
	Description string
	// Toolset is the tool's toolset as it was sent. A tool without one is unregistered: it defers only if the
	// configuration names it.
	Toolset string
	// Host is the tool host on the bus that runs the tool, a valid subject token; "": the caller runs it.
	Host string
	// Parallel says that the tool's server allows calls side by side.
	Parallel bool
	// Definition is the definition byte for byte as it came, a part of [Catalog.Raw].
	Definition json.RawMessage
	// Parameters is the schema of the parameters byte for byte as it came, an object and a part of Definition;
	// nil if there is none.
	Parameters json.RawMessage
	// SourceName is the source that the definition itself names, for a tool without a toolset.
	SourceName string

	required []byte // the "required" of Parameters as it came, a part of it; nil if there is none
	chars    int32  // the length of the definition in characters, see definitionChars
}

// Source says where the tool comes from: "mcp" for a toolset with the prefix mcp-, "plugin" for any other toolset or a
// definition that names its source, each with that name; else "other" and no name.
func (t *Tool) Source() (kind, name string) {
	switch {
	case strings.HasPrefix(t.Toolset, mcpPrefix):
		return "mcp", t.Toolset
	case t.Toolset != "":
		return "plugin", t.Toolset
	case t.SourceName != "":
		return "plugin", t.SourceName
	}
	return "other", ""
}

// Label is the name of the group in which the tool is listed: its source's name without one leading "mcp-", or "other".
func (t *Tool) Label() string {
	_, name := t.Source()
	if name == "" {
		return "other"
	}
	return strings.TrimPrefix(name, mcpPrefix)
}

// sourceNameKey is where a definition without a toolset may name its source.
const sourceNameKey = "_hermes_source_name"

// element is one member of a catalog as it was written, before it is judged. Texts are what stands between the quotes.
type element struct {
	raw      []byte
	isObject bool
	toolset  field
	host     field
	parallel field
	tool     field
	outer    definition // the fields of the definition itself
	inner    definition // the fields of its "function"
	function field
}

// definition holds the fields of one level of a definition.
type definition struct {
	name, description, source field
	// The three spellings of the parameters' schema, in the order in which they are looked for.
	schemas [3]schema
}

// schema is a parameter schema, the keys of its "properties" in their order, what it says about those, and its
// "required".
type schema struct {
	field
	properties [][]byte
	details    [][]byte // descriptions and enum values, between their quotes; bounded
	required   []byte
}

// field is one value: its bytes and the byte that it begins with. The zero value is an absent field.
type field struct {
	raw  []byte // of a string, what stands between the quotes
	kind byte   // '"', '{', '[', 't', 'f', 'n' for null, or the first byte of a number
}

// absent reports that the field is missing or null.
func (f field) absent() bool { return f.kind == 0 || f.kind == 'n' }

func (f field) isBool() bool { return f.kind == 't' || f.kind == 'f' }

// definitionReader reads the elements of a catalog one after the other, in one pass over their text.
type definitionReader struct {
	cursor
	element element
	// interned holds each toolset and host once: thousands of tools share a few.
	interned map[string]string
}

func newDefinitionReader(data []byte) *definitionReader {
	return &definitionReader{cursor: cursor{data: data}, interned: map[string]string{}}
}

// next reads the element at the cursor into r.element. An error is one of syntax and ends the whole catalog; what else
// may be wrong with the element is for accept to say.
func (r *definitionReader) next() error {
	r.element.reset()
	r.deepest = r.depth
	e := &r.element
	e.isObject = r.peek() == '{'
	start := r.pos
	err := r.fields(func(key []byte) error {
		switch string(key) {
		case "toolset":
			return r.value(&e.toolset)
		case "host":
			return r.value(&e.host)
		case "parallel":
			return r.value(&e.parallel)
		case "tool":
			return r.definition(&e.tool, &e.outer, true)
		}
		return r.skip()
	})
	e.raw = r.data[start:r.pos]
	return err
}

// fields reads an object, and any other value as one without fields.
func (r *definitionReader) fields(field func(key []byte) error) error {
	if r.peek() != '{' {
		return r.skip()
	}
	return r.object(field)
}

// value takes any value.
func (r *definitionReader) value(f *field) error {
	f.kind = r.peek()
	if f.kind == '"' {
		raw, err := r.text()
		f.raw = raw
		return err
	}
	start := r.pos
	err := r.skip()
	f.raw = r.data[start:r.pos]
	return err
}

// definition takes a value that should be a definition, or the "function" of one.
func (r *definitionReader) definition(whole *field, d *definition, outer bool) error {
	d.reset()
	if outer {
		r.element.function = field{}
		r.element.inner.reset()
	}
	whole.kind = r.peek()
	start := r.pos
	err := r.fields(func(key []byte) error {
		switch string(key) {
		case "name":
			return r.value(&d.name)
		case "description":
			return r.value(&d.description)
		case "parameters":
			return r.schema(&d.schemas[0])
		case "inputSchema":
			return r.schema(&d.schemas[1])
		case "input_schema":
			return r.schema(&d.schemas[2])
		case sourceNameKey:
			return r.value(&d.source)
		case "function":
			if outer {
				return r.definition(&r.element.function, &r.element.inner, false)
			}
		}
		return r.skip()
	})
	whole.raw = r.data[start:r.pos]
	return err
}

// schema takes a value that should be a parameter schema.
func (r *definitionReader) schema(s *schema) error {
	s.properties, s.details, s.required = s.properties[:0], s.details[:0], nil
	s.kind = r.peek()
	start := r.pos
	err := r.fields(func(key []byte) error {
		switch string(key) {
		case "properties":
		case "required":
			r.peek()
			start := r.pos
			err := r.skip()
			s.required = r.data[start:r.pos]
			return err
		default:
			return r.skip()
		}
		s.properties, s.details = s.properties[:0], s.details[:0]
		return r.fields(func(key []byte) error {
			s.properties = append(s.properties, key)
			return r.parameter(s, 1)
		})
	})
	s.raw = r.data[start:r.pos]
	return err
}

// parameter takes the schema of one parameter, at a depth of such, and keeps what it says in words.
func (r *definitionReader) parameter(s *schema, depth int) error {
	if depth > maxDetailDepth || len(s.details) >= maxDetailTexts {
		return r.skip()
	}
	return r.fields(func(key []byte) error {
		switch string(key) {
		case "description":
			return r.detail(s)
		case "enum":
			if r.peek() == '[' {
				return r.array(func() error { return r.detail(s) })
			}
		case "properties":
			return r.fields(func([]byte) error { return r.parameter(s, depth+1) })
		case "items":
			return r.parameter(s, depth+1)
		}
		return r.skip()
	})
}

// detail takes a value and keeps it if it is a string.
func (r *definitionReader) detail(s *schema) error {
	if r.peek() != '"' {
		return r.skip()
	}
	text, err := r.text()
	if err == nil && len(s.details) < maxDetailTexts {
		s.details = append(s.details, text)
	}
	return err
}

func (e *element) reset() {
	e.raw, e.isObject = nil, false
	e.toolset, e.host, e.parallel, e.tool, e.function = field{}, field{}, field{}, field{}, field{}
	e.outer.reset()
	e.inner.reset()
}

func (d *definition) reset() {
	d.name, d.description, d.source = field{}, field{}, field{}
	for i := range d.schemas {
		d.schemas[i].field = field{}
		s := &d.schemas[i]
		s.properties, s.details, s.required = s.properties[:0], s.details[:0], nil
	}
}

// accept turns the element that was read into a tool, with its schema, nil for none. rejected is nil, or tells why the
// element cannot be read.
func (r *definitionReader) accept() (t Tool, s *schema, rejected *subjects.RejectedTool) {
	e := &r.element
	d := &e.outer
	if e.function.kind == '{' {
		d = &e.inner
	}
	problem := e.shapeProblem()
	if problem == "" && r.deepest-r.depth > MaxNesting {
		problem = fmt.Sprintf("nested deeper than %d levels", MaxNesting)
	}
	if problem == "" {
		t, s, problem = r.tool(d)
	}
	if problem != "" {
		return Tool{}, nil, &subjects.RejectedTool{Name: shown(d.name), Toolset: shown(e.toolset), Reason: problem}
	}
	if s != nil {
		t.Parameters, t.required = json.RawMessage(s.raw), s.required
	}
	t.chars = int32(definitionChars(&t, d == &e.inner))
	return t, s, nil
}

// shapeProblem says what is wrong with the element around its definition.
func (e *element) shapeProblem() string {
	switch {
	case !e.isObject:
		return "the element is no object; write {\"toolset\", \"tool\"}"
	case e.tool.kind == 0:
		return "the element has no field tool, which holds the definition"
	case e.tool.kind != '{':
		return "tool is no object"
	case !e.parallel.absent() && !e.parallel.isBool():
		return "parallel is no boolean"
	}
	return ""
}

// tool reads the fields of the element and of its definition, but for the schema that it returns.
func (r *definitionReader) tool(d *definition) (t Tool, s *schema, problem string) {
	e := &r.element
	if t.Name, problem = nameText("name", d.name); problem != "" {
		return t, nil, problem
	}
	if strings.TrimSpace(t.Name) == "" {
		return t, nil, "the definition has no name"
	}
	if t.Toolset, problem = nameText("toolset", e.toolset); problem != "" {
		return t, nil, problem
	}
	if t.Host, problem = nameText("host", e.host); problem != "" {
		return t, nil, problem
	}
	if t.Host != "" && !subjects.ValidToken(t.Host) {
		return t, nil, fmt.Sprintf("host is no subject token: 1 to %d of A-Z a-z 0-9 _ -", subjects.MaxToken)
	}
	if !d.description.absent() && d.description.kind != '"' {
		return t, nil, "description is no string"
	}
	if s, problem = d.schema(); problem != "" {
		return t, nil, problem
	}
	t.Description, _ = unquote(d.description.text())
	t.Toolset, t.Host = r.intern(t.Toolset), r.intern(t.Host)
	t.Parallel, t.Definition = e.parallel.kind == 't', json.RawMessage(e.tool.raw)
	if t.Toolset == "" {
		t.SourceName = e.sourceName()
	}
	return t, s, ""
}

// schema is the first parameter schema that the definition has, nil for none. A boolean is a schema that says nothing.
func (d *definition) schema() (s *schema, problem string) {
	for i := range d.schemas {
		switch s := &d.schemas[i]; {
		case s.absent() || s.isBool():
		case s.kind == '{':
			return s, ""
		default:
			return nil, "the schema of the parameters is no object"
		}
	}
	return nil, ""
}

// sourceName is the source that the definition names, on either level.
func (e *element) sourceName() string {
	for _, f := range [...]field{e.outer.source, e.inner.source} {
		if name, problem := nameText("", f); problem == "" && name != "" {
			return name
		}
	}
	return ""
}

// text is what stands between the quotes of a string, nil for an absent field.
func (f field) text() []byte {
	if f.kind != '"' {
		return nil
	}
	return f.raw
}

// nameText reads a name, toolset or host; an absent one is "". problem says why it cannot be one.
func nameText(what string, f field) (s, problem string) {
	if f.absent() {
		return "", ""
	}
	if f.kind != '"' {
		return "", what + " is no string"
	}
	s, exact := unquote(f.raw)
	switch {
	case len(s) > MaxName:
		return "", fmt.Sprintf("%s has %d bytes, over the bound of %d", what, len(s), MaxName)
	case !exact:
		return "", what + " is no valid UTF-8"
	case strings.ContainsFunc(s, unicode.IsControl):
		return "", what + " holds a control character"
	}
	return s, ""
}

// shown is a name as a rejection tells it, "" for what is no string.
func shown(f field) string {
	s, _ := unquote(f.text())
	return shownName(s)
}

// shownName cuts a name short: a rejection must not grow with what was rejected.
func shownName(s string) string {
	const most = 64
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "…"
}

func (r *definitionReader) intern(s string) string {
	if known, ok := r.interned[s]; ok {
		return known
	}
	r.interned[s] = s
	return s
}
