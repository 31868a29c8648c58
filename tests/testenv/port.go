package testenv

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// freePorts are those that this process was given by FreePort, or found taken.
var freePorts sync.Map

// FreePort returns a loopback port that nobody listens on at the moment, another one at each call,
// in other test processes, too, while this one runs. A server may leave it and come back:
// the kernel gives it to nobody else, since it is below those of connections.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 10_000 {
		// Above what other servers are likely to use, below the ports that Linux hands out.
		port := 12_000 + rand.IntN(20_000)
		if reservePort(t, port) && listens(port) {
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// portLocks is a file of which a test process locks one byte for each port that it has.
var portLocks = sync.OnceValues(func() (*os.File, error) {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("bridge-test-ports-%d", os.Getuid()))
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
})

// reservePort reports whether no test process has this port. It is this one's then until it ends.
func reservePort(t testing.TB, port int) bool {
	t.Helper()
	if _, given := freePorts.LoadOrStore(port, true); given {
		return false
	}
	file, err := portLocks()
	check(t, err)
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Start: int64(port), Len: 1}
	return syscall.FcntlFlock(file.Fd(), syscall.F_SETLK, &lock) == nil
}

// listens reports whether a server can listen on a port.
func listens(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err == nil {
		_ = l.Close()
	}
	return err == nil
}
