package testenv

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// NATSServer is a NATS server with JetStream and file storage. Its methods are for one goroutine at
// a time, except URL and Connect.
type NATSServer struct {
	// Version is the server's version.
	Version string

	url *url.URL
	// login opens a connection that may do everything.
	login []nats.Option
	// Process is nil for a whole cluster and for a server inside the test.
	*Process
	// config is what the server was started with, nil without one of our own.
	config *natsConfig
}

var sharedNATS shared[*NATSServer]

// NATS returns the server that all tests of the binary share. The first call starts it and Main
// stops it.
func NATS(t testing.TB) *NATSServer {
	t.Helper()
	needReal(t)
	s, err := sharedNATS.get(func() (*NATSServer, func(), error) { return newNATS(t, nil) })
	if err != nil {
		missing(t, "NATS", err)
	}
	return s
}

// StartNATS starts a server that belongs to the test, so that the test may kill it; it is gone when
// the test ends.
func StartNATS(t testing.TB, options ...NATSOption) *NATSServer {
	t.Helper()
	needReal(t)
	s, stop, err := newNATS(t, options)
	if err != nil {
		missing(t, "NATS to kill", err)
	}
	t.Cleanup(stop)
	return s
}

// OwnNATS returns a server that belongs to the test: one of [StartNATS] where real servers are
// wanted, and else one of [InProcessNATS], which the race detector makes several times slower.
func OwnNATS(t testing.TB) *NATSServer {
	t.Helper()
	if os.Getenv("BRIDGE_TEST_REAL") == "" {
		return InProcessNATS(t)
	}
	return StartNATS(t)
}

// OwnNATSCluster returns the members of a cluster of three such servers.
func OwnNATSCluster(t testing.TB) []*NATSServer {
	t.Helper()
	if os.Getenv("BRIDGE_TEST_REAL") == "" {
		return inProcessNATSCluster(t)
	}
	_, members := StartNATSCluster(t)
	return members
}

// AnyNATS returns the server of [NATS] where real servers are wanted, and else a server of the NATS
// library inside the test. It is for tests that need no settings of the server: in a test with the
// race detector, a server inside takes several times as long.
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
		return nil, nil, fmt.Errorf("%s is not there", daemon)
	}
	// Not t.TempDir: the shared server outlives the test that starts it.
	dir, err := os.MkdirTemp("", "bridge-nats-")
	if err != nil {
		return nil, nil, err
	}
	remove := func() { _ = os.RemoveAll(dir) }
	// Another process may take the free port first.
	for range 3 {
		var s *NATSServer
		if s, err = privateNATS(t, daemon, dir, options); err != nil {
			break
		}
		if err = s.start(); err == nil {
			reportNATS.Do(func() { report("real", "nats-server "+s.Version) })
			return s, func() { s.Kill(); remove() }, nil
		}
		s.Kill()
	}
	remove()
	return nil, nil, err
}

func privateNATS(t testing.TB, daemon, dir string, options []NATSOption) (*NATSServer, error) {
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(FreePort(t)))
	s := &NATSServer{url: &url.URL{Scheme: "nats", Host: addr}}
	c := &natsConfig{}
	c.line("listen: %q", addr)
	c.line("jetstream { store_dir: %q, max_mem: 256M, max_file: 64G }", filepath.Join(dir, "data"))
	for _, option := range options {
		option(c)
	}
	s.login, s.config = c.login, c
	if c.tls {
		s.url.Scheme = "tls"
	}
	c.path = filepath.Join(dir, "nats.conf")
	if err := c.write(); err != nil {
		return nil, err
	}
	s.Process = &Process{
		name: "nats-server", args: []string{daemon, "-c", c.path}, log: filepath.Join(dir, "log"), wait: startWithin,
		ready: s.identify, data: filepath.Join(dir, "data"),
	}
	return s, nil
}

var reportNATS sync.Once

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
	s.Version = nc.ConnectedServerVersion()
	return nil
}

// URL returns the server's address without credentials.
func (s *NATSServer) URL() string { return s.url.String() }

// Addr returns the server's host:port.
func (s *NATSServer) Addr() string { return s.url.Host }
