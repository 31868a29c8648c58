package jetstream_test

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// proxy passes TCP connections on to a server and can cut or stall them.
type proxy struct {
	listener net.Listener
	target   string
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	// stalled is not nil while nothing is passed on; it is closed at the end of the stall.
	stalled chan struct{}
	closed  bool
	// frozen are the connections on which nothing is passed on any more, without being closed.
	frozen map[net.Conn]bool
	// muted: what the server says is thrown away.
	muted bool
}

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: target, conns: make(map[net.Conn]struct{})}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		_ = l.Close()
		p.resume()
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) url() string {
	return (&url.URL{Scheme: "nats", Host: p.listener.Addr().String()}).String()
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.add(client, server) {
			return
		}
		p.wg.Go(func() { p.pass(client, server, true) })
		p.wg.Go(func() { p.pass(server, client, false) })
	}
}

func (p *proxy) add(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.closed {
			_ = c.Close()
			continue
		}
		p.conns[c] = struct{}{}
	}
	return !p.closed
}

// pass copies from one connection to the other and closes both at the end. answers says that from is the server.
func (p *proxy) pass(to, from net.Conn, answers bool) {
	defer p.drop(to, from)
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		p.wait()
		if err == nil && (p.isFrozen(from) || answers && p.isMuted()) {
			continue
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *proxy) drop(conns ...io.Closer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(p.conns, c.(net.Conn))
	}
}

func (p *proxy) wait() {
	p.mu.Lock()
	stalled := p.stalled
	p.mu.Unlock()
	if stalled != nil {
		<-stalled
	}
}

// cut closes every connection.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// freeze has the connections of this moment pass nothing on any more; new ones work.
func (p *proxy) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = make(map[net.Conn]bool)
	for c := range p.conns {
		p.frozen[c] = true
	}
}

func (p *proxy) isFrozen(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.frozen[c] && !p.closed
}

// mute throws away what the server says, or no longer.
func (p *proxy) mute(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.muted = on
}

func (p *proxy) isMuted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.muted
}

// stall keeps connections, old and new, open and passes nothing on.
func (p *proxy) stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stalled == nil {
		p.stalled = make(chan struct{})
	}
}

func (p *proxy) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stalled != nil {
		close(p.stalled)
		p.stalled = nil
	}
}
