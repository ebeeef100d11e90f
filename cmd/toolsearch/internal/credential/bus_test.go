package credential_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"toolsearch/cmd/toolsearch/internal/command"
	"toolsearch/cmd/toolsearch/internal/credential"
	"toolsearch/subjects"
	"toolsearch/subjects/roles"
)

// own are the names that deploy/nats/roles.conf has users for.
var own = roles.Names{Tenant: "default", Session: "cli", Host: "tools-1"}

func TestMain(m *testing.M) {
	for _, r := range roles.All() {
		if err := os.Setenv(credential.PasswordVariable(r), password(r)); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

func password(r roles.Role) string { return "pw-" + string(r) }

// deploy is the folder of the configuration under test.
func deploy(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "deploy", "nats")
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test's folder")
		}
		dir = filepath.Dir(dir)
	}
}

// installation is a copy of deploy/nats, as somebody would put it on a server.
type installation struct {
	dir   string
	fleet bool // log in by signed credentials
}

// install copies the configuration. For a fleet it takes the step of the README: setup, and the other line of auth.conf.
func install(t testing.TB, fleet bool) *installation {
	t.Helper()
	i := &installation{dir: t.TempDir(), fleet: fleet}
	files, err := filepath.Glob(filepath.Join(deploy(t), "*.conf"))
	if err != nil || len(files) < 5 {
		t.Fatalf("deploy/nats: %v %v", files, err)
	}
	for _, f := range files {
		i.write(t, filepath.Base(f), readFile(t, f))
	}
	if fleet {
		if _, err := credential.Setup(filepath.Join(i.dir, "fleet"), credential.SetupOptions{Bodies: true}); err != nil {
			t.Fatal(err)
		}
		i.choose(t)
	}
	return i
}

// choose makes auth.conf take the fleet's file instead of the passwords.
func (i *installation) choose(t testing.TB) {
	t.Helper()
	text := string(readFile(t, filepath.Join(i.dir, "auth.conf")))
	for old, put := range map[string]string{
		"\ninclude roles.conf": "\n# include roles.conf", "\n# include fleet/resolver.conf": "\ninclude fleet/resolver.conf",
	} {
		if strings.Count(text, old) != 1 {
			t.Fatalf("auth.conf has not one line %q", old)
		}
		text = strings.Replace(text, old, put, 1)
	}
	i.write(t, "auth.conf", []byte(text))
}

func (i *installation) write(t testing.TB, name string, p []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(i.dir, name), p, 0o600); err != nil {
		t.Fatal(err)
	}
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	p, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// options reads a configuration as the server does, and moves it to free ports and a folder of the test.
func (i *installation) options(t testing.TB, file string) *server.Options {
	t.Helper()
	o := &server.Options{StoreDir: t.TempDir()} // as by -sd
	if err := o.ProcessConfigFile(filepath.Join(i.dir, file)); err != nil {
		t.Fatal(err)
	}
	if o.Host != "0.0.0.0" || o.Port != 4222 || o.HTTPHost != "127.0.0.1" || o.HTTPPort != 8222 || !o.JetStream {
		t.Errorf("%s: listens on %s:%d, monitoring on %s:%d, JetStream %v", file, o.Host, o.Port, o.HTTPHost, o.HTTPPort, o.JetStream)
	}
	o.Host, o.Port, o.HTTPPort = "127.0.0.1", server.RANDOM_PORT, server.RANDOM_PORT
	o.NoSigs, o.NoLog = true, true
	return o
}

func start(t testing.TB, o *server.Options) *server.Server {
	t.Helper()
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s
}

// bus is a running server of an installation.
type bus struct {
	*installation
	t     testing.TB
	s     *server.Server
	store string
}

func newBus(t testing.TB, fleet bool) *bus {
	t.Helper()
	i := install(t, fleet)
	o := i.options(t, "single.conf")
	s := start(t, o)
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("the server is not ready")
	}
	return &bus{installation: i, t: t, s: s, store: o.StoreDir}
}

// modes runs a test in both ways to log in.
func modes(t *testing.T, test func(t *testing.T, b *bus)) {
	for name, fleet := range map[string]bool{"password": false, "fleet": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newBus(t, fleet))
		})
	}
}

