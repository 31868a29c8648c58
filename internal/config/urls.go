package config

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
)

// encoding tells how to write a password into a URL. It stands in the faults in place of what
// net/url says, which quotes the URL.
const encoding = `in user and password write % as %25, @ as %40, : as %3A, / as %2F, ? as %3F, # as %23, "," as %2C and a space as %20`

// The schemes of the URLs.
var (
	sourceSchemes     = []string{"mysql", "sqlite"}
	sinkSchemes       = []string{"kafka", "nats", "stdout", "embedded"}
	checkpointSchemes = []string{"file", "bus"}
)

// cutScheme splits the URL of a variable after its scheme, which must be one of those allowed. ok
// is false after a fault.
func (l *loader) cutScheme(variable, text string, allowed []string, example string) (name, rest string, ok bool) {
	name, rest, found := strings.Cut(text, ":")
	name = strings.ToLower(name)
	if !found || !slices.Contains(allowed, name) {
		l.add(variable, "does not begin with a known scheme: write one of %s:, as in %s", strings.Join(allowed, ": "), example)
		return "", "", false
	}
	return name, rest, true
}

// authority is the part of a URL that names a server.
type authority struct {
	// hosts are host:port.
	hosts []string
	// user is nil without a login.
	user *url.Userinfo
}

// parseAuthority parses "user:password@host:port,host:port". Every host may repeat the scheme and
// the login. The error quotes nothing.
func parseAuthority(scheme, text, defaultPort string) (authority, error) {
	var a authority
	for item := range strings.SplitSeq(text, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		item = strings.TrimSuffix(strings.TrimPrefix(item, scheme+"://"), "/")
		u, err := url.Parse(scheme + "://" + item)
		if err != nil || u.Path != "" || strings.ContainsAny(item, "?#") {
			return authority{}, fmt.Errorf("invalid URL: write %s://host:port,host:port; %s", scheme, encoding)
		}
		host, err := hostPort(u, defaultPort)
		if err != nil {
			return authority{}, err
		}
		if u.User != nil && a.user != nil && *u.User != *a.user {
			return authority{}, fmt.Errorf("has different logins for its hosts: write one login before the first host")
		}
		if u.User != nil {
			a.user = u.User
		}
		a.hosts = append(a.hosts, host)
	}
	if len(a.hosts) == 0 {
		return authority{}, fmt.Errorf("names no host: write %s://host:%s", scheme, defaultPort)
	}
	return a, nil
}

// hostPort returns host:port of a URL.
func hostPort(u *url.URL, defaultPort string) (string, error) {
	port := u.Port()
	port = cmp.Or(port, defaultPort)
	if u.Hostname() == "" || !isPort(port) || port == "0" {
		return "", fmt.Errorf("names no host, or a port that is none: write %s://host:%s; %s", u.Scheme, defaultPort, encoding)
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}
