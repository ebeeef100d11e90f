package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

// EnvPrefix is before every environment variable that is read.
const EnvPrefix = "TOOLSEARCH_"

// EnvFile names the variable that holds the path of the file where no flag does.
const EnvFile = EnvPrefix + "CONFIG"

// otherVariables begin with EnvPrefix and are no settings: the file's path, and what only tests read.
var otherVariables = []string{EnvFile, EnvPrefix + "VECTORS", EnvPrefix + "CHAOS"}

// Sources says where settings come from, in order of rising precedence.
type Sources struct {
	// File is the path of a YAML file; empty: the variable TOOLSEARCH_CONFIG, or none.
	File string
	// Environ is the environment as os.Environ gives it; nil: that of the process.
	Environ func() []string
	// Flags are read where they were given on the command line and were bound by [Bind].
	Flags *pflag.FlagSet
}

// Warning tells of a value that was not taken.
type Warning struct {
	// Key is the setting's path, Source what named it: the file's path, a variable or a flag.
	Key, Source string
	// Value is the value as it was written, "[redacted]" for a secret, empty for an unknown key (it may be a secret).
	Value string
	// Want says what would have been right, where that is short; Used what is in force instead. Both are empty for an
	// unknown key.
	Want, Used string
}

func (w Warning) String() string {
	if w.Used == "" {
		return fmt.Sprintf("%s: %s is not a setting; it is ignored", w.Source, w.Key)
	}
	if w.Want == "" {
		return fmt.Sprintf("%s: %s cannot be %s; using %s", w.Source, w.Key, w.Value, w.Used)
	}
	return fmt.Sprintf("%s: %s is %s, want %s; using %s", w.Source, w.Key, w.Value, w.Want, w.Used)
}

// FileError is a configuration file that cannot be read as YAML.
type FileError struct {
	Path string
	Err  error
}

func (e *FileError) Error() string {
	return fmt.Sprintf("configuration file %s: %v", e.Path, e.Err)
}

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// ValueError is a value that cannot be used, of a setting that nothing may stand in for.
type ValueError struct{ Warning Warning }

func (e *ValueError) Error() string {
	return fmt.Sprintf("%s: %s is %s, want %s", e.Warning.Source, e.Warning.Key, e.Warning.Value, e.Warning.Want)
}

// bound is the annotation of a flag that sets a key.
const bound = "toolsearch_setting"

// Bind makes a flag set the key at path when it is given. It panics if there is no such flag or key, which is a
// mistake in the program and shows at its first start.
func Bind(flags *pflag.FlagSet, flag, path string) {
	if _, ok := find(path); !ok {
		panic("config: no setting " + path)
	}
	if err := flags.SetAnnotation(flag, bound, []string{path}); err != nil {
		panic("config: " + err.Error())
	}
}

// layer is one source's values.
type layer struct {
	values *koanf.Koanf
	// origin names where a key of this layer was written.
	origin func(path string) string
}

// Load reads all sources. The error is a *[FileError] or a *[ValueError]; everything else that is wrong is a warning.
func Load(src Sources) (Settings, []Warning, error) {
	if src.Environ == nil {
		src.Environ = os.Environ
	}
	s := defaults()
	layers, warnings, err := readLayers(src)
	if err != nil {
		return s, nil, err
	}
	for _, l := range layers {
		told, err := l.apply(&s)
		if err != nil {
			return s, nil, err
		}
		warnings = append(warnings, told...)
	}
	return s.filled(), warnings, nil
}

func readLayers(src Sources) ([]layer, []Warning, error) {
	var layers []layer
	path := src.File
	if path == "" {
		path = lookup(src.Environ(), EnvFile)
	}
	if path != "" {
		l, err := fileLayer(path)
		if err != nil {
			return nil, nil, err
		}
		layers = append(layers, l)
	}
	l, warnings := envLayer(src.Environ)
	layers = append(layers, l)
	if src.Flags != nil {
		layers = append(layers, flagLayer(src.Flags))
	}
	return layers, warnings, nil
}

