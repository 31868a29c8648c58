package config

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"example.org/bridge/internal/driver"
	"example.org/bridge/source"
)

// readSecretFiles sets NAME to the contents of every NAME_FILE, so that the secret is checked as if
// it stood in the environment.
func (l *loader) readSecretFiles() {
	for _, v := range l.globalVariables() {
		if !v.secret {
			continue
		}
		path, inFile := l.env[v.Name+fileSuffix]
		_, inEnvironment := l.env[v.Name]
		switch {
		case inFile && inEnvironment:
			l.add(v.Name, "is set, and so is %s: unset one of them", v.Name+fileSuffix)
		case inFile:
			text, err := readSecretFile(v.Name+fileSuffix, path)
			if err != nil {
				l.add(v.Name+fileSuffix, "%v", err)
				continue
			}
			l.env[v.Name] = text
		}
	}
}

// secret returns a function that returns the secret of a variable as it is at each call.
func (l *loader) secret(variable string) driver.Secret {
	path, inFile := l.env[variable+fileSuffix]
	if !inFile {
		value := l.env[variable]
		return func() (string, error) { return value, nil }
	}
	return func() (string, error) {
		text, err := readSecretFile(variable+fileSuffix, path)
		if err != nil {
			return "", fmt.Errorf("%s %w", variable+fileSuffix, err)
		}
		return text, nil
	}
}

// readSecretFile returns the contents of a file without the line end after it. The error does not
// hold the path: it may be the secret itself, written there by mistake.
func readSecretFile(variable, path string) (string, error) {
	text, err := driver.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("names a file that cannot be read (%w): name a file that bridge may read and that holds the value of %s",
			err, strings.TrimSuffix(variable, fileSuffix))
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if secret == "" {
		return "", errors.New("names a file that is empty: write the secret into it")
	}
	return secret, nil
}

// Redactor keeps secrets out of logs, as a second line of defence: a caller should never
// log one. It is safe for concurrent use; the zero value is ready.
type Redactor struct {
	mu      sync.RWMutex
	secrets []string
}

// shortestSecret is the length from which a secret is looked for: shorter ones are parts of common
// words.
const shortestSecret = 6

const redacted = "[redacted]"

// add makes a secret known. Former ones stay: they may still be in use.
func (r *Redactor) add(secret string) {
	if len(secret) < shortestSecret {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.secrets, secret) {
		r.secrets = append(r.secrets, secret)
	}
}

// Clean returns text without the secrets.
func (r *Redactor) Clean(text string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, secret := range r.secrets {
		text = strings.ReplaceAll(text, secret, redacted)
	}
	return text
}

// Attr cleans the message and the attributes of a log record; it is a ReplaceAttr of
// slog.HandlerOptions.
func (r *Redactor) Attr(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
		return a
	}
	switch a.Value.Kind() {
	case slog.KindDuration:
		// Else JSON has it as a number of nanoseconds.
		return slog.String(a.Key, a.Value.Duration().String())
	case slog.KindString:
		return slog.String(a.Key, r.Clean(a.Value.String()))
	case slog.KindAny:
		switch value := a.Value.Any().(type) {
		case error:
			return slog.String(a.Key, r.Clean(Text(value)))
		case []byte:
			return slog.String(a.Key, r.Clean(string(value)))
		case interface{ String() string }:
			return slog.String(a.Key, r.Clean(value.String()))
		}
	}
	return a
}

const (
	maskKeyVariable = prefix + "MASK_KEY"
	// shortestMaskKey is how many characters a key has at least: with a short one somebody could
	// try keys out.
	shortestMaskKey = 16
)

// parseMasks parses MASK: column:form.
func parseMasks(l *loader, begin string, items list) map[string]source.Mask {
	variable := begin + "MASK"
	masks := make(map[string]source.Mask)
	for i, item := range items {
		column, form := splitMask(item)
		switch {
		case column == "" || !isColumn(column):
			l.add(variable, "item %d has no name of a column, or no form: write column:redact, column:last4 or column:sha256", i+1)
			continue
		case slices.ContainsFunc(items[:i], func(before string) bool { other, _ := splitMask(before); return strings.EqualFold(other, column) }):
			l.add(variable, "item %d has the column of an earlier item: name each column once", i+1)
		}
		switch form {
		case "redact":
			masks[column] = source.Redact()
		case "last4":
			masks[column] = source.Last4()
		case "sha256":
			masks[column] = source.SHA256(maskKey(l, variable))
		default:
			l.add(variable, "item %d has an unknown form: use redact, last4 or sha256", i+1)
		}
	}
	return masks
}

// splitMask returns the column and the form of an item; the column is empty where there is no form.
func splitMask(item string) (column, form string) {
	at := max(0, strings.LastIndex(item, ":"))
	return strings.TrimSpace(item[:at]), strings.ToLower(strings.TrimSpace(strings.TrimPrefix(item[at:], ":")))
}

func maskKey(l *loader, variable string) string {
	key := l.env[maskKeyVariable]
	switch {
	case l.has(maskKeyVariable):
	case key == "":
		l.add(variable, "has the form sha256, which needs %s: set it to a secret of %d characters or more", maskKeyVariable, shortestMaskKey)
	case utf8.RuneCountInString(key) < shortestMaskKey:
		l.add(maskKeyVariable, "has fewer than %d characters: use a longer secret", shortestMaskKey)
	}
	return key
}

// maskText returns a text that is the same for masks that make the same of every value.
func maskText(masks map[string]source.Mask) string {
	var b strings.Builder
	for _, column := range slices.Sorted(maps.Keys(masks)) {
		b.WriteString(column + ":" + masks[column].Name() + ",")
	}
	return b.String()
}

// checkHidden finds columns that cannot be left out or masked.
func (l *streamLoader) checkHidden() {
	if l.stream.Fields != nil && len(l.stream.Exclude) > 0 {
		l.add(l.begin+"EXCLUDE", "is set, and so is FIELDS, which says which columns are published: unset one of them")
	}
	spec := l.stream.Spec("")
	spec.Fields = nil
	for i, column := range l.stream.Exclude {
		same := func(name string) bool { return strings.EqualFold(name, column) }
		if slices.ContainsFunc(l.stream.Key, same) {
			l.add(l.begin+"EXCLUDE", "item %d is in KEY, without which an event does not say what it is about: leave it there", i+1)
		}
	}
	for _, column := range slices.Sorted(maps.Keys(l.stream.Masks)) {
		for _, role := range spec.Roles() {
			if strings.EqualFold(role.Column, column) {
				l.add(l.begin+"MASK", "names the column of %s, which bridge has to read as it is: mask others, or leave it out with EXCLUDE", role.Setting)
			}
		}
	}
}

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
		if name = strings.TrimSpace(name); !ok || name == "" || err != nil || strings.ContainsFunc(name+decoded, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			l.add(variable, "invalid headers: write name=value, with commas between them")
			return nil
		}
		l.secrets.add(decoded)
		headers[name] = decoded
	}
	return headers
}
