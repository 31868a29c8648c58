package testenv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/bridge/tests/must"
)

// Proxy is a TCP proxy on a loopback port with the faults of a network.
type Proxy struct {
	addr string
	// running counts the goroutines of the proxy.
	running sync.WaitGroup

	mu       sync.Mutex
	upstream string
	// listener is nil after Cut.
	listener net.Listener
	links    map[*link]struct{}
	faults   faults
	// changed is closed when faults change.
	changed chan struct{}
	// received counts the bytes that upstream has sent, broken the connections for Broken.
	received, broken int
	// match says which connections Block is for.
	match func(data []byte) bool
}

type faults struct {
	latency time.Duration
	// rate is in bytes per second, 0 without a limit. resets is a probability.
	rate   int64
	resets float64
	// swallows says which data is lost, holds which waits for Heal; answer is what upstream sends.
	// nil is none.
	swallows, holds func(l *link, answer bool) bool
}

// StartProxy starts a proxy in front of upstream (host:port), which need not listen yet.
func StartProxy(t testing.TB, upstream string) *Proxy {
	t.Helper()
	p := &Proxy{addr: "127.0.0.1:0", upstream: upstream, links: make(map[*link]struct{}), changed: make(chan struct{})}
	must.OK(t, p.listen())
	p.addr = p.listener.Addr().String()
	t.Cleanup(func() {
		p.Cut()
		p.running.Wait()
	})
	return p
}

