package testenv

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Proxy is a TCP proxy on a loopback port that does to its connections what networks do. Delays and bandwidth are those of
// Toxiproxy; connections are the proxy's own, because Toxiproxy neither resets one that is open nor ends all its goroutines
// when one breaks. Its methods may be called from any goroutine. Faults add up until Heal.
type Proxy struct {
	addr   string
	api    *toxiproxy.ApiServer
	toxics *toxiproxy.ToxicCollection
	// changes orders the calls that touch toxics or the listener.
	changes sync.Mutex
	// active are the toxics in the order in which they were added.
	active []toxic
	// running counts the goroutines of the proxy and two for each connection.
	running sync.WaitGroup
	ctx     context.Context
	stop    context.CancelFunc

	mu       sync.Mutex
	upstream string
	listener net.Listener
	pairs    map[*pair]struct{}
	resets   float64
	// broken counts the connections that faults have ended or kept data from.
	broken int
	// healed is closed by Heal; nil unless the network is half-open.
	healed chan struct{}
}

// StartProxy starts a proxy in front of upstream (host:port), which need not listen yet. It ends, with all that it has started,
// when the test ends.
func StartProxy(t testing.TB, upstream string) *Proxy {
	t.Helper()
	zerolog.SetGlobalLevel(zerolog.Disabled)
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := &Proxy{upstream: upstream, api: api, pairs: make(map[*pair]struct{})}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.toxics = toxiproxy.NewProxy(api, "proxy", "", upstream).Toxics
	p.addr = "127.0.0.1:0"
	if err := p.listen(); err != nil {
		t.Fatal(err)
	}
	p.addr = p.listener.Addr().String()
	t.Cleanup(func() { p.close(t) })
	return p
}

// Addr returns the proxy's host:port, the same over Cut and Heal.
func (p *Proxy) Addr() string { return p.addr }

// Forward has connections that are made from here on lead to another host:port. Those that are open stay where they are.
func (p *Proxy) Forward(upstream string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.upstream = upstream
}

// Latency delays what passes by d in each direction, so that a round trip takes 2d longer; whole milliseconds, 0 ends it. It holds
// for connections that are open, too.
func (p *Proxy) Latency(d time.Duration) { p.setToxic(toxic{"latency", "latency", d.Milliseconds()}) }

// Bandwidth lets at most so many bytes pass in a second, for each connection and direction; whole kB, at least 1, 0 ends it. It
// holds for connections that are open, too.
func (p *Proxy) Bandwidth(bytesPerSecond int64) {
	p.setToxic(toxic{"bandwidth", "rate", (bytesPerSecond + 999) / 1000})
}

// Resets makes every piece of data that passes, which is what one read of a socket gives, 32 KiB at most, the last one of its
// connection with the probability share (0 to 1): the piece is lost and both ends get a RST. 0.01 resets a connection after 100
// pieces in the mean, about 50 requests with their answers. A connection without traffic stays.
func (p *Proxy) Resets(share float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resets = share
}

// HalfOpen makes the network swallow all data, and the end of connections, in both directions: connections stay open, further
// ones are accepted, nobody learns anything. What is under way may still arrive.
func (p *Proxy) HalfOpen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.healed == nil {
		p.healed = make(chan struct{})
	}
}

// Drop resets every connection that is open (RST to both ends). Further ones are accepted.
func (p *Proxy) Drop() {
	for _, pair := range p.open() {
		pair.reset()
	}
}

// Cut closes every connection (FIN to both ends) and refuses further ones until Heal.
func (p *Proxy) Cut() {
	p.changes.Lock()
	defer p.changes.Unlock()
	p.mu.Lock()
	l := p.listener
	p.listener = nil
	p.mu.Unlock()
	if l != nil {
		_ = l.Close()
	}
	open := p.open()
	p.mu.Lock()
	p.broken += len(open)
	p.mu.Unlock()
	for _, pair := range open {
		pair.close()
	}
}

// Open returns how many connections go through the proxy.
func (p *Proxy) Open() int { return len(p.open()) }

// Broken returns how many connections Cut and Resets have ended and HalfOpen has kept data from, the latter once Heal has ended that.
func (p *Proxy) Broken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.broken
}

// Heal ends every fault. A connection from which HalfOpen has swallowed something is reset, because its ends cannot go on; all
// others stay. It panics when another process has taken the proxy's port during Cut and keeps it for ten seconds.
func (p *Proxy) Heal() {
	p.changes.Lock()
	defer p.changes.Unlock()
	for _, pair := range p.endFaults() {
		pair.reset()
	}
	p.removeToxics()
	if err := p.listen(); err != nil {
		panic(err)
	}
}

// endFaults ends what is no toxic and returns the connections that have lost something.
func (p *Proxy) endFaults() []*pair {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resets = 0
	if p.healed != nil {
		close(p.healed)
		p.healed = nil
	}
	var lost []*pair
	for pair := range p.pairs {
		if pair.lost {
			lost = append(lost, pair)
		}
	}
	p.broken += len(lost)
	return lost
}

// open returns the connections of the moment.
func (p *Proxy) open() []*pair {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*pair, 0, len(p.pairs))
	for pair := range p.pairs {
		all = append(all, pair)
	}
	return all
}

// listen opens the port unless it is open or the proxy has ended.
func (p *Proxy) listen() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil || p.ctx.Err() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(p.ctx, 10*time.Second)
	defer cancel()
	err := poll(ctx, func() (err error) {
		p.listener, err = net.Listen("tcp", p.addr)
		return err
	})
	if err != nil {
		p.listener = nil
		return err
	}
	p.running.Add(1)
	go p.accept(p.listener)
	return nil
}

func (p *Proxy) accept(l net.Listener) {
	defer p.running.Done()
	for {
		client, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		p.running.Add(1)
		go func() {
			defer p.running.Done()
			p.join(l, client.(*net.TCPConn))
		}()
	}
}

// unlucky says whether a piece of data is to end its connection.
func (p *Proxy) unlucky() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	unlucky := p.resets > 0 && rand.Float64() < p.resets
	if unlucky {
		p.broken++
	}
	return unlucky
}

// close ends the proxy and waits for its goroutines.
func (p *Proxy) close(t testing.TB) {
	p.stop()
	p.Heal()
	p.Cut()
	done := make(chan struct{})
	go func() { p.running.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Errorf("the proxy at %s has not ended after 10s", p.addr)
	}
}
