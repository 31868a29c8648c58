package testenv

import (
	"net"
	"sync"
	"time"
)

const (
	// pieceBytes is the most that one read takes, queuedPieces bounds what latency keeps of a
	// direction.
	pieceBytes   = 32 << 10
	queuedPieces = 32
)

// link is a connection of a client and the one to upstream that belongs to it.
type link struct {
	proxy            *Proxy
	client, upstream *net.TCPConn
	once             sync.Once
	ended            chan struct{}
	// lost says that data was swallowed, frozen that all further data is, blocked that what the
	// client sends is held. The proxy's mu guards them.
	lost, frozen, blocked bool
}

// piece is data on its way.
type piece struct {
	data []byte
	read time.Time
}

// run passes data in both directions until the link ends.
func (l *link) run() {
	var all sync.WaitGroup
	pass := func(to, from *net.TCPConn, answer bool) {
		queue := make(chan piece, queuedPieces)
		all.Go(func() {
			defer close(queue)
			l.read(queue, from, answer)
		})
		all.Go(func() {
			defer l.close()
			l.write(to, queue)
			if answer {
				// A client that is gone takes no answers. What it has sent may still be held.
				for range queue {
				}
			}
		})
	}
	pass(l.upstream, l.client, false)
	pass(l.client, l.upstream, true)
	all.Wait()
}

// read queues what comes from one end.
func (l *link) read(queue chan<- piece, from *net.TCPConn, answer bool) {
	for {
		data := make([]byte, pieceBytes)
		n, err := from.Read(data)
		swallow, reset := l.proxy.admit(l, n, answer)
		switch {
		case reset:
			l.reset()
			return
		case swallow && err != nil:
			l.wait(func(f *faults) time.Duration { return blocked(l.swallows(f, answer)) })
			return
		case swallow:
			continue
		}
		if !answer {
			l.match(data[:n])
		}
		if !l.wait(func(f *faults) time.Duration { return blocked(l.proxy.holds(f, answer) || l.blocked && !answer) }) {
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

// match blocks the link where its client sends what Block is for.
func (l *link) match(data []byte) {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	if match := l.proxy.match; match != nil && match(data) {
		l.blocked = true
	}
}

// write writes the pieces of a queue in their time.
func (l *link) write(to *net.TCPConn, queue <-chan piece) {
	for p := range queue {
		begun := time.Now()
		passed := l.wait(func(f *faults) time.Duration {
			left := time.Until(p.read.Add(f.latency))
			if f.rate > 0 {
				left = max(left, time.Until(begun.Add(time.Duration(len(p.data))*time.Second/time.Duration(f.rate))))
			}
			return left
		})
		if !passed {
			return
		}
		if _, err := to.Write(p.data); err != nil {
			return
		}
	}
}

// swallows reports whether data is lost. The proxy's mu is held.
func (l *link) swallows(f *faults, answer bool) bool {
	return l.frozen || f.silent || answer && f.mute
}

// blocked is a wait that only a change of the faults ends.
func blocked(yes bool) time.Duration {
	if yes {
		return time.Hour
	}
	return 0
}

// wait waits as long as left says of the faults of the moment. It returns false when the link ends.
func (l *link) wait(left func(*faults) time.Duration) bool {
	for {
		l.proxy.mu.Lock()
		rest, changed := left(&l.proxy.faults), l.proxy.changed
		l.proxy.mu.Unlock()
		if rest <= 0 {
			return true
		}
		timer := time.NewTimer(rest)
		select {
		case <-timer.C:
		case <-changed:
		case <-l.ended:
			timer.Stop()
			return false
		}
		timer.Stop()
	}
}

// close ends both connections in good order.
func (l *link) close() {
	l.once.Do(func() {
		close(l.ended)
		_ = l.client.Close()
		_ = l.upstream.Close()
	})
}

// reset ends both connections with a RST.
func (l *link) reset() {
	_ = l.client.SetLinger(0)
	_ = l.upstream.SetLinger(0)
	l.close()
}
