package dispatch

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds beyond which a schema, or arguments under it, are not validated, because it could not be done in sane time
// and memory. Such a call goes ahead, as under a schema that is broken. The largest schema of 45 public servers with
// 6,500 tools has 6,343 values, 24 levels and 62 values in one enum.
const (
	maxSchemaBytes  = 1 << 20
	maxSchemaDepth  = 128
	maxSchemaValues = 20_000
	// maxArgumentValues is the most values (scalars, arrays, objects) in one call's arguments.
	maxArgumentValues = 250_000
	// maxSteps is the most schema nodes that are applied in one validation; see allowance. Branches within branches can
	// multiply.
	maxSteps = 1_000_000
	// maxMatching bounds the work of all patterns, in instructions of their programs times bytes of text.
	maxMatching = 200_000_000
	// maxComparisons bounds the values of all enums, numbers counted 50 times, times the values of the arguments.
	maxComparisons = 20_000_000
	// maxStack bounds the depth of the arguments times the longest chain of nodes that apply to one value.
	maxStack = 20_000
)

var (
	errTooLarge = errors.New("the schema is too large to validate with")
	errArgs     = errors.New("the arguments are too large to validate")
	errEndless  = errors.New("the schema refers to itself without an end")
	errSteps    = errors.New("the validation takes too many steps")
)

// schema is a tool's parameter schema, ready for use: the view for coercion, and the compiled form for validation.
// It is immutable and shared by all calls.
type schema struct {
	shape    *shape   // nil: nothing to coerce by
	required []string // the top level's
	// tree is the schema that was compiled; broken says why there is none.
	tree   *value
	broken error

	enumerated int // the cost of comparing one value with those of all enums
	chain      int // the longest chain of nodes that apply to one value
	size       int // bytes held, roughly

	spare chan *checker // compiled copies that no call uses
}

// newSchema reads a schema. It never fails: what cannot be used is noted.
func newSchema(parameters []byte) *schema {
	s := &schema{size: len(parameters)}
	tree, err := readSchema(parameters)
	if err != nil {
		s.broken = err
		return s
	}
	s.shape = newShape(tree)
	s.required = tree.array("required").strings()
	if err := s.prepare(tree); err != nil {
		s.broken, s.tree, s.spare = err, nil, nil
	}
	return s
}

func readSchema(parameters []byte) (*value, error) {
	if len(parameters) > maxSchemaBytes {
		return nil, errTooLarge
	}
	text, err := canonical(parameters, maxSchemaDepth)
	if err != nil {
		return nil, err
	}
	if text[0] != '{' {
		return nil, errors.New("the schema is no object")
	}
	tree := parse(text)
	if tree.count() > maxSchemaValues {
		return nil, errTooLarge
	}
	return tree, nil
}

func (v *value) count() int {
	n := 1
	for _, item := range v.items {
		n += item.count()
	}
	for _, m := range v.members {
		n += m.value.count()
	}
	return n
}

// prepare compiles the schema once, to know that it can be.
func (s *schema) prepare(tree *value) error {
	r := rewriter{}
	rewritten, err := r.rewrite(tree)
	if err != nil {
		return err
	}
	s.tree, s.enumerated = rewritten, r.enumerated
	s.chain = longestChain(rewritten)
	c, err := newChecker(rewritten)
	if err != nil {
		return err
	}
	s.spare = make(chan *checker, spareCheckers)
	s.spare <- c
	s.size = len(s.tree.append(nil)) * memoryFactor
	return nil
}

const (
	// spareCheckers is how many compiled copies of a schema are kept for calls side by side.
	spareCheckers = 2
	// memoryFactor is the bytes that a schema holds for each byte of its text, copies included, as measured.
	memoryFactor = 24
)

// checker is one compiled copy of a schema, used by one validation at a time.
type checker struct {
	compiled *jsonschema.Schema
	steps    steps
}

// steps counts down what a validation may still do. When it is used up it panics with errSteps, since the library
// cannot be stopped otherwise; run recovers it.
type steps struct{ nodes, matching int }

// allowance is what the validation of arguments of this size may take. Real schemas apply a few nodes to each value,
// and each node costs more the deeper the value stands.
func allowance(values, depth int) steps {
	return steps{nodes: min(maxSteps, 20_000+20*values) / (1 + depth/64), matching: maxMatching}
}

func (s *steps) node() {
	if s.nodes--; s.nodes < 0 {
		panic(errSteps)
	}
}

func (s *steps) match(work int) {
	if s.matching -= work; s.matching < 0 {
		panic(errSteps)
	}
}

// schemaURL is the base of references within a schema; it leads nowhere.
const schemaURL = "toolsearch:///parameters"

func newChecker(tree *value) (c *checker, err error) {
	defer func() {
		if r := recover(); r != nil {
			c, err = nil, fmt.Errorf("the schema cannot be compiled: %v", r)
		}
	}()
	c = &checker{}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	compiler.UseRegexpEngine(func(ecma string) (jsonschema.Regexp, error) {
		return newMeteredPattern(ecma, &c.steps)
	})
	compiler.AssertFormat()
	compiler.RegisterFormat(&jsonschema.Format{Name: tickFormat, Validate: func(any) error {
		c.steps.node()
		return nil
	}})
	if err := compiler.AddResource(schemaURL, tree.plain()); err != nil {
		return nil, err
	}
	if c.compiled, err = compiler.Compile(schemaURL); err != nil {
		return nil, err
	}
	return c, nil
}

