package testenv_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"bridge/tests/testall"
	"bridge/tests/testenv"
)

func TestNATSFaults(t *testing.T) {
	s := testenv.StartNATS(t, testenv.NATSPassword("bridge", "first"))
	js := s.JetStream(t)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}); err != nil {
		t.Fatal(err)
	}
	publish := func() {
		t.Helper()
		eventually(t, "a message is stored", func() bool { _, err := js.Publish(t.Context(), "s.x", []byte("x")); return err == nil })
	}
	last := func() uint64 {
		t.Helper()
		stream, err := s.JetStream(t).Stream(t.Context(), "S")
		if err != nil {
			t.Fatal(err)
		}
		return stream.CachedInfo().State.LastSeq
	}
	publish()

	t.Run("a client behind a proxy stays behind it", func(t *testing.T) {
		p := testenv.StartProxy(t, s.Addr())
		nc, err := nats.Connect(p.Addr(), nats.UserInfo("bridge", "first"), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond),
			nats.Timeout(soon))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		p.Cut()
		eventually(t, "the client has seen the cut", func() bool { return nc.Status() == nats.RECONNECTING })
		if servers := nc.Servers(); len(servers) != 1 || servers[0] != "nats://"+p.Addr() {
			t.Errorf("the client may go around the proxy: %v", servers)
		}
		p.Heal()
		eventually(t, "the client is back", nc.IsConnected)
	})
	t.Run("another password ends connections, those of the test come back", func(t *testing.T) {
		closed := make(chan struct{})
		nc, err := nats.Connect(s.URL(), nats.UserInfo("bridge", "first"), nats.NoReconnect(), nats.Timeout(soon),
			nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		s.SetPassword(t, "second")
		eventually(t, "the connection is closed", func() bool {
			select {
			case <-closed:
				return true
			default:
				return false
			}
		})
		if _, err := nats.Connect(s.URL(), nats.UserInfo("bridge", "first")); err == nil {
			t.Error("the former password still works")
		}
		publish()
	})
	t.Run("faults heal", func(t *testing.T) { heals(t, s); publish() })
	t.Run("data goes back to a snapshot", func(t *testing.T) {
		before := s.Snapshot(t)
		was := last()
		publish()
		if now := last(); now == was {
			t.Fatalf("the last sequence is still %d", now)
		}
		s.Restore(t, before)
		if now := last(); now != was {
			t.Errorf("the last sequence is %d, want %d as in the snapshot", now, was)
		}
	})
}

func TestStreamsThatComeAndGoAreAllCreated(t *testing.T) {
	testall.Long(t)
	js := testenv.OwnNATS(t).JetStream(t)
	for range 2000 {
		name := testenv.NewStreamName()
		if _, err := testenv.CreateStream(t.Context(), js, jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"}}); err != nil {
			t.Fatal(err)
		}
		if err := js.DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
}
