// Package sample makes a catalog of our own: about a thousand tools of invented MCP servers, and the core tools that
// an agent runtime brings itself. The demo and the bench show and measure with it, and need no file for that.
//
// It is not test data with known answers, and none of its servers exist. Names, descriptions and schemas are made by
// a small grammar from one table (servers.go): a server has things, a thing has fields and verbs, and each verb of a
// thing is a tool.
//
//	tools := sample.Tools()             // []subjects.Tool, servers in the order of the table, core tools last
//	request.Tools = sample.JSON(tools)  // the array of an assemble request
//
// Invariants: every call gives the same bytes; tool names are unique; every schema is a valid JSON Schema object.
package sample
