package catalog

import (
	"encoding/json"
	"fmt"
	"slices"

	"toolsearch/subjects"
)

// documentVersion is the form of a scope's document. A worker that meets another one asks for a new assemble.
const documentVersion = 1

// ScopeDocument is a scope as it is stored: all that its answers depend on beside its catalog. It is written as compact
// JSON with its keys in this order, so equal scopes have equal documents and one name.
type ScopeDocument struct {
	Version int    `json:"v"`
	Tenant  string `json:"tenant"`
	Session string `json:"session"`
	// Catalog is the digest of the catalog that the sets of positions belong to.
	Catalog string `json:"catalog"`
	// Toolsets are the toolsets of the granted tools, sorted. They are for whoever reads the document; what counts is
	// Granted.
	Toolsets []string `json:"toolsets"`
	// Granted is the set of granted tools as [Set.AppendBinary] writes it; absent where all are.
	Granted    []byte `json:"granted,omitempty"`
	Connectors bool   `json:"connectors"`
	Config     Config `json:"config"`
	// CoreTools is absent for the list of [DefaultCoreTools].
	CoreTools          *[]string                    `json:"core_tools,omitempty"`
	ContextLength      int64                        `json:"context_length,omitempty"`
	Surface            subjects.Surface             `json:"surface"`
	Format             subjects.Format              `json:"format"`
	Hooks              *subjects.Hooks              `json:"hooks,omitempty"`
	UnavailableSources []subjects.UnavailableSource `json:"unavailable_sources,omitempty"`
	UnknownToolsets    []string                     `json:"unknown_toolsets,omitempty"`

	handle string
}

// Document is the scope's document, compact JSON of a [ScopeDocument]. Its SHA-256 is the scope's handle.
func (s *Scope) Document() []byte {
	d := ScopeDocument{
		Version: documentVersion, Tenant: s.owner.Tenant, Session: s.owner.Session, Catalog: s.catalog.digest,
		Toolsets: s.toolsets(), Granted: s.grantedBytes(), Connectors: s.connectors, Config: s.config,
		ContextLength: s.context, Surface: s.surface, Format: s.format, Hooks: s.hooks,
		UnavailableSources: s.unavailable, UnknownToolsets: s.unknown,
	}
	if s.core != nil {
		d.CoreTools = &s.core
	}
	p, err := subjects.Marshal(&d)
	if err != nil {
		// Nothing in it can fail: strings, whole numbers, booleans, and one float that its bounds keep finite.
		panic("catalog: scope document: " + err.Error())
	}
	return p
}

// toolsets lists the toolsets of the granted tools.
func (s *Scope) toolsets() []string {
	seen := map[string]bool{}
	last := ""
	for _, half := range [...]*Set{s.visible, s.deferred} {
		for i := range half.All() {
			if toolset := s.catalog.tools[i].Toolset; toolset != last {
				seen[toolset] = true
				last = toolset
			}
		}
	}
	delete(seen, "")
	list := make([]string, 0, len(seen))
	for toolset := range seen {
		list = append(list, toolset)
	}
	slices.Sort(list)
	return list
}

// grantedBytes is the granted tools for the document, nil where they are all that can be granted.
func (s *Scope) grantedBytes() []byte {
	granted := s.Granted()
	if granted.Len() == s.catalog.Len()-bridgeNames(s.catalog) {
		return nil
	}
	p, err := granted.AppendBinary(nil)
	if err != nil {
		panic("catalog: scope document: " + err.Error()) // AppendBinary never fails; the error is of its interface
	}
	return p
}

// bridgeNames counts the tools of a catalog that carry a bridge tool's name. They are never granted.
func bridgeNames(c *Catalog) (n int) {
	for _, name := range [...]string{BridgeSearch, BridgeDescribe, BridgeCall} {
		if _, ok := c.Lookup(name); ok {
			n++
		}
	}
	return n
}

// ParseScopeDocument reads a scope's document, to learn which catalog it needs. The error is a *[subjects.Error],
// SCOPE_NOT_FOUND: a document that this worker cannot read, whether damaged or of a later version, is as good as none,
// and assembling again mends it.
func ParseScopeDocument(doc []byte) (*ScopeDocument, error) {
	if len(doc) > MaxScopeDocument {
		return nil, unreadable(fmt.Errorf("it has %d bytes, over the bound of %d", len(doc), MaxScopeDocument))
	}
	var d ScopeDocument
	if err := json.Unmarshal(doc, &d); err != nil {
		return nil, unreadable(err)
	}
	if err := d.validate(); err != nil {
		return nil, unreadable(err)
	}
	d.handle = subjects.Digest(doc)
	return &d, nil
}

func unreadable(cause error) error {
	return &subjects.Error{
		Code: subjects.CodeScopeNotFound, Message: "the stored scope cannot be read here; assemble again", Err: cause,
	}
}

func (d *ScopeDocument) validate() error {
	switch {
	case d.Version != documentVersion:
		return fmt.Errorf("version %d, this worker reads %d", d.Version, documentVersion)
	case !subjects.ValidToken(d.Tenant), !subjects.ValidToken(d.Session):
		return fmt.Errorf("tenant or session is no token")
	case !subjects.ValidDigest(d.Catalog):
		return fmt.Errorf("catalog is no digest")
	case !validSurface(d.Surface), !validFormat(d.Format):
		return fmt.Errorf("unknown surface or format")
	case d.Hooks != nil && (!validHooks(d.Hooks) || d.Hooks.TimeoutMS == 0):
		return fmt.Errorf("hooks out of bounds")
	case d.ContextLength < 0:
		return fmt.Errorf("negative context length")
	}
	return d.Config.validate()
}

// OpenScope makes the scope of a document again, over the catalog that the document names. The error is a
// *[subjects.Error]: SCOPE_NOT_FOUND for sets that do not fit the catalog, INTERNAL for another catalog.
func OpenScope(c *Catalog, d *ScopeDocument) (*Scope, error) {
	if c.digest != d.Catalog {
		return nil, subjects.Errorf(subjects.CodeInternal, "the scope belongs to another catalog than the one that was loaded for it")
	}
	granted := FullSet(c.Len())
	if d.Granted != nil {
		set, err := ParseSet(c.Len(), d.Granted)
		if err != nil {
			return nil, unreadable(err)
		}
		granted = set
	}
	s := &Scope{
		catalog: c, owner: Owner{d.Tenant, d.Session}, config: d.Config, context: d.ContextLength,
		surface: d.Surface, format: d.Format, hooks: d.Hooks, connectors: d.Connectors,
		unavailable: d.UnavailableSources, unknown: d.UnknownToolsets, handle: d.handle,
	}
	if d.CoreTools != nil {
		s.core = *d.CoreTools
	}
	s.split(granted)
	return s, nil
}
