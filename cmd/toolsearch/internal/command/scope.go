package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"toolsearch/catalog"
	"toolsearch/cmd/toolsearch/internal/catalogfile"
	"toolsearch/cmd/toolsearch/internal/sample"
	"toolsearch/subjects"
)

// scoping is how a verb says what its session may see: a handle that was made before, or tools and how to grant them.
type scoping struct {
	handle   string
	catalogs []string
	sample   bool

	enabled, disabled, required, core []string
	parent, toolSearch                string
	contextLength                     int64
	connectors                        bool
	surface, format                   string
}

const catalogHelp = `The tools come from --catalog, a file or a folder of .json files, given once or repeatedly: catalog files
({"toolset", "tools": [...]}), answers of an MCP server's tools/list, or plain arrays of definitions. --sample takes
the built-in catalog of about a thousand tools instead.`

func (s *scoping) flags(cmd *cobra.Command, handle bool) {
	f := cmd.Flags()
	if handle {
		f.StringVar(&s.handle, "scope", "", "handle of an assembled scope, instead of --catalog")
	}
	f.StringArrayVar(&s.catalogs, "catalog", nil, "file or folder with tools (repeatable)")
	f.BoolVar(&s.sample, "sample", false, "use the built-in sample catalog")
	f.StringSliceVar(&s.enabled, "enabled", nil, "toolsets to grant, with commas; empty grants none (default all)")
	f.StringSliceVar(&s.disabled, "disabled", nil, "toolsets to take away")
	f.StringSliceVar(&s.required, "required", nil, "toolsets that stay whatever is taken away")
	f.StringSliceVar(&s.core, "core", nil, "names that never defer by class, instead of the worker's list")
	f.StringVar(&s.parent, "parent", "", "handle of the scope that this one must stay within")
	f.StringVar(&s.toolSearch, "tool-search", "", "tool_search configuration as JSON, laid over the worker's")
	f.Int64Var(&s.contextLength, "context-length", 0, "the model's context in tokens (default unknown)")
	f.BoolVar(&s.connectors, "connectors", false, "grant connectors__ tools (default: if manage_connections is granted)")
	f.StringVar(&s.surface, "surface", "", "how a missing connection is told: link, card or side")
	f.StringVar(&s.format, "format", "", "shape of the bridge tools: openai, bare, mcp or anthropic")
}

// tools reads the definitions that the flags name.
func (a *app) tools(s *scoping) (json.RawMessage, error) {
	switch {
	case s.sample && len(s.catalogs) > 0:
		return nil, usagef("give --sample or --catalog, not both")
	case s.sample:
		return sample.JSON(sample.Tools()), nil
	case slices.Contains(s.catalogs, ""):
		return nil, usagef("--catalog is empty; it must name a file or a folder")
	case len(s.catalogs) == 0:
		return nil, usagef("no tools: name files with --catalog, or try --sample")
	}
	set, err := catalogfile.Read(s.catalogs...)
	if err != nil {
		return nil, err
	}
	for _, note := range set.Notes {
		a.warn(note)
	}
	return set.JSON(), nil
}

// request is the assemble request of the flags.
func (a *app) request(cmd *cobra.Command, s *scoping) (*subjects.AssembleRequest, error) {
	if cmd.Flags().Changed("context-length") && s.contextLength <= 0 {
		return nil, usagef("--context-length must be more than 0")
	}
	tools, err := untilEnd(cmd.Context(), func() (json.RawMessage, error) { return a.tools(s) })
	if err != nil {
		return nil, err
	}
	r := &subjects.AssembleRequest{
		Tools: tools, DisabledToolsets: s.disabled, RequiredToolsets: s.required, ParentScope: s.parent,
	}
	given := cmd.Flags().Changed
	if given("enabled") {
		enabled := slices.DeleteFunc(slices.Clone(s.enabled), func(t string) bool { return t == "" })
		r.EnabledToolsets = &enabled
	}
	if given("core") {
		r.CoreTools = &s.core
	}
	if given("context-length") {
		r.ContextLength = &s.contextLength
	}
	if given("connectors") {
		r.Connectors = &s.connectors
	}
	if s.toolSearch != "" {
		if !json.Valid([]byte(s.toolSearch)) {
			return nil, usagef("--tool-search is not JSON; write for example '{\"listing\": \"off\"}'")
		}
		r.Config = json.RawMessage(s.toolSearch)
		_, warnings := catalog.DefaultConfig().Overlay(r.Config)
		for _, w := range warnings {
			a.warn(fmt.Sprintf("--tool-search: %s cannot be %s; the worker takes the nearest that can be, or its own", w.Key, w.Value))
		}
	}
	if err := oneOf("surface", s.surface, "link", "card", "side"); err != nil {
		return nil, err
	}
	if err := oneOf("format", s.format, "openai", "bare", "mcp", "anthropic"); err != nil {
		return nil, err
	}
	r.Surface, r.Format = subjects.Surface(s.surface), subjects.Format(s.format)
	return r, nil
}

func oneOf(flag, value string, choices ...string) error {
	if value == "" || slices.Contains(choices, value) {
		return nil
	}
	return usagef("--%s is %q; it must be one of %q", flag, value, choices)
}

// scope is the scope that a verb asks in. A nil request is a handle that was given.
func (a *app) scope(cmd *cobra.Command, s *scoping) (*subjects.AssembleRequest, error) {
	if s.handle == "" {
		return a.request(cmd, s)
	}
	for _, f := range []string{"catalog", "sample", "enabled", "disabled", "required", "parent", "tool-search"} {
		if cmd.Flags().Changed(f) {
			return nil, usagef("--scope says all; --%s does not go with it", f)
		}
	}
	return nil, nil
}

// open makes the scope, where it is not a handle already.
func (q *asking) open(ctx context.Context, s *scoping, r *subjects.AssembleRequest) (subjects.Scope, error) {
	if r == nil {
		return subjects.Handle(s.handle), nil
	}
	got, err := q.assemble(ctx, r)
	if err != nil {
		return subjects.Scope{}, err
	}
	return subjects.Handle(got.Scope), nil
}

// assemble names the catalog first: a worker that has stored it once need not be sent megabytes again.
func (q *asking) assemble(ctx context.Context, r *subjects.AssembleRequest) (*subjects.Assembled, error) {
	byName := *r
	byName.Tools, byName.Catalog = nil, subjects.Digest(r.Tools)
	got, err := q.Assemble(ctx, &byName)
	if errors.Is(err, &subjects.Error{Code: subjects.CodeCatalogNotFound}) {
		return q.Assemble(ctx, r)
	}
	return got, err
}
