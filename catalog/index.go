package catalog

type index struct{}

func (*index) size() int64 { return 0 }

type indexer struct{}

func newIndexer() *indexer { return &indexer{} }

func (x *indexer) add(t *Tool, properties [][]byte) {}

func (x *indexer) finish() *index { return &index{} }

type setLengths struct{}
