package config

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"example.org/bridge/internal/driver"
)

// HTTPVariable is the variable with the address of the HTTP server.
const HTTPVariable = prefix + "HTTP_ADDR"

// HTTPTokenVariable is that with its token; httpTLS begins the names of those of its TLS.
const (
	HTTPTokenVariable = prefix + "HTTP_TOKEN"
	httpTLS           = "HTTP_TLS_"
)

// HTTP says how a command reaches the bridge that runs.
type HTTP struct {
	// Addr is host:port.
	Addr string
	// Token is nil where none is set. TLS names no file where the bridge does not speak TLS.
	Token driver.Secret
	TLS   driver.TLS
}

// LoadHTTP reads BRIDGE_HTTP_ADDR, BRIDGE_HTTP_TOKEN and BRIDGE_HTTP_TLS_*, and nothing else. A
// file that cannot be read is a fault of the request that needs it: a health check needs no token.
func LoadHTTP(environ []string) (HTTP, error) {
	l := &loader{env: parseEnvironment(environ), secrets: &Redactor{}}
	text := cmp.Or(l.env[HTTPVariable], defaultOf(HTTPVariable))
	l.checkProcess(&Config{Process: Process{HTTPAddr: text}})
	if err := l.err(); err != nil {
		return HTTP{}, err
	}
	// checkProcess has split it.
	if _, port, _ := net.SplitHostPort(text); port == "0" {
		l.add(HTTPVariable, "lets the system choose the port, so nobody can ask there: write a port, as in 127.0.0.1:8080")
	}
	file := func(name string) string { return l.env[prefix+httpTLS+name] }
	h := HTTP{Addr: Reachable(text), Token: httpSecret(l), TLS: driver.TLS{CA: file("CA"), Cert: file("CERT"), Key: file("KEY")}}
	return h, l.err()
}

// shortestToken is how many characters a token has at least: with a short one somebody could try
// tokens out.
const shortestToken = 16

// httpToken returns the token of the HTTP server, nil where none is set, and checks it.
func httpToken(l *loader) driver.Secret {
	if l.has(HTTPTokenVariable, HTTPTokenVariable+fileSuffix) {
		return nil
	}
	token := httpSecret(l)
	if token != nil {
		if _, err := token(); err != nil {
			l.add(HTTPTokenVariable, "%s", strings.TrimPrefix(err.Error(), HTTPTokenVariable+" "))
		}
	}
	return token
}

// httpSecret returns the token of the HTTP server, nil where none is set. One that is not fit for
// use is an error at each call: no request passes by it.
func httpSecret(l *loader) driver.Secret {
	if l.env[HTTPTokenVariable] == "" && l.env[HTTPTokenVariable+fileSuffix] == "" {
		return nil
	}
	read := l.secret(HTTPTokenVariable)
	return func() (string, error) {
		text, err := read()
		l.secrets.add(text)
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
// host. It names addresses, because an empty image knows no localhost.
func Reachable(addr string) string {
	// Loading has split it.
	host, port, _ := net.SplitHostPort(addr)
	switch ip := net.ParseIP(host); {
	case host == "" || ip.Equal(net.IPv4zero):
		host = "127.0.0.1"
	case ip.Equal(net.IPv6unspecified):
		host = "::1"
	}
	return net.JoinHostPort(host, port)
}

// Trace says where spans go (OTLP over HTTP).
type Trace struct {
	// Endpoint is the URL that they are posted to.
	Endpoint string
	// Headers go with each request.
	Headers map[string]string
	// Timeout bounds a request.
	Timeout time.Duration
	TLS     driver.TLS
}

// The variables of OpenTelemetry have names of their own, each with a form for spans alone, which
// wins.
const (
	otlp           = "OTEL_EXPORTER_OTLP_"
	otlpOfTraces   = otlp + "TRACES_"
	tracesPath     = "/v1/traces"
	otlpEndpoint   = "http://localhost:4318"
	otlpTimeout    = 10 * time.Second
	longestTimeout = time.Hour
)

// traceOf reads where spans go. Values may hold secrets: they are not shown, and no log has the
// headers.
func traceOf(l *loader) *Trace {
	set := map[string]string{}
	for _, entry := range l.environ {
		if name, value, _ := strings.Cut(entry, "="); strings.HasPrefix(name, otlp) && strings.TrimSpace(value) != "" {
			set[name] = strings.TrimSpace(value)
		}
	}
	get := func(name string) (variable, value string) {
		if value, ok := set[otlpOfTraces+name]; ok {
			return otlpOfTraces + name, value
		}
		return otlp + name, set[otlp+name]
	}
	t := &Trace{Endpoint: otlpEndpoint + tracesPath, Timeout: otlpTimeout}
	if variable, value := get("ENDPOINT"); value != "" {
		at, err := url.Parse(value)
		if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
			l.add(variable, "invalid URL: write http://host:port or https://host:port of the collector, where it takes OTLP over HTTP")
		}
		if at != nil && at.User != nil {
			password, _ := at.User.Password()
			l.secrets.add(password)
		}
		t.Endpoint = value
		if variable == otlp+"ENDPOINT" {
			t.Endpoint = strings.TrimSuffix(value, "/") + tracesPath
		}
	}
	if variable, value := get("PROTOCOL"); value != "" && value != "http/protobuf" {
		l.add(variable, "is not supported: write http/protobuf or unset it, and name the port of the collector for HTTP")
	}
	if variable, value := get("TIMEOUT"); value != "" {
		ms, err := strconv.ParseInt(value, 10, 64)
		if t.Timeout = time.Duration(ms) * time.Millisecond; err != nil || ms < 1 || t.Timeout > longestTimeout {
			l.add(variable, "invalid time: write milliseconds, from 1 to %d", longestTimeout.Milliseconds())
		}
	}
	if variable, value := get("HEADERS"); value != "" {
		t.Headers = traceHeaders(l, variable, value)
	}
	_, t.TLS.CA = get("CERTIFICATE")
	_, t.TLS.Cert = get("CLIENT_CERTIFICATE")
	certificate, key := otlp+"CLIENT_CERTIFICATE", ""
	if key, t.TLS.Key = get("CLIENT_KEY"); (t.TLS.Cert == "") != (t.TLS.Key == "") {
		l.add(key, "and %s belong together: set both or none", certificate)
	}
	return t
}

// traceHeaders parses name=value pairs with commas, percent-encoded as in a baggage of W3C.
func traceHeaders(l *loader, variable, text string) map[string]string {
	headers := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(pair, "=")
		decoded, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || name == "" || err != nil || strings.ContainsFunc(name+decoded, isControl) {
			l.add(variable, "invalid headers: write name=value, with commas between them")
			return nil
		}
		l.secrets.add(decoded)
		headers[name] = decoded
	}
	return headers
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }
