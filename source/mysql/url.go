package mysql

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// ParseURL reads "mysql://user:password@host:3306/database?tls=true". The port, the password and the database may be left
// out. Special characters in user and password are percent-encoded. Parameters:
//
//	tls=false         plain text, the default
//	tls=true          TLS; the certificate must be valid for the host
//	tls=skip-verify   TLS without a look at the certificate
//	tls=preferred     as skip-verify, and plain text where the server offers no TLS
//	tls-ca=FILE       PEM file with the authorities to trust instead of the system's
//	tls-cert=FILE     PEM file with the client's certificate; tls-key=FILE with its key
//
// The files are read here, to judge them, and again at every connect; a file with tls=false is a contradiction. Errors never
// quote the URL, which holds the password.
func ParseURL(text string) (Options, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "mysql" || u.Opaque != "" || u.Fragment != "" || u.User.Username() == "" || u.Hostname() == "" {
		return Options{}, errors.New("must look like mysql://user:password@host:3306/database, " +
			"with special characters in user and password percent-encoded (@ is %40, / is %2F, # is %23, ? is %3F, % is %25)")
	}
	o := Options{Host: u.Hostname(), User: u.User.Username()}
	if password, ok := u.User.Password(); ok {
		o.Password = func() (string, error) { return password, nil }
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
	verify := true
	switch mode {
	case "", "false":
		if ca != "" || cert != "" || key != "" {
			return errors.New("tls=false contradicts tls-ca, tls-cert and tls-key")
		}
		return nil
	case "true":
	case "skip-verify":
		verify = false
	case "preferred":
		verify, o.TLSOptional = false, true
	default:
		return errors.New("tls must be true, false, skip-verify or preferred")
	}
	if (cert == "") != (key == "") {
		return errors.New("tls-cert and tls-key must be given together")
	}
	o.TLS = func() (*tls.Config, error) { return loadTLS(verify, ca, cert, key) }
	_, err = o.TLS()
	return err
}

// loadTLS makes a configuration of PEM files, each optional.
func loadTLS(verify bool, ca, cert, key string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: !verify}
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
	return c, nil
}
