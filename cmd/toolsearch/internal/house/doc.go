// Package house holds no code, only the rules of the house as tests: what may stand at the top level, which way
// imports run, what every package and every exported name must have, and what no file may say.
//
// The picture it guards, from top to bottom:
//
//	cmd  ->  worker  ->  dispatch  ->  connectors  ->  catalog  ->  subjects
//
// A package may import those below it and those beside it under the same top folder, never one above. telemetry is a
// leaf: everybody may import it and it imports nobody. NATS is known to cmd, worker and subjects alone, and catalog
// is pure: no clock, no network, no files, no goroutine.
//
// When a test of this package fails, the code is in the wrong place; move it rather than adding an exception.
package house
