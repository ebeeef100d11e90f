package command

import (
	"runtime/debug"

	"github.com/spf13/cobra"

	"toolsearch/worker"
)

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			a.out.Println(versionText())
			return nil
		},
	}
}

// versionText is the product's version, the revision that was built and the Go that built it.
func versionText() string {
	text := "toolsearch " + worker.Version
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return text
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			text += " " + s.Value[:12]
		}
		if s.Key == "vcs.modified" && s.Value == "true" {
			text += "+changes"
		}
	}
	return text + " " + info.GoVersion
}
