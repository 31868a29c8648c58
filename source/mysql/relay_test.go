package mysql_test

import (
	"io"
	"net"
	"sync"
	"testing"
)

// relay passes TCP connections on to a server and can hold the server's bytes back.
type relay struct {
	addr string
	// paused receives when the relay begins to hold bytes back.
	paused chan struct{}

	mu sync.Mutex
	// total is what the server has sent.
	total int
	// left is how many bytes may still pass, -1 for all.
	left   int
	gate   chan struct{}
	closes []io.Closer
}

func startRelay(t *testing.T, server string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{addr: l.Addr().String(), paused: make(chan struct{}, 1), left: -1, closes: []io.Closer{l}}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("tcp", server)
			if err != nil {
				_ = client.Close()
				continue
			}
			r.mu.Lock()
			r.closes = append(r.closes, client, upstream)
			r.mu.Unlock()
			wg.Go(func() { copyAndClose(upstream, client, upstream) })
			wg.Go(func() { copyAndClose(client, gated{r, upstream}, client) })
		}
	})
	t.Cleanup(func() {
		r.resume()
		r.mu.Lock()
		for _, c := range r.closes {
			_ = c.Close()
		}
		r.mu.Unlock()
		wg.Wait()
	})
	return r
}

func copyAndClose(w io.Writer, from io.Reader, c io.Closer) {
	_, _ = io.Copy(struct{ io.Writer }{w}, struct{ io.Reader }{from})
	_ = c.Close()
}

// pauseAfter holds back what the server sends beyond the next n bytes, until resume.
func (r *relay) pauseAfter(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left, r.gate = n, make(chan struct{})
}

func (r *relay) resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gate != nil {
		close(r.gate)
	}
	r.left, r.gate = -1, nil
}

// passed returns how many bytes the server has sent.
func (r *relay) passed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total
}

// gated is the server's side of a connection behind the relay's gate.
type gated struct {
	r      *relay
	server net.Conn
}

func (g gated) Read(b []byte) (int, error) {
	n, err := g.server.Read(b)
	g.r.mu.Lock()
	g.r.total += n
	gate := g.r.gate
	hold := false
	if gate != nil {
		g.r.left -= n
		hold = g.r.left < 0
	}
	g.r.mu.Unlock()
	if hold {
		select {
		case g.r.paused <- struct{}{}:
		default:
		}
		<-gate
	}
	return n, err
}
