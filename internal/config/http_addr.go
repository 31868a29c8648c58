package config

import (
	"cmp"
	"fmt"
	"net"
	"strings"
)

// HTTPVariable is the variable with the address of the HTTP server.
const HTTPVariable = prefix + "HTTP_ADDR"

// Variables of the HTTP server beside its address. Those of its TLS begin with httpTLS.
const (
	HTTPTokenVariable = prefix + "HTTP_TOKEN"
	httpTLS           = "HTTP_TLS_"
	HTTPTLSCAVariable = prefix + httpTLS + "CA"
)

// HTTP says how a command reaches the bridge that runs.
type HTTP struct {
	// Addr is host:port.
	Addr string
	// Token is nil where none is set. TLS names no file where the bridge does not speak TLS.
	Token Secret
	TLS   TLS
}

// LoadHTTP reads BRIDGE_HTTP_ADDR, BRIDGE_HTTP_TOKEN and BRIDGE_HTTP_TLS_*, and nothing else. A
// file that cannot be read is a fault of the request that needs it: a health check needs no token.
func LoadHTTP(environ []string) (HTTP, error) {
	l := &loader{env: parseEnvironment(environ), secrets: &Redactor{}}
	text := cmp.Or(l.env[HTTPVariable], defaultOf(HTTPVariable))
	l.checkProcess(&Config{HTTPAddr: text})
	if err := l.err(); err != nil {
		return HTTP{}, err
	}
	// checkProcess has split it.
	if _, port, _ := net.SplitHostPort(text); port == "0" {
		l.add(HTTPVariable, "lets the system choose the port, so nobody can ask there: write a port, as in 127.0.0.1:8080")
	}
	file := func(name string) string { return l.env[prefix+httpTLS+name] }
	h := HTTP{Addr: Reachable(text), Token: httpSecret(l), TLS: TLS{file("CA"), file("CERT"), file("KEY")}}
	return h, l.err()
}

// shortestToken is how many characters a token has at least: with a short one somebody could try
// tokens out.
const shortestToken = 16

// httpToken returns the token of the HTTP server, nil where none is set, and checks it.
func httpToken(l *loader) Secret {
	if l.has(HTTPTokenVariable, HTTPTokenVariable+fileSuffix) {
		return nil
	}
	token := httpSecret(l)
	if token == nil {
		return nil
	}
	if _, err := token(); err != nil {
		l.add(HTTPTokenVariable, "%s", strings.TrimPrefix(err.Error(), HTTPTokenVariable+" "))
	}
	return token
}

// httpSecret returns the token of the HTTP server, nil where none is set. One that is not fit for
// use is an error at each call: no request passes by it.
func httpSecret(l *loader) Secret {
	if l.env[HTTPTokenVariable] == "" && l.env[HTTPTokenVariable+fileSuffix] == "" {
		return nil
	}
	read := l.secret(HTTPTokenVariable)
	return func() (string, error) {
		text, err := read()
		switch {
		case err != nil:
			return "", err
		case len(text) < shortestToken:
			return "", fmt.Errorf("%s has fewer than %d characters: use a longer secret", HTTPTokenVariable, shortestToken)
		case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
			return "", fmt.Errorf("%s has characters that a header cannot carry: use letters, digits and any of -._~+/=", HTTPTokenVariable)
		}
		return text, nil
	}
}

// Reachable returns where a server that listens on addr, which is host:port, is asked from the same
// host.
func Reachable(addr string) string {
	// Loading has split it.
	host, port, _ := net.SplitHostPort(addr)
	return net.JoinHostPort(reachable(host), port)
}

// reachable returns where a server that listens on host is asked from the same host. It names
// addresses, because an empty image knows no localhost.
func reachable(host string) string {
	ip := net.ParseIP(host)
	switch {
	case host == "" || ip.Equal(net.IPv4zero):
		return "127.0.0.1"
	case ip.Equal(net.IPv6unspecified):
		return "::1"
	}
	return host
}
