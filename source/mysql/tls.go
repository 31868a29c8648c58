package mysql

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	driver "github.com/go-sql-driver/mysql"
)

// loadTLS makes a configuration of PEM files, each optional, for a mode of ParseURL.
func loadTLS(mode, ca, cert, key string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: mode != "true"}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("tls-ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls-ca: no certificate in %s", ca)
		}
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("tls-cert and tls-key: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	if mode == "verify-ca" {
		c.VerifyConnection = verifyAuthority(c.RootCAs)
	}
	return c, nil
}

// verifyAuthority returns what accepts a certificate that one of roots has signed, whatever its
// host. As crypto/tls verifies nothing with InsecureSkipVerify, and calls VerifyConnection on every
// connection.
func verifyAuthority(roots *x509.CertPool) func(tls.ConnectionState) error {
	return func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) == 0 {
			return errors.New("the server has shown no certificate")
		}
		options := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
		for _, cert := range state.PeerCertificates[1:] {
			options.Intermediates.AddCert(cert)
		}
		_, err := state.PeerCertificates[0].Verify(options)
		if err != nil {
			return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
		}
		return nil
	}
}

// erSecureTransport is the error of a server with require_secure_transport.
const erSecureTransport = 3159

// errCleartext stands for the driver's error, which names a setting that bridge does not have.
var errCleartext = errors.New("the server asks for the password itself (mysql_clear_password, as RDS IAM, LDAP and PAM do)")

// remedyTLS says how TLS may have to do with why a connection was refused, "" where it has not.
func (o Options) remedyTLS(err error) string {
	var host x509.HostnameError
	var untrusted x509.UnknownAuthorityError
	switch {
	case errors.Is(err, errCleartext):
		return "bridge sends it over TLS alone: add ?tls=true&tls-ca=FILE to the source's URL, or tls=verify-ca&tls-ca=FILE where the certificate is not made for its host"
	case number(err) == erSecureTransport:
		return "the server takes no login without TLS: add ?tls=true&tls-ca=FILE to the source's URL, with the authority of its certificate, " +
			"or tls=verify-ca&tls-ca=FILE where the certificate is not made for its host"
	case number(err) == erAccessDenied && o.TLS == nil:
		return "a login that was made with REQUIRE SSL is refused in the same words: it wants ?tls=true in the source's URL"
	case number(err) == erAccessDenied:
		return "a login that was made with REQUIRE X509 is refused in the same words: it wants tls-cert and tls-key in the source's URL"
	case errors.Is(err, driver.ErrNoTLS):
		return "the server offers no TLS: let an administrator give it a certificate, or take ?tls= out of the source's URL"
	case errors.As(err, &host):
		return "use the name for which the certificate is made, or ?tls=verify-ca&tls-ca=FILE in the source's URL, as for one that MySQL made for itself"
	case errors.As(err, &untrusted):
		return "name the file of the authority that has signed the certificate with tls-ca in the source's URL"
	}
	return ""
}

// explainLogin adds to the error of a connect what TLS may have to do with it.
func (o Options) explainLogin(err error) error {
	if errors.Is(err, driver.ErrCleartextPassword) {
		err = errCleartext
	}
	if remedy := o.remedyTLS(err); remedy != "" {
		return fmt.Errorf("%w: %s", err, remedy)
	}
	return err
}
