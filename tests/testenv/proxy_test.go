package testenv_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bridge/tests/testenv"
)

func TestProxyHoldsWhatAClientHasSent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := testenv.StartProxy(t, l.Addr().String())
	p.Block(func(data []byte) bool { return bytes.Contains(data, []byte("later")) })
	client := dial(t, p.Addr())
	upstream, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer upstream.Close()
	say := func(text string) {
		t.Helper()
		if _, err := io.WriteString(client, text); err != nil {
			t.Fatal(err)
		}
	}
	say("now ")
	first := make([]byte, 4)
	if _, err := io.ReadFull(upstream, first); err != nil {
		t.Fatal(err)
	}
	say("later ")
	for deadline := time.Now().Add(soon); p.Blocked() == 0 && time.Now().Before(deadline); {
		runtime.Gosched()
	}
	say("too")
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		// Nobody is there to take it, and the connection stays.
		if _, err := io.WriteString(upstream, "an answer"); err != nil {
			t.Fatal(err)
		}
	}
	if err := upstream.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := upstream.Read(first); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%d bytes came, %v", n, err)
	}
	p.Release()
	if err := upstream.SetReadDeadline(time.Now().Add(soon)); err != nil {
		t.Fatal(err)
	}
	if all, err := io.ReadAll(upstream); string(all) != "later too" || err != nil {
		t.Errorf("%q came, %v", all, err)
	}
}

// echo starts a server that sends back what it gets, after a prefix of each connection.
func echo(t *testing.T, prefix string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				_, _ = io.WriteString(conn, prefix)
				_, _ = io.Copy(conn, conn)
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	return l.Addr().String()
}

// proxied returns a proxy in front of an echo server.
func proxied(t *testing.T) *testenv.Proxy {
	t.Helper()
	return testenv.StartProxy(t, echo(t, ""))
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// soon is when what happens at once on a quiet machine has happened on a busy one.
const soon = time.Minute

// trip sends a piece and reads it back within limit.
func trip(conn net.Conn, piece []byte, limit time.Duration) (time.Duration, error) {
	start := time.Now()
	if err := conn.SetDeadline(start.Add(limit)); err != nil {
		return 0, err
	}
	if _, err := conn.Write(piece); err != nil {
		return 0, err
	}
	back := make([]byte, len(piece))
	if _, err := io.ReadFull(conn, back); err != nil {
		return time.Since(start), err
	}
	if !bytes.Equal(piece, back) {
		return 0, errors.New("another piece came back")
	}
	return time.Since(start), nil
}

func passes(t *testing.T, conn net.Conn) {
	t.Helper()
	if _, err := trip(conn, []byte("hello"), soon); err != nil {
		t.Fatalf("nothing passes: %v", err)
	}
}

func TestProxyDelaysAndNarrows(t *testing.T) {
	t.Parallel()
	p := proxied(t)
	conn := dial(t, p.Addr())
	passes(t, conn)
	p.Latency(100 * time.Millisecond)
	if d, err := trip(conn, []byte("late"), soon); err != nil || d < 200*time.Millisecond {
		t.Errorf("a round trip took %v (%v), want 200ms or more", d, err)
	}
	p.Latency(0)
	p.Bandwidth(100_000)
	if d, err := trip(conn, make([]byte, 50_000), soon); err != nil || d < 400*time.Millisecond {
		t.Errorf("50 kB at 100 kB/s took %v (%v)", d, err)
	}
	p.Heal()
	// The best of many, for the machine may be busy.
	best := soon
	for range 50 {
		d, err := trip(conn, make([]byte, 50_000), soon)
		if err != nil {
			t.Fatal(err)
		}
		if best = min(best, d); best < 150*time.Millisecond {
			return
		}
	}
	t.Errorf("50 kB took %v after Heal", best)
}

func TestProxyResetsItsShare(t *testing.T) {
	t.Parallel()
	p := proxied(t)
	p.Resets(0.05)
	const trips = 2000
	resets, conn := 0, dial(t, p.Addr())
	for range trips {
		if _, err := trip(conn, []byte("x"), soon); err == nil {
			continue
		} else if !errors.Is(err, syscall.ECONNRESET) {
			t.Fatalf("ended with %v, want a reset", err)
		}
		resets++
		_ = conn.Close()
		conn = dial(t, p.Addr())
	}
	// Two pieces a trip: 195 in the mean, with a deviation of 14.
	if resets < 110 || resets > 280 {
		t.Errorf("%d resets in %d trips at 5 %%", resets, trips)
	}
	p.Heal()
	other := dial(t, p.Addr())
	for range 200 {
		passes(t, other)
	}
}

func TestProxyHalfOpenSwallowsAndAcceptsUntilHeal(t *testing.T) {
	t.Parallel()
	p := proxied(t)
	used, idle := dial(t, p.Addr()), dial(t, p.Addr())
	passes(t, used)
	passes(t, idle)
	p.HalfOpen()
	for what, conn := range map[string]net.Conn{"an open": used, "a further": dial(t, p.Addr())} {
		if _, err := trip(conn, []byte("lost"), 200*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s connection: %v, want silence", what, err)
		}
	}
	eventually(t, "what both have sent is swallowed", func() bool { return p.Lost() == 2 })
	p.Heal()
	if _, err := trip(used, []byte("again"), soon); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection that has lost data goes on after Heal (%v)", err)
	}
	passes(t, idle)
	passes(t, dial(t, p.Addr()))
}