// noLoader refuses every reference that is not part of the schema itself. Nothing is ever fetched.
type noLoader struct{}

// Load refuses.
func (noLoader) Load(string) (any, error) { return nil, errOutside }

// run validates decoded arguments within an allowance. It returns the failure tree of the library, nil if there is
// none, and an error if the validation could not be finished.
func (s *schema) run(arguments any, allowed steps) (failed *jsonschema.ValidationError, err error) {
	var c *checker
	select {
	case c = <-s.spare:
	default:
		if c, err = newChecker(s.tree); err != nil {
			return nil, err
		}
	}
	defer func() {
		select {
		case s.spare <- c:
		default:
		}
		if r := recover(); r != nil {
			failed, err = nil, fmt.Errorf("the validation broke off: %v", r)
		}
	}()
	c.steps = allowed
	if err := c.compiled.Validate(arguments); err != nil {
		if !errors.As(err, &failed) {
			return nil, err
		}
	}
	return failed, nil
}

// inPlace are the keywords whose schemas apply to the same value as the schema that they stand in.
var inPlace = []string{"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}

// longestChain is the length of the longest chain of schemas that apply to one and the same value, the size of the
// whole tree if one leads back to itself.
func longestChain(root *value) int {
	c := chains{root: root, known: map[*value]int{}}
	c.every(root)
	if c.circle {
		return root.count()
	}
	return c.longest
}

type chains struct {
	root    *value
	known   map[*value]int // 0 while at work
	longest int
	circle  bool
}

// every measures from each node of the tree.
func (c *chains) every(v *value) {
	c.from(v)
	for _, item := range v.items {
		c.every(item)
	}
	for _, m := range v.members {
		c.every(m.value)
	}
}

func (c *chains) from(v *value) int {
	if v == nil || v.kind != kindObject || c.circle {
		return 0
	}
	n, seen := c.known[v]
	if seen {
		c.circle = c.circle || n == 0
		return n
	}
	c.known[v] = 0
	for _, m := range v.members {
		switch {
		case m.key == "$ref" && m.value.kind == kindString:
			target := c.root.resolve(m.value.text)
			c.circle = c.circle || target == nil // an anchor, which may be anywhere
			n = max(n, c.from(target))
		case m.key == "$dynamicRef" || m.key == "$recursiveRef":
			c.circle = true // where it leads depends on the way: assume the worst
		case slices.Contains(inPlace, m.key):
			n = max(n, c.from(m.value))
			for _, item := range m.value.items {
				n = max(n, c.from(item))
			}
			for _, named := range m.value.members {
				n = max(n, c.from(named.value))
			}
		}
	}
	c.known[v] = n + 1
	c.longest = max(c.longest, n+1)
	return n + 1
}

// schemas holds the schemas of all tools that were called, by the content of their text. Tenants share it: it holds
// nothing but what the key determines.
var schemas = newSchemaCache(maxCacheBytes)

// maxCacheBytes bounds what the cache holds.
const maxCacheBytes = 64 << 20

// schemaCache keeps the most recently used schemas within a bound of bytes and reads each once, however many calls
// ask at the same time.
type schemaCache struct {
	mu    sync.Mutex
	lru   *simplelru.LRU[[sha256.Size]byte, *cachedSchema]
	bytes int
	limit int
}

type cachedSchema struct {
	once   sync.Once
	schema *schema
	size   int // counted in bytes; 0 until it is
}

func newSchemaCache(limit int) *schemaCache {
	c := &schemaCache{limit: limit}
	// The bound is in bytes; the count only has to be out of reach.
	c.lru, _ = simplelru.NewLRU(1<<20, func(_ [sha256.Size]byte, e *cachedSchema) { c.bytes -= e.size })
	return c
}

// of returns the schema of a text.
func (c *schemaCache) of(parameters json.RawMessage) *schema {
	if len(parameters) > maxSchemaBytes {
		return &schema{broken: errTooLarge}
	}
	key := sha256.Sum256(parameters)
	c.mu.Lock()
	e, ok := c.lru.Get(key)
	if !ok {
		e = &cachedSchema{}
		c.lru.Add(key, e)
	}
	c.mu.Unlock()
	e.once.Do(func() {
		e.schema = newSchema(parameters)
		c.count(key, e)
	})
	return e.schema
}

// count adds a schema's size and drops the least recently used ones until the bound holds again.
func (c *schemaCache) count(key [sha256.Size]byte, e *cachedSchema) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now, ok := c.lru.Peek(key); !ok || now != e {
		return
	}
	e.size = e.schema.size + 512
	c.bytes += e.size
	for c.bytes > c.limit && c.lru.Len() > 1 {
		c.lru.RemoveOldest()
	}
}
