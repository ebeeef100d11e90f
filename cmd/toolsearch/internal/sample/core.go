package sample

// coreTool is a tool that an agent runtime brings itself; its fields are written as in servers.go.
type coreTool struct{ name, toolset, text, fields string }

var coreTools = []coreTool{
	{"terminal", "terminal", "Runs a shell command and returns what it printed.", "command! workdir timeout_seconds# background?"},
	{"read_file", "file", "Reads a text file, or lines of it.", "path! offset# limit#"},
	{"write_file", "file", "Writes a whole file and makes its folders.", "path! content!"},
	{"patch", "file", "Replaces a passage of a file by another.", "path! old! new! all?"},
	{"search_files", "file", "Searches files by name or by content.", "pattern! path kind=name|content limit#"},
	{"web_search", "web", "Searches the web and returns titles, links and passages.", "query! limit#"},
	{"web_extract", "web", "Fetches pages and returns their text.", "urls[]!"},
	{"memory", "memory", "Keeps a fact for later sessions, or forgets it.", "action=add|remove|replace! text!"},
	{"todo_list", "todo", "Keeps the list of what is to do in this session.", "items[] merge?"},
	{"clarify", "clarify", "Asks the user a question and waits for the answer.", "question! choices[]"},
	{"execute_code", "code_execution", "Runs a short program in a sandbox.", "code! timeout_seconds#"},
	{"delegate_task", "delegation", "Hands a task to a subagent and waits for its result.", "goal! context toolsets[]"},
	{"session_search", "session_search", "Searches earlier sessions of this user.", "query! limit#"},
	{"image_generate", "image_gen", "Makes a picture from a description.", "prompt! aspect=square|wide|tall"},
	{"manage_connections", "connectors", "Lists connected apps and starts the connection of another.", "action=list|connect! apps[]"},
}
