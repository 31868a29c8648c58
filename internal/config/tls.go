package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// Config returns a function that reads the PEM files and makes a TLS configuration of them. It is
// called at each connect, so that files can be replaced while the program runs.
func (t TLS) Config() func() (*tls.Config, error) {
	return func() (*tls.Config, error) {
		c := &tls.Config{MinVersion: tls.VersionTLS12}
		if t.CA != "" {
			pem, err := os.ReadFile(t.CA)
			if err != nil {
				return nil, fmt.Errorf("read the certificate authorities: %w", err)
			}
			c.RootCAs = x509.NewCertPool()
			if !c.RootCAs.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("read the certificate authorities: no certificate in %s", t.CA)
			}
		}
		if t.Cert != "" {
			pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
			if err != nil {
				return nil, fmt.Errorf("read the client certificate: %w", err)
			}
			c.Certificates = []tls.Certificate{pair}
		}
		return c, nil
	}
}

// Given reports whether any file is named.
func (t TLS) Given() bool { return t != TLS{} }