func (p *Proxy) do(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func (p *Proxy) change(edit func(*faults)) {
	p.do(func() {
		edit(&p.faults)
		close(p.changed)
		p.changed = make(chan struct{})
	})
}

// Addr returns the proxy's host:port, the same after Cut and Heal.
func (p *Proxy) Addr() string { return p.addr }

// Forward has later connections lead to another host:port. Open ones stay where they are.
func (p *Proxy) Forward(upstream string) { p.do(func() { p.upstream = upstream }) }

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
func (p *Proxy) HalfOpen() {
	p.change(func(f *faults) { f.swallows = func(*link, bool) bool { return true } })
}

// Freeze is HalfOpen for the connections that are open now. New ones work.
func (p *Proxy) Freeze() {
	p.change(func(f *faults) {
		frozen := maps.Clone(p.links)
		f.swallows = func(l *link, _ bool) (is bool) { _, is = frozen[l]; return is }
	})
}

// Isolate is HalfOpen for the connections of one process, those that it opens later included.
func (p *Proxy) Isolate(pid int) {
	of := make(map[*link]bool)
	p.change(func(f *faults) {
		f.swallows = func(l *link, _ bool) bool {
			if _, asked := of[l]; !asked {
				of[l] = hasPort(pid, l.client.RemoteAddr().(*net.TCPAddr).Port)
			}
			return of[l]
		}
	})
}

// DropAnswers swallows what upstream sends.
func (p *Proxy) DropAnswers() {
	p.change(func(f *faults) { f.swallows = func(_ *link, answer bool) bool { return answer } })
}

// Stall holds all data until Heal. Connections stay open and new ones are accepted.
func (p *Proxy) Stall() {
	p.change(func(f *faults) { f.holds = func(*link, bool) bool { return true } })
}

// PauseAfter holds what upstream sends beyond the next n bytes until Heal.
func (p *Proxy) PauseAfter(n int) <-chan struct{} {
	paused := make(chan struct{})
	note := sync.OnceFunc(func() { close(paused) })
	p.change(func(f *faults) {
		most := p.received + n
		f.holds = func(_ *link, answer bool) bool {
			over := answer && p.received > most
			if over {
				note()
			}
			return over
		}
	})
	return paused
}

// Block holds what clients send, on each connection from the first piece on that match reports,
// until Release. Answers pass. A client that ends meanwhile changes nothing: what it has sent
// arrives.
func (p *Proxy) Block(match func(data []byte) bool) { p.do(func() { p.match = match }) }

// Pass has Block take no further connection. What is held stays so.
func (p *Proxy) Pass() { p.Block(nil) }

// Release is Pass and lets go what is held.
func (p *Proxy) Release() {
	p.change(func(*faults) {
		p.match = nil
		for l := range p.links {
			l.blocked = false
		}
	})
}

// Blocked returns how many connections Block has taken.
func (p *Proxy) Blocked() (n int) {
	p.do(func() {
		for l := range p.links {
			if l.blocked {
				n++
			}
		}
	})
	return n
}

// Received returns how many bytes upstream has sent.
func (p *Proxy) Received() (n int) { p.do(func() { n = p.received }); return n }

// Open returns how many connections are open.
func (p *Proxy) Open() (n int) { p.do(func() { n = len(p.links) }); return n }

// Broken returns how many connections Cut and Resets have ended, and Heal because data was
// swallowed.
func (p *Proxy) Broken() (n int) { p.do(func() { n = p.broken }); return n }

// Drop resets every open connection (RST to both ends). New ones are accepted.
func (p *Proxy) Drop() {
	p.do(func() {
		for l := range p.links {
			l.reset()
		}
	})
}

// Cut closes every connection (FIN to both ends) and refuses new ones until Heal.
func (p *Proxy) Cut() {
	p.do(func() {
		if p.listener != nil {
			_ = p.listener.Close()
			p.listener = nil
		}
		p.broken += len(p.links)
		for l := range p.links {
			l.close()
		}
	})
}

// Heal ends every fault. A connection that has lost data is reset, because its ends cannot go on.
// It panics when another process keeps the proxy's port after Cut.
func (p *Proxy) Heal() {
	// At once: else what follows the data that was swallowed could pass before the reset.
	p.change(func(f *faults) {
		*f = faults{}
		for l := range p.links {
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

func (p *Proxy) listen() error {
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	return poll(ctx, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.listener != nil {
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

func (p *Proxy) join(l net.Listener, client *net.TCPConn) {
	at := ""
	p.do(func() { at = p.upstream })
	conn, err := net.DialTimeout("tcp", at, 5*time.Second)
	if err != nil {
		_ = client.SetLinger(0)
		_ = client.Close()
		return
	}
	one := &link{proxy: p, client: client, upstream: conn.(*net.TCPConn), ended: make(chan struct{})}
	p.do(func() {
		if p.listener == l {
			p.links[one] = struct{}{}
		} else {
			// Cut has come in between.
			one.close()
		}
	})
	var both sync.WaitGroup
	both.Go(func() { one.pass(one.upstream, one.client, false) })
	both.Go(func() { one.pass(one.client, one.upstream, true) })
	both.Wait()
	p.do(func() { delete(p.links, one) })
}

type link struct {
	proxy            *Proxy
	client, upstream *net.TCPConn
	once             sync.Once
	ended            chan struct{}
	// lost says that data was swallowed, blocked that what the client sends is held. The proxy's mu
	// guards both.
	lost, blocked bool
}

// hasPort reports by the sockets of a process whether it has a TCP connection over IPv4 from a
// port.
func hasPort(pid, port int) bool {
	table, _ := os.ReadFile("/proc/net/tcp")
	for line := range strings.Lines(string(table)) {
		column := strings.Fields(line)
		if len(column) < 10 || !strings.HasSuffix(column[1], fmt.Sprintf(":%04X", port)) {
			continue
		}
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		if slices.ContainsFunc(files, func(file string) bool {
			to, _ := os.Readlink(file)
			return to == "socket:["+column[9]+"]"
		}) {
			return true
		}
	}
	return false
}

type piece struct {
	data []byte
	read time.Time
}

func (l *link) pass(to, from *net.TCPConn, answer bool) {
	queue := make(chan piece, 32)
	l.proxy.running.Go(func() {
		defer close(queue)
		l.read(queue, from, answer)
	})
	defer l.close()
	l.write(to, queue)
	if answer {
		// A client that is gone takes no answers. What it has sent may still be held.
		for range queue {
		}
	}
}

func (l *link) read(queue chan<- piece, from *net.TCPConn, answer bool) {
	p := l.proxy
	for {
		data := make([]byte, 32<<10)
		n, err := from.Read(data)
		swallow, reset := false, false
		p.do(func() {
			f := &p.faults
			if answer {
				p.received += n
			} else if p.match != nil && p.match(data[:n]) {
				l.blocked = true
			}
			if f.swallows != nil && f.swallows(l, answer) {
				swallow, l.lost = true, true
			} else if n > 0 && f.resets > 0 && rand.Float64() < f.resets {
				reset = true
				p.broken++
			}
		})
		switch {
		case reset:
			l.reset()
			return
		case swallow && err != nil:
			l.wait(func(f *faults) time.Duration { return blocked(f.swallows != nil && f.swallows(l, answer)) })
			return
		case swallow:
			continue
		}
		if !l.wait(func(f *faults) time.Duration {
			return blocked(f.holds != nil && f.holds(l, answer) || l.blocked && !answer)
		}) {
			return
		}
		if n > 0 {
			select {
			case queue <- piece{data[:n], time.Now()}:
			case <-l.ended:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (l *link) write(to *net.TCPConn, queue <-chan piece) {
	for one := range queue {
		begun := time.Now()
		passed := l.wait(func(f *faults) time.Duration {
			left := time.Until(one.read.Add(f.latency))
			if f.rate > 0 {
				left = max(left, time.Until(begun.Add(time.Duration(len(one.data))*time.Second/time.Duration(f.rate))))
			}
			return left
		})
		if !passed {
			return
		}
		if _, err := to.Write(one.data); err != nil {
			return
		}
	}
}

// Only a change of the faults ends it.
func blocked(yes bool) time.Duration {
	if yes {
		return time.Hour
	}
	return 0
}

// False when the link ends.
func (l *link) wait(left func(*faults) time.Duration) bool {
	for {
		var rest time.Duration
		var changed chan struct{}
		l.proxy.do(func() { rest, changed = left(&l.proxy.faults), l.proxy.changed })
		if rest <= 0 {
			return true
		}
		select {
		case <-time.After(rest):
		case <-changed:
		case <-l.ended:
			return false
		}
	}
}

func (l *link) close() {
	l.once.Do(func() {
		close(l.ended)
		_ = l.client.Close()
		_ = l.upstream.Close()
	})
}

func (l *link) reset() {
	_ = l.client.SetLinger(0)
	_ = l.upstream.SetLinger(0)
	l.close()
}
