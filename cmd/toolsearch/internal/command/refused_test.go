package command_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"toolsearch/cmd/toolsearch/internal/command"
	"toolsearch/subjects/roles"
)

// guarded runs a server with one user, a runtime of a session, and gives its address without the user.
func guarded(t *testing.T) string {
	t.Helper()
	p, err := roles.Runtime.Permissions(roles.Names{Tenant: "acme", Session: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, &server.Options{Users: []*server.User{{Username: "runtime", Password: "p", Permissions: &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: p.Publish},
		Subscribe: &server.SubjectPermission{Allow: p.Subscribe},
	}}}})
}

// serve runs a server on a port of this machine and gives its address.
func serve(t *testing.T, o *server.Options) string {
	t.Helper()
	o.Host, o.Port, o.NoSigs, o.NoLog = "127.0.0.1", server.RANDOM_PORT, true, true
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server did not start")
	}
	return s.Addr().String()
}

// TestRefusedLogin checks that a login which may not do it ends every verb at once, with one line that says what it may
// not and what to do; an hour is far more than the test has.
func TestRefusedLogin(t *testing.T) {
	t.Parallel()
	const (
		others    = "ask for the --tenant and --session"
		operators = "use an operator's credentials"
		users     = "toolsearch token interface"
	)
	at := guarded(t)
	for line, want := range map[string][]string{
		"search --sample mail --tenant acme --session s2":     {"toolsearch.v1.req.acme.s2.assemble", others},
		"describe --sample mail --tenant globex --session s1": {"toolsearch.v1.req.globex.s1.assemble", others},
		"call --sample mail":                                   {"toolsearch.v1.req.default.cli.assemble", others},
		"call --sample mail --async":                           {"toolsearch.v1.req.default.cli.assemble", others},
		"assemble --sample":                                    {"toolsearch.v1.req.default.cli.assemble", others},
		"connections status":                                   {"toolsearch.v1.req.default.cli.assemble", others},
		"connections accounts --tenant acme --session s1":      {"toolsearch.v1.ui.acme.s1.accounts", users},
		"connections cards --tenant acme --session s1":         {"toolsearch.v1.card.acme.s1.", users},
		"connections disconnect x --tenant acme --session s1":  {"toolsearch.v1.ui.acme.s1.disconnect", users},
		"connections answer skip m --tenant acme --session s1": {"toolsearch.v1.ui.acme.s1.operation", users},
		"stop --tenant acme --session s2":                      {"toolsearch.v1.stop.acme.s2", others},
		"watch --tenant acme --session s2":                     {"toolsearch.v1.result.acme.s2.*", others},
		"watch --replay --tenant acme --session s1":            {"$JS.API.CONSUMER.CREATE.TOOLSEARCH_RESULTS", "leave --replay out"},
		"jobs list":       {"does not let this login", operators},
		"jobs show call":  {"does not let this login", operators},
		"jobs retry call": {"does not let this login", operators},
		"init":            {"does not let this login", operators},
		"init --check":    {"does not let this login", operators},
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			got := run(t, "", append(strings.Fields(line), "--nats", "nats://runtime:p@"+at, "--timeout", "1h")...)
			if got.code != command.ExitRefused || strings.Count(got.err, "\n") != 1 {
				t.Errorf("exit code %d, want %d and one line; err: %s", got.code, command.ExitRefused, got.err)
			}
			for _, w := range want {
				if !strings.Contains(got.err, w) {
					t.Errorf("%q is not told: %s", w, got.err)
				}
			}
		})
	}
}

// TestNoLogin checks that a login which the server does not let in is told as that, with what to do about it.
func TestNoLogin(t *testing.T) {
	t.Parallel()
	at := guarded(t)
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	account, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	creds := func(name string, end time.Time) string {
		public, err := user.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		claims := jwt.NewUserClaims(public)
		if !end.IsZero() {
			claims.Expires = end.Unix()
		}
		token, err := claims.Encode(account)
		if err != nil {
			t.Fatal(err)
		}
		text, err := jwt.FormatUserConfig(token, seed)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	old := creds("old.creds", time.Now().Add(-time.Hour))
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"none":     {[]string{"--nats", "nats://" + at}, "it wants one: give --creds or --nkey"},
		"password": {[]string{"--nats", "nats://runtime:wrong@" + at}, "check the user and the password"},
		"expired":  {[]string{"--nats", "nats://" + at, "--creds", old}, "old.creds has expired at "},
		"another":  {[]string{"--nats", "nats://" + at, "--creds", creds("another.creds", time.Time{})}, "another.creds is of another fleet"},
		"later":    {[]string{"--nats", "nats://" + at, "--creds", creds("later.creds", time.Now().Add(time.Hour))}, "later.creds is of another fleet"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, verb := range [][]string{{"search", "--sample", "mail"}, {"jobs", "list"}, {"init"}} {
				got := run(t, "", append(verb, test.args...)...)
				if got.code != command.ExitRefused || !strings.Contains(got.err, "refused this login") || !strings.Contains(got.err, test.want) {
					t.Errorf("%s: exit code %d, want %d and %q; err: %s", verb, got.code, command.ExitRefused, test.want, got.err)
				}
				if strings.Contains(got.err, "wrong@") {
					t.Errorf("%s: the password is told: %s", verb, got.err)
				}
			}
		})
	}
}

