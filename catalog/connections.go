package catalog

import (
	"encoding/json"

	"toolsearch/subjects"
)

// MaxConnectors is the most targets of one manage_connections.
const MaxConnectors = 10

// The texts of manage_connections and of its parameters. The tool is in view at every turn of the model.
const (
	textConnections = "Checks and links the accounts that connectors__ tools work in, and the MCP servers of this machine. " +
		"status tells which apps are connected; connect links apps, reconnect repairs a broken link, rename names an account. " +
		"With mcp: true on every target, install, enable and authorize work on local MCP servers. " +
		"Where the answer holds a connect_url, show it to the user and ask for status later. " +
		"Only the user can disconnect an account."
	textConnectionsAction     = "What to do; status unless given."
	textConnectionsConnectors = "The apps, for example [\"mail\"]. A lone string or object is one app. At most 10."
	textConnectionsName       = "The app, as in connectors__<app>__<tool>, or the MCP server."
	textConnectionsMCP        = "true: a local MCP server, for install, enable and authorize only."
	textConnectionsAlias      = "Which account of the app, such as work; for connect, reconnect and rename."
	textConnectionsTo         = "The account's new alias, for rename only."
	textConnectionsForce      = "For reconnect only: make a new link also where the app is connected."
)

// suppliesConnections reports whether this scope adds a definition of manage_connections: connectors are granted, the
// catalog has no such tool of the caller's own, granted or not, and the surface is none that may not connect.
func (s *Scope) suppliesConnections() bool {
	if !s.connectors || s.surface == subjects.SurfaceSide {
		return false
	}
	_, brought := s.catalog.Lookup(ManageConnections)
	return !brought
}

// hidden reports a granted tool that this scope's surface never shows: a side agent cannot connect anything.
func (s *Scope) hidden(name string) bool {
	return name == ManageConnections && s.surface == subjects.SurfaceSide
}

// connectionsDefinition writes manage_connections in a format.
func connectionsDefinition(format subjects.Format) json.RawMessage {
	target := objectOf(member("name", typed("string", textConnectionsName))+","+
		member("mcp", typed("boolean", textConnectionsMCP))+","+
		member("alias", typed("string", textConnectionsAlias))+","+
		member("to", typed("string", textConnectionsTo)), "name")
	items := "{" + member("anyOf", "["+typed("string", "")+","+target+"]") + "}"
	action := "{" + member("type", `"string"`) + "," +
		member("enum", `["status","connect","reconnect","rename","install","enable","authorize"]`) + "," +
		member("description", jsonText(textConnectionsAction)) + "}"
	parameters := objectOf(member("action", action) + "," +
		member("connectors", arrayOf(items, textConnectionsConnectors)) + "," +
		member("force", typed("boolean", textConnectionsForce)))
	return bridge{format: format}.definition(ManageConnections, textConnections, parameters)
}
