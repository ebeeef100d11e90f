package telemetry

import (
	"runtime"
	"runtime/debug"
)

// Build says what runs.
type Build struct {
	// Version is the product's semantic version.
	Version string `json:"version"`
	// Revision is the commit it was built from, with "+dirty" where the tree had changes; empty if the build does not know.
	Revision string `json:"revision"`
	// Time is the commit's, RFC 3339; empty if the build does not know.
	Time string `json:"time,omitempty"`
	// Go is the version of the toolchain.
	Go string `json:"go"`
	// Platform is the operating system and the architecture.
	Platform string `json:"platform"`
}

// ReadBuild reads what the binary knows of itself.
func ReadBuild(version string) Build {
	b := Build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	dirty := false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			dirty = s.Value == "true"
		}
	}
	if dirty && b.Revision != "" {
		b.Revision += "+dirty"
	}
	return b
}
