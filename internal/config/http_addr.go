package config

import (
	"cmp"
	"net"
)

// HTTPVariable is the variable with the address of the HTTP server.
const HTTPVariable = prefix + "HTTP_ADDR"

// LoadHTTPAddr reads BRIDGE_HTTP_ADDR and nothing else, and returns the address to ask.
func LoadHTTPAddr(environ []string) (string, error) {
	l := &loader{env: parseEnvironment(environ), secrets: &Redactor{}}
	text := cmp.Or(l.env[HTTPVariable], defaultOf(HTTPVariable))
	l.checkProcess(&Config{HTTPAddr: text})
	if err := l.err(); err != nil {
		return "", err
	}
	// checkProcess has split it.
	if _, port, _ := net.SplitHostPort(text); port == "0" {
		l.add(HTTPVariable, "lets the system choose the port, so nobody can ask there: write a port, as in 127.0.0.1:8080")
		return "", l.err()
	}
	return Reachable(text), nil
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
