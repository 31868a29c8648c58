package testenv

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy is a TCP proxy on a loopback port with the faults of a network. Its methods may be called
// from any goroutine. Faults also hold for open connections, and add up until Heal.
type Proxy struct {
	addr string
	// running counts the goroutines of the proxy.
	running sync.WaitGroup

	mu       sync.Mutex
	upstream string
	// listener is nil after Cut.
	listener net.Listener
	closed   bool
	links    map[*link]struct{}
	faults   faults
	// changed is closed when faults change.
	changed chan struct{}
	// received counts the bytes that upstream has sent, broken the connections for Broken.
	received, broken int
	// match says which connections Block is for.
	match func(data []byte) bool
}

// faults are those of the moment.
type faults struct {
	latency time.Duration
	// rate is in bytes per second, 0 without a limit. resets is a probability.
	rate   int64
	resets float64
	// silent swallows all data, mute what upstream sends. stalled holds all data.
	silent, mute, stalled bool
	// paused, when not nil, is closed once received exceeds pauseAt; then what upstream sends is
	// held.
	paused  chan struct{}
	pauseAt int
}

// StartProxy starts a proxy in front of upstream (host:port), which need not listen yet. It ends
// when the test ends.
func StartProxy(t testing.TB, upstream string) *Proxy {
	t.Helper()
	p := &Proxy{addr: "127.0.0.1:0", upstream: upstream, links: make(map[*link]struct{}), changed: make(chan struct{})}
	if err := p.listen(); err != nil {
		t.Fatal(err)
	}
	p.addr = p.listener.Addr().String()
	t.Cleanup(func() { p.close(t) })
	return p
}

// Addr returns the proxy's host:port, the same after Cut and Heal.
func (p *Proxy) Addr() string { return p.addr }

// Forward has later connections lead to another host:port. Open ones stay where they are.
func (p *Proxy) Forward(upstream string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.upstream = upstream
}

// Latency delays all data by d in each direction, so that a round trip takes 2d longer.
func (p *Proxy) Latency(d time.Duration) { p.change(func(f *faults) { f.latency = d }) }

// Bandwidth limits each direction of each connection to so many bytes per second; 0 is no limit.
func (p *Proxy) Bandwidth(bytesPerSecond int64) {
	p.change(func(f *faults) { f.rate = bytesPerSecond })
}

// Resets drops each piece of data with the probability share and resets its connection (RST to both
// ends). A piece is what one read of a socket returns, at most 32 KiB.
func (p *Proxy) Resets(share float64) { p.change(func(f *faults) { f.resets = share }) }

// HalfOpen swallows all data, and the ends of connections, in both directions. Connections stay
// open and new ones are accepted. What is in flight may still arrive.
func (p *Proxy) HalfOpen() { p.change(func(f *faults) { f.silent = true }) }

// Freeze is HalfOpen for the connections that are open now. New ones work.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.frozen = true
	}
}

// Mute swallows what upstream sends.
func (p *Proxy) Mute() { p.change(func(f *faults) { f.mute = true }) }

// Stall holds all data until Heal. Connections stay open and new ones are accepted.
func (p *Proxy) Stall() { p.change(func(f *faults) { f.stalled = true }) }

// PauseAfter holds what upstream sends beyond the next n bytes until Heal. The channel is closed
// when there is something to hold.
func (p *Proxy) PauseAfter(n int) <-chan struct{} {
	paused := make(chan struct{})
	p.change(func(f *faults) { f.paused, f.pauseAt = paused, p.received+n })
	return paused
}

// Block holds what clients send, on each connection from the first piece on that match reports,
// until Release. Answers pass. A client that ends meanwhile changes nothing: what it has sent
// arrives.
func (p *Proxy) Block(match func(data []byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.match = match
}

// Pass has Block take no further connection. What is held stays so.
func (p *Proxy) Pass() { p.Block(nil) }

// Blocked returns how many connections Block has taken.
func (p *Proxy) Blocked() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if l.blocked {
			n++
		}
	}
	return n
}

// Release is Pass and lets go what is held.
func (p *Proxy) Release() {
	p.change(func(*faults) {
		p.match = nil
		for l := range p.links {
			l.blocked = false
		}
	})
}

// Received returns how many bytes upstream has sent.
func (p *Proxy) Received() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.received
}

// Drop resets every open connection (RST to both ends). New ones are accepted.
func (p *Proxy) Drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.reset()
	}
}

// Cut closes every connection (FIN to both ends) and refuses new ones until Heal.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	p.broken += len(p.links)
	for l := range p.links {
		l.close()
	}
}

// Open returns how many connections are open.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Broken returns how many connections Cut and Resets have ended, and Heal because data was
// swallowed.
func (p *Proxy) Broken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.broken
}

// Heal ends every fault. A connection that has lost data is reset, because its ends cannot go on.
// It panics when another process keeps the proxy's port for ten seconds after Cut.
func (p *Proxy) Heal() {
	// At once: else what follows the data that was swallowed could pass before the reset.
	p.change(func(f *faults) {
		*f = faults{}
		for l := range p.links {
			l.frozen = false
			if l.lost {
				p.broken++
				l.reset()
			}
		}
	})
	if err := p.listen(); err != nil {
		panic(err)
	}
}

func (p *Proxy) change(edit func(*faults)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	edit(&p.faults)
	close(p.changed)
	p.changed = make(chan struct{})
}

// listen opens the port unless it is open or the proxy has ended.
func (p *Proxy) listen() error {
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	return poll(ctx, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.listener != nil || p.closed {
			return nil
		}
		l, err := net.Listen("tcp", p.addr)
		if err == nil {
			p.listener = l
			p.running.Go(func() { p.accept(l) })
		}
		return err
	})
}

func (p *Proxy) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			p.running.Go(func() { p.join(l, client.(*net.TCPConn)) })
		}
	}
}

// join connects a client that l has accepted with upstream until one of them ends.
func (p *Proxy) join(l net.Listener, client *net.TCPConn) {
	p.mu.Lock()
	at := p.upstream
	p.mu.Unlock()
	conn, err := net.DialTimeout("tcp", at, 5*time.Second)
	if err != nil {
		_ = client.SetLinger(0)
		_ = client.Close()
		return
	}
	link := &link{proxy: p, client: client, upstream: conn.(*net.TCPConn), ended: make(chan struct{})}
	p.mu.Lock()
	if p.listener == l {
		p.links[link] = struct{}{}
	} else {
		// Cut has come in between.
		link.close()
	}
	p.mu.Unlock()
	link.run()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, link)
}

// admit counts n bytes of a link and reports what the faults do to them.
func (p *Proxy) admit(l *link, n int, answer bool) (swallow, reset bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := &p.faults
	if answer {
		before := p.received
		p.received += n
		if f.paused != nil && before <= f.pauseAt && p.received > f.pauseAt {
			close(f.paused)
		}
	}
	switch {
	case l.swallows(f, answer):
		l.lost = true
		return true, false
	case n > 0 && f.resets > 0 && rand.Float64() < f.resets:
		p.broken++
		return false, true
	}
	return false, false
}

// holds reports whether data waits for Heal.
func (p *Proxy) holds(f *faults, answer bool) bool {
	return f.stalled || answer && f.paused != nil && p.received > f.pauseAt
}

// close ends the proxy and waits for its goroutines.
func (p *Proxy) close(t testing.TB) {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Heal()
	p.Cut()
	done := make(chan struct{})
	go func() { p.running.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(answerWithin):
		t.Errorf("the proxy at %s has not ended", p.addr)
	}
}
