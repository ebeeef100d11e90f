// Package config reads the settings of the binary: a YAML file, the environment and flags, each laid over the one
// before it.
//
// It is not the place where settings are used: it turns text into a typed [Settings] and tells what it did not
// understand. A wrong value is a [Warning] that names the key, the value and what is used instead, which is the value of
// the next lower source, and at last the default. Where nothing may stand in for a value (the bus's address, the root,
// the number of copies) it is an error.
//
//	settings, warnings, err := config.Load(config.Sources{File: "toolsearch.yaml", Flags: cmd.Flags()})
//	if err != nil {
//		return err // the file itself cannot be read, or is not YAML; or a value that nothing may stand in for
//	}
//	for _, w := range warnings {
//		logger.Warn("setting ignored", "key", w.Key, "value", w.Value, "used", w.Used)
//	}
//
// Every setting has one path, such as nats.url. The file nests it, the environment writes it in capitals with
// underscores behind TOOLSEARCH_ (TOOLSEARCH_NATS_URL), and a flag is bound to it by [Bind]. The one table in
// keys.go has all paths but those of tools.tool_search, whose keys, spellings and bounds belong to package catalog.
//
// Invariants: equal sources give equal settings and equal warnings in the same order; a secret is in no warning and
// in no output of [Settings.YAML].
package config
