package mysql

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"example.org/bridge/source"
)

// Options say where the server is and how to use it.
type Options struct {
	// Host is the server's name or address. Required.
	Host string
	// Port defaults to 3306.
	Port int
	// User is the login. Required.
	User string
	// Password returns user and password. It is called at every connect, so that both may be
	// changed while the source is open; an error of it fails that connect. Nil means User without
	// a password.
	Password func() (user, password string, err error)
	// Database is where tables are that are named without a database. Optional.
	Database string
	// TLS encrypts connections. It is called at every connect, so that certificates may be changed
	// while the source is open; an error of it fails that connect. Nil means plain text. An empty
	// ServerName becomes Host.
	TLS func() (*tls.Config, error)
	// TLSOptional goes on in plain text with a server that offers no TLS. It protects from
	// listeners only.
	TLSOptional bool
	// Conns bounds the connections. Its Readers defaults to 8.
	Conns source.Conns
	// StatementTimeout ends a statement on the server. The client gives up as much later, but 5 s
	// at most. Defaults to 30 s.
	StatementTimeout time.Duration
	// DialTimeout bounds reaching the server; the login after that may take twice as long. Defaults
	// to 5 s.
	DialTimeout time.Duration
	// RefreshEvery is the time after which the columns of a table are read again, with the next
	// page. Defaults to 30 s.
	RefreshEvery time.Duration
	// Logger receives changes of columns and, at Debug, the driver's lines. Defaults to none.
	Logger *slog.Logger
}

const (
	// maxGrace bounds how much longer than the server the client waits for a statement's end.
	maxGrace = 5 * time.Second
	// connLifetime stays below the idle times after which servers and proxies drop connections.
	connLifetime = 3 * time.Minute
)

