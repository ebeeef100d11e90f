package catalog

import (
	"slices"
)

// curatedDefer is what a nil [Config.Defer] stands for: built-in tools that are seldom needed.
var curatedDefer = []string{
	"annotate_preview", "apply_layout", "close_terminal", "computer_use", "cronjob_manage", "desktop_preview",
	"desktop_project", "drive_preview", "focus_pane", "gui_tour", "image_generate", "manage_catalog", "process_manage",
	"read_terminal", "read_window_below", "session_search", "show_tip", "todo_list",
}

// coreTools is the working set that stays eager unless the configuration names a tool in defer.
var coreTools = []string{
	"browser_back", "browser_cdp", "browser_click", "browser_console", "browser_dialog", "browser_exec",
	"browser_get_images", "browser_navigate", "browser_press", "browser_scroll", "browser_snapshot", "browser_type",
	"browser_vault_enter_code", "browser_vault_fill", "browser_vault_list", "browser_vault_save_login",
	"browser_vault_unlock", "browser_vision", "clarify", "computer_use", "cronjob_manage", "delegate_task",
	"execute_code", "image_generate", "kanban_attach", "kanban_attach_url", "kanban_attachments", "kanban_block",
	"kanban_comment", "kanban_complete", "kanban_create", "kanban_heartbeat", "kanban_link", "kanban_list",
	"kanban_request_changes", "kanban_request_review", "kanban_show", "kanban_unblock", ManageConnections, "memory",
	"patch", "process_manage", "read_file", "search_files", "session_search", "skill_manage", "skill_view",
	"skills_list", "terminal", "text_to_speech", "todo_list", "vision_analyze", "web_extract", "web_search", "write_file",
}

// DefaultCoreTools is the list of tools that never defer by class, sorted. The caller owns it.
func DefaultCoreTools() []string { return slices.Clone(coreTools) }

// deferral decides which tools go behind the bridge.
type deferral struct {
	nothing bool // an empty defer list keeps every tool eager
	named   map[string]bool
	core    map[string]bool
}

// newDeferral takes a nil core for the default list.
func newDeferral(c Config, core []string) deferral {
	named := c.Defer
	if named == nil {
		named = curatedDefer
	}
	if core == nil {
		core = coreTools
	}
	return deferral{nothing: c.Defer != nil && len(c.Defer) == 0, named: setOf(named), core: setOf(core)}
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// defers reports whether a tool of that name and toolset goes behind the bridge; the toolset is "" for a tool that is
// not registered. The defer list comes first, even for core tools; then the core list; then the class: tools of MCP
// servers and of plugins defer, those that belong to what the user has in front of them do not.
func (d deferral) defers(name, toolset string) bool {
	switch {
	case d.nothing, IsBridge(name):
		return false
	case d.named[name]:
		return true
	case d.core[name], toolset == "", directSurface(toolset):
		return false
	}
	return true
}

// directSurface reports the toolsets of the user's own surface.
func directSurface(toolset string) bool {
	return toolset == "desktop_ui" || toolset == "project" || toolset == "setup"
}

// mcpPrefix begins the toolsets of MCP servers.
const mcpPrefix = "mcp-"
