package catalog

import (
	"iter"
	"slices"
	"unsafe"

	"toolsearch/subjects"
)

// Owner is who a scope is made for. Both are subject tokens.
type Owner struct{ Tenant, Session string }

// The bounds of what one request may put into a scope.
const (
	// MaxScopeNames is the most names in one list of an assemble request: toolsets, core tools, the defer list,
	// unavailable sources.
	MaxScopeNames = 4096
	// MaxScopeDocument is the largest document of a scope, in bytes.
	MaxScopeDocument = 512 << 10
	// MaxHookTimeoutMS is the longest wait for a hook that may be asked for, a day.
	MaxHookTimeoutMS = 24 * 60 * 60 * 1000

	defaultHookTimeoutMS = 300_000
)

// Scope is what one session may see of a catalog, and how it is shown. It is immutable and safe for use by many at
// once. It holds no copy of the tools: two small sets of positions and what the request said besides.
type Scope struct {
	catalog *Catalog
	owner   Owner
	config  Config
	core    []string // nil is coreTools
	context int64    // 0 is unknown
	surface subjects.Surface
	format  subjects.Format
	hooks   *subjects.Hooks

	connectors  bool
	unavailable []subjects.UnavailableSource
	unknown     []string
	warnings    []Warning

	// What is granted is split in two, so that neither set repeats the other: a session sees nearly all of its tools
	// deferred and a few of them directly.
	deferred, visible *Set

	handle string
}

// NewScope resolves a request against its catalog: which tools it grants, which of them go behind the bridge, and how
// they are shown. base and core are the worker's own configuration and list of core tools; a nil core is
// [DefaultCoreTools]. parent is the scope that req.ParentScope names, nil for none: nothing is granted that it does not
// hold. The fields tools, catalog and parent_scope of req are not looked at.
//
// Equal arguments give scopes of equal handles. The error is a *[subjects.Error]: BAD_REQUEST with details
// {"field": ...} for a value that is none of its set or out of bounds, TOO_LARGE for more than a scope may hold,
// SCOPE_FORBIDDEN for a parent of another tenant.
func NewScope(c *Catalog, o Owner, req *subjects.AssembleRequest, base Config, core []string, parent *Scope) (*Scope, error) {
	if parent != nil && parent.owner.Tenant != o.Tenant {
		return nil, subjects.Errorf(subjects.CodeScopeForbidden, "the parent scope was made for another tenant")
	}
	if err := checkRequest(req); err != nil {
		return nil, err
	}
	s := &Scope{
		catalog: c, owner: o, core: coreOf(req, core), surface: surfaceOf(req.Surface), format: formatOf(req.Format),
		hooks: hooksOf(req.Hooks), unavailable: tellable(req.UnavailableSources),
	}
	if req.ContextLength != nil {
		s.context = max(0, *req.ContextLength)
	}
	s.config, s.warnings = base.Overlay(req.Config)
	if err := checkList("config.defer", len(s.config.Defer)); err != nil {
		return nil, err
	}
	g := newGrant(c, req)
	tools := g.tools
	if parent != nil {
		tools = within(c, tools, parent)
	}
	s.unknown = g.unknown
	s.split(tools)
	s.connectors = s.connectorsGranted(req.Connectors) && (parent == nil || parent.connectors)

	document := s.Document()
	if len(document) > MaxScopeDocument {
		return nil, subjects.Errorf(subjects.CodeTooLarge,
			"what the request says besides its tools takes %d bytes, over the bound of %d bytes for one scope; name fewer toolsets and sources",
			len(document), MaxScopeDocument)
	}
	s.handle = subjects.Digest(document)
	return s, nil
}

// split divides granted tools into those behind the bridge and those in view. Definitions that carry a bridge tool's
// name are dropped: they come back when assembled tools are assembled again.
func (s *Scope) split(granted *Set) {
	d := newDeferral(s.config, s.core)
	tools := s.catalog.tools
	s.deferred = granted.Filter(func(i int) bool { return d.defers(tools[i].Name, tools[i].Toolset) })
	s.visible = granted.Filter(func(i int) bool { return !s.deferred.Contains(i) && !IsBridge(tools[i].Name) })
}

// connectorsGranted is what the request says, or else whether the tool that manages connections is granted.
func (s *Scope) connectorsGranted(said *bool) bool {
	if said != nil {
		return *said
	}
	i, ok := s.catalog.Lookup(ManageConnections)
	return ok && s.grants(i)
}

// grants reports whether the tool at position i is granted.
func (s *Scope) grants(i int) bool { return s.deferred.Contains(i) || s.visible.Contains(i) }

