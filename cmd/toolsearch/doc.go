// Command toolsearch is the one binary of the product: it serves (worker, gateway), asks (assemble, search, describe,
// call, stop, watch, jobs) and shows itself (demo, bench).
//
// The verbs are in internal/command; what they need beside the product's own packages is in internal/config (settings),
// internal/catalogfile (tools from files), internal/sample (a catalog to play with), internal/demo and internal/bench.
// This package holds only main and the tests that run the built binary as processes.
//
//	toolsearch demo
//	toolsearch worker
//	toolsearch search --sample "create an issue"
//	toolsearch --help
//
// Invariants: standard output holds the answer and nothing else; exit codes are 0 found, 1 nothing found, 2 usage,
// 3 the service said no or is out of reach.
package main
