package subjects

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// AssembleRequest asks for the tools that a model should see and for a scope to search, describe and call in.
// Exactly one of Tools and Catalog is set.
type AssembleRequest struct {
	// Tools is a JSON array of [Tool] values. It stays raw because its exact bytes name the catalog.
	Tools json.RawMessage `json:"tools,omitempty"`
	// Catalog is the name, "sha256:<hex>", of a catalog that a worker already stored.
	Catalog string `json:"catalog,omitempty"`
	// EnabledToolsets: nil grants all, an empty list none.
	EnabledToolsets *[]string `json:"enabled_toolsets,omitempty"`
	// DisabledToolsets are subtracted last; RequiredToolsets survive that.
	DisabledToolsets []string `json:"disabled_toolsets,omitempty"`
	RequiredToolsets []string `json:"required_toolsets,omitempty"`
	// ParentScope intersects: nothing is granted that the parent's scope does not hold.
	ParentScope string `json:"parent_scope,omitempty"`
	// ContextLength is the model's window in tokens; nil, 0 or negative is unknown.
	ContextLength *int64 `json:"context_length,omitempty"`
	// Config is laid over the worker's own tool_search configuration, field by field; true and false as on the product page.
	Config json.RawMessage `json:"config,omitempty"`
	// CoreTools replaces the worker's list of names that never defer by class.
	CoreTools *[]string `json:"core_tools,omitempty"`
	// Connectors says whether connectors__ tools are granted; nil: granted if a tool named manage_connections is.
	Connectors *bool   `json:"connectors,omitempty"`
	Surface    Surface `json:"surface,omitempty"`
	Format     Format  `json:"format,omitempty"`
	Hooks      *Hooks  `json:"hooks,omitempty"`
	// UnavailableSources are declared servers that are not running; they are listed and never counted.
	UnavailableSources []UnavailableSource `json:"unavailable_sources,omitempty"`
}

// AppendAssembleRequest appends r as JSON, with the bytes of Tools as they are: encoding/json would compact them, and
// the catalog's name is the digest of exactly these bytes.
func AppendAssembleRequest(dst []byte, r *AssembleRequest) ([]byte, error) {
	rest := *r
	rest.Tools = nil
	p, err := Marshal(&rest)
	if err != nil {
		return dst, fmt.Errorf("subjects: assemble request: %w", err)
	}
	if r.Tools == nil {
		return append(dst, p...), nil
	}
	dst = slices.Grow(dst, len(r.Tools)+len(p)+len(`"tools":,`))
	dst = append(dst, `{"tools":`...)
	dst = append(dst, r.Tools...)
	if len(p) > len("{}") {
		dst = append(dst, ',')
	}
	return append(dst, p[1:]...), nil
}

// Tool is one element of an assemble request's tools.
type Tool struct {
	// Toolset is the tool's toolset; empty means unregistered, which never defers unless named in defer.
	Toolset string `json:"toolset,omitempty"`
	// Tool is one definition in any of the four shapes: OpenAI, bare, MCP or Anthropic.
	Tool json.RawMessage `json:"tool"`
	// Host is the tool host on the bus that runs it; empty means the caller does.
	Host string `json:"host,omitempty"`
	// Parallel says that the tool's server allows calls side by side.
	Parallel bool `json:"parallel,omitempty"`
}

// Surface says how a missing connection is told.
type Surface string

// The surfaces: a link for the user, a card in the session's interface, or a side agent that can only report back.
const (
	SurfaceLink Surface = "link"
	SurfaceCard Surface = "card"
	SurfaceSide Surface = "side"
)

// Format is the shape in which the bridge tools come back.
type Format string

// The shapes of a tool definition.
const (
	FormatOpenAI    Format = "openai"
	FormatBare      Format = "bare"
	FormatMCP       Format = "mcp"
	FormatAnthropic Format = "anthropic"
)

// Hooks asks the session's policy before each tool runs here (Pre) and tells it after (Post).
type Hooks struct {
	Pre       bool `json:"pre,omitempty"`
	Post      bool `json:"post,omitempty"`
	TimeoutMS int  `json:"timeout_ms,omitempty"` // 0 is 300000
}

// UnavailableSource is a declared server whose tools cannot be reached now.
type UnavailableSource struct {
	Name      string `json:"name"`
	ToolCount *int   `json:"tool_count,omitempty"`
	Reason    string `json:"reason"`
}

// AssembleReply is what assemble answers.
type AssembleReply struct {
	Scope           string         `json:"scope"`
	Catalog         string         `json:"catalog"`
	ExpiresAt       time.Time      `json:"expires_at"`
	Activated       bool           `json:"activated"`
	Tier            int            `json:"tier"`
	ListingForm     string         `json:"listing_form"` // full, names, mixed, groups or none
	DeferredCount   int            `json:"deferred_count"`
	DeferredTokens  int            `json:"deferred_tokens"`
	ListingBudget   int            `json:"listing_budget"`
	UnknownToolsets []string       `json:"unknown_toolsets"`
	RejectedTools   []RejectedTool `json:"rejected_tools"`
	// Tools are the visible definitions, byte for byte as they came, then the three bridge tools.
	Tools []json.RawMessage `json:"tools"`
}

// RejectedTool is a definition that was left out, and why.
type RejectedTool struct {
	Name    string `json:"name"`
	Toolset string `json:"toolset"`
	Reason  string `json:"reason"`
}
