package testenv

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// NATSServer is a NATS server with JetStream and file storage.
type NATSServer struct {
	// Version is the server's version.
	Version string

	url *url.URL
	// login opens a connection that may do everything.
	login []nats.Option
	// Process is nil for a whole cluster and for a server inside the test.
	*Process
}

var sharedNATS shared[*NATSServer]

// NATS returns the server that all tests of the binary share.
func NATS(t testing.TB) *NATSServer {
	t.Helper()
	return sharedNATS.get(t, "NATS", func() (*NATSServer, func(), error) { return newNATS(t, nil) })
}

// StartNATS starts a server that belongs to the test.
func StartNATS(t testing.TB, options ...NATSOption) *NATSServer {
	t.Helper()
	return own(t, "NATS", func() (*NATSServer, func(), error) { return newNATS(t, options) })
}

// OwnNATS is StartNATS where real servers are wanted, AnyNATS is NATS, and both are InProcessNATS
// elsewhere, which the race detector makes several times slower.
func OwnNATS(t testing.TB) *NATSServer {
	t.Helper()
	if os.Getenv("BRIDGE_TEST_REAL") == "" {
		return InProcessNATS(t)
	}
	return StartNATS(t)
}

// AnyNATS is for tests that need no settings of the server: see OwnNATS.
func AnyNATS(t testing.TB) *NATSServer {
	t.Helper()
	if os.Getenv("BRIDGE_TEST_REAL") == "" {
		return InProcessNATS(t)
	}
	return NATS(t)
}

// newNATS writes a configuration and starts a server with it.
func newNATS(t testing.TB, options []NATSOption) (*NATSServer, func(), error) {
	daemon := filepath.Join(cacheDir(), "bin", "nats-server")
	if !isFile(daemon) {
		return nil, nil, fmt.Errorf("%s: %w", daemon, exec.ErrNotFound)
	}
	return tryPorts("nats", func(dir string) (*NATSServer, *Process, error) {
		s, c := &NATSServer{url: &url.URL{Scheme: "nats", Host: address(FreePort(t))}}, new(natsConfig)
		c.line("listen: %q", s.url.Host)
		c.line("jetstream { store_dir: %q, max_mem: 256M, max_file: 64G }", filepath.Join(dir, "data"))
		for _, option := range options {
			option(c)
		}
		if s.login = c.login; c.tls {
			s.url.Scheme = "tls"
		}
		config := filepath.Join(dir, "nats.conf")
		s.Process = &Process{
			name: "nats-server", args: []string{daemon, "-c", config}, log: filepath.Join(dir, "log"), ready: s.identify, data: filepath.Join(dir, "data"),
		}
		return s, s.Process, os.WriteFile(config, []byte(strings.Join(c.lines, "\n")+"\n"), 0o600)
	})
}

// identify reads the server's version, once JetStream answers.
func (s *NATSServer) identify(ctx context.Context) error {
	nc, err := nats.Connect(s.url.String(), s.login...)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	// A request that meets no leader of a cluster gets no answer.
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := js.AccountInfo(ctx); err != nil {
		return fmt.Errorf("JetStream: %w", err)
	}
	if s.Version == "" {
		s.Version = nc.ConnectedServerVersion()
		report("real", "nats-server "+s.Version)
	}
	return nil
}

// URL returns the server's address without credentials.
func (s *NATSServer) URL() string { return s.url.String() }

// Addr returns the server's host:port.
func (s *NATSServer) Addr() string { return s.url.Host }
