package house

import (
	"bufio"
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "toolsearch"

// order is the house from bottom to top: a folder imports only folders that stand before it, or itself.
var order = []string{"subjects", "catalog", "connectors", "dispatch", "worker", "cmd"}

// root is the module's folder.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test's folder")
		}
		dir = filepath.Dir(dir)
	}
}

// source is one parsed Go file; path is slash-separated and relative to the module.
type source struct {
	path string
	file *ast.File
	fset *token.FileSet
}

func (s source) dir() string         { return path.Dir(s.path) }
func (s source) top() string         { return strings.SplitN(s.path, "/", 2)[0] }
func (s source) test() bool          { return strings.HasSuffix(s.path, "_test.go") }
func (s source) line(n ast.Node) int { return s.fset.Position(n.Pos()).Line }

func sources(t *testing.T) []source {
	t.Helper()
	dir := root(t)
	var out []source
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && p != dir {
			if strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "bin" {
				return filepath.SkipDir
			}
			// A folder with a go.mod of its own is another module, with rules of its own.
			if _, err := os.Stat(filepath.Join(p, "go.mod")); err == nil {
				return filepath.SkipDir
			}
		}
		if d.IsDir() || !strings.HasSuffix(p, ".go") {
			return nil
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, p, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		out = append(out, source{filepath.ToSlash(rel), f, fset})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 20 {
		t.Fatalf("found only %d Go files: the walk is broken", len(out))
	}
	return out
}

// tracked lists the files that git knows; in an unpacked archive without git the test is skipped.
func tracked(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command("git", "ls-files")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Skip("git does not answer here, so the list of files cannot be had")
	}
	return strings.Fields(string(out))
}

func TestTopLevel(t *testing.T) {
	t.Parallel()
	allowed := []string{"cmd", "worker", "subjects", "catalog", "dispatch", "connectors", "telemetry", "deploy",
		"go.mod", "go.sum", "README.md", "LICENSE", "Makefile"}
	for _, f := range tracked(t) {
		top := strings.SplitN(f, "/", 2)[0]
		if !strings.HasPrefix(top, ".") && !slices.Contains(allowed, top) {
			t.Errorf("%s: %q does not belong at the top level; allowed are %v", f, top, allowed)
		}
	}
}

func TestImportsRunDownwards(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		for _, spec := range s.file.Imports {
			p := strings.Trim(spec.Path.Value, `"`)
			own, inside := strings.CutPrefix(p, module+"/")
			if !inside {
				checkForeign(t, s, spec, p)
				continue
			}
			to := strings.SplitN(own, "/", 2)[0]
			switch {
			case to == s.top() || to == "telemetry":
			case s.top() == "telemetry":
				t.Errorf("%s:%d imports %s, but telemetry is a leaf", s.path, s.line(spec), p)
			case slices.Index(order, to) < 0 || slices.Index(order, to) > slices.Index(order, s.top()):
				t.Errorf("%s:%d imports %s, which is above it; imports run %v", s.path, s.line(spec), p, order)
			}
			if strings.HasSuffix(own, "test") && !s.test() && s.top() != "cmd" && !strings.HasSuffix(s.dir(), "test") {
				t.Errorf("%s:%d imports %s, which is for tests and the command alone", s.path, s.line(spec), p)
			}
		}
	}
}

// checkForeign guards who may know what from outside the module. Tests of a package may use more than the package.
func checkForeign(t *testing.T, s source, spec *ast.ImportSpec, p string) {
	t.Helper()
	if s.test() {
		return
	}
	if strings.HasPrefix(p, "github.com/nats-io/") && !slices.Contains([]string{"cmd", "worker", "subjects", "telemetry"}, s.top()) {
		t.Errorf("%s:%d imports %s, but only cmd, worker and subjects know NATS", s.path, s.line(spec), p)
	}
	impure := []string{"net", "net/http", "os", "os/exec", "io/fs", "log", "log/slog", "math/rand", "math/rand/v2", "crypto/rand", "context"}
	if s.dir() == "catalog" && slices.Contains(impure, p) {
		t.Errorf("%s:%d imports %s, but catalog is pure", s.path, s.line(spec), p)
	}
}

