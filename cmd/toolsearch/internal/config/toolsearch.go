package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"toolsearch/catalog"
)

const toolSearchPath = "tools.tool_search"

// toolSearchKeys are the keys of tools.tool_search, as package catalog spells them, with what each is for.
var toolSearchKeys = []struct{ name, doc string }{
	{"enabled", "auto, on or off. Off keeps every tool eager and adds no bridge."},
	{"threshold_pct", "The listing's share of the model's context, in percent."},
	{"search_default_limit", "Hits of a query that names no limit."},
	{"max_search_limit", "Most hits that a query may ask for, at most 50."},
	{"listing", "auto fits the listing into its budget, on forces it, off leaves it out."},
	{"listing_max_tokens", "Most tokens of the listing, whatever the context."},
	{"defer", "Names that go behind the bridge besides those that do so by class; null: the curated list; []: none at all."},
}

func defaultToolSearch() catalog.Config { return catalog.DefaultConfig() }

func toolSearchPaths() []string {
	out := make([]string, len(toolSearchKeys))
	for i, k := range toolSearchKeys {
		out[i] = toolSearchPath + "." + k.name
	}
	return out
}

// overlayToolSearch lets package catalog read what one source says of tools.tool_search.
func overlayToolSearch(s *Settings, v any, origin func(string) string) []Warning {
	var out []Warning
	if section, ok := v.(map[string]any); ok {
		section = maps.Clone(section)
		for _, name := range slices.Sorted(maps.Keys(section)) {
			if !slices.Contains(toolSearchPaths(), toolSearchPath+"."+name) {
				out = append(out, Warning{Key: toolSearchPath + "." + name, Source: origin(toolSearchPath + "." + name)})
			}
		}
		if list, ok := section["defer"].(string); ok && strings.HasPrefix(origin(toolSearchPath+".defer"), EnvPrefix) {
			section["defer"], _ = parseNames(list) // a text always splits
		}
		v = section
	}
	raw, err := json.Marshal(encodable(v))
	if err != nil {
		return append(out, Warning{Key: toolSearchPath, Source: origin(toolSearchPath), Value: show(v), Used: "what was there"})
	}
	var warnings []catalog.Warning
	s.ToolSearch, warnings = s.ToolSearch.Overlay(raw)
	for _, w := range warnings {
		out = append(out, Warning{Key: "tools." + w.Key, Source: origin("tools." + w.Key), Value: w.Value, Used: w.Used})
	}
	return out
}

// encodable is v as JSON can hold it: YAML knows .inf, .nan and keys that are no texts.
func encodable(v any) any {
	switch v := v.(type) {
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return fmt.Sprint(v)
		}
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = encodable(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = encodable(e)
		}
		return out
	case map[any]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[fmt.Sprint(k)] = encodable(e)
		}
		return out
	}
	return v
}

// putToolSearch prints the section of the product page.
func (s Settings) putToolSearch(top *yaml.Node) error {
	raw, err := json.Marshal(s.ToolSearch)
	if err != nil {
		return fmt.Errorf("write %s: %w", toolSearchPath, err)
	}
	var values map[string]any
	if err := json.Unmarshal(raw, &values); err != nil {
		return fmt.Errorf("write %s: %w", toolSearchPath, err)
	}
	for _, k := range toolSearchKeys {
		if err := put(top, toolSearchPath+"."+k.name, values[k.name], k.doc); err != nil {
			return err
		}
	}
	return nil
}
