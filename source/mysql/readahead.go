package mysql

import (
	"context"
	"errors"
	"net"
	"syscall"
)

// readAheadBytes is how much of an answer is taken from the kernel at once. The driver itself asks
// for 4 KiB at a time, a dozen rows, and pays a system call and a deadline for each.
const readAheadBytes = 64 << 10

// dial connects to a server over TCP.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	opened, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &readAhead{Conn: opened}, nil
}

// readAhead is a connection that reads more than it is asked for and hands it out later. One
// goroutine may read at a time, as the driver does.
type readAhead struct {
	net.Conn
	// memory is made by the first read; rest is what is in it and not handed out.
	memory, rest []byte
}

// Read implements net.Conn.
func (c *readAhead) Read(b []byte) (int, error) {
	if len(c.rest) > 0 {
		n := copy(b, c.rest)
		c.rest = c.rest[n:]
		return n, nil
	}
	if len(b) >= readAheadBytes {
		return c.Conn.Read(b)
	}
	if c.memory == nil {
		c.memory = make([]byte, readAheadBytes)
	}
	got, err := c.Conn.Read(c.memory)
	n := copy(b, c.memory[:got])
	c.rest = c.memory[n:got]
	return n, err
}

// errUnread is why a connection that is idle is not used again.
var errUnread = errors.New("the server has sent what nobody asked for")

// SyscallConn lets the driver look, before it uses a connection that was idle, whether the server
// has closed it or has sent something: such a connection it gives up. What was read ahead counts as
// sent, else it would be taken for the next answer.
func (c *readAhead) SyscallConn() (syscall.RawConn, error) {
	conn, ok := c.Conn.(syscall.Conn)
	switch {
	case !ok:
		return nil, errors.ErrUnsupported
	case len(c.rest) > 0:
		return nil, errUnread
	}
	return conn.SyscallConn()
}
