package embedded

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// gate makes connections to the server and can end them all. The server exchanges its queues of
// requests without a lock when JetStream is switched on again (v2.15, setJetStreamExportSubs), so
// no request may be under way then: one that is would be lost.
type gate struct {
	server *server.Server

	mu    sync.Mutex
	shut  bool
	conns map[*gatedConn]struct{}
}

var errShut = errors.New("the NATS server inside the process is switching JetStream on again")

// gatedConn is a connection that the gate can end.
type gatedConn struct {
	net.Conn
	gate *gate
}

func newGate(s *server.Server) *gate {
	return &gate{server: s, conns: make(map[*gatedConn]struct{})}
}

// InProcessConn implements Conns. While the gate is shut it fails at once; who wants a connection
// tries again.
func (g *gate) InProcessConn() (net.Conn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return nil, errShut
	}
	inner, err := g.server.InProcessConn()
	if err != nil {
		return nil, err
	}
	c := &gatedConn{inner, g}
	g.conns[c] = struct{}{}
	return c, nil
}

// Close ends the connection.
func (c *gatedConn) Close() error {
	c.gate.mu.Lock()
	delete(c.gate.conns, c)
	c.gate.mu.Unlock()
	return c.Conn.Close()
}

// goneWithin bounds the wait for the server to notice that its clients are gone. Clients from
// outside the process may stay.
const goneWithin = 2 * time.Second

// quiet calls do while no connection of this process is open.
func (g *gate) quiet(do func() error) error {
	g.close()
	defer g.open()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); g.server.NumClients() > 0 && time.Since(begun) < goneWithin; {
		<-tick.C
	}
	return do()
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
	for c := range g.conns {
		// The client notices it; there is nothing else to tell.
		_ = c.Conn.Close()
	}
	clear(g.conns)
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = false
}
