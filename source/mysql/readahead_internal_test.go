package mysql

import (
	"bufio"
	"errors"
	"net"
	"strings"
	"testing"
)

// What a server has sent and nobody has read would be taken for the next answer.
func TestAConnectionWithSomethingUnreadIsNotUsedAgain(t *testing.T) {
	c := &readAhead{new(net.TCPConn), bufio.NewReader(strings.NewReader("ab"))}
	for read, unread := range []bool{false, true, false} {
		if _, err := c.SyscallConn(); errors.Is(err, errUnread) != unread {
			t.Errorf("%d bytes of two are read: %v", read, err)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil && read < 2 {
			t.Fatal(err)
		}
	}
}
