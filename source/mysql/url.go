package mysql

import (
	"crypto/tls"
	"errors"
	"net/url"
	"strconv"
	"strings"
)

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
