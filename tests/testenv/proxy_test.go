package testenv_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

// soon is far above what a piece takes on its way.
const soon = time.Minute

func echo(t *testing.T) (addr string) {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn); _ = conn.Close() }()
		}
	}()
	return l.Addr().String()
}

func trip(conn net.Conn, piece string, limit time.Duration) (took time.Duration, err error) {
	began, back := time.Now(), make([]byte, len(piece))
	_ = conn.SetDeadline(began.Add(limit))
	if _, err = io.WriteString(conn, piece); err == nil {
		_, err = io.ReadFull(conn, back)
	}
	if err == nil && string(back) != piece {
		err = errors.New("another piece came back")
	}
	return time.Since(began), err
}

func TestProxy(t *testing.T) {
	silent := func(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
	passes := func(err error) bool { return err == nil }
	ends := func(err error) bool { return err != nil && !silent(err) }
	isReset := func(err error) bool { return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) }
	for name, c := range map[string]struct {
		harm func(*testenv.Proxy)
		// open, fresh and healed say what becomes of a piece on a connection from before, on a new
		// one, and of the next one on the first after Heal.
		open, fresh, healed func(error) bool
		least               time.Duration
	}{
		"delays":        {func(p *testenv.Proxy) { p.Latency(100 * time.Millisecond) }, passes, passes, passes, 200 * time.Millisecond},
		"narrows":       {func(p *testenv.Proxy) { p.Bandwidth(10) }, passes, passes, passes, 300 * time.Millisecond},
		"resets":        {func(p *testenv.Proxy) { p.Resets(1) }, isReset, isReset, ends, 0},
		"is half open":  {(*testenv.Proxy).HalfOpen, silent, silent, ends, 0},
		"freezes":       {(*testenv.Proxy).Freeze, silent, passes, ends, 0},
		"drops answers": {(*testenv.Proxy).DropAnswers, silent, silent, ends, 0},
		"drops":         {(*testenv.Proxy).Drop, isReset, passes, ends, 0},
		"cuts":          {(*testenv.Proxy).Cut, ends, nil, ends, 0},
		"stalls":        {(*testenv.Proxy).Stall, silent, silent, nil, 0},
		"pauses":        {func(p *testenv.Proxy) { p.PauseAfter(2) }, silent, silent, nil, 0},
		"blocks": {func(p *testenv.Proxy) {
			p.Block(func(data []byte) bool { return bytes.Contains(data, []byte("x")) })
		}, silent, silent, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := testenv.StartProxy(t, echo(t))
			dial := func() net.Conn {
				conn := must.Get(net.Dial("tcp", p.Addr()))(t)
				t.Cleanup(func() { _ = conn.Close() })
				return conn
			}
			meets := func(conn net.Conn, want func(error) bool, limit, least time.Duration) {
				t.Helper()
				if took, err := trip(conn, "x23", limit); !want(err) || took < least {
					t.Errorf("%v after %s", err, took)
				}
			}
			conn := dial()
			meets(conn, passes, soon, 0)
			c.harm(p)
			limit := soon
			if c.open(os.ErrDeadlineExceeded) {
				limit = 200 * time.Millisecond
			}
			meets(conn, c.open, limit, c.least)
			if c.fresh != nil {
				meets(dial(), c.fresh, limit, 0)
			} else if _, err := net.Dial("tcp", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("a further connection: %v, want it refused", err)
			}
			p.Release()
			p.Heal()
			_ = conn.SetDeadline(time.Now().Add(soon))
			if c.healed != nil {
				meets(conn, c.healed, soon, 0)
			} else if _, err := io.ReadFull(conn, make([]byte, 3)); err != nil {
				t.Errorf("what was held: %v", err)
			}
			p.Forward(echo(t))
			meets(dial(), passes, soon, 0)
		})
	}
}
