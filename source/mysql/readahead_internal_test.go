package mysql

import (
	"errors"
	"io"
	"net"
	"testing"
)

// answering returns a connection to a server that sends text and then closes.
func answering(t *testing.T, text []byte) *readAhead {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	go func() {
		server, err := l.Accept()
		if err == nil {
			_, err = server.Write(text)
			err = errors.Join(err, server.Close())
		}
		sent <- err
	}()
	c, err := dial(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), l.Close(), <-sent); err != nil {
			t.Error(err)
		}
	})
	return c.(*readAhead)
}

func TestAConnectionWithSomethingUnreadIsNotUsedAgain(t *testing.T) {
	c := answering(t, []byte("ab"))
	if _, err := c.SyscallConn(); err != nil {
		t.Fatalf("before anything is read: %v", err)
	}
	one := make([]byte, 1)
	if _, err := io.ReadFull(c, one); err != nil {
		t.Fatal(err)
	}
	// The two bytes may come one by one.
	if _, err := c.ahead.Peek(1); err != nil {
		t.Fatal(err)
	}
	if _, err := c.SyscallConn(); !errors.Is(err, errUnread) {
		t.Errorf("with a byte unread: %v", err)
	}
	if _, err := io.ReadFull(c, one); err != nil {
		t.Fatal(err)
	}
	if _, err := c.SyscallConn(); err != nil {
		t.Errorf("when all is read: %v", err)
	}
}
