// Package catalogfile reads tool definitions from files, for the command line: what --catalog names becomes the
// tools of an assemble request.
//
// It is not a validator. A definition is taken as it stands, byte for byte, and judged by the worker, which tells
// in rejected_tools what it left out. Here only the frame around the definitions is read.
//
//	set, err := catalogfile.Read("catalogs", "extra/github.json")
//	if err != nil {
//		return err // names the file and what is wrong with it
//	}
//	request := &subjects.AssembleRequest{Tools: set.JSON()}
//
// A file holds one of:
//
//   - {"server", "toolset", "tools": [...]}, a catalog file;
//   - {"tools": [...]}, the result of an MCP server's tools/list, alone or under the "result" of a JSON-RPC answer;
//   - [...], a plain array.
//
// An element is a definition in any of the four shapes, or {"toolset", "tool", "host", "parallel"} around one. Its
// toolset is its own, else the file's, else "mcp-" and the file's name without its extension. A folder stands for its
// .json files in the order of their names; other files and folders below it are skipped.
//
// Invariants: equal files in equal order give equal bytes; an error is a *[Error].
package catalogfile
