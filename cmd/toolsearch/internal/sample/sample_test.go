package sample_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.uber.org/goleak"

	"toolsearch/cmd/toolsearch/internal/sample"
	"toolsearch/subjects"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type definition struct {
	Function struct {
		Name        string
		Description string
		Parameters  json.RawMessage
	}
}

func read(t *testing.T, tool subjects.Tool) definition {
	t.Helper()
	var d definition
	if err := json.Unmarshal(tool.Tool, &d); err != nil {
		t.Fatalf("%s: %v", tool.Tool, err)
	}
	return d
}

func TestTools(t *testing.T) {
	t.Parallel()
	tools := sample.Tools()
	if len(tools) < 950 || len(tools) > 1300 || sample.Servers() < 25 {
		t.Errorf("%d tools of %d servers, want about a thousand of at least 25", len(tools), sample.Servers())
	}
	name := regexp.MustCompile(`^[a-z0-9_-]{1,64}$`)
	seen := map[string]bool{}
	compiler := jsonschema.NewCompiler()
	for _, tool := range tools {
		f := read(t, tool).Function
		if !name.MatchString(f.Name) || seen[f.Name] {
			t.Errorf("%s: not a name, or not unique", f.Name)
		}
		seen[f.Name] = true
		if strings.ContainsAny(f.Description, "{}") || !strings.HasSuffix(f.Description, ".") {
			t.Errorf("%s: description %q", f.Name, f.Description)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(f.Parameters))
		if err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprintf("mem:%s", f.Name)
		if err := compiler.AddResource(id, doc); err != nil {
			t.Fatal(err)
		}
		if _, err := compiler.Compile(id); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
}

func TestSameBytes(t *testing.T) {
	t.Parallel()
	if !bytes.Equal(sample.JSON(sample.Tools()), sample.JSON(sample.Tools())) {
		t.Error("two calls gave different bytes")
	}
}

func TestSized(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 3, 40, 1000, 5000} {
		tools := sample.Sized(n)
		if len(tools) != n {
			t.Errorf("Sized(%d) made %d", n, len(tools))
		}
		seen := map[string]bool{}
		for _, tool := range tools {
			name := read(t, tool).Function.Name
			if seen[name] {
				t.Errorf("Sized(%d): %s twice", n, name)
			}
			seen[name] = true
		}
	}
}
