package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certs are the PEM files of a private certificate authority, made on the spot.
type Certs struct {
	// CA signs everything below except OtherCA.
	CA string
	// ServerCert and ServerKey are for 127.0.0.1, ::1 and localhost.
	ServerCert, ServerKey string
	// ClientCert and ClientKey belong to a client with the common name "bridge".
	ClientCert, ClientKey string
	// ExpiredCert and ExpiredKey are a server's like ServerCert that ended an hour ago.
	ExpiredCert, ExpiredKey string
	// NamedCert and NamedKey are a server's for bridge.example, and so are TwinCert and TwinKey.
	NamedCert, NamedKey, TwinCert, TwinKey string
	// OtherCA has signed none of them.
	OtherCA string
}

// NewCerts makes certificates in a folder of the test.
func NewCerts(t testing.TB) Certs {
	t.Helper()
	dir := t.TempDir()
	now := time.Now()
	ca, other := newAuthority(t, "bridge test CA"), newAuthority(t, "another CA")
	c := Certs{CA: ca.write(t, dir, "ca"), OtherCA: other.write(t, dir, "other-ca")}
	c.ServerCert, c.ServerKey = ca.sign(t, dir, leaf{name: "server", from: now.Add(-time.Hour), until: now.Add(24 * time.Hour)})
	c.ClientCert, c.ClientKey = ca.sign(t, dir, leaf{name: "bridge", from: now.Add(-time.Hour), until: now.Add(24 * time.Hour), client: true})
	c.ExpiredCert, c.ExpiredKey = ca.sign(t, dir, leaf{name: "expired", from: now.Add(-48 * time.Hour), until: now.Add(-time.Hour)})
	for name, files := range map[string][2]*string{"named": {&c.NamedCert, &c.NamedKey}, "twin": {&c.TwinCert, &c.TwinKey}} {
		*files[0], *files[1] = ca.sign(t, dir, leaf{name: name, from: now.Add(-time.Hour), until: now.Add(24 * time.Hour), host: "bridge.example"})
	}
	return c
}

type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

type leaf struct {
	name        string
	from, until time.Time
	client      bool
	// host is the only name of the certificate, empty for those of loopback.
	host string
}

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: serial(t), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-72 * time.Hour), NotAfter: time.Now().Add(72 * time.Hour),
		KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key}
}

func (a *authority) write(t testing.TB, dir, name string) string {
	t.Helper()
	return writePEM(t, filepath.Join(dir, name+".pem"), "CERTIFICATE", a.cert.Raw)
}

// sign writes a certificate and its key.
func (a *authority) sign(t testing.TB, dir string, l leaf) (certFile, keyFile string) {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: serial(t), Subject: pkix.Name{CommonName: l.name}, NotBefore: l.from, NotAfter: l.until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, DNSNames: []string{"localhost"},
	}
	if l.host != "" {
		template.IPAddresses, template.DNSNames = nil, []string{l.host}
	}
	if l.client {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return writePEM(t, filepath.Join(dir, l.name+"-cert.pem"), "CERTIFICATE", der),
		writePEM(t, filepath.Join(dir, l.name+"-key.pem"), "PRIVATE KEY", keyDER)
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func serial(t testing.TB) *big.Int {
	t.Helper()
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func writePEM(t testing.TB, path, kind string, der []byte) string {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
