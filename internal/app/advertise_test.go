package app

import (
	"net"
	"strings"
	"testing"

	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/standby"
)

func TestAdvertised(t *testing.T) {
	bus := []string{"127.0.0.1:9092"}
	for listens, want := range map[string]string{
		"127.0.0.1:8080": "127.0.0.1:8080",
		"10.1.2.3:8080":  "10.1.2.3:8080",
		"0.0.0.0:8080":   "127.0.0.1:8080",
		"[::]:8080":      "127.0.0.1:8080",
	} {
		addr, err := net.ResolveTCPAddr("tcp", listens)
		if err != nil {
			t.Fatal(err)
		}
		if got := advertised(t.Context(), addr, bus); got != want {
			t.Errorf("%s is reached at %s, want %s", listens, got, want)
		}
	}
	// Without a name that is known it is the address towards other networks, where there are any.
	if got := localIP(t.Context(), []string{"bus.invalid:9092"}); got != "" && net.ParseIP(got) == nil {
		t.Errorf("got %q, not an address", got)
	}
}

// TestWhoIsAsked: a process that waits says why the one that works cannot be asked, and what to do.
func TestWhoIsAsked(t *testing.T) {
	working := func(host, addr string) standby.Claim { return standby.Claim{Member: "a", Host: host, Addr: addr} }
	for _, c := range []struct {
		name   string
		status standby.Status
		peer   httpapi.Peer
		words  string
	}{
		{"itself", standby.Status{Member: "b", Works: true}, httpapi.Peer{Self: true, Member: "b"}, ""},
		{"another host", standby.Status{Host: "h2", Claim: working("h1", "10.0.0.1:8080")}, httpapi.Peer{Member: "a", Addr: "10.0.0.1:8080"}, ""},
		{"another process of its host", standby.Status{Host: "h1", Claim: working("h1", "127.0.0.1:8080")}, httpapi.Peer{Member: "a", Addr: "127.0.0.1:8080"}, ""},
		{"none that is known", standby.Status{Host: "h2"}, httpapi.Peer{}, "which one works is not known now: ask again"},
		{"one that listens nowhere", standby.Status{Host: "h2", Claim: working("h1", "")}, httpapi.Peer{}, "a on h1 works and listens nowhere"},
		{"one that its host alone reaches", standby.Status{Host: "h2", Claim: working("h1", "127.0.0.1:8080")}, httpapi.Peer{}, "run the command there, or set BRIDGE_HTTP_ADDR to :8080"},
	} {
		peer, err := peerOf(&c.status)
		peer.Name = ""
		switch {
		case c.words == "" && (err != nil || peer != c.peer):
			t.Errorf("%s: %+v, %v", c.name, peer, err)
		case c.words != "" && (err == nil || !strings.Contains(err.Error(), c.words)):
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
