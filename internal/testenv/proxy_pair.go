package testenv

import (
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
)

// pair is a client's connection and the one to upstream that belongs to it.
type pair struct {
	proxy            *Proxy
	client, upstream *net.TCPConn
	// lost is set when something on its way was swallowed; guarded by the proxy's mu.
	lost bool
	// ends counts the directions that go on.
	ends atomic.Int32
}

var pairs atomic.Uint64

// join connects a client that l has accepted with upstream and starts both directions.
func (p *Proxy) join(l net.Listener, client *net.TCPConn) {
	p.mu.Lock()
	at := p.upstream
	p.mu.Unlock()
	dialer := net.Dialer{Timeout: 10 * time.Second}
	conn, err := dialer.DialContext(p.ctx, "tcp", at)
	if err != nil {
		_ = client.SetLinger(0)
		_ = client.Close()
		return
	}
	c := &pair{proxy: p, client: client, upstream: conn.(*net.TCPConn)}
	c.ends.Store(2)
	p.mu.Lock()
	// Cut has come in between.
	if p.listener != l {
		p.mu.Unlock()
		c.close()
		return
	}
	p.pairs[c] = struct{}{}
	p.running.Add(2)
	p.mu.Unlock()
	name := fmt.Sprint(pairs.Add(1))
	p.toxics.StartLink(p.api, name+"up", &inlet{c, c.client}, &outlet{pair: c, conn: c.upstream}, stream.Upstream)
	p.toxics.StartLink(p.api, name+"down", &inlet{c, c.upstream}, &outlet{pair: c, conn: c.client}, stream.Downstream)
}

// close ends both connections in good order.
func (c *pair) close() {
	_ = c.client.Close()
	_ = c.upstream.Close()
}

// reset ends both connections with a RST.
func (c *pair) reset() {
	_ = c.client.SetLinger(0)
	_ = c.upstream.SetLinger(0)
	c.close()
}

// ended notes the end of a direction.
func (c *pair) ended() {
	if c.ends.Add(-1) == 0 {
		c.proxy.mu.Lock()
		delete(c.proxy.pairs, c)
		c.proxy.mu.Unlock()
	}
	c.proxy.running.Done()
}

// inlet is where a direction begins.
type inlet struct {
	pair *pair
	conn *net.TCPConn
}

// Read returns what shall go on its way.
func (in *inlet) Read(b []byte) (int, error) {
	p := in.pair.proxy
	for {
		n, err := in.conn.Read(b)
		p.mu.Lock()
		healed := p.healed
		in.pair.lost = in.pair.lost || healed != nil
		p.mu.Unlock()
		switch {
		case healed != nil:
			if err != nil {
				<-healed
				return 0, io.EOF
			}
		case n > 0 && p.unlucky():
			in.pair.reset()
			return 0, io.EOF
		case err != nil:
			return n, io.EOF
		default:
			return n, nil
		}
	}
}

// outlet is where a direction ends.
type outlet struct {
	pair   *pair
	conn   *net.TCPConn
	broken bool
	once   sync.Once
}

// Write never fails: what a broken connection does not take goes nowhere, so that nothing waits for ever on its way there.
func (out *outlet) Write(b []byte) (int, error) {
	if !out.broken {
		if _, err := out.conn.Write(b); err != nil {
			out.broken = true
			out.pair.close()
		}
	}
	return len(b), nil
}

// Close ends the connection, which ends the other direction, too.
func (out *outlet) Close() error {
	err := out.conn.Close()
	out.once.Do(out.pair.ended)
	return err
}