// Catalog is the catalog that the scope is a part of.
func (s *Scope) Catalog() *Catalog { return s.catalog }

// Owner is who the scope was made for; nobody else may use it.
func (s *Scope) Owner() Owner { return s.owner }

// Config is the configuration that the scope is shown by, with the request's own laid over the worker's.
func (s *Scope) Config() Config { return s.config }

// Deferred is the tools that are reached through the bridge. It is the same where the configuration switches the bridge
// off: then the model sees these tools as well, and a bridge call that still comes is answered all the same.
func (s *Scope) Deferred() *Set { return s.deferred }

// Granted is all tools of the session, the deferred ones and those in view. It is made anew at every call.
func (s *Scope) Granted() *Set {
	switch {
	case s.visible.Len() == 0:
		return s.deferred
	case s.deferred.Len() == 0:
		return s.visible
	}
	return NewSet(s.catalog.Len(), func(yield func(int) bool) {
		for _, half := range [...]iter.Seq[int]{s.deferred.All(), s.visible.All()} {
			for i := range half {
				if !yield(i) {
					return
				}
			}
		}
	})
}

// Connectors reports whether connectors__ tools are granted.
func (s *Scope) Connectors() bool { return s.connectors }

// Surface says how a missing connection is told.
func (s *Scope) Surface() subjects.Surface { return s.surface }

// Hooks is what the session's policy is asked and told, nil for nothing. It must not be changed.
func (s *Scope) Hooks() *subjects.Hooks { return s.hooks }

// UnknownToolsets are the names in the request that no toolset of the catalog has, in the order in which they were
// written. It must not be changed.
func (s *Scope) UnknownToolsets() []string { return s.unknown }

// Warnings tells what in the request's configuration could not be used. A scope that was opened from its document has
// none. It must not be changed.
func (s *Scope) Warnings() []Warning { return s.warnings }

// Handle is the scope's name, "sha256:" and the hex SHA-256 of its document.
func (s *Scope) Handle() string { return s.handle }

// Size is the memory that the scope takes beside its catalog, in bytes, an estimate from above: lists that it may share
// with other scopes are counted.
func (s *Scope) Size() int64 {
	n := int64(unsafe.Sizeof(*s)) + s.deferred.Size() + s.visible.Size()
	n += int64(len(s.handle) + len(s.owner.Tenant) + len(s.owner.Session))
	for _, list := range [...][]string{s.config.Defer, s.core, s.unknown} {
		n += listSize(list)
	}
	if s.hooks != nil {
		n += int64(unsafe.Sizeof(*s.hooks))
	}
	for _, u := range s.unavailable {
		n += int64(unsafe.Sizeof(u)) + int64(len(u.Name)+len(u.Reason)) + int64(unsafe.Sizeof(0))
	}
	for _, w := range s.warnings {
		n += int64(unsafe.Sizeof(w)) + int64(len(w.Key)+len(w.Value)+len(w.Used))
	}
	return n
}

func listSize(list []string) int64 {
	n := int64(cap(list)) * int64(unsafe.Sizeof(""))
	for _, s := range list {
		n += int64(len(s))
	}
	return n
}

// coreOf is the request's list of core tools, else the worker's; nil for the default one, which takes no memory.
func coreOf(req *subjects.AssembleRequest, workers []string) []string {
	core := workers
	if req.CoreTools != nil {
		core = append([]string{}, *req.CoreTools...)
	}
	if slices.Equal(core, coreTools) {
		return nil
	}
	return core
}

func surfaceOf(s subjects.Surface) subjects.Surface {
	if s == "" {
		return subjects.SurfaceLink
	}
	return s
}

func formatOf(f subjects.Format) subjects.Format {
	if f == "" {
		return subjects.FormatOpenAI
	}
	return f
}

// hooksOf is nil where nothing is asked or told, so that equal requests give equal scopes.
func hooksOf(h *subjects.Hooks) *subjects.Hooks {
	if h == nil || !h.Pre && !h.Post {
		return nil
	}
	hooks := *h
	if hooks.TimeoutMS == 0 {
		hooks.TimeoutMS = defaultHookTimeoutMS
	}
	return &hooks
}

// tellable puts the unavailable sources on one line each and drops those about which there is nothing to say.
func tellable(sources []subjects.UnavailableSource) []subjects.UnavailableSource {
	var told []subjects.UnavailableSource
	for _, u := range sources {
		u.Name, u.Reason = oneLine(u.Name), oneLine(u.Reason)
		if u.Reason != "" {
			told = append(told, u)
		}
	}
	return told
}