// creds mints a user with the fleet's key.
func (b *bus) creds(r roles.Role, n roles.Names) string {
	b.t.Helper()
	key, err := credential.LoadKey(credential.KeyFile(filepath.Join(b.dir, "fleet"), r, n.Bodies))
	if err != nil {
		b.t.Fatal(err)
	}
	p, err := key.Mint(credential.Grant{Tenant: n.Tenant, Session: n.Session, Host: n.Host, Expires: time.Now().Add(time.Hour)})
	if err != nil {
		b.t.Fatal(err)
	}
	path := filepath.Join(b.t.TempDir(), "user.creds")
	if err := credential.WriteSecret(path, p); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// url is the server's address, with the role's name and password where that is the way.
func (b *bus) url(r roles.Role) string {
	if b.fleet {
		return b.s.ClientURL()
	}
	u, err := url.Parse(b.s.ClientURL())
	if err != nil {
		b.t.Fatal(err)
	}
	u.User = url.UserPassword(string(r), password(r))
	return u.String()
}

// user is a connection of a role that keeps what the server complains of.
type user struct {
	*nats.Conn
	t    testing.TB
	errs chan error
}

// login connects as a role. The inbox is the one that its own clients use.
func (b *bus) login(r roles.Role, n roles.Names, more ...nats.Option) *user {
	b.t.Helper()
	u := &user{t: b.t, errs: make(chan error, 256)}
	closed := make(chan struct{})
	var options []nats.Option
	switch r {
	case roles.Runtime, roles.Interface, roles.Orchestrator:
		options = subjects.ConnectOptions(n.Tenant, n.Session)
	case roles.Host:
		options = subjects.ConnectOptions(n.Tenant, n.Host)
	case roles.Worker:
		options = []nats.Option{nats.CustomInboxPrefix(roles.WorkerInbox)}
	}
	options = append(options,
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			select {
			case u.errs <- err:
			default:
			}
		}),
		nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	if b.fleet {
		options = append(options, nats.UserCredentials(b.creds(r, n)))
	}
	nc, err := nats.Connect(b.url(r), append(options, more...)...)
	if err != nil {
		b.t.Fatalf("log in as %s: %v", r, err)
	}
	b.t.Cleanup(func() { nc.Close(); <-closed })
	u.Conn = nc
	return u
}

// refusedPublish publishes and waits for the server's refusal of that very subject.
func (u *user) refusedPublish(subject string) {
	u.t.Helper()
	if err := u.PublishRequest(subject, u.NewRespInbox(), []byte("{}")); err != nil {
		u.t.Fatal(err)
	}
	u.refused("Publish", subject)
}

func (u *user) refusedSubscribe(subject string) {
	u.t.Helper()
	sub, err := u.Conn.Subscribe(subject, func(m *nats.Msg) { u.t.Errorf("a message on %s: %s", m.Subject, m.Data) })
	if err != nil {
		u.t.Fatal(err)
	}
	u.refused("Subscription", subject)
	_ = sub.Unsubscribe()
}

func (u *user) refused(what, subject string) {
	u.t.Helper()
	if err := u.Flush(); err != nil {
		u.t.Fatal(err)
	}
	timeout := time.After(20 * time.Second)
	for {
		select {
		case err := <-u.errs:
			text := strings.ToLower(err.Error())
			if strings.Contains(text, strings.ToLower(what)) && strings.Contains(text, strings.ToLower(strconv.Quote(subject))) {
				return
			}
			u.t.Errorf("waiting for the refusal of %s: %v", subject, err)
		case <-timeout:
			u.t.Fatalf("%s: the server does not refuse %s", what, subject)
		}
	}
}

// toolsearch runs the command line as a role, and returns its output and exit code.
func (b *bus) toolsearch(r roles.Role, n roles.Names, args ...string) (string, int) {
	b.t.Helper()
	args = append(args, "--nats", b.url(r))
	if b.fleet {
		args = append(args, "--creds", b.creds(r, n))
	}
	var out, errs bytes.Buffer
	code := command.Main(command.Surroundings{In: strings.NewReader(""), Out: &out, Err: io.MultiWriter(&errs, &out),
		Environ: func() []string { return nil }}, args)
	if !b.fleet && strings.Contains(errs.String(), password(r)) {
		b.t.Errorf("the password is told: %s", errs.String())
	}
	return out.String(), code
}

// must runs the command line and fails unless it exits with 0.
func (b *bus) must(r roles.Role, args ...string) string {
	b.t.Helper()
	out, code := b.toolsearch(r, own, args...)
	if code != command.ExitFound {
		b.t.Fatalf("%s: toolsearch %s: exit code %d: %s", r, strings.Join(args, " "), code, out)
	}
	return out
}

func inTime(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// await waits for an event that has to come.
func await[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(60 * time.Second):
		t.Fatal("waited in vain for " + what)
		panic("not reached")
	}
}

// reload has the server read its files again, at the ports that it has.
func (b *bus) reload() {
	b.t.Helper()
	o := b.options(b.t, "single.conf")
	o.Port, o.StoreDir = b.s.Addr().(*net.TCPAddr).Port, b.store
	if err := b.s.ReloadOptions(o); err != nil {
		b.t.Fatal(err)
	}
}
