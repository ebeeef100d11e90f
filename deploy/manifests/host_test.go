package manifests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestImage reads the recipe of the image line by line: pinned, without a root user, checked by the binary itself.
func TestImage(t *testing.T) {
	t.Parallel()
	var last, user, entrypoint, health string
	for _, line := range strings.Split(strings.ReplaceAll(read(t, "image", "Dockerfile"), "\\\n", " "), "\n") {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "FROM":
			fields := strings.Fields(rest)
			last = fields[slices.IndexFunc(fields, func(f string) bool { return !strings.HasPrefix(f, "--") })]
			if last != "scratch" {
				checkImage(t, "Dockerfile", last)
			}
		case "USER":
			user = rest
		case "ENTRYPOINT":
			entrypoint = rest
		case "HEALTHCHECK":
			health = rest
		case "ADD":
			t.Errorf("%s: use COPY; ADD may fetch and unpack", line)
		}
	}
	if last != "scratch" {
		t.Errorf("the image is built on %s", last)
	}
	if !regexp.MustCompile(`^[1-9]\d+:[1-9]\d+$`).MatchString(user) {
		t.Errorf("USER %q: give numbers, so that Kubernetes can see that it is not root", user)
	}
	if entrypoint != `["/toolsearch"]` || !strings.Contains(health, `CMD ["/toolsearch", "health"]`) {
		t.Errorf("ENTRYPOINT %s, HEALTHCHECK %s: there is no shell", entrypoint, health)
	}
}

// TestImageContext checks that what the build copies is let through, and nothing else of the tree.
func TestImageContext(t *testing.T) {
	t.Parallel()
	ignore := strings.Split(read(t, "..", ".dockerignore"), "\n")
	if !slices.Contains(ignore, "*") {
		t.Error(".dockerignore does not begin with everything")
	}
	for _, folder := range []string{"catalog", "cmd", "connectors", "dispatch", "subjects", "telemetry", "worker", "go.mod", "go.sum"} {
		if !slices.Contains(ignore, "!"+folder) {
			t.Errorf(".dockerignore keeps %s out", folder)
		}
	}
	for _, line := range ignore {
		if name, ok := strings.CutPrefix(line, "!"); ok {
			if _, err := os.Stat(filepath.Join(deploy, "..", name)); err != nil {
				t.Error(err)
			}
		}
	}
}

// unit reads the settings of the system service; one that stands several times has several values.
func unit(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, line := range strings.Split(read(t, "systemd", "toolsearch.service"), "\n") {
		if key, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			out[key] = append(out[key], value)
		}
	}
	return out
}

func TestService(t *testing.T) {
	t.Parallel()
	u := unit(t)
	for key, want := range map[string]string{"DynamicUser": "yes", "NoNewPrivileges": "yes", "ProtectSystem": "strict",
		"ProtectHome": "yes", "PrivateDevices": "yes", "MemoryDenyWriteExecute": "yes", "CapabilityBoundingSet": "",
		"Restart": "on-failure", "RestartPreventExitStatus": "2"} {
		if got, ok := u[key]; !ok || got[0] != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	seconds, err := time.ParseDuration(u["TimeoutStopSec"][0] + "s")
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{}
	for _, line := range strings.Split(read(t, "systemd", "toolsearch.env.example"), "\n") {
		if key, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			env[key] = value
		}
	}
	drain, err := time.ParseDuration(env["TOOLSEARCH_WORKER_DRAIN_TIMEOUT"])
	if err != nil {
		t.Fatal(err)
	}
	if seconds < drain+10*time.Second {
		t.Errorf("a drain may take %s, and the process is killed after %s", drain, seconds)
	}
}

// TestServiceIsUnderstood asks systemd itself, and how exposed the service is: 0 is not at all, 10 as root's shell.
func TestServiceIsUnderstood(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed, so the service is only read")
	}
	// A binary that is there takes the place of the installed one.
	text := strings.ReplaceAll(read(t, "systemd", "toolsearch.service"), "/usr/local/bin/toolsearch", "/bin/true")
	path := filepath.Join(t.TempDir(), "toolsearch.service")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", path).CombinedOutput(); err != nil || strings.Contains(string(out), "toolsearch.service:") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	out, err := exec.Command(analyze, "security", "--offline=true", "--threshold=20", path).CombinedOutput()
	if err != nil {
		t.Errorf("the service is exposed by more than 2.0 of 10: %v\n%s", err, out)
	}
}

// TestCollector follows the pipelines to the parts that they name.
func TestCollector(t *testing.T) {
	t.Parallel()
	type pipeline struct {
		Receivers  []string `json:"receivers"`
		Processors []string `json:"processors"`
		Exporters  []string `json:"exporters"`
	}
	type configuration struct {
		Receivers  map[string]any `json:"receivers"`
		Processors map[string]any `json:"processors"`
		Exporters  map[string]any `json:"exporters"`
		Extensions map[string]any `json:"extensions"`
		Service    struct {
			Extensions []string            `json:"extensions"`
			Telemetry  map[string]any      `json:"telemetry"`
			Pipelines  map[string]pipeline `json:"pipelines"`
		} `json:"service"`
	}
	var main, laptop configuration
	readYAML(t, &main, "collector", "collector.yaml")
	readYAML(t, &laptop, "collector", "collector-laptop.yaml")
	used := map[string]bool{}
	follow := func(what string, names []string, parts map[string]any) {
		for _, n := range names {
			used[n] = true
			if _, ok := parts[n]; !ok {
				t.Errorf("%s %s is not configured", what, n)
			}
		}
	}
	for name, p := range main.Service.Pipelines {
		follow("receiver", p.Receivers, main.Receivers)
		follow("processor", p.Processors, main.Processors)
		follow("exporter", p.Exporters, main.Exporters)
		if len(p.Processors) == 0 || p.Processors[0] != "memory_limiter" {
			t.Errorf("pipeline %s does not begin with the memory limiter", name)
		}
	}
	for name, p := range laptop.Service.Pipelines {
		if _, ok := main.Service.Pipelines[name]; !ok {
			t.Errorf("the laptop's pipeline %s lies over none", name)
		}
		follow("processor", p.Processors, main.Processors)
	}
	follow("extension", main.Service.Extensions, main.Extensions)
	for _, parts := range []map[string]any{main.Receivers, main.Processors, main.Exporters, main.Extensions} {
		for name := range parts {
			if !used[name] {
				t.Errorf("%s is configured and in no pipeline", name)
			}
		}
	}
}
