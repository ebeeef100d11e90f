// Package table prints rows for people: columns aligned, one header, plain text, colours only where asked.
//
// It knows nothing of what it prints. Columns are as wide as their widest cell; the last one takes what is left of
// the width and is cut with an ellipsis. Without a width nothing is cut, so that a pipe gets everything.
//
//	t := table.New("QUERY", "TOOL", "DESCRIPTION")
//	t.Row("create issue", "mcp__gitnest__create_issue", "Opens an issue in a repository.")
//	err := t.Write(os.Stdout, table.Style{Width: 100})
//
// Invariants: no line ends in a space; widths count characters as a terminal shows them, so wide scripts align; a
// control character of a cell is never printed.
package table
