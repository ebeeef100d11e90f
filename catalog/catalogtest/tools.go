package catalogtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Element is one element of an assemble request's tools.
type Element struct {
	Toolset  string          `json:"toolset,omitempty"`
	Tool     json.RawMessage `json:"tool"`
	Host     string          `json:"host,omitempty"`
	Parallel bool            `json:"parallel,omitempty"`
}

// Name is the name in the element's definition, which is of the OpenAI or the bare shape.
func (e Element) Name() string {
	var d struct {
		Name     string
		Function struct{ Name string }
	}
	_ = json.Unmarshal(e.Tool, &d)
	if d.Function.Name != "" {
		return d.Function.Name
	}
	return d.Name
}

// Array writes elements as the value of an assemble request's tools. The bytes of each definition stay as they are.
func Array(elements []Element) json.RawMessage {
	var b bytes.Buffer
	for i, e := range elements {
		b.WriteByte("[,"[min(i, 1)])
		b.WriteByte('{')
		if e.Toolset != "" {
			fmt.Fprintf(&b, `"toolset":%s,`, quote(e.Toolset))
		}
		if e.Host != "" {
			fmt.Fprintf(&b, `"host":%s,`, quote(e.Host))
		}
		if e.Parallel {
			b.WriteString(`"parallel":true,`)
		}
		b.WriteString(`"tool":`)
		b.Write(e.Tool)
		b.WriteByte('}')
	}
	if len(elements) == 0 {
		b.WriteByte('[')
	}
	b.WriteByte(']')
	return b.Bytes()
}

func quote(s string) []byte {
	p, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always has a JSON form
	}
	return p
}

// Tool is an element with a definition of the OpenAI shape. Parameters are the names of string parameters.
func Tool(toolset, name, description string, parameters ...string) Element {
	properties := make([]string, len(parameters))
	for i, p := range parameters {
		properties[i] = string(quote(p)) + `:{"type":"string"}`
	}
	return Element{Toolset: toolset, Tool: json.RawMessage(fmt.Sprintf(
		`{"type":"function","function":{"name":%s,"description":%s,"parameters":{"type":"object","properties":{%s}}}}`,
		quote(name), quote(description), strings.Join(properties, ",")))}
}

// file is a tool list as it lies in the folder of catalogs.
type file struct {
	Toolset string
	Tools   []json.RawMessage
}

var files sync.Map // from path to *file

func loadFile(tb testing.TB, path string) *file {
	tb.Helper()
	if f, ok := files.Load(path); ok {
		return f.(*file)
	}
	f := new(file)
	if err := json.Unmarshal(read(tb, path), f); err != nil {
		tb.Fatalf("%s: %v", path, err)
	}
	files.Store(path, f)
	return f
}

// File are the tools of one of the real tool lists, such as "github.json", in the toolset of that file.
func File(tb testing.TB, names ...string) []Element {
	tb.Helper()
	var elements []Element
	for _, name := range names {
		elements = append(elements, fileElements(tb, filepath.Join(CatalogFolder(tb), name))...)
	}
	return elements
}

func fileElements(tb testing.TB, path string) []Element {
	tb.Helper()
	f := loadFile(tb, path)
	elements := make([]Element, len(f.Tools))
	for i, t := range f.Tools {
		elements[i] = Element{Toolset: f.Toolset, Tool: t}
	}
	return elements
}

// Words of which generated tools are made.
var (
	verbs   = strings.Fields("list get create update delete search archive restore export import move copy merge approve reject assign")
	objects = strings.Fields("issue invoice calendar message branch contact pipeline report ticket channel document folder member " +
		"payment shipment order webhook dashboard snapshot volume network certificate policy secret tenant session")
	details = strings.Fields("by identifier with pagination including comments for one project across regions as json without " +
		"attachments since a date sorted by priority in the workspace of the current user")
)

// Generated is a catalog of n tools in toolsets of 100 that stand together, "mcp-server-0" and so on. It is the same on
// every call, every name occurs once, and word frequencies differ as in real lists: few words are everywhere, many are rare.
func Generated(n int) []Element {
	elements := make([]Element, n)
	for i := range elements {
		server := i / 100
		verb, object := verbs[i%len(verbs)], objects[(i/len(verbs)+i)%len(objects)]
		other := objects[(i*7+server)%len(objects)]
		kind := "kind" + letters(i/3)
		name := fmt.Sprintf("mcp__server-%d__%s_%s_%s", server, verb, object, letters(i))
		d := fmt.Sprintf("%s%s one %s of the %s service. Use it to %s the %s of a %s %s %s %s.",
			strings.ToUpper(verb[:1]), verb[1:], object, letters(server), verb, other, kind,
			details[i%len(details)], details[(i*3+1)%len(details)], details[(i*5+2)%len(details)])
		elements[i] = Tool("mcp-server-"+strconv.Itoa(server), name, d,
			object+"_id", "page", "per_page", other, "filter_"+kind)
	}
	return elements
}

// letters writes a number as a word of small letters, so that no tokeniser takes it apart.
func letters(i int) string {
	const syllables = "bacadafagalamanaparasata"
	var b strings.Builder
	for {
		k := i % (len(syllables) / 2) * 2
		b.WriteString(syllables[k : k+2])
		if i /= len(syllables) / 2; i == 0 {
			return b.String()
		}
	}
}
