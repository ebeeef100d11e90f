package catalogtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Vector is one conformance case.
type Vector struct {
	ID      string          `json:"id"`
	Op      string          `json:"op"`
	Given   json.RawMessage `json:"given"`
	Want    json.RawMessage `json:"want"`
	Note    string          `json:"note"`
	Differs bool            `json:"differs"`

	// Folder is where the case stands; its sets and catalogs are looked up from there.
	Folder string `json:"-"`
}

// Vectors yields the cases of one file, such as "rank.jsonl", of every folder of vectors that has it.
func Vectors(tb testing.TB, file string) iter.Seq[Vector] {
	tb.Helper()
	var all []Vector
	for _, folder := range VectorFolders(tb) {
		data, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			if os.Getenv(FoldersVariable) != "" && os.IsNotExist(err) {
				continue
			}
			tb.Fatal(err)
		}
		lines := bufio.NewScanner(bytes.NewReader(data))
		lines.Buffer(nil, 4<<20)
		for lines.Scan() {
			if len(bytes.TrimSpace(lines.Bytes())) == 0 {
				continue
			}
			v := Vector{Folder: folder}
			if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
				tb.Fatalf("%s: %v", file, err)
			}
			all = append(all, v)
		}
		if err := lines.Err(); err != nil {
			tb.Fatalf("%s: %v", file, err)
		}
	}
	if len(all) == 0 {
		tb.Fatalf("no cases in %s", file)
	}
	return func(yield func(Vector) bool) {
		for _, v := range all {
			if !yield(v) {
				return
			}
		}
	}
}

// DecodeGiven decodes the input of a case into v, with exact numbers where v leaves the type open.
func (v Vector) DecodeGiven(tb testing.TB, to any) { tb.Helper(); v.decode(tb, v.Given, to) }

// DecodeWant decodes the expected result of a case, with exact numbers where v leaves the type open.
func (v Vector) DecodeWant(tb testing.TB, to any) { tb.Helper(); v.decode(tb, v.Want, to) }

func (v Vector) decode(tb testing.TB, p []byte, to any) {
	tb.Helper()
	d := json.NewDecoder(bytes.NewReader(p))
	d.UseNumber()
	if err := d.Decode(to); err != nil {
		tb.Fatalf("%s: %v", v.ID, err)
	}
}

// Tools resolves a value of given.tools or given.withheld: an array of parts, each the name of a set, a file of the
// catalogs or one tool. An absent value has no tools.
func (v Vector) Tools(tb testing.TB, value json.RawMessage) []Element {
	tb.Helper()
	if len(value) == 0 {
		return nil
	}
	return resolve(tb, v.Folder, value, 0)
}

// part is one part of given.tools that is no name of a set.
type part struct {
	File  string
	Names []string

	Toolset  string
	Tool     json.RawMessage
	Host     string
	Parallel bool
}

func resolve(tb testing.TB, folder string, value json.RawMessage, depth int) []Element {
	tb.Helper()
	if depth > 10 {
		tb.Fatalf("%s: a set contains itself", folder)
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(value, &parts); err != nil {
		tb.Fatalf("tools: %v", err)
	}
	var elements []Element
	for _, raw := range parts {
		var set string
		if json.Unmarshal(raw, &set) == nil {
			parts, ok := sets(tb, folder)[set]
			if !ok {
				tb.Fatalf("%s has no set %q", folder, set)
			}
			elements = append(elements, resolve(tb, folder, parts.Parts, depth+1)...)
			continue
		}
		var p part
		if err := json.Unmarshal(raw, &p); err != nil {
			tb.Fatalf("tools: %v", err)
		}
		if p.File == "" {
			elements = append(elements, Element{Toolset: p.Toolset, Tool: p.Tool, Host: p.Host, Parallel: p.Parallel})
			continue
		}
		elements = append(elements, named(tb, fileElements(tb, catalogPath(tb, folder, p.File)), p.Names)...)
	}
	return elements
}

// named picks elements by name, in the order of the names; no names picks all.
func named(tb testing.TB, elements []Element, names []string) []Element {
	tb.Helper()
	if len(names) == 0 {
		return elements
	}
	byName := make(map[string]Element, len(elements))
	for _, e := range elements {
		byName[e.Name()] = e
	}
	picked := make([]Element, len(names))
	for i, name := range names {
		e, ok := byName[name]
		if !ok {
			tb.Fatalf("no tool %q in its file", name)
		}
		picked[i] = e
	}
	return picked
}

// catalogPath is the file in the folder of catalogs beside a folder of vectors, or else in the shared one.
func catalogPath(tb testing.TB, folder, name string) string {
	tb.Helper()
	path := filepath.Join(filepath.Dir(folder), "catalogs", name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	return filepath.Join(CatalogFolder(tb), name)
}

// setParts is one entry of sets.json.
type setParts struct{ Parts json.RawMessage }

var setFiles sync.Map // from folder to map[string]setParts

func sets(tb testing.TB, folder string) map[string]setParts {
	tb.Helper()
	if s, ok := setFiles.Load(folder); ok {
		return s.(map[string]setParts)
	}
	s := map[string]setParts{}
	data, err := fs.ReadFile(os.DirFS(folder), "sets.json")
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		tb.Fatalf("%s: %v", folder, err)
	}
	setFiles.Store(folder, s)
	return s
}
