package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
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
	// NamedCert and NamedKey are a server's for bridge.example, and so are OtherCertOfName and
	// OtherKeyOfName.
	NamedCert, NamedKey, OtherCertOfName, OtherKeyOfName string
	// OtherCA has signed none of them.
	OtherCA string
}

// NewCerts makes certificates in a folder of the test.
func NewCerts(t testing.TB) (c Certs) {
	t.Helper()
	dir := t.TempDir()
	var parent *x509.Certificate
	var parentKey *ecdsa.PrivateKey
	// sign writes a certificate and its key.
	sign := func(cert *x509.Certificate, name string) (certFile, keyFile string) {
		key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
		cert.SerialNumber = must(rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)))(t)
		cert.Subject.CommonName = name
		if cert.IsCA {
			parent, parentKey = cert, key
		}
		der := must(x509.CreateCertificate(rand.Reader, cert, parent, key.Public(), parentKey))(t)
		certFile, keyFile = filepath.Join(dir, name+"-cert.pem"), filepath.Join(dir, name+"-key.pem")
		writeFile(t, certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
		writeFile(t, keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(key))(t)}))
		return certFile, keyFile
	}
	authority := func(name string) string {
		file, _ := sign(&x509.Certificate{
			NotBefore: time.Now().Add(-72 * time.Hour), NotAfter: time.Now().Add(72 * time.Hour), KeyUsage: x509.KeyUsageCertSign, IsCA: true,
			BasicConstraintsValid: true, SubjectKeyId: []byte(name),
		}, name)
		return file
	}
	leaf := func(name string, usage x509.ExtKeyUsage, until time.Duration, hosts ...string) (certFile, keyFile string) {
		cert := &x509.Certificate{
			NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(until),
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage}, DNSNames: hosts,
		}
		if len(hosts) == 0 {
			cert.IPAddresses, cert.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, []string{"localhost"}
		}
		return sign(cert, name)
	}
	const day = 24 * time.Hour
	c.OtherCA = authority("other-ca")
	c.CA = authority("ca")
	c.ServerCert, c.ServerKey = leaf("server", x509.ExtKeyUsageServerAuth, day)
	c.ClientCert, c.ClientKey = leaf("bridge", x509.ExtKeyUsageClientAuth, day)
	c.ExpiredCert, c.ExpiredKey = leaf("expired", x509.ExtKeyUsageServerAuth, -time.Hour)
	c.NamedCert, c.NamedKey = leaf("named", x509.ExtKeyUsageServerAuth, day, "bridge.example")
	c.OtherCertOfName, c.OtherKeyOfName = leaf("other-of-name", x509.ExtKeyUsageServerAuth, day, "bridge.example")
	return c
}
