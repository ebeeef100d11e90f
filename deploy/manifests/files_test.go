package manifests

import (
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"
)

// deploy is the folder of all that is tested here.
const deploy = ".."

func read(t *testing.T, elem ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(append([]string{deploy}, elem...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// readYAML reads a file that holds one document; a key given twice is an error.
func readYAML(t *testing.T, into any, elem ...string) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(read(t, elem...)), into); err != nil {
		t.Fatalf("%s: %v", filepath.Join(elem...), err)
	}
}

// glob lists the files that match and fails if there are none.
func glob(t *testing.T, elem ...string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(append([]string{deploy}, elem...)...))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("no file matches %s", filepath.Join(elem...))
	}
	return files
}
