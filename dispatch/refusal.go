package dispatch

import "encoding/json"

// Refusal answers a call whose arguments do not match the tool's schema. It is an ordinary reply to the model and
// carries nothing beyond these five members, in this order. The tool was not invoked.
type Refusal struct {
	// Message names the tool, the place and what is wrong there; at most [MaxErrorText] characters.
	Message string `json:"error"`
	// Path is where: "arguments", then ".key" for a plain identifier, "[0]" for an item and ["any key"] otherwise.
	Path string `json:"path"`
	// Constraint is the keyword of the schema that failed.
	Constraint string `json:"constraint"`
	// Parameters is the tool's whole parameter schema as it was registered.
	Parameters json.RawMessage `json:"parameters"`
	// Hint is the next step.
	Hint string `json:"hint"`
}

func (r *Refusal) Error() string { return r.Message }
