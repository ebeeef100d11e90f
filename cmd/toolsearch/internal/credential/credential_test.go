package credential_test

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"pgregory.net/rapid"

	"toolsearch/cmd/toolsearch/internal/credential"
	"toolsearch/subjects"
	"toolsearch/subjects/roles"
)

var update = flag.Bool("update", false, "write deploy/nats/roles.conf anew")

// TestRolesConf checks that the file that is deployed says what package roles declares, to the byte.
func TestRolesConf(t *testing.T) {
	t.Parallel()
	want, err := credential.Passwords(own)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(deploy(t), "roles.conf")
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil { //nolint:gosec // it holds no secret
			t.Fatal(err)
		}
	}
	if got := readFile(t, path); !bytes.Equal(got, want) {
		t.Errorf("deploy/nats/roles.conf is not what subjects/roles declares; run this test with -update")
	}
}

func TestPasswordsNeedNames(t *testing.T) {
	t.Parallel()
	if _, err := credential.Passwords(roles.Names{Tenant: "a.b", Session: "s", Host: "h"}); err == nil {
		t.Error("a tenant of two tokens is taken")
	}
}

// TestSetupFiles checks the modes of what is written, that nothing secret is in the file for servers, and that a repeat
// keeps every key.
func TestSetupFiles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "fleet")
	first, err := credential.Setup(dir, credential.SetupOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(first.Made) != 11 || len(first.Kept) != 0 {
		t.Errorf("made %v, kept %v", first.Made, first.Kept)
	}
	keys := map[string][]byte{}
	resolver := readFile(t, first.Resolver)
	for _, path := range first.Made {
		i, err := os.Stat(path)
		if err != nil || i.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, i, err)
		}
		keys[path] = readFile(t, path)
		for line := range strings.FieldsFuncSeq(string(keys[path]), func(r rune) bool { return strings.ContainsRune("\"\n ,:", r) }) {
			if strings.HasPrefix(line, "S") && len(line) > 50 && bytes.Contains(resolver, []byte(line)) {
				t.Errorf("resolver.conf holds the seed of %s", path)
			}
		}
	}
	if i, err := os.Stat(filepath.Join(dir, "keys")); err != nil || i.Mode().Perm() != 0o700 {
		t.Errorf("the folder of keys: %v, %v", i, err)
	}
	second, err := credential.Setup(dir, credential.SetupOptions{Bodies: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(second.Made) != 3 || len(second.Kept) != 11 {
		t.Errorf("the second time made %v, kept %v", second.Made, second.Kept)
	}
	for path, before := range keys {
		if !bytes.Equal(before, readFile(t, path)) {
			t.Errorf("%s changed", path)
		}
	}
	third, err := credential.Setup(dir, credential.SetupOptions{Rotate: []roles.Role{roles.Worker}})
	if err != nil || len(third.Made) != 1 || third.Made[0] != credential.KeyFile(dir, roles.Worker, false) {
		t.Errorf("a rotation made %v, %v", third, err)
	}
	if bytes.Equal(keys[third.Made[0]], readFile(t, third.Made[0])) {
		t.Error("the rotated key is the old one")
	}
}

// TestSetupKeepsTheOperator checks that a repeat hands the servers the operator's token that they have, for they refuse
// to reload with any other, and that a token of another operator's is replaced.
func TestSetupKeepsTheOperator(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	done, err := credential.Setup(dir, credential.SetupOptions{})
	if err != nil {
		t.Fatal(err)
	}
	in := func(path string) string {
		for line := range strings.Lines(string(readFile(t, path))) {
			if token, ok := strings.CutPrefix(line, "operator: "); ok {
				return strings.TrimSpace(token)
			}
		}
		t.Fatalf("%s names no operator", path)
		return ""
	}
	operator := func() string { return in(done.Resolver) }
	put := func(token string) {
		conf := bytes.Replace(readFile(t, done.Resolver), []byte(operator()), []byte(token), 1)
		if err := os.WriteFile(done.Resolver, conf, 0o644); err != nil { //nolint:gosec // it holds no secret
			t.Fatal(err)
		}
	}
	key, err := nkeys.FromSeed(bytes.TrimSpace(readFile(t, filepath.Join(dir, "keys", "operator.nk"))))
	if err != nil {
		t.Fatal(err)
	}
	first, err := jwt.DecodeOperatorClaims(operator())
	if err != nil {
		t.Fatal(err)
	}
	first.Tags.Add("kept") // so that signing it again, within the same second too, gives another text
	signed, err := first.Encode(key)
	if err != nil {
		t.Fatal(err)
	}
	put(signed)
	if _, err := credential.Setup(dir, credential.SetupOptions{Rotate: []roles.Role{roles.Runtime}}); err != nil {
		t.Fatal(err)
	}
	if got := operator(); got != signed {
		t.Errorf("the operator's token was\n%s and is\n%s", signed, got)
	}

	other, err := credential.Setup(t.TempDir(), credential.SetupOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{"another operator's": in(other.Resolver), "no token": "eyJ"} {
		put(token)
		if _, err := credential.Setup(dir, credential.SetupOptions{}); err != nil {
			t.Fatal(err)
		}
		if c, err := jwt.DecodeOperatorClaims(operator()); err != nil || c.Subject != first.Subject {
			t.Errorf("%s was kept: %v, %v", name, c, err)
		}
	}
}

func TestSetupRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, o := range map[string]credential.SetupOptions{
		"bad root": {Root: "a..b"}, "unknown role": {Rotate: []roles.Role{"admin"}},
	} {
		if _, err := credential.Setup(dir, o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := credential.Setup(dir, credential.SetupOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := credential.Setup(dir, credential.SetupOptions{Root: "other.v1"}); err == nil || !strings.Contains(err.Error(), "toolsearch.v1") {
		t.Errorf("another root in the same folder: %v", err)
	}
	broken := credential.KeyFile(dir, roles.Host, false)
	secret := "SAANOTASEEDBUTASECRETALLTHESAME"
	if err := os.WriteFile(broken, []byte(`{"seed": "`+secret+`"`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := credential.Setup(dir, credential.SetupOptions{}); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("a damaged key: %v", err)
	}
	if _, err := credential.LoadKey(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing key: %v", err)
	}
	if _, err := credential.LoadKey(filepath.Join(dir, "keys", "operator.nk")); err == nil {
		t.Error("an operator's key is taken for a signing key")
	}
}

// TestMint checks over any names that a user's token holds its names as they are, an end, and no permission of its own.
func TestMint(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := credential.Setup(dir, credential.SetupOptions{}); err != nil {
		t.Fatal(err)
	}
	key, err := credential.LoadKey(credential.KeyFile(dir, roles.Runtime, false))
	if err != nil {
		t.Fatal(err)
	}
	name := rapid.OneOf(rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		tenant, session := name.Draw(t, "tenant"), name.Draw(t, "session")
		expires := time.Now().Add(time.Hour).Truncate(time.Second)
		creds, err := key.Mint(credential.Grant{Tenant: tenant, Session: session, Expires: expires})
		if good := subjects.ValidToken(tenant) && subjects.ValidToken(session); good != (err == nil) {
			t.Fatalf("%q %q: %v", tenant, session, err)
		}
		if err != nil {
			return
		}
		token, err := jwt.ParseDecoratedJWT(creds)
		if err != nil {
			t.Fatal(err)
		}
		c, err := jwt.DecodeUserClaims(token)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Tags) != 2 || c.Tags[0] != "tenant:"+tenant || c.Tags[1] != "session:"+session {
			t.Fatalf("the tags are %v", c.Tags)
		}
		if c.Expires != expires.Unix() || c.IssuerAccount != key.Account || !c.HasEmptyPermissions() {
			t.Fatalf("the claims are %v", c)
		}
	})
	for _, template := range []string{"{{tag(tenant)}}", "*", ">"} {
		if _, err := key.Mint(credential.Grant{Tenant: template, Session: "s"}); err == nil {
			t.Errorf("%s is taken for a tenant", template)
		}
	}
}

// TestRotation reloads a server with the file of a rotated key: the old key's users are cut off, new ones and those of
// other roles work.
func TestRotation(t *testing.T) {
	t.Parallel()
	b := newBus(t, true)
	closed := make(chan error, 1)
	old := b.login(roles.Runtime, own, nats.NoReconnect(), nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { closed <- err }))
	operator := b.login(roles.Operator, own)
	oldCreds := b.creds(roles.Runtime, own)

	if _, err := credential.Setup(filepath.Join(b.dir, "fleet"), credential.SetupOptions{Bodies: true, Rotate: []roles.Role{roles.Runtime}}); err != nil {
		t.Fatal(err)
	}
	b.reload()
	await(t, closed, "the old user to be cut off")
	if _, err := nats.Connect(b.s.ClientURL(), nats.UserCredentials(oldCreds)); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("credentials of the old key: %v", err)
	}
	if u := b.login(roles.Runtime, own); u.Flush() != nil {
		t.Error("credentials of the new key do not work")
	}
	if err := operator.Flush(); err != nil {
		t.Errorf("another role's user was cut off: %v", err)
	}
	_ = old
}

// TestExpiry checks that a server refuses credentials whose time is over.
func TestExpiry(t *testing.T) {
	t.Parallel()
	b := newBus(t, true)
	key, err := credential.LoadKey(credential.KeyFile(filepath.Join(b.dir, "fleet"), roles.Runtime, false))
	if err != nil {
		t.Fatal(err)
	}
	creds, err := key.Mint(credential.Grant{Tenant: "default", Session: "cli", Expires: time.Now().Add(-time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "old.creds")
	if err := credential.WriteSecret(path, creds); err != nil {
		t.Fatal(err)
	}
	if _, err := nats.Connect(b.s.ClientURL(), nats.UserCredentials(path)); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("expired credentials: %v", err)
	}
}

// TestKeyOfOneRole checks that a role's key cannot make another role's user, whatever the token says.
func TestKeyOfOneRole(t *testing.T) {
	t.Parallel()
	b := newBus(t, true)
	path := credential.KeyFile(filepath.Join(b.dir, "fleet"), roles.Runtime, false)
	key, err := credential.LoadKey(path)
	if err != nil {
		t.Fatal(err)
	}
	key.Role = roles.Operator // as somebody would who edits the file
	creds, err := key.Mint(credential.Grant{})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "forged.creds")
	if err := credential.WriteSecret(file, creds); err != nil {
		t.Fatal(err)
	}
	refused := make(chan error, 8)
	nc, err := nats.Connect(b.s.ClientURL(), nats.UserCredentials(file), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	if err != nil {
		return // no login at all is well too
	}
	defer nc.Close()
	if err := nc.Publish("$JS.API.STREAM.LIST", nil); err != nil {
		t.Fatal(err)
	}
	if err := await(t, refused, "the refusal"); !errors.Is(err, nats.ErrPermissionViolation) {
		t.Errorf("got %v", err)
	}
}

// TestNoPassword checks that nobody gets in without a login or with a wrong password.
func TestNoPassword(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, b *bus) {
		for name, o := range map[string]nats.Option{
			"nobody": nats.Name("nobody"), "wrong password": nats.UserInfo("operator", "x"), "unknown user": nats.UserInfo("admin", ""),
		} {
			if nc, err := nats.Connect(b.s.ClientURL(), o); err == nil {
				t.Errorf("%s is let in", name)
				nc.Close()
			}
		}
	})
}
