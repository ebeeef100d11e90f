package eval

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"toolsearch/catalog"
	"toolsearch/cmd/toolsearch/internal/catalogfile"
	"toolsearch/subjects"
)

// Query is one labelled query.
type Query struct {
	ID    string `json:"id"`
	Query string `json:"query"`
	// Relevant are the names of the tools that answer it, in any order.
	Relevant []string `json:"relevant"`
}

// File is a file of queries.
type File struct {
	// Name is the file's name without its folder and extension.
	Name    string
	Queries []Query
}

// Set is a catalog and files of queries that its tools answer.
type Set struct {
	Name  string
	Scope *catalog.Scope
	Files []File
}

// FileError says which file of queries is wrong, and how.
type FileError struct {
	Path    string
	Line    int // from 1; 0 is the whole file
	Problem string
}

func (e *FileError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("queries %s: line %d %s", e.Path, e.Line, e.Problem)
	}
	return fmt.Sprintf("queries %s: %s", e.Path, e.Problem)
}

// ReadSet reads a catalog and its files of queries. A folder stands for its catalog.json, if it has one, or else all of
// its .json files; in the place of queries it stands for its .jsonl files.
func ReadSet(name string, catalogs, queries []string) (*Set, error) {
	s := &Set{Name: name}
	var err error
	if s.Scope, err = readScope(catalogs); err != nil {
		return nil, err
	}
	for _, path := range queries {
		files, err := ReadQueries(path)
		if err != nil {
			return nil, err
		}
		s.Files = append(s.Files, files...)
	}
	return s, nil
}

// ReadSets reads every folder inside folder that holds a catalog.json.
func ReadSets(folder string) ([]*Set, error) {
	if info, err := os.Stat(folder); err != nil {
		return nil, &FileError{Path: folder, Problem: "cannot be read: " + errors.Unwrap(err).Error()}
	} else if !info.IsDir() {
		return nil, &FileError{Path: folder, Problem: "is no folder"}
	}
	paths, err := filepath.Glob(filepath.Join(folder, "*", "catalog.json"))
	if err != nil || len(paths) == 0 {
		return nil, &FileError{Path: folder, Problem: "holds no folder with a catalog.json"}
	}
	slices.Sort(paths)
	var sets []*Set
	for _, path := range paths {
		inside := filepath.Dir(path)
		set, err := ReadSet(filepath.Base(inside), []string{path}, []string{inside})
		if err != nil {
			return nil, err
		}
		sets = append(sets, set)
	}
	return sets, nil
}

// readScope makes a scope of all tools of the catalogs, every one of them behind the bridge.
func readScope(paths []string) (*catalog.Scope, error) {
	resolved := slices.Clone(paths)
	for i, path := range resolved {
		if one := filepath.Join(path, "catalog.json"); isFile(one) {
			resolved[i] = one
		}
	}
	read, err := catalogfile.Read(resolved...)
	if err != nil {
		return nil, err
	}
	c, err := catalog.Build(read.JSON(), catalog.Limits{})
	if err != nil {
		return nil, err
	}
	return catalog.NewScope(c, catalog.Owner{Tenant: "eval", Session: "eval"}, &subjects.AssembleRequest{}, catalog.DefaultConfig(), nil, nil)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// ReadQueries reads a file of queries, or the .jsonl files of a folder in the order of their names.
func ReadQueries(path string) ([]File, error) {
	if isFile(path) {
		f, err := readFile(path)
		return []File{f}, err
	}
	paths, err := filepath.Glob(filepath.Join(path, "*.jsonl"))
	if err != nil || len(paths) == 0 {
		return nil, &FileError{Path: path, Problem: "is neither a file nor a folder with .jsonl files"}
	}
	slices.Sort(paths)
	files := make([]File, 0, len(paths))
	for _, p := range paths {
		f, err := readFile(p)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// maxLine is the longest line of a file of queries, in bytes.
const maxLine = 1 << 20

func readFile(path string) (File, error) {
	f := File{Name: strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))}
	text, err := os.ReadFile(path)
	if err != nil {
		var pathError *fs.PathError
		if errors.As(err, &pathError) {
			err = pathError.Err
		}
		return f, &FileError{Path: path, Problem: "cannot be read: " + err.Error()}
	}
	lines := bufio.NewScanner(bytes.NewReader(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))))
	lines.Buffer(nil, maxLine)
	line := 0
	for lines.Scan() {
		line++
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var q Query
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			return f, &FileError{path, line, `is no JSON object {"id", "query", "relevant"}: ` + err.Error()}
		}
		if strings.TrimSpace(q.Query) == "" {
			return f, &FileError{path, line, "has no query"}
		}
		f.Queries = append(f.Queries, q)
	}
	switch {
	case lines.Err() != nil:
		return f, &FileError{path, line + 1, fmt.Sprintf("is longer than %d bytes", maxLine)}
	case len(f.Queries) == 0:
		return f, &FileError{Path: path, Problem: "holds no query"}
	}
	return f, nil
}
