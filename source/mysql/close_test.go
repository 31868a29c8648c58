package mysql_test

import (
	"strings"
	"testing"
	"time"

	"bridge/source/mysql"
	"bridge/tests/testenv"
)

// A server that was restarted leaves broken connections in the pools, which cannot say that they
// end.
func TestCloseWithBrokenConnections(t *testing.T) {
	server := testenv.MariaDB(t)
	proxy := testenv.StartProxy(t, server.Addr)
	b := newBase(t, server)
	url := strings.Replace(server.URL("", "", b.name), server.Addr, proxy.Addr(), 1)
	o, err := mysql.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	s, err := mysql.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	proxy.Drop()
	for deadline := time.Now().Add(4 * time.Minute); proxy.Open() > 0; {
		if time.Now().After(deadline) {
			t.Fatal("connections stay open")
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}
