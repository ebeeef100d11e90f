package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// deploy is the folder of what operators start from.
var deploy = filepath.Join("..", "..", "..", "..", "deploy")

// notSettings begin like a setting in deploy's files and are something else: a variable of the Compose file itself.
var notSettings = []string{"TOOLSEARCH_PASSWORD"}

// TestSettingsInDeploy reads every file of settings under deploy, and wants no warning.
func TestSettingsInDeploy(t *testing.T) {
	t.Parallel()
	read := 0
	err := filepath.WalkDir(deploy, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() != "toolsearch.yaml" {
			return nil
		}
		read++
		_, warnings, err := Load(Sources{File: path, Environ: func() []string { return nil }})
		for _, w := range warnings {
			t.Error(w)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if read < 3 {
		t.Errorf("only %d files of settings were found", read)
	}
}

// TestServiceEnvironment reads the example of the system service, what is commented out included.
func TestServiceEnvironment(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(deploy, "systemd", "toolsearch.env.example"))
	if err != nil {
		t.Fatal(err)
	}
	var environ []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimPrefix(strings.TrimSpace(line), "#"); strings.HasPrefix(line, EnvPrefix) {
			environ = append(environ, line)
		}
	}
	if len(environ) < 5 {
		t.Fatalf("only %d settings were found", len(environ))
	}
	_, warnings, err := Load(Sources{Environ: func() []string { return environ }})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range warnings {
		t.Error(w)
	}
}

// TestVariablesInDeploy finds the names of variables in the other files, and wants each to be one.
func TestVariablesInDeploy(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`(?m)(?:^|[\s{"])(TOOLSEARCH_[A-Z_]+)(?::|=|$)`)
	found := 0
	for _, file := range []string{"compose/compose.yaml", "kubernetes/worker/deployment.yaml",
		"kubernetes/overlays/single/worker.yaml", "systemd/toolsearch.service"} {
		text, err := os.ReadFile(filepath.Join(deploy, filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range name.FindAllStringSubmatch(string(text), -1) {
			if slices.Contains(notSettings, m[1]) {
				continue
			}
			found++
			if !slices.ContainsFunc(keys, func(k key) bool { return envName(k.path) == m[1] }) && !slices.Contains(otherVariables, m[1]) {
				t.Errorf("deploy/%s: %s is no setting", file, m[1])
			}
		}
	}
	if found < 6 {
		t.Errorf("only %d variables were found", found)
	}
}
