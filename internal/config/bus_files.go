package config

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"regexp"
	"strings"
)

// TLS names PEM files, each optional; Cert and Key come together.
type TLS struct{ CA, Cert, Key string }

// tls checks the PEM files of a bus, whose variables begin with begin.
func (l *loader) tls(begin string, files TLS) TLS {
	ca, cert, key := prefix+begin+"CA", prefix+begin+"CERT", prefix+begin+"KEY"
	if pem, ok := l.readPEM(ca, files.CA); ok && !x509.NewCertPool().AppendCertsFromPEM(pem) {
		l.add(ca, "names a file without a certificate in PEM form: name one with the authorities to trust")
	}
	if (files.Cert == "") != (files.Key == "") {
		missing, present := key, cert
		if files.Cert == "" {
			missing, present = cert, key
		}
		l.add(missing, "is not set, but %s is: set both or none", present)
		return files
	}
	certPEM, certOK := l.readPEM(cert, files.Cert)
	keyPEM, keyOK := l.readPEM(key, files.Key)
	if certOK && keyOK {
		if _, err := tls.X509KeyPair(certPEM, keyPEM); err != nil {
			l.add(cert, "and %s name files that are no pair of a certificate and its key in PEM form: name two that belong together", key)
		}
	}
	return files
}

// readPEM reads the file that a variable names; ok is false when the variable is not set or the
// file cannot be read.
func (l *loader) readPEM(variable, path string) (pem []byte, ok bool) {
	if path == "" {
		return nil, false
	}
	pem, err := readFile(path)
	if err != nil {
		l.add(variable, "names a file that cannot be read (%v): name a PEM file that bridge may read", err)
		return nil, false
	}
	return pem, true
}

var seed = regexp.MustCompile(`S[UA-Z][A-Z2-7]{56,}`)

// isSeed reports whether text holds an NKey seed, isCreds whether it is the contents of a
// credentials file.
func isSeed(text string) bool  { return seed.MatchString(text) }
func isCreds(text string) bool { return strings.Contains(text, "-----BEGIN NATS USER JWT-----") }

// natsSecret checks a secret that may stand in the variable itself, in the file that the variable
// names as the tools of NATS have it, or in the one that its _FILE twin names. It returns nil when
// none is set.
func (l *loader) natsSecret(name, value string, is func(string) bool) Secret {
	variable := prefix + name
	if value == "" || l.has(variable, variable+fileSuffix) {
		return nil
	}
	read := l.secret(variable)
	if _, inFile := l.env[variable+fileSuffix]; !inFile && !is(value) {
		read = func() (string, error) {
			text, err := readFile(value)
			if err != nil {
				return "", fmt.Errorf("%s is neither the secret nor a file that can be read (%w): name a file that bridge may read", variable, err)
			}
			return string(bytes.TrimRight(text, "\r\n")), nil
		}
	}
	text, err := read()
	switch {
	case err != nil:
		l.add(variable, "%s", strings.TrimPrefix(err.Error(), variable+" "))
	case !is(text):
		l.add(variable, "does not lead to what it should: name a file with credentials (.creds) for BRIDGE_NATS_CREDS, with a seed (SU…) for BRIDGE_NATS_NKEY")
	}
	l.secrets.add(text)
	return read
}
