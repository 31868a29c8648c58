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
	first, n := portsBelow(t)
	for range 10_000 {
		port := first + rand.IntN(n)
		if reservePort(t, port) && listens(port) {
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// lowestPort is above what servers of this machine are likely to use.
const lowestPort = 12_000

// portsBelow returns the ports below those that the kernel hands out by itself: the first and how
// many there are.
func portsBelow(t testing.TB) (first, n int) {
	t.Helper()
	var low, high int
	// Linux has these by default.
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err != nil {
		low = 32_768
	} else if _, err := fmt.Sscan(string(text), &low, &high); err != nil {
		t.Fatalf("the ports of connections are %q: %v", text, err)
	}
	if low < lowestPort+1000 {
		// Few are left: one of them may be taken while a server is away.
		low = 65_536
	}
	return lowestPort, low - lowestPort
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
	if err != nil {
		t.Fatal(err)
	}
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
