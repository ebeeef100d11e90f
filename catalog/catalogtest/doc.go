// Package catalogtest loads what tests of several packages share: the real tool lists and the conformance vectors that
// lie in a folder named shared beside the module, and made-up catalogs of any size.
//
// It deals in JSON only and knows nothing of package catalog, so that the tests of that package can use it too:
//
//	tools := catalogtest.Array(catalogtest.File(t, "github.json")) // the value of an assemble request's field tools
//	for v := range catalogtest.Vectors(t, "rank.jsonl") { ... } // each case of each folder of vectors
//	many := catalogtest.Generated(9_000)
//
// Where the shared folder is missing, a test that needs it is skipped and says so. The environment variable
// TOOLSEARCH_VECTORS, a list of folders separated like a search path, takes the place of ../shared/vectors; each folder
// has a sets.json of its own, and a folder named catalogs beside it.
//
// # Invariants
//
//   - Nothing is ever written to the shared folders.
//   - What is read is cached and must not be changed by a test.
package catalogtest