func lookup(environ []string, name string) string {
	for _, e := range environ {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}

func fileLayer(path string) (layer, error) {
	ko := koanf.New(".")
	if err := ko.Load(file.Provider(path), yaml.Parser()); err != nil {
		return layer{}, &FileError{Path: path, Err: err}
	}
	return layer{ko, func(string) string { return path }}, nil
}

// envLayer reads the variables by the table, not by guessing where an underscore was a dot.
func envLayer(environ func() []string) (layer, []Warning) {
	byName := map[string]string{}
	for _, k := range keys {
		byName[envName(k.path)] = k.path
	}
	for _, p := range toolSearchPaths() {
		byName[envName(p)] = p
	}
	var warnings []Warning
	ko := koanf.New(".")
	// Reading the environment cannot fail, and a map merges with nothing in the way.
	_ = ko.Load(env.Provider(".", env.Opt{Prefix: EnvPrefix, EnvironFunc: environ,
		TransformFunc: func(name, value string) (string, any) {
			path, ok := byName[name]
			if !ok && !slices.Contains(otherVariables, name) {
				warnings = append(warnings, Warning{Key: name, Source: "environment"})
			}
			return path, value
		}}), nil)
	slices.SortFunc(warnings, func(a, b Warning) int { return strings.Compare(a.Key, b.Key) })
	return layer{ko, envName}, warnings
}

func envName(path string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

func flagLayer(flags *pflag.FlagSet) layer {
	names := map[string]string{}
	ko := koanf.New(".")
	_ = ko.Load(posflag.ProviderWithFlag(flags, ".", nil, func(f *pflag.Flag) (string, any) {
		path := f.Annotations[bound]
		if len(path) == 0 {
			return "", nil
		}
		names[path[0]] = "--" + f.Name
		return path[0], f.Value.String()
	}), nil)
	return layer{ko, func(path string) string { return names[path] }}
}

// apply lays the values of one source over s and tells what it did not take.
func (l layer) apply(s *Settings) (warnings []Warning, err error) {
	if raw := l.values.Get(toolSearchPath); l.values.Exists(toolSearchPath) {
		warnings = append(warnings, overlayToolSearch(s, raw, l.origin)...)
	}
	l.spreadConnectors()
	all := l.values.All()
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if path == toolSearchPath || strings.HasPrefix(path, toolSearchPath+".") {
			continue
		}
		k, ok := find(path)
		if !ok {
			if !emptySection(path, all[path]) {
				warnings = append(warnings, Warning{Key: path, Source: l.origin(path)})
			}
			continue
		}
		if all[path] == nil {
			continue // a key with nothing after it says nothing
		}
		if err := k.take(s, all[path]); err != nil {
			w := k.warning(s, l.origin(path), all[path], err)
			if k.needed {
				return nil, &ValueError{w}
			}
			warnings = append(warnings, w)
		}
	}
	return warnings, nil
}

// take sets a value, but not what stands where a secret was: a file that was printed and is read again lacks it.
func (k key) take(s *Settings, v any) error {
	if text, ok := v.(string); ok && strings.Contains(text, redacted) {
		return errors.New("the secret that --print-config left out there")
	}
	return k.set(s, v)
}

// spreadConnectors reads "connectors: false" as "connectors: {enabled: false}".
func (l layer) spreadConnectors() {
	const path = "tools.connectors"
	v := l.values.Get(path)
	if _, section := v.(map[string]any); section || v == nil {
		return
	}
	l.values.Delete(path)
	_ = l.values.Set(path+".enabled", v) // a plain value under a new key cannot clash
}

// emptySection reports whether a key that is no setting is a heading of settings with nothing below it.
func emptySection(path string, v any) bool {
	if m, ok := v.(map[string]any); v != nil && (!ok || len(m) > 0) {
		return false
	}
	return path == "tools" || slices.ContainsFunc(keys, func(k key) bool { return strings.HasPrefix(k.path, path+".") })
}

func (k key) warning(s *Settings, source string, v any, want error) Warning {
	used := s.filled()
	w := Warning{Key: k.path, Source: source, Value: show(v), Want: want.Error(), Used: show(k.get(&used))}
	if k.secret {
		w.Value = redacted
		if k.get(&used) != "" {
			w.Used = redacted
		}
	}
	if k.located || strings.Contains(w.Value, "@") {
		w.Value = redactURL(w.Value)
	}
	return w
}

// show writes a value so that an empty text can be seen.
func show(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("%q", v)
	case nil:
		return "null"
	default:
		return fmt.Sprint(v)
	}
}
