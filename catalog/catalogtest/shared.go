package catalogtest

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// FoldersVariable names the environment variable that lists the folders of vectors.
const FoldersVariable = "TOOLSEARCH_VECTORS"

// ModuleRoot is the folder of the go.mod above the working directory, which for a test is its package.
func ModuleRoot(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		above := filepath.Dir(dir)
		if above == dir {
			tb.Fatal("no go.mod above the working directory")
		}
		dir = above
	}
}

// VectorFolders are the folders of vectors. The test is skipped if there are none.
func VectorFolders(tb testing.TB) []string {
	tb.Helper()
	if list := os.Getenv(FoldersVariable); list != "" {
		return filepath.SplitList(list)
	}
	folder := filepath.Join(ModuleRoot(tb), "..", "shared", "vectors")
	if _, err := os.Stat(folder); err != nil {
		tb.Skipf("the conformance vectors are not at ../shared/vectors beside the module; set %s to run them", FoldersVariable)
	}
	return []string{folder}
}

// CatalogFolder is the folder of real tool lists: the first that lies beside a folder of vectors, or else the shared one.
// The test is skipped if there is none.
func CatalogFolder(tb testing.TB) string {
	tb.Helper()
	for _, vectors := range append(VectorFolders(tb), filepath.Join(ModuleRoot(tb), "..", "shared", "vectors")) {
		folder := filepath.Join(filepath.Dir(vectors), "catalogs")
		if _, err := os.Stat(folder); err == nil {
			return folder
		}
	}
	tb.Skip("the tool lists are not in a folder named catalogs beside the vectors")
	return ""
}

// Files are the names of the real tool lists, sorted: "github.json" and the like.
func Files(tb testing.TB) []string {
	tb.Helper()
	paths, err := filepath.Glob(filepath.Join(CatalogFolder(tb), "*.json"))
	if err != nil || len(paths) == 0 {
		tb.Fatalf("no tool lists in %s: %v", CatalogFolder(tb), err)
	}
	names := make([]string, len(paths))
	for i, p := range paths {
		names[i] = filepath.Base(p)
	}
	slices.Sort(names)
	return names
}

// Read is the content of one of the real tool lists.
func Read(tb testing.TB, name string) []byte {
	tb.Helper()
	return read(tb, filepath.Join(CatalogFolder(tb), name))
}

var contents sync.Map // from path to content

func read(tb testing.TB, path string) []byte {
	tb.Helper()
	if data, ok := contents.Load(path); ok {
		return data.([]byte)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	contents.Store(path, data)
	return data
}
