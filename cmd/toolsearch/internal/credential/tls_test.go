package credential_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"toolsearch/cmd/toolsearch/internal/command"
	"toolsearch/subjects/roles"
)

// TestTLS takes the step that base.conf and tls.conf describe, and checks that clients verify the server.
func TestTLS(t *testing.T) {
	t.Parallel()
	i := install(t, false)
	certificate, key := selfSigned(t)
	i.write(t, "server.pem", certificate)
	i.write(t, "server-key.pem", key)
	base := string(readFile(t, filepath.Join(i.dir, "base.conf")))
	if strings.Count(base, "\n# include tls.conf") != 1 {
		t.Fatal("base.conf has not one line to include tls.conf")
	}
	i.write(t, "base.conf", []byte(strings.Replace(base, "\n# include tls.conf", "\ninclude tls.conf", 1)))
	i.write(t, "tls.conf", bytes.ReplaceAll(readFile(t, filepath.Join(i.dir, "tls.conf")), []byte("/etc/nats/tls"), []byte(i.dir)))
	s := start(t, i.options(t, "single.conf"))
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("the server is not ready")
	}
	b := &bus{installation: i, t: t, s: s}
	b.must(roles.Operator, "init", "--tls-ca", filepath.Join(i.dir, "server.pem"))
	if out, code := b.toolsearch(roles.Operator, own, "init", "--check"); code != command.ExitRefused || !strings.Contains(out, "certificate") {
		t.Errorf("an authority that is not trusted: exit code %d: %s", code, out)
	}
}

// selfSigned makes a certificate for 127.0.0.1 that is its own authority.
func selfSigned(t *testing.T) (certificate, key []byte) {
	t.Helper()
	private := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "127.0.0.1"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der := must(x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private))
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(private))})
}
