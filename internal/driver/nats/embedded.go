package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"example.org/bridge/internal/driver"
	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/verify"
	"example.org/bridge/sink"
	"example.org/bridge/sink/embedded"
	"example.org/bridge/sink/jetstream"
)

const (
	embeddedExample = "embedded:, embedded:///var/lib/bridge/nats or embedded:?listen=127.0.0.1:4222"
	// embeddedStream is the stream where none is named.
	embeddedStream = "BRIDGE"
)

// Embedded implements [driver.Readable] and [driver.Inspector].
type Embedded struct {
	stream *streamSettings
	// Server says where the server keeps its data, and whether others reach it.
	Server embedded.Options
	keeps  jetstream.Keeping
}

var (
	_ driver.Readable  = (*Embedded)(nil)
	_ driver.Inspector = (*Embedded)(nil)
)

func (*Embedded) Scheme() string { return "embedded" }

func (e *Embedded) Settings() []driver.Settings {
	return []driver.Settings{{Title: title, Fields: e.stream}}
}

// Load parses embedded:/path?listen=host:port, in which all may be left out. Without a folder the
// data is beside the checkpoint.
func (e *Embedded) Load(in *driver.Input) driver.BusTraits {
	var err error
	if e.Server, err = parseEmbedded(in.URL); err != nil {
		in.Fault(option.SinkURL, "%v", err)
	}
	traits := driver.BusTraits{Protocol: "nats", Destinations: driver.Subjects, Folder: e.Server.Dir}
	e.Server.Dir = cmp.Or(e.Server.Dir, filepath.Join(filepath.Dir(in.Checkpoint), "nats"))
	e.stream.checkName(in)
	e.Server.Stream = cmp.Or(e.stream.NATSStream, embeddedStream)
	if e.keeps = e.stream.keeping(in); e.keeps.Replicas > 1 {
		in.Fault(option.NATSStreamReplicas, "is above 1, but embedded: is one server: use nats: with a cluster, or unset this")
	}
	if host, _, err := net.SplitHostPort(e.Server.Listen); err == nil && host != "localhost" && !net.ParseIP(host).IsLoopback() {
		in.Warn(option.SinkURL, "has a server without a login listen beyond this host: all that reach the address read, write and delete its messages; use listen=127.0.0.1:4222, or a server of its own (nats:)")
	}
	if e.Server.Listen != "" {
		traits.Servers = []string{e.Server.Listen}
	}
	return traits
}

// parseEmbedded returns what the URL says. The error quotes nothing.
func parseEmbedded(text string) (embedded.Options, error) {
	var o embedded.Options
	u, err := url.Parse(text)
	if err != nil || u.User != nil || u.Host != "" || u.Fragment != "" || strings.HasPrefix(u.Opaque, ":") {
		return o, errors.New("does not name a folder: write " + embeddedExample + "; in the path ? is %3F, # is %23 and % is %25")
	}
	if o.Dir = u.Path; u.Opaque != "" {
		if o.Dir, err = url.PathUnescape(u.Opaque); err != nil {
			return o, errors.New("has a path that cannot be read: a % is written %25")
		}
	}
	if strings.ContainsRune(o.Dir, 0) {
		return o, errors.New("has a NUL in its path: write " + embeddedExample)
	}
	parameters, err := url.ParseQuery(u.RawQuery)
	o.Listen = parameters.Get("listen")
	delete(parameters, "listen")
	switch {
	case err != nil || len(parameters) > 0:
		return o, errors.New("has a parameter that is unknown: known is listen, as in embedded:?listen=127.0.0.1:4222")
	case o.Listen == "":
		return o, nil
	}
	if host, port, err := net.SplitHostPort(o.Listen); err != nil || host == "" || !driver.IsPort(port) {
		return o, errors.New("has no address after listen=: write host:port, as in embedded:?listen=127.0.0.1:4222; port 0 is a free one")
	}
	return o, nil
}

func (e *Embedded) server(u driver.Use) embedded.Options {
	o := e.Server
	o.Subjects, o.Keep, o.Logger = u.Subjects, e.keeps.Keep, u.Logger
	return o
}

// Open starts the server and the sink on it.
func (e *Embedded) Open(u driver.Use) (sink.Sink, error) {
	s, err := embedded.Open(e.server(u), func(conns natsgo.InProcessConnProvider) (embedded.Bus, error) {
		connection := jetstream.Connection{InProcess: conns, Stream: e.Server.Stream}
		return jetstream.Open(withUse(jetstream.Options{Connection: connection, CreateStream: true, Keeps: e.keeps}, u))
	})
	if err != nil {
		// Not s: an interface with a nil pointer is not nil.
		return nil, err
	}
	args := []any{"data", e.Server.Dir, "stream", e.Server.Stream}
	if addr := s.Addr(); addr != nil {
		args = append(args, "url", "nats://"+addr.String())
	}
	u.Logger.Info("NATS runs inside the process", args...)
	return s, nil
}

func (e *Embedded) Inspect(ctx context.Context, u driver.Use) inspect.Report {
	return embedded.Inspect(ctx, e.server(u))
}

// Read reads from the server of this process, or from one that runs through its listener, or starts
// one if none runs.
func (e *Embedded) Read(ctx context.Context, u driver.Use, what driver.Reading) (*verify.Bus, error) {
	o := jetstream.Options{Connection: jetstream.Connection{Stream: e.Server.Stream}, Logger: u.Logger}
	if running, ok := what.Running.(*embedded.Sink); ok {
		o.InProcess = running
		return read(ctx, o, what.Destinations)
	}
	if e.Server.Listen != "" && !strings.HasSuffix(e.Server.Listen, ":0") {
		o.URLs = []string{"nats://" + e.Server.Listen}
		quick, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		// Where nothing listens, the folder answers, and that is no outage.
		conn, err := new(net.Dialer).DialContext(quick, "tcp", e.Server.Listen)
		if err == nil {
			// It is not written to.
			_ = conn.Close()
			var running *verify.Bus
			if running, err = read(quick, o, what.Destinations); err == nil {
				return running, nil
			}
		}
	}
	dir := e.Server.Dir
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no folder %s: bridge has published nothing there yet", dir)
	}
	// Without a stream and a listener, nothing is changed and nobody else can connect.
	server, err := embedded.Open(embedded.Options{Dir: dir, Logger: slog.New(slog.DiscardHandler)}, nil)
	if err != nil {
		return nil, option.Errorf("%w (where that is bridge: stop it, or let %s in with ?listen=127.0.0.1:4222 in %s, after embedded:)",
			err, what.Command, option.SinkURL)
	}
	o.InProcess = server
	own, err := read(ctx, o, what.Destinations)
	if errors.Is(err, verify.ErrNothing) {
		err = fmt.Errorf("the server in %s has no stream %s: bridge has published nothing there yet", dir, o.Stream)
	}
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	own.Server = server
	return own, nil
}
