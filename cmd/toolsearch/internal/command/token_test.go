package command_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolsearch/cmd/toolsearch/internal/command"
	"toolsearch/subjects/roles"
)

func TestToken(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "fleet")
	setup := run(t, "", "token", "setup", "--dir", dir)
	if setup.code != command.ExitFound || !strings.Contains(setup.out, "resolver.conf") {
		t.Fatalf("exit code %d: %s %s", setup.code, setup.out, setup.err)
	}
	key := func(name string) string { return filepath.Join(dir, "keys", name+".json") }
	for role, args := range map[roles.Role][]string{
		roles.Runtime: {"--tenant", "acme", "--session", "desktop 1"}, roles.Orchestrator: {"--tenant", "acme"},
		roles.Interface: {"--tenant", "acme", "--session", "desktop-1"},
		roles.Host:      {"--tenant", "acme", "--host", "mcp-1"}, roles.Worker: nil, roles.Operator: {"--ttl", "1h"},
	} {
		got := run(t, "", append([]string{"token", string(role), "--key", key(string(role))}, args...)...)
		if got.code != command.ExitFound || !strings.HasPrefix(got.out, "-----BEGIN NATS USER JWT-----") || !strings.Contains(got.err, ", until ") || strings.Contains(got.err, " ,") {
			t.Errorf("%s: exit code %d: %q", role, got.code, got.err)
		}
		if strings.Contains(got.err, "SU") && strings.Contains(got.out, strings.TrimSpace(got.err)) {
			t.Errorf("%s: a secret is on standard error", role)
		}
	}
	out := filepath.Join(t.TempDir(), "w.creds")
	if got := run(t, "", "token", "worker", "--key", key("worker"), "--out", out); got.code != command.ExitFound || got.out != "" {
		t.Errorf("--out: exit code %d: %q %q", got.code, got.out, got.err)
	}
	if i, err := os.Stat(out); err != nil || i.Mode().Perm() != 0o600 {
		t.Errorf("--out: %v, %v", i, err)
	}

	again := run(t, "", "token", "setup", "--dir", dir, "--rotate", "runtime", "--bodies", "--json")
	var done struct{ Made, Kept []string }
	if err := json.Unmarshal([]byte(again.out), &done); err != nil || len(done.Made) != 4 || len(done.Kept) != 10 {
		t.Errorf("a repeat: %s %v", again.out, err)
	}
	for _, said := range []string{setup.out, setup.err, again.out, again.err} {
		for _, name := range []string{"runtime", "worker"} {
			var k struct{ Seed string }
			p, err := os.ReadFile(key(name))
			if err != nil || json.Unmarshal(p, &k) != nil || k.Seed == "" {
				t.Fatal(err)
			}
			if strings.Contains(said, k.Seed) {
				t.Errorf("setup prints the seed of %s", name)
			}
		}
	}

	for name, test := range map[string]struct {
		args []string
		err  string
	}{
		"no session":     {[]string{"token", "runtime", "--key", key("runtime"), "--tenant", "acme"}, "--session is missing"},
		"no key":         {[]string{"token", "worker", "--key", key("none")}, "none.json"},
		"another's key":  {[]string{"token", "worker", "--key", key("operator")}, "signs operator"},
		"negative ttl":   {[]string{"token", "worker", "--key", key("worker"), "--ttl", "-1h"}, "--ttl"},
		"bodies":         {[]string{"token", "runtime", "--key", key("runtime"), "--tenant", "a", "--session", "b", "--bodies"}, "without --bodies"},
		"unknown rotate": {[]string{"token", "setup", "--dir", dir, "--rotate", "admin"}, `"admin"`},
		"another root":   {[]string{"token", "setup", "--dir", dir, "--root", "other.v1"}, "toolsearch.v1"},
		"bad tenant":     {[]string{"token", "roles", "--tenant", "a b"}, "tenant"},
		"a folder":       {[]string{"token", "worker", "--key", key("worker"), "--out", dir}, "folder"},
	} {
		if got := run(t, "", test.args...); got.code != command.ExitUsage || !strings.Contains(got.err, test.err) {
			t.Errorf("%s: exit code %d, err: %s", name, got.code, got.err)
		}
	}
	if got := run(t, "", "token", "roles"); got.code != command.ExitFound || !strings.Contains(got.out, "accounts {") {
		t.Errorf("roles: exit code %d: %s", got.code, got.err)
	}
}
