package catalog

import "toolsearch/subjects"

// grant is what a request's toolsets resolve to.
type grant struct {
	tools   *Set
	unknown []string // names that no toolset of the catalog has, in the order in which they were written
}

// newGrant resolves toolsets: those that are enabled, without those that are disabled, and in any case those that are
// required. A nil list of enabled ones is everything, tools without a toolset included; they belong to no list.
func newGrant(c *Catalog, req *subjects.AssembleRequest) grant {
	r := toolsetResolver{known: knownToolsets(c), told: map[string]bool{}}
	var enabled map[string]bool
	if req.EnabledToolsets != nil {
		enabled = r.resolve(*req.EnabledToolsets)
	}
	disabled, required := r.resolve(req.DisabledToolsets), r.resolve(req.RequiredToolsets)
	all := FullSet(c.Len())
	if enabled == nil && len(disabled) == 0 {
		return grant{all, r.unknown}
	}
	tools := all.Filter(func(i int) bool {
		toolset := c.tools[i].Toolset
		return required[toolset] || (enabled == nil || enabled[toolset]) && !disabled[toolset]
	})
	return grant{tools, r.unknown}
}

// toolsetResolver turns what a request calls toolsets into toolsets of a catalog.
type toolsetResolver struct {
	known   map[string]bool
	unknown []string
	told    map[string]bool // the unknown ones again
}

// resolve looks a name up as it is and then as that of an MCP server, whose toolset may be written without its prefix.
func (r *toolsetResolver) resolve(names []string) map[string]bool {
	found := make(map[string]bool, len(names))
	for _, name := range names {
		switch {
		case r.known[name]:
			found[name] = true
		case r.known[mcpPrefix+name]:
			found[mcpPrefix+name] = true
		case !r.told[name]:
			r.told[name] = true
			r.unknown = append(r.unknown, name)
		}
	}
	return found
}

func knownToolsets(c *Catalog) map[string]bool {
	known := map[string]bool{}
	last := ""
	for i := range c.tools {
		// Toolsets mostly stand together, so most tools need no look at the map.
		if toolset := c.tools[i].Toolset; toolset != last {
			known[toolset] = true
			last = toolset
		}
	}
	delete(known, "")
	return known
}

// within keeps the tools that a parent's scope granted too: one of the same name, of the same toolset and host.
func within(c *Catalog, tools *Set, parent *Scope) *Set {
	if parent.catalog.digest == c.digest {
		return tools.Filter(parent.grants)
	}
	return tools.Filter(func(i int) bool {
		t := &c.tools[i]
		at, ok := parent.catalog.Lookup(t.Name)
		if !ok || !parent.grants(at) {
			return false
		}
		theirs := parent.catalog.Tool(at)
		return theirs.Toolset == t.Toolset && theirs.Host == t.Host
	})
}
