package catalog

// hit is one document that a query found.
type hit struct {
	doc   int     // a position of the catalog, or Len()+i for extra document i
	score float64 // +Inf for the exact name
}

// extraDoc is a document beside the catalog's, indexed for one query.
type extraDoc struct {
	name string // as a query may spell it in full
	text string // what is indexed of it
}

// rank finds the documents of set, and the extra ones, that answer a query, best first and at most limit of them, and
// how many there are in all.
func rank(c *Catalog, set *Set, query string, limit int, extra []extraDoc) ([]hit, int) {
	return nil, 0
}
