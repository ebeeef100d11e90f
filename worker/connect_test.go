package worker

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// secureServer runs a server of the given options on a loopback port.
func secureServer(t *testing.T, o *server.Options) string {
	t.Helper()
	o.AuthTimeout = wait.Seconds()
	o.Host, o.Port, o.NoSigs, o.NoLog = "127.0.0.1", server.RANDOM_PORT, true, true
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(wait) {
		t.Fatal("the server did not start")
	}
	return s.ClientURL()
}

// logsIn connects and asks the server for an answer.
func logsIn(t *testing.T, o ConnectOptions) {
	t.Helper()
	nc, err := Connect(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if err := nc.FlushTimeout(wait); err != nil {
		t.Fatalf("%v; last error %v", err, nc.LastError())
	}
}

func writeFile(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLogins(t *testing.T) {
	t.Parallel()
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	public, err := user.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("user", func(t *testing.T) {
		t.Parallel()
		logsIn(t, ConnectOptions{URLs: []string{secureServer(t, &server.Options{Username: "u", Password: "p"})}, User: "u", Password: "p"})
	})
	t.Run("token", func(t *testing.T) {
		t.Parallel()
		logsIn(t, ConnectOptions{URLs: []string{secureServer(t, &server.Options{Authorization: "tk"})}, Token: "tk"})
	})
	t.Run("nkey", func(t *testing.T) {
		t.Parallel()
		url := secureServer(t, &server.Options{Nkeys: []*server.NkeyUser{{Nkey: public}}})
		logsIn(t, ConnectOptions{URLs: []string{url}, NKeySeedFile: writeFile(t, "user.nk", seed)})
	})
	t.Run("credentials", func(t *testing.T) {
		t.Parallel()
		operator, account := pair(t, nkeys.CreateOperator), pair(t, nkeys.CreateAccount)
		resolver := &server.MemAccResolver{}
		accountJWT, err := jwt.NewAccountClaims(publicKey(t, account)).Encode(operator)
		if err != nil {
			t.Fatal(err)
		}
		if err := resolver.Store(publicKey(t, account), accountJWT); err != nil {
			t.Fatal(err)
		}
		url := secureServer(t, &server.Options{TrustedKeys: []string{publicKey(t, operator)}, AccountResolver: resolver})
		userJWT, err := jwt.NewUserClaims(public).Encode(account)
		if err != nil {
			t.Fatal(err)
		}
		creds, err := jwt.FormatUserConfig(userJWT, seed)
		if err != nil {
			t.Fatal(err)
		}
		logsIn(t, ConnectOptions{URLs: []string{url}, CredsFile: writeFile(t, "user.creds", creds)})
	})
	t.Run("tls", func(t *testing.T) {
		t.Parallel()
		cert, key := selfSigned(t)
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(cert)
		pairOf, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		url := secureServer(t, &server.Options{TLS: true, TLSVerify: true, TLSTimeout: wait.Seconds(), TLSConfig: &tls.Config{
			Certificates: []tls.Certificate{pairOf}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
		}})
		certFile, keyFile := writeFile(t, "cert.pem", cert), writeFile(t, "key.pem", key)
		logsIn(t, ConnectOptions{URLs: []string{url}, CAFile: certFile, CertFile: certFile, KeyFile: keyFile, Timeout: wait})
	})
}

func pair(t *testing.T, create func() (nkeys.KeyPair, error)) nkeys.KeyPair {
	t.Helper()
	k, err := create()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func publicKey(t *testing.T, k nkeys.KeyPair) string {
	t.Helper()
	p, err := k.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// selfSigned makes a certificate for 127.0.0.1 that vouches for itself, on both sides.
func selfSigned(t *testing.T) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "toolsearch test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.ParseIP("127.0.0.1")}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}

// A private inbox prefix is on the worker's own requests.
func TestInboxPrefix(t *testing.T) {
	t.Parallel()
	url := secureServer(t, &server.Options{})
	nc, err := Connect(t.Context(), ConnectOptions{URLs: []string{url}, InboxPrefix: "_INBOX_worker"})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	other, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.Subscribe("who", func(m *nats.Msg) { _ = m.Respond([]byte(m.Reply)) }); err != nil {
		t.Fatal(err)
	}
	if err := other.Flush(); err != nil {
		t.Fatal(err)
	}
	m, err := nc.Request("who", nil, wait)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(m.Data); len(got) < 14 || got[:14] != "_INBOX_worker." {
		t.Fatalf("asked with %q", got)
	}
}

// Whoever reads the log at its usual level learns why a worker has no connection: nobody there, or a refused login, of
// which no handler tells.
func TestTellsWhyItCannotConnect(t *testing.T) {
	t.Parallel()
	closed := func(t *testing.T) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return "nats://" + l.Addr().String()
	}
	for name, test := range map[string]struct {
		url  string
		want string
	}{
		"nobody there":  {closed(t), "connection refused"},
		"login refused": {secureServer(t, &server.Options{Username: "u", Password: "p"}), "Authorization Violation"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := &logBook{}
			nc, err := Connect(t.Context(), ConnectOptions{URLs: []string{test.url}, User: "u", Password: "s3cret", Timeout: wait,
				ReconnectWait: time.Millisecond, Logger: slog.New(log)})
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			told := regexp.MustCompile(`^WARN cannot connect to NATS and tries again error=.*` + test.want)
			await(t, log.seen("cannot connect to NATS and tries again"), "the reason")
			log.mu.Lock()
			defer log.mu.Unlock()
			if !slices.ContainsFunc(log.lines, told.MatchString) {
				t.Errorf("the log is %q, want %q in it", log.lines, test.want)
			}
			if strings.Contains(strings.Join(log.lines, " "), "s3cret") {
				t.Errorf("the password is logged: %q", log.lines)
			}
		})
	}
}
