package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"toolsearch/subjects"
)

// Catalog is a list of tool definitions, read and indexed. It is immutable and safe for use by many at once.
type Catalog struct {
	raw      json.RawMessage
	digest   string
	tools    []Tool
	rejected []subjects.RejectedTool
	names    names
	index    *index
	labels   []labelRun
}

// labelRun are neighbouring tools with one label: those from the end of the run before.
type labelRun struct {
	end   uint32
	label string
}

// labelRuns finds the runs. Toolsets mostly stand together, so there are few.
func labelRuns(tools []Tool) []labelRun {
	var runs []labelRun
	for i := range tools {
		last := len(runs) - 1
		same := last >= 0 && tools[i].Toolset != "" && tools[i].Toolset == tools[i-1].Toolset
		if label := ""; !same {
			if label = tools[i].Label(); last < 0 || runs[last].label != label {
				runs = append(runs, labelRun{label: label})
				last++
			}
		}
		runs[last].end = uint32(i) + 1
	}
	return slices.Clip(runs)
}

// Build reads the value of an assemble request's field tools, a JSON array of {"toolset", "tool", "host", "parallel"},
// and indexes it. It keeps tools and copies none of it, so the caller must not change it afterwards.
//
// An element that cannot be read is left out and told by [Catalog.Rejected]; it never stops the rest. So is one whose
// name stands already: the first stays. Two elements with the same definition, toolset and host are one.
//
// The error is a *[subjects.Error]: BAD_REQUEST with details {"field": "tools"} for text that is no JSON array,
// TOO_LARGE for one over the limits.
func Build(tools json.RawMessage, l Limits) (*Catalog, error) {
	l = l.withDefaults()
	if err := l.checkBytes(len(tools)); err != nil {
		return nil, err
	}
	b := newBuilder(tools)
	if err := b.read(l); err != nil {
		return nil, err
	}
	return b.finish(), nil
}

func badTools(message string) error {
	e := subjects.Errorf(subjects.CodeBadRequest, "%s", message)
	e.Details = map[string]any{"field": "tools"}
	return e
}

// builder reads and indexes at once, one element after the other.
type builder struct {
	catalog *Catalog
	reader  *definitionReader
	indexer *indexer
}

func newBuilder(tools json.RawMessage) *builder {
	return &builder{
		catalog: &Catalog{raw: tools, names: newNames()},
		reader:  newDefinitionReader(tools),
		indexer: newIndexer(),
	}
}

// read reads and indexes all elements.
func (b *builder) read(l Limits) error {
	if b.reader.peek() != '[' {
		return badTools("tools must be a JSON array of objects {\"toolset\", \"tool\"}")
	}
	seen := 0
	err := b.reader.array(func() error {
		if seen++; seen > l.MaxTools {
			return l.tooManyTools()
		}
		return b.element()
	})
	if err == nil && (b.reader.peek() != 0 || b.reader.pos < len(b.reader.data)) {
		err = b.reader.fail("nothing after the array")
	}
	var syntax *syntaxError
	if errors.As(err, &syntax) {
		return badTools("tools is " + syntax.Error())
	}
	return err
}

func (b *builder) element() error {
	if err := b.reader.next(); err != nil {
		return err
	}
	c := b.catalog
	t, schema, rejected := b.reader.accept()
	if rejected != nil {
		c.rejected = append(c.rejected, *rejected)
		return nil
	}
	if at, ok := c.Lookup(t.Name); ok {
		if reason := clash(&c.tools[at], &t); reason != "" {
			c.rejected = append(c.rejected, subjects.RejectedTool{
				Name: shownName(t.Name), Toolset: shownName(t.Toolset), Reason: reason,
			})
		}
		return nil
	}
	c.names.add(strings.ToLower(t.Name), len(c.tools))
	c.tools = append(c.tools, t)
	b.indexer.add(&c.tools[len(c.tools)-1], schema)
	if b.indexer.overflow {
		return tooManyWords()
	}
	return nil
}

// clash says why a second tool of one name is rejected, "" if it is the same tool once more.
func clash(first, second *Tool) string {
	switch {
	case first.Toolset != second.Toolset && first.Toolset == "":
		return "the name stands already without a toolset; the first stays"
	case first.Toolset != second.Toolset:
		return fmt.Sprintf("the name stands already under the toolset %q; the first stays", shownName(first.Toolset))
	case !bytes.Equal(first.Definition, second.Definition):
		return "the name stands already in this toolset with another definition; the first stays"
	case first.Host != second.Host || first.Parallel != second.Parallel:
		return "the definition stands already with another host or another parallel; the first stays"
	}
	return ""
}

func (b *builder) finish() *Catalog {
	c := b.catalog
	c.digest = subjects.Digest(c.raw)
	c.index = b.indexer.finish()
	c.labels = labelRuns(c.tools)
	return c
}

// Digest is "sha256:" and the hex SHA-256 of the exact bytes that the catalog was built of, the name under which it is
// stored.
func (c *Catalog) Digest() string { return c.digest }

// Raw is the bytes that the catalog was built of. They must not be changed.
func (c *Catalog) Raw() json.RawMessage { return c.raw }

// Len is the number of accepted tools.
func (c *Catalog) Len() int { return len(c.tools) }

// Tool is the tool at a position, 0 to Len()-1, in the order in which they came.
func (c *Catalog) Tool(i int) *Tool { return &c.tools[i] }

// Rejected tells the elements that were left out and why, in the order in which they came. It must not be changed.
func (c *Catalog) Rejected() []subjects.RejectedTool { return c.rejected }

// Lookup finds a tool by its exact name.
func (c *Catalog) Lookup(name string) (position int, ok bool) {
	for i := range c.names.folded(strings.ToLower(name)) {
		if c.tools[i].Name == name {
			return i, true
		}
	}
	return 0, false
}

// IndexSize is the memory that the search index takes, in bytes.
func (c *Catalog) IndexSize() int64 { return c.index.size() + c.names.size() }

// Size is the memory that the catalog takes in all, in bytes: the definitions as they came, what was read of them, and
// the index.
func (c *Catalog) Size() int64 {
	n := int64(len(c.raw)) + int64(cap(c.tools))*int64(unsafe.Sizeof(Tool{})) + c.IndexSize()
	for i := range c.tools {
		t := &c.tools[i]
		n += int64(len(t.Name) + len(t.Description) + len(t.SourceName))
	}
	n += int64(len(c.labels)) * int64(unsafe.Sizeof(labelRun{}))
	for _, r := range c.rejected {
		n += int64(unsafe.Sizeof(r)) + int64(len(r.Name)+len(r.Toolset)+len(r.Reason))
	}
	return n
}