func TestProxyFreezesAndMutes(t *testing.T) {
	t.Parallel()
	p := proxied(t)
	frozen := dial(t, p.Addr())
	passes(t, frozen)
	p.Freeze()
	if _, err := trip(frozen, []byte("lost"), 200*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a frozen connection: %v, want silence", err)
	}
	muted := dial(t, p.Addr())
	passes(t, muted)
	p.Mute()
	received := p.Received()
	if _, err := trip(muted, []byte("lost"), 200*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a muted connection: %v, want silence", err)
	}
	eventually(t, "upstream has sent what it got", func() bool { return p.Received()-received == len("lost") })
	eventually(t, "what both have sent is swallowed", func() bool { return p.Lost() == 2 })
	p.Heal()
	for what, conn := range map[string]net.Conn{"frozen": frozen, "muted": muted} {
		if _, err := trip(conn, []byte("x"), soon); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a %s connection goes on after Heal (%v)", what, err)
		}
	}
	passes(t, dial(t, p.Addr()))
}

func TestProxyHoldsDataUntilHeal(t *testing.T) {
	t.Parallel()
	p := proxied(t)
	conn := dial(t, p.Addr())
	passes(t, conn)
	hold := map[string]func(){
		"stalled": p.Stall,
		"paused":  func() { p.PauseAfter(5) },
	}
	for what, begin := range hold {
		begin()
		if _, err := trip(conn, []byte("held back"), 200*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %v, want silence", what, err)
		}
		p.Heal()
		_ = conn.SetDeadline(time.Now().Add(soon))
		if _, err := io.ReadFull(conn, make([]byte, len("held back"))); err != nil {
			t.Errorf("%s: %v after Heal", what, err)
		}
	}
	paused := p.PauseAfter(9)
	passes(t, conn)
	if _, err := trip(conn, []byte("beyond"), 200*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("beyond the pause: %v, want silence", err)
	}
	<-paused
}

func TestProxyCutsDropsAndForwards(t *testing.T) {
	t.Parallel()
	p := proxied(t)
	conn := dial(t, p.Addr())
	passes(t, conn)
	p.Cut()
	if _, err := trip(conn, []byte("x"), soon); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection that was cut: %v", err)
	}
	if _, err := net.Dial("tcp", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a further connection: %v, want it refused", err)
	}
	p.Forward(echo(t, "other"))
	p.Heal()
	conn = dial(t, p.Addr())
	prefix := make([]byte, 5)
	if _, err := io.ReadFull(conn, prefix); err != nil || string(prefix) != "other" {
		t.Errorf("began with %q (%v)", prefix, err)
	}
	passes(t, conn)
	p.Drop()
	if _, err := trip(conn, []byte("x"), soon); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("a connection that was dropped: %v", err)
	}
	passes(t, afterPrefix(t, dial(t, p.Addr())))
}

func afterPrefix(t *testing.T, conn net.Conn) net.Conn {
	t.Helper()
	if _, err := io.ReadFull(conn, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestProxyChangesWhileAnEndTakesNothing(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p := testenv.StartProxy(t, l.Addr().String())
	conn := dial(t, p.Addr())
	// As much as the buffers on the way take.
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if n, err := conn.Write(make([]byte, 64<<20)); err == nil {
		t.Fatalf("%d bytes went to an end that takes nothing", n)
	}
	done := make(chan struct{})
	go func() { defer close(done); p.Latency(time.Millisecond); p.Heal() }()
	select {
	case <-done:
	case <-time.After(soon):
		t.Fatal("Latency and Heal still wait")
	}
}

func TestProxyLeavesNoGoroutine(t *testing.T) {
	t.Run("whatever its connections do at the end", func(t *testing.T) {
		p := proxied(t)
		p.Latency(50 * time.Millisecond)
		p.Bandwidth(1000)
		for i := range 8 {
			conn := dial(t, p.Addr())
			if _, err := conn.Write(make([]byte, 20_000)); err != nil {
				t.Fatal(err)
			}
			if i%2 == 0 {
				_ = conn.Close()
			}
		}
		p.HalfOpen()
		if _, err := dial(t, p.Addr()).Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	})
	deadline := time.Now().Add(soon)
	for {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		left := strings.Count(string(stacks), "testenv.(*Proxy)") + strings.Count(string(stacks), "testenv.(*link)")
		if left == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("goroutines are left:\n%.4000s", stacks)
		}
		runtime.Gosched()
	}
}

// eventually waits up to a minute until check says yes.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !check() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within %s: %s", soon, what)
		}
	}
}