// TestWatchTellsOfItsConnection checks that who only listens learns that the server is gone, and of its return.
func TestWatchTellsOfItsConnection(t *testing.T) {
	t.Parallel()
	start := func(port int) *server.Server {
		s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, NoSigs: true, NoLog: true})
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		if !s.ReadyForConnections(10 * time.Second) {
			t.Fatal("the server did not start")
		}
		return s
	}
	s := start(server.RANDOM_PORT)
	port := s.Addr().(*net.TCPAddr).Port
	errs, end := newLines(), make(chan os.Signal, 1)
	done := make(chan int)
	go func() {
		done <- command.Main(command.Surroundings{In: strings.NewReader(""), Out: io.Discard, Err: errs, Signals: end,
			Environ: func() []string { return nil }}, []string{"watch", "--nats", "nats://" + s.Addr().String()})
	}()
	errs.await(t, "watching session default.cli")
	s.Shutdown()
	s.WaitForShutdown()
	errs.await(t, "warning: the connection to the NATS server is lost; trying again")
	again := start(port)
	defer again.WaitForShutdown()
	defer again.Shutdown()
	errs.await(t, "warning: connected again")
	end <- os.Interrupt
	if code := <-done; code != command.ExitFound {
		t.Errorf("exit code %d", code)
	}
}

// TestNoJetStream checks that a server without it is told as that, within seconds and with what to do.
func TestNoJetStream(t *testing.T) {
	t.Parallel()
	at := serve(t, &server.Options{})
	for line, want := range map[string]string{
		"init": "JetStream", "init --check": "JetStream", "jobs list": "JetStream", "jobs show x": "JetStream", "jobs retry x": "JetStream",
		"watch --replay": "JetStream", "stop": "start a worker", "search --sample mail": "no worker answers",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			got := run(t, "", append(strings.Fields(line), "--nats", "nats://"+at, "--timeout", "1h")...)
			if got.code != command.ExitRefused || !strings.Contains(got.err, want) {
				t.Errorf("exit code %d, want %d and %q; err: %s", got.code, command.ExitRefused, want, got.err)
			}
		})
	}
}

// TestTLSIsTold checks that what keeps a verb from a server that encrypts is told as that, with the flag to look at.
func TestTLSIsTold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pairOf := func(name string, ips ...net.IP) (cert, key string) {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IPAddresses: ips,
			NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
		der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
		if err != nil {
			t.Fatal(err)
		}
		private, err := x509.MarshalPKCS8PrivateKey(k)
		if err != nil {
			t.Fatal(err)
		}
		cert, key = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+"-key.pem")
		for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: private}} {
			if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return cert, key
	}
	start := func(cert, key string, clients bool) string {
		o := &server.Options{TLS: cert != ""}
		if o.TLS {
			c, err := server.GenTLSConfig(&server.TLSConfigOpts{CertFile: cert, KeyFile: key, CaFile: cert, Verify: clients})
			if err != nil {
				t.Fatal(err)
			}
			o.TLSConfig, o.TLSVerify, o.TLSTimeout = c, clients, 10
		}
		return serve(t, o)
	}
	own, ownKey := pairOf("own", net.IPv4(127, 0, 0, 1))
	named, namedKey := pairOf("named")
	for name, test := range map[string]struct {
		at, ca, want string
	}{
		"unknown authority": {"tls://" + start(own, ownKey, false), "", "name its authority with --tls-ca"},
		"another name":      {"tls://" + start(named, namedKey, false), named, "is for another name"},
		"no certificate":    {"tls://" + start(own, ownKey, true), own, "check --tls-ca, --tls-cert and --tls-key"},
		"no TLS":            {"tls://" + start("", "", false), "", "speaks no TLS"},
		"no websocket":      {"ws://" + start("", "", false), "", "speaks no websocket"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := []string{"search", "--sample", "mail", "--nats", test.at}
			if test.ca != "" {
				args = append(args, "--tls-ca", test.ca)
			}
			if got := run(t, "", args...); got.code != command.ExitRefused || !strings.Contains(got.err, test.want) {
				t.Errorf("exit code %d, want %d and %q; err: %s", got.code, command.ExitRefused, test.want, got.err)
			}
		})
	}
}