func TestCatalogIsPure(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.dir() != "catalog" || s.test() {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s:%d starts a goroutine", s.path, s.line(n))
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains([]string{"Now", "Since", "Until", "After", "NewTimer", "NewTicker"}, n.Sel.Name) {
					t.Errorf("%s:%d reads the clock: time.%s", s.path, s.line(n), n.Sel.Name)
				}
			}
			return true
		})
	}
}

func TestEveryPackageTeaches(t *testing.T) {
	t.Parallel()
	docs, seen := map[string]int{}, map[string]bool{}
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		seen[s.dir()] = true
		if path.Base(s.path) == "doc.go" && s.file.Doc != nil {
			docs[s.dir()] = len(s.file.Doc.Text())
		}
	}
	for dir := range seen {
		if docs[dir] < 200 {
			t.Errorf("%s: its doc.go must hold a package comment that teaches it (found %d characters)", dir, docs[dir])
		}
	}
}

func TestFileNamesAreNouns(t *testing.T) {
	t.Parallel()
	for _, f := range tracked(t) {
		for part := range strings.SplitSeq(strings.TrimSuffix(f, path.Ext(f)), "/") {
			for _, banned := range []string{"util", "utils", "common", "helper", "helpers", "misc"} {
				if strings.TrimSuffix(part, "_test") == banned {
					t.Errorf("%s: %q says nothing; name the noun", f, part)
				}
			}
		}
	}
}

func TestExportedNamesAreDocumented(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) && !obvious(d) {
					t.Errorf("%s:%d: %s has no doc comment", s.path, s.line(d), d.Name.Name)
				}
			case *ast.GenDecl:
				checkSpecs(t, s, d)
			}
		}
	}
}

// obvious are methods whose meaning an interface of the standard library fixes.
func obvious(d *ast.FuncDecl) bool {
	return d.Recv != nil && slices.Contains([]string{"Error", "Unwrap", "Is", "String", "Len", "Less", "Swap", "Write", "Read",
		"Close", "ServeHTTP", "RoundTrip", "Set", "Type", "Enabled", "Handle", "WithAttrs", "WithGroup"}, d.Name.Name)
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	e := d.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}

func checkSpecs(t *testing.T, s source, d *ast.GenDecl) {
	t.Helper()
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Name.IsExported() && d.Doc == nil && spec.Doc == nil {
				t.Errorf("%s:%d: type %s has no doc comment", s.path, s.line(spec), spec.Name.Name)
			}
		case *ast.ValueSpec:
			for _, n := range spec.Names {
				if n.IsExported() && d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
					t.Errorf("%s:%d: %s has no doc comment", s.path, s.line(spec), n.Name)
				}
			}
		}
	}
}

func TestTestsDoNotSleep(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if !s.test() {
			continue
		}
		bubble := bytes.Contains(readFile(t, s.path), []byte(`"testing/synctest"`))
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok || sel.Sel.Name != "Sleep" || bubble {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" {
				t.Errorf("%s:%d sleeps; wait for the event instead", s.path, s.line(n))
			}
			return true
		})
	}
}

func readFile(t *testing.T, rel string) []byte {
	t.Helper()
	p, err := os.ReadFile(filepath.Join(root(t), filepath.FromSlash(rel)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestTheProjectSpeaksOnlyOfItself keeps out paths of a developer's machine, hosts of package registries and notes of
// unfinished work. The words are joined here so that this file does not hold them.
func TestTheProjectSpeaksOnlyOfItself(t *testing.T) {
	t.Parallel()
	banned := []string{"/wo" + "rk/", "/ro" + "ot/", "/ho" + "me/", "proxy." + "golang.org", "registry." + "npmjs.org", "deb." + "debian.org",
		"TO" + "DO", "FIX" + "ME", "XX" + "X:", "Her" + "mes", "Nous" + "Research"}
	for _, f := range tracked(t) {
		if f == "go.sum" || strings.Contains(f, "testdata/fuzz") {
			continue
		}
		sc := bufio.NewScanner(bytes.NewReader(readFile(t, f)))
		sc.Buffer(nil, 16<<20)
		for n := 1; sc.Scan(); n++ {
			for _, b := range banned {
				if strings.Contains(sc.Text(), b) {
					t.Errorf("%s:%d says %q", f, n, b)
				}
			}
		}
	}
}
