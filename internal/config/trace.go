package config

import (
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Trace says where spans go (OTLP over HTTP).
type Trace struct {
	// Endpoint is the URL that they are posted to.
	Endpoint string
	// Headers go with each request.
	Headers map[string]string
	// Timeout bounds a request.
	Timeout time.Duration
	TLS     TLS
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
func traceOf(l *loader, environ []string) *Trace {
	set := map[string]string{}
	for _, entry := range environ {
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
