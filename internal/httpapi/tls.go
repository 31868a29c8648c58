package httpapi

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"bridge/internal/option"
)

// TLS names PEM files. The server speaks TLS where Cert and Key are named; a client does where any
// file is.
type TLS struct{ CA, Cert, Key string }

// certificate is that of the server, as its files have it.
type certificate struct {
	files TLS
	log   *slog.Logger

	mu     sync.Mutex
	pair   *tls.Certificate
	loaded [2]version
	failed bool
}

// version tells a file from what it was before.
type version struct {
	at   time.Time
	size int64
}

// config returns the configuration of a server with the certificate. The error is that of the first
// read.
func (c *certificate) config() (*tls.Config, error) {
	if _, err := c.get(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.get() },
	}, nil
}

// get returns the certificate, which it reads again when a file has changed. While the files are no
// pair, as between the replacement of one and of the other, the former one is good.
func (c *certificate) get() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := [2]version{versionOf(c.files.Cert), versionOf(c.files.Key)}
	if c.pair != nil && now == c.loaded {
		return c.pair, nil
	}
	pair, err := tls.LoadX509KeyPair(c.files.Cert, c.files.Key)
	switch {
	case err == nil:
		c.pair, c.loaded, c.failed = &pair, now, false
	case c.pair == nil:
		return nil, fmt.Errorf("read the certificate: %w", err)
	case !c.failed:
		c.failed = true
		c.log.Warn("the certificate of the HTTP server cannot be read again, the former one stays", "error", err)
	}
	return c.pair, nil
}

func versionOf(path string) version {
	info, err := os.Stat(path)
	if err != nil {
		return version{}
	}
	return version{info.ModTime(), info.Size()}
}

// client returns the configuration of a client that asks host, nil where it does not speak TLS.
// The files are read at each call.
//
// A server passes if it has the very certificate that Cert names: it has shown that it owns the
// key, which only processes with the same files do, so no name has to be on it. So a health check
// may ask 127.0.0.1, and a process of a standby group the address of another one. Another server
// passes if its certificate is signed by the authorities, for host or for a name that is on ours.
func (t *TLS) client(host string) (*tls.Config, error) {
	if t == nil || *t == (TLS{}) {
		return nil, nil
	}
	var trust trust
	trust.names = []string{host}
	if t.CA != "" {
		text, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("read the certificate authorities: %w", err)
		}
		if trust.roots = x509.NewCertPool(); !trust.roots.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("read the certificate authorities: no certificate in %s", t.CA)
		}
	}
	if t.Cert != "" {
		// The key may be for bridge alone to read.
		own, err := readCertificate(t.Cert)
		if err != nil {
			return nil, fmt.Errorf("read the certificate: %w", err)
		}
		trust.own, trust.names = own.Raw, append(trust.names, own.DNSNames...)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: host,
		// It is verified, by other rules.
		InsecureSkipVerify: true,
		VerifyConnection: func(c tls.ConnectionState) error {
			if err := trust.verify(c); err != nil {
				return option.Errorf("its certificate is not trusted: %w: see %s", err, option.HTTPTLSCA)
			}
			return nil
		},
	}, nil
}

// trust is which certificates a client accepts.
type trust struct {
	// own is in DER form, nil where the client has none.
	own   []byte
	roots *x509.CertPool
	names []string
}

func (t *trust) verify(c tls.ConnectionState) error {
	leaf, between := c.PeerCertificates[0], x509.NewCertPool()
	if bytes.Equal(leaf.Raw, t.own) {
		return nil
	}
	for _, one := range c.PeerCertificates[1:] {
		between.AddCert(one)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: t.roots, Intermediates: between}); err != nil {
		return err
	}
	var wrong error
	for _, name := range t.names {
		err := leaf.VerifyHostname(name)
		if err == nil {
			return nil
		}
		wrong = errors.Join(wrong, err)
	}
	return wrong
}

// readCertificate returns the first certificate of a PEM file.
func readCertificate(path string) (*x509.Certificate, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for len(text) > 0 {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type == "CERTIFICATE" {
			return x509.ParseCertificate(block.Bytes)
		}
	}
	return nil, fmt.Errorf("no certificate in %s", path)
}
