package driver

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// Secret returns a secret as it is now. The error never holds it.
type Secret func() (string, error)

// maxFile bounds what is read of a file that is none of ours after all.
const maxFile = 1 << 20

// ReadFile returns the contents of a file with a secret or a certificate. The error does not hold
// the path: it may be the secret itself, written there by mistake.
func ReadFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, withoutPath(err)
	case !info.Mode().IsRegular():
		// Reading a device or a pipe could last for ever.
		return nil, errors.New("no regular file")
	case info.Size() > maxFile:
		return nil, fmt.Errorf("larger than %d bytes", maxFile)
	}
	text, err := os.ReadFile(path)
	return text, withoutPath(err)
}

// withoutPath returns what is wrong with a file without its path.
func withoutPath(err error) error {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		return pathError.Err
	}
	return err
}

// TLS names PEM files, each optional; Cert and Key come together.
type TLS struct{ CA, Cert, Key string }

// Given reports whether any file is named.
func (t TLS) Given() bool { return t != TLS{} }

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

// Size is a number of bytes, as a variable has it.
type Size int64

var units = []struct {
	name  string
	bytes int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1},
}

func (s *Size) UnmarshalText(text []byte) error {
	number, factor := string(text), int64(1)
	for _, unit := range units {
		if n := len(number) - len(unit.name); n > 0 && strings.EqualFold(number[n:], unit.name) {
			number, factor = strings.TrimSpace(number[:n]), unit.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/factor {
		return errors.New("invalid size: use a whole number of bytes or one with a unit (B, kB, MB, GB, KiB, MiB, GiB), as in 32MiB")
	}
	*s = Size(n * factor)
	return nil
}

// Encoding tells how to write a password into a URL. It stands in the faults in place of what
// net/url says, which quotes the URL.
const Encoding = `in user and password write % as %25, @ as %40, : as %3A, / as %2F, ? as %3F, # as %23, "," as %2C and a space as %20`

// Authority is the part of a URL that names servers.
type Authority struct {
	// Hosts are host:port.
	Hosts []string
	// User is nil without a login.
	User *url.Userinfo
}

// ParseAuthority parses "scheme://user:password@host:port,host:port". Every host may repeat the
// scheme and the login. The error quotes nothing.
func ParseAuthority(scheme, text, defaultPort string) (Authority, error) {
	_, text, _ = strings.Cut(text, ":")
	text, slashes := strings.CutPrefix(text, "//")
	if !slashes {
		return Authority{}, fmt.Errorf("has no // after the scheme: write %s://host:port", scheme)
	}
	var a Authority
	for item := range strings.SplitSeq(text, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		item = strings.TrimSuffix(strings.TrimPrefix(item, scheme+"://"), "/")
		u, err := url.Parse(scheme + "://" + item)
		if err != nil || u.Path != "" || strings.ContainsAny(item, "?#") {
			return Authority{}, fmt.Errorf("invalid URL: write %s://host:port,host:port; %s", scheme, Encoding)
		}
		host, port := u.Hostname(), u.Port()
		if port == "" {
			port = defaultPort
		}
		if host == "" || !IsPort(port) || port == "0" {
			return Authority{}, fmt.Errorf("names no host, or a port that is none: write %s://host:%s; %s", scheme, defaultPort, Encoding)
		}
		if u.User != nil && a.User != nil && *u.User != *a.User {
			return Authority{}, errors.New("has different logins for its hosts: write one login before the first host")
		}
		if u.User != nil {
			a.User = u.User
		}
		a.Hosts = append(a.Hosts, net.JoinHostPort(host, port))
	}
	if len(a.Hosts) == 0 {
		return Authority{}, fmt.Errorf("names no host: write %s://host:%s", scheme, defaultPort)
	}
	return a, nil
}

// IsPort reports whether text is a port number; 0 lets the system choose one.
func IsPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}