func (o Options) withDefaults() Options {
	o.Port = cmp.Or(o.Port, 3306)
	o.Conns.Readers = cmp.Or(o.Conns.Readers, 8)
	o.StatementTimeout = cmp.Or(o.StatementTimeout, 30*time.Second)
	o.DialTimeout = cmp.Or(o.DialTimeout, 5*time.Second)
	o.RefreshEvery = cmp.Or(o.RefreshEvery, 30*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// answerTimeout is when the client gives up on a statement that the server should have ended.
func (o Options) answerTimeout() time.Duration {
	return o.StatementTimeout + min(o.StatementTimeout, maxGrace)
}

func (o Options) driverConfig() *driver.Config {
	cfg := driver.NewConfig()
	cfg.User, cfg.Net, cfg.Addr = o.User, "tcp", net.JoinHostPort(o.Host, strconv.Itoa(o.Port))
	cfg.DialFunc = dial
	cfg.AllowFallbackToPlaintext = o.TLSOptional
	// Plain text gives the password away, also where a listener in between has taken out TLS.
	cfg.AllowCleartextPasswords = o.TLS != nil && !o.TLSOptional
	cfg.Timeout = o.DialTimeout
	// The deadline of the context, which has a name, comes first.
	cfg.ReadTimeout = o.StatementTimeout + 2*maxGrace
	cfg.WriteTimeout = 2 * maxGrace
	cfg.InterpolateParams = true
	cfg.ConnectionAttributes = "program_name:bridge"
	cfg.Logger = debugLogger{o.Logger}
	return cfg
}

// debugLogger writes the driver's lines, which repeat what its errors say, at Debug.
type debugLogger struct{ logger *slog.Logger }

// ParseURL reads "mysql://user:password@host:3306/database?tls=true". The port, the password and
// the database may be left out. Special characters in user and password are percent-encoded.
// Parameters:
//
//	tls=false         plain text, the default
//	tls=true          TLS; the certificate must be valid for the host
//	tls=verify-ca     TLS; an authority of tls-ca must have signed the certificate, for whichever host, as that which a MySQL makes for itself
//	tls=skip-verify   TLS without a look at the certificate
//	tls=preferred     as skip-verify, and plain text where the server offers no TLS
//	tls-ca=FILE       PEM file with the authorities to trust instead of the system's
//	tls-cert=FILE     PEM file with the client's certificate; tls-key=FILE with its key
//
// A server that asks for the password itself, as RDS IAM, LDAP and PAM do, gets it over TLS alone,
// and not with tls=preferred.
//
// The files are read here, to judge them, and again at every connect; a file with tls=false is a
// contradiction. Errors never quote the URL, which holds the password.
func ParseURL(text string) (Options, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "mysql" || u.Opaque != "" || u.Fragment != "" || u.User.Username() == "" || u.Hostname() == "" {
		return Options{}, errors.New("must look like mysql://user:password@host:3306/database, " +
			"with special characters in user and password percent-encoded (@ is %40, / is %2F, # is %23, ? is %3F, % is %25)")
	}
	o := Options{Host: u.Hostname(), User: u.User.Username()}
	if password, ok := u.User.Password(); ok {
		o.Password = func() (string, string, error) { return o.User, password, nil }
	}
	if port := u.Port(); port != "" {
		if o.Port, err = strconv.Atoi(port); err != nil || o.Port < 1 || o.Port > 65535 {
			return Options{}, errors.New("the port must be 1 to 65535")
		}
	}
	o.Database = strings.TrimPrefix(u.Path, "/")
	if strings.ContainsAny(o.Database, "/.") {
		return Options{}, errors.New("the path must be the name of one database, without a dot or a slash")
	}
	if err := o.parseParameters(u.RawQuery); err != nil {
		return Options{}, err
	}
	return o, nil
}

func (o *Options) parseParameters(query string) error {
	parameters, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("malformed parameters: they look like ?tls=true&tls-ca=/etc/ssl/db.pem")
	}
	get := func(name string) string {
		value := parameters.Get(name)
		delete(parameters, name)
		return value
	}
	mode, ca, cert, key := get("tls"), get("tls-ca"), get("tls-cert"), get("tls-key")
	if len(parameters) > 0 {
		return errors.New("unknown parameter: known are tls, tls-ca, tls-cert and tls-key")
	}
	if mode == "" && (ca != "" || cert != "" || key != "") {
		mode = "true"
	}
	switch mode {
	case "", "false":
		if ca != "" || cert != "" || key != "" {
			return errors.New("tls=false contradicts tls-ca, tls-cert and tls-key")
		}
		return nil
	case "verify-ca":
		if ca == "" {
			return errors.New("tls=verify-ca needs tls-ca: of the system's authorities each would do, for any host")
		}
	case "preferred":
		o.TLSOptional = true
	case "true", "skip-verify":
	default:
		return errors.New("tls must be true, verify-ca, false, skip-verify or preferred")
	}
	if (cert == "") != (key == "") {
		return errors.New("tls-cert and tls-key must be given together")
	}
	o.TLS = func() (*tls.Config, error) { return loadTLS(mode, ca, cert, key) }
	_, err = o.TLS()
	return err
}

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

// verifyAuthority accepts a certificate that one of roots has signed, for any host: crypto/tls
// verifies nothing with InsecureSkipVerify, but calls VerifyConnection on every connection.
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
		return "correct user or password; a login made with REQUIRE SSL is refused in the same words, and wants ?tls=true in the source's URL"
	case number(err) == erAccessDenied:
		return "correct user or password; a login made with REQUIRE X509 is refused in the same words, and wants tls-cert and tls-key in the source's URL"
	case errors.Is(err, driver.ErrNoTLS):
		return "the server offers no TLS: let an administrator give it a certificate, or take ?tls= out of the source's URL"
	case errors.As(err, &host):
		return "use the name for which the certificate is made, or ?tls=verify-ca&tls-ca=FILE in the source's URL, as for one that MySQL made for itself"
	case errors.As(err, &untrusted):
		return "name the file of the authority that has signed the certificate with tls-ca in the source's URL"
	}
	return ""
}

func (o Options) explainLogin(err error) error {
	if errors.Is(err, driver.ErrCleartextPassword) {
		err = errCleartext
	}
	if remedy := o.remedyTLS(err); remedy != "" {
		return fmt.Errorf("%w: %s", err, remedy)
	}
	return err
}
