package catalog

import "toolsearch/subjects"

// The bounds of one catalog and of what stands in it. Those of [Limits] can be set; the others are fixed, because equal
// catalogs must be read alike by every worker.
const (
	// DefaultMaxBytes is the size of the largest catalog, in bytes of its JSON.
	DefaultMaxBytes = 64 << 20
	// DefaultMaxTools is the number of elements of the largest catalog.
	DefaultMaxTools = 50_000
	// MaxName is the longest name of a tool or of a toolset, in bytes.
	MaxName = 256
	// MaxNesting is how deep objects and arrays may stand inside each other in one element of the catalog.
	MaxNesting = 256
	// MaxDifferentWords is how many different words a catalog may have in all that is indexed of it. It bounds the
	// memory of the index against texts that are made to fill it; real catalogs have a few per tool.
	MaxDifferentWords = 1 << 20
	// MaxQueryWords is how many words of one query are read; what follows them is ignored. It bounds the work that one
	// query can ask for, far above what a model ever writes.
	MaxQueryWords = 1024
)

// maxSyntaxNesting is the depth at which JSON as a whole is refused, as encoding/json does.
const maxSyntaxNesting = 10_000

// Limits bounds one catalog. The zero value is the contract's.
type Limits struct {
	// MaxBytes bounds the JSON of the tools. 0 is [DefaultMaxBytes].
	MaxBytes int
	// MaxTools bounds the number of elements, rejected ones included. 0 is [DefaultMaxTools].
	MaxTools int
}

func (l Limits) withDefaults() Limits {
	if l.MaxBytes <= 0 {
		l.MaxBytes = DefaultMaxBytes
	}
	if l.MaxTools <= 0 {
		l.MaxTools = DefaultMaxTools
	}
	return l
}

// checkBytes refuses a catalog that is too long before anything of it is read.
func (l Limits) checkBytes(n int) error {
	if n <= l.MaxBytes {
		return nil
	}
	return subjects.Errorf(subjects.CodeTooLarge,
		"the catalog has %d bytes, over the bound of %d bytes for one catalog; send fewer tools", n, l.MaxBytes)
}

func (l Limits) tooManyTools() error {
	return subjects.Errorf(subjects.CodeTooLarge,
		"the catalog has more than %d tools, the bound for one catalog; send fewer tools", l.MaxTools)
}

func tooManyWords() error {
	return subjects.Errorf(subjects.CodeTooLarge,
		"the names and descriptions of the catalog have more than %d different words, the bound for one catalog; send fewer tools",
		MaxDifferentWords)
}
