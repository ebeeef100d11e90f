package catalogfile_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"toolsearch/cmd/toolsearch/internal/catalogfile"
	"toolsearch/subjects"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// write puts files into a new folder and returns it.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestReadFormats(t *testing.T) {
	t.Parallel()
	const openAI = `{"type":"function", "function":{"name":"a"}}`
	const mcp = `{"name": "b", "inputSchema": {"type":"object"}}`
	tool := func(toolset, def string) subjects.Tool {
		return subjects.Tool{Toolset: toolset, Tool: json.RawMessage(def)}
	}
	for name, test := range map[string]struct {
		text  string
		want  []subjects.Tool
		notes int
	}{
		"catalog file":      {`{"server":"s","toolset":"mcp-s","tools":[` + openAI + `]}`, []subjects.Tool{tool("mcp-s", openAI)}, 0},
		"tools/list result": {`{"tools":[` + mcp + `]}`, []subjects.Tool{tool("mcp-file", mcp)}, 0},
		"JSON-RPC answer": {`{"jsonrpc":"2.0","id":1,"result":{"tools":[` + mcp + `],"nextCursor":"x"}}`,
			[]subjects.Tool{tool("mcp-file", mcp)}, 1},
		"array":          {"\xef\xbb\xbf [" + openAI + ",\n" + mcp + "]\n", []subjects.Tool{tool("mcp-file", openAI), tool("mcp-file", mcp)}, 0},
		"empty":          {`[]`, nil, 0},
		"envelope":       {`[{"toolset":"web","tool":` + mcp + `}]`, []subjects.Tool{tool("web", mcp)}, 0},
		"unregistered":   {`[{"toolset":"","tool":` + mcp + `}]`, []subjects.Tool{tool("", mcp)}, 0},
		"file's toolset": {`{"toolset":"x","tools":[{"tool":` + mcp + `}]}`, []subjects.Tool{tool("x", mcp)}, 0},
		"no envelope":    {`[{"name":"b","tool":"hammer"}]`, []subjects.Tool{tool("mcp-file", `{"name":"b","tool":"hammer"}`)}, 0},
		"host and parallel": {`[{"toolset":"t","host":"mcp-1","parallel":true,"tool":` + mcp + `}]`,
			[]subjects.Tool{{Toolset: "t", Host: "mcp-1", Parallel: true, Tool: json.RawMessage(mcp)}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, err := catalogfile.Read(filepath.Join(write(t, map[string]string{"file.json": test.text}), "file.json"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, set.Tools); diff != "" {
				t.Error(diff)
			}
			if len(set.Notes) != test.notes {
				t.Errorf("notes %q, want %d", set.Notes, test.notes)
			}
			var back []subjects.Tool
			if err := json.Unmarshal(set.JSON(), &back); err != nil {
				t.Fatal(err)
			}
			if len(back) != len(test.want) || (len(back) > 0 && !cmp.Equal(back, test.want)) {
				t.Errorf("JSON() = %s", set.JSON())
			}
		})
	}
}

func TestReadFolder(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{
		"b.json": `[{"name":"b"}]`, "a.JSON": `[{"name":"a"}]`,
		"INDEX.md": "# no catalog", "deeper/c.json": `not read`, "notes.json.bak": "",
	})
	extra := filepath.Join(write(t, map[string]string{"x.json": `[{"name":"x"}]`}), "x.json")
	set, err := catalogfile.Read(extra, dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, tool := range set.Tools {
		got = append(got, tool.Toolset+" "+string(tool.Tool))
	}
	want := []string{`mcp-x {"name":"x"}`, `mcp-a {"name":"a"}`, `mcp-b {"name":"b"}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(set.Files) != 3 {
		t.Errorf("files %q", set.Files)
	}
}

func TestReadErrors(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, want string }{
		"empty":              {" \n", "the file is empty"},
		"not JSON":           {"{\"tools\": [\n  {\"name\": }\n]}", "not JSON (line 2, column 12)"},
		"cut":                {`{"tools": [`, "not JSON (line 1"},
		"two documents":      {`[] []`, "not JSON (line 1"},
		"null":               {`null`, "holds no tools"},
		"text":               {`"tools"`, "holds no tools"},
		"no tools":           {`{"server":"s"}`, "holds no tools"},
		"error answer":       {`{"jsonrpc":"2.0","error":{"code":-32601}}`, "holds an error answer"},
		"tools not an array": {`{"tools":{"a":1}}`, "tools is not an array"},
		"wrong type":         {`{"toolset":7,"tools":[]}`, `field "toolset" is a JSON number`},
		"element no object":  {`[{"name":"a"}, 7]`, "tools[1] is not an object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(write(t, map[string]string{"file.json": test.text}), "file.json")
			_, err := catalogfile.Read(path)
			var ce *catalogfile.Error
			if !errors.As(err, &ce) || ce.Path != path {
				t.Fatalf("got %v, want a *catalogfile.Error of %s", err, path)
			}
			if !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %q, want it to name the file and %q", err, test.want)
			}
		})
	}
}

func TestReadMissing(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"README.md": ""})
	for path, want := range map[string]string{
		filepath.Join(dir, "none.json"): "cannot be read",
		dir:                             "no .json file",
	} {
		if _, err := catalogfile.Read(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Read(%s) = %v, want %q", path, err, want)
		}
	}
}
