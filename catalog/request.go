package catalog

import (
	"strconv"

	"toolsearch/subjects"
)

// checkRequest refuses what a scope cannot be made of.
func checkRequest(req *subjects.AssembleRequest) error {
	lists := []struct {
		field string
		n     int
	}{
		{"disabled_toolsets", len(req.DisabledToolsets)},
		{"required_toolsets", len(req.RequiredToolsets)},
		{"unavailable_sources", len(req.UnavailableSources)},
		{"enabled_toolsets", listLen(req.EnabledToolsets)},
		{"core_tools", listLen(req.CoreTools)},
	}
	for _, l := range lists {
		if err := checkList(l.field, l.n); err != nil {
			return err
		}
	}
	switch {
	case !validSurface(surfaceOf(req.Surface)):
		return badField("surface", "surface must be link, card or side")
	case !validFormat(formatOf(req.Format)):
		return badField("format", "format must be openai, bare, mcp or anthropic")
	case req.Hooks != nil && !validHooks(req.Hooks):
		return badField("hooks.timeout_ms", "hooks.timeout_ms must be 0 to "+strconv.Itoa(MaxHookTimeoutMS)+" milliseconds, 0 for the default")
	}
	for i, u := range req.UnavailableSources {
		field := "unavailable_sources[" + strconv.Itoa(i) + "]"
		if oneLine(u.Name) == "" {
			return badField(field+".name", field+".name must not be empty")
		}
		if u.ToolCount != nil && *u.ToolCount < 0 {
			return badField(field+".tool_count", field+".tool_count must not be negative")
		}
	}
	return nil
}

func listLen(list *[]string) int {
	if list == nil {
		return 0
	}
	return len(*list)
}

func checkList(field string, n int) error {
	if n <= MaxScopeNames {
		return nil
	}
	e := subjects.Errorf(subjects.CodeTooLarge, "%s has %d names, over the bound of %d for one list; send fewer", field, n, MaxScopeNames)
	e.Details = map[string]any{"field": field}
	return e
}

func badField(field, message string) error {
	e := subjects.Errorf(subjects.CodeBadRequest, "%s", message)
	e.Details = map[string]any{"field": field}
	return e
}

func validSurface(s subjects.Surface) bool {
	return s == subjects.SurfaceLink || s == subjects.SurfaceCard || s == subjects.SurfaceSide
}

func validFormat(f subjects.Format) bool {
	return f == subjects.FormatOpenAI || f == subjects.FormatBare || f == subjects.FormatMCP || f == subjects.FormatAnthropic
}

func validHooks(h *subjects.Hooks) bool { return h.TimeoutMS >= 0 && h.TimeoutMS <= MaxHookTimeoutMS }
