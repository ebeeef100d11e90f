package connectors

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEnvTokens(t *testing.T) {
	t.Parallel()
	vars := map[string]string{"GW": " all ", "GW_a-b": "one\n", "GW_a_b": "two"}
	get := func(k string) string { return vars[k] }
	for _, c := range []struct {
		tenant string
		shared bool
		want   string
	}{
		{"a-b", false, "one"}, {"a_b", false, "two"}, {"other", false, ""}, {"other", true, "all"}, {"a-b", true, "one"},
	} {
		got, err := Env{Name: "GW", Shared: c.shared, Lookup: get}.Token(t.Context(), c.tenant)
		if err != nil || got != c.want {
			t.Errorf("tenant %s, shared %v: got %q, %v", c.tenant, c.shared, got, err)
		}
	}
}

func TestDirReadsAFileAgainWhenItChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "acme")
	ask := func(tenant string) string {
		token, err := Dir(dir).Token(t.Context(), tenant)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	if got := ask("acme"); got != "" {
		t.Errorf("no file: got %q", got)
	}
	for _, content := range []string{"first", "other", " third \n"} { // the first two have the same length
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := ask("acme"); got != strings.TrimSpace(content) {
			t.Errorf("got %q, want %q", got, content)
		}
	}
	if got := ask("another"); got != "" {
		t.Errorf("another tenant: got %q", got)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if got := ask("acme"); got != "" {
		t.Errorf("removed: got %q", got)
	}
}

func TestDirFollowsAMountedSecret(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i, content := range []string{"before", "after"} {
		data := filepath.Join(dir, "..data_"+content)
		if err := os.Mkdir(data, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(data, "acme"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(dir, "..next")
		if err := os.Symlink(data, link); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link, filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if err := os.Symlink(filepath.Join("..data", "acme"), filepath.Join(dir, "acme")); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := Dir(dir).Token(t.Context(), "acme"); err != nil || got != content {
			t.Errorf("got %q, %v, want %q", got, err, content)
		}
	}
}

func TestDirRefusesATenantThatIsNoToken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	inner := filepath.Join(dir, "tokens")
	if err := os.Mkdir(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tenant := range []string{"../secret", "", ".", "a/b"} {
		if got, err := Dir(inner).Token(t.Context(), tenant); err == nil || got != "" {
			t.Errorf("tenant %q: got %q, %v", tenant, got, err)
		}
	}
	if err := os.WriteFile(filepath.Join(inner, "huge"), make([]byte, maxTokenFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Dir(inner).Token(t.Context(), "huge"); err == nil {
		t.Error("a huge file was read")
	}
}
