package catalogfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"toolsearch/subjects"
)

// Error says which file is wrong, and how.
type Error struct {
	Path    string
	Problem string
	Err     error // the cause, nil if Problem says it all
}

func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("catalog %s: %s: %v", e.Path, e.Problem, e.Err)
	}
	return fmt.Sprintf("catalog %s: %s", e.Path, e.Problem)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Set is the tools of all files, in the order of the files and in each file's own.
type Set struct {
	Tools []subjects.Tool
	// Files are the paths that were read.
	Files []string
	// Notes tell what a reader of a file should know, such as a tools/list page that is not the last.
	Notes []string
}

// Read reads files and folders.
func Read(paths ...string) (*Set, error) {
	var s Set
	for _, p := range paths {
		files, err := expand(p)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if err := s.add(f); err != nil {
				return nil, err
			}
		}
	}
	return &s, nil
}

// JSON is the tools as the array of an assemble request; each definition keeps its bytes.
func (s *Set) JSON() json.RawMessage {
	b := []byte{'['}
	for i, t := range s.Tools {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendTool(b, t)
	}
	return append(b, ']')
}

// appendTool writes by hand because encoding/json would compact the definition.
func appendTool(b []byte, t subjects.Tool) []byte {
	b = append(b, '{')
	if t.Toolset != "" {
		b = append(b, `"toolset":`...)
		b = append(subjects.AppendString(b, t.Toolset), ',')
	}
	if t.Host != "" {
		b = append(b, `"host":`...)
		b = append(subjects.AppendString(b, t.Host), ',')
	}
	if t.Parallel {
		b = append(b, `"parallel":true,`...)
	}
	b = append(b, `"tool":`...)
	return append(append(b, t.Tool...), '}')
}

// expand lists the files that a path stands for.
func expand(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, &Error{path, "cannot be read", pathless(err)}
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path) // sorted by name
	if err != nil {
		return nil, &Error{path, "cannot be listed", pathless(err)}
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && strings.EqualFold(filepath.Ext(e.Name()), ".json") {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, &Error{path, "the folder holds no .json file", nil}
	}
	return files, nil
}

// pathless drops the path from a file error, for ours has it already.
func pathless(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// document is the frame of a file that holds an object. MCP's own fields beside them are ignored.
type document struct {
	Toolset    string          `json:"toolset"`
	Tools      json.RawMessage `json:"tools"`
	NextCursor string          `json:"nextCursor"`
	Result     *document       `json:"result"`
	Error      json.RawMessage `json:"error"`
}

func (s *Set) add(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return &Error{path, "cannot be read", pathless(err)}
	}
	text = bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")))
	doc, err := frame(path, text)
	if err != nil {
		return err
	}
	var elements []json.RawMessage
	if err := json.Unmarshal(doc.Tools, &elements); err != nil {
		return &Error{path, "tools is not an array of definitions", nil}
	}
	if doc.Toolset == "" {
		doc.Toolset = "mcp-" + strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	}
	for i, e := range elements {
		t, problem := readElement(e, doc.Toolset)
		if problem != "" {
			return &Error{path, fmt.Sprintf("tools[%d] %s", i, problem), nil}
		}
		s.Tools = append(s.Tools, t)
	}
	s.Files = append(s.Files, path)
	if doc.NextCursor != "" {
		s.Notes = append(s.Notes, fmt.Sprintf("%s is one page of a tools/list result and not the last: fetch the rest too", path))
	}
	return nil
}

const wanted = `want {"tools": [...]}, the answer of an MCP tools/list, or a plain array of definitions`

// frame finds the tools of a file.
func frame(path string, text []byte) (*document, error) {
	if len(text) == 0 {
		return nil, &Error{path, "the file is empty; " + wanted, nil}
	}
	var doc document
	if text[0] == '[' {
		doc.Tools = text
	}
	var into any = &doc
	if text[0] != '{' {
		into = new(json.RawMessage)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return nil, syntax(path, text, err)
	}
	if doc.Result != nil && doc.Tools == nil {
		doc = *doc.Result
	}
	if len(doc.Tools) == 0 {
		problem := "holds no tools; " + wanted
		if len(doc.Error) > 0 {
			problem = "holds an error answer and no tools; " + wanted
		}
		return nil, &Error{path, problem, nil}
	}
	return &doc, nil
}

// syntax says at which line and column a file stops being JSON, or which field has the wrong type.
func syntax(path string, text []byte, err error) error {
	var s *json.SyntaxError
	var u *json.UnmarshalTypeError
	switch {
	case errors.As(err, &s):
		before := text[:min(int(s.Offset), len(text))]
		line := 1 + bytes.Count(before, []byte("\n"))
		column := len(before) - bytes.LastIndexByte(before, '\n') - 1
		return &Error{path, fmt.Sprintf("is not JSON (line %d, column %d)", line, max(column, 1)), s}
	case errors.As(err, &u):
		return &Error{path, fmt.Sprintf("field %q is a JSON %s; %s", u.Field, u.Value, wanted), nil}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &Error{path, "is not JSON: it ends in the middle", nil}
	}
	return &Error{path, "is not JSON", err}
}

// readElement reads a definition, or a definition in its envelope.
func readElement(e json.RawMessage, toolset string) (subjects.Tool, string) {
	if len(e) == 0 || e[0] != '{' {
		return subjects.Tool{}, "is not an object"
	}
	var env struct {
		Toolset  *string         `json:"toolset"`
		Tool     json.RawMessage `json:"tool"`
		Host     string          `json:"host"`
		Parallel bool            `json:"parallel"`
	}
	// A definition may use these words for something else; then it is no envelope.
	if err := json.Unmarshal(e, &env); err != nil || len(env.Tool) == 0 || env.Tool[0] != '{' {
		return subjects.Tool{Toolset: toolset, Tool: e}, ""
	}
	if env.Toolset != nil {
		toolset = *env.Toolset // an empty one means unregistered
	}
	return subjects.Tool{Toolset: toolset, Tool: env.Tool, Host: env.Host, Parallel: env.Parallel}, ""
}
