package config

import (
	"cmp"
	"errors"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
)

const (
	embeddedExample = "embedded:, embedded:///var/lib/bridge/nats or embedded:?listen=127.0.0.1:4222"
	// embeddedStream is the stream where BRIDGE_NATS_STREAM names none.
	embeddedStream = "BRIDGE"
)

// embedded checks the sink embedded:.
func (l *loader) embedded(text, stream string) Embedded {
	e, err := parseEmbedded(text)
	if err != nil {
		l.add(sinkVariable, "%v", err)
	}
	l.natsStream(stream)
	e.Stream = cmp.Or(stream, embeddedStream)
	return e
}

// parseEmbedded parses embedded:/path?listen=host:port, in which all may be left out. The error
// quotes nothing.
func parseEmbedded(text string) (Embedded, error) {
	var e Embedded
	u, err := url.Parse(text)
	if err != nil || u.User != nil || u.Host != "" || u.Fragment != "" || strings.HasPrefix(u.Opaque, ":") {
		return e, errors.New("does not name a folder: write " + embeddedExample + "; in the path ? is %3F, # is %23 and % is %25")
	}
	if e.Dir = u.Path; u.Opaque != "" {
		if e.Dir, err = url.PathUnescape(u.Opaque); err != nil {
			return e, errors.New("has a path that cannot be read: a % is written %25")
		}
	}
	if strings.ContainsRune(e.Dir, 0) {
		return e, errors.New("has a NUL in its path: write " + embeddedExample)
	}
	parameters, err := url.ParseQuery(u.RawQuery)
	e.Listen = parameters.Get("listen")
	delete(parameters, "listen")
	switch {
	case err != nil || len(parameters) > 0:
		return e, errors.New("has a parameter that is unknown: known is listen, as in embedded:?listen=127.0.0.1:4222")
	case e.Listen == "":
		return e, nil
	}
	if host, port, err := net.SplitHostPort(e.Listen); err != nil || host == "" || !isPort(port) {
		return e, errors.New("has no address after listen=: write host:port, as in embedded:?listen=127.0.0.1:4222; port 0 is a free one")
	}
	return e, nil
}

// beside puts the data beside the checkpoint where no folder is named.
func (e *Embedded) beside(checkpoint string) {
	e.Dir = cmp.Or(e.Dir, filepath.Join(filepath.Dir(checkpoint), "nats"))
}

// embeddedHas reports whether a variable of NATS has a meaning for embedded:.
func embeddedHas(variable string) bool {
	return slices.Contains([]string{prefix + "NATS_STREAM", prefix + "NATS_CREATE_STREAM"}, variable) || slices.Contains(keepingVariables, variable)
}
