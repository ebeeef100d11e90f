package dispatch

import "encoding/json"

// MaxBatch is the most entries of one connector batch.
const MaxBatch = 10

// Entry is one call of a tool: what a model meant, whatever shape it sent.
type Entry struct {
	// Name is the tool's name, trimmed and not blank; whether there is such a tool is not known yet.
	Name string `json:"name"`
	// Arguments is one JSON object with unique keys, no deeper than [MaxDepth]; "{}" where the model gave none.
	Arguments json.RawMessage `json:"arguments"`
}
