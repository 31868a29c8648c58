package embedded_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/sink"
	"example.org/bridge/sink/embedded"
	"example.org/bridge/sink/jetstream"
	"example.org/bridge/sink/sinktest"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

// onFreePort has a server listen for the consumers of a test.
const onFreePort = "127.0.0.1:0"

// open starts a server in dir with a sink on a stream named EVENTS; it ends with the test.
func open(t testing.TB, dir string, subjects ...string) *embedded.Sink {
	t.Helper()
	s := must.Get(tryOpen(dir, onFreePort, subjects...))(t)
	t.Cleanup(func() { closed(t, s) })
	return s
}

func tryOpen(dir, listen string, subjects ...string) (*embedded.Sink, error) {
	if len(subjects) == 0 {
		subjects = []string{"a"}
	}
	o := embedded.Options{Dir: dir, Listen: listen, Stream: "EVENTS", Subjects: subjects, Logger: logger()}
	return embedded.Open(o, func(server nats.InProcessConnProvider) (embedded.Bus, error) {
		return jetstream.Open(jetstream.Options{
			Connection:   jetstream.Connection{InProcess: server, Stream: "EVENTS"},
			CreateStream: true, Subjects: subjects,
		})
	})
}

func closed(t testing.TB, s *embedded.Sink) {
	t.Helper()
	must.OK(t, s.Close())
}

// read returns what the stream holds on a subject, over the network, with nats.go alone.
func read(t testing.TB, s *embedded.Sink, subject string) []sinktest.Record {
	t.Helper()
	nc := must.Get(nats.Connect("nats://"+s.Addr().String(), nats.Timeout(time.Minute)))(t)
	defer nc.Close()
	js := must.Get(natsjs.New(nc))(t)
	stream, err := js.Stream(sinktest.Deadline(t), "EVENTS")
	if errors.Is(err, natsjs.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return testenv.Consume(t, stream, subject)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	sinktest.Run(t, func(t *testing.T) sinktest.Fixture {
		dir := t.TempDir()
		s := open(t, dir, "a", "b")
		return sinktest.Fixture{
			Sink: s, Destinations: []string{"a", "b"},
			Read: func(t testing.TB, destination string) []sinktest.Record {
				if errors.Is(s.Ready(t.Context()), sink.ErrClosed) {
					// The server ended with the sink; another one reads its files.
					other := open(t, dir)
					defer closed(t, other)
					return read(t, other, destination)
				}
				return read(t, s, destination)
			},
			Features: sinktest.Features{Headers: true, Reads: true, Drops: true},
			MaxBytes: 8 << 20,
		}
	})
}

func message(subject, id string) sink.Message {
	return sink.Message{
		Destination: subject, Key: []byte("k"), ID: id, Value: fmt.Appendf(nil, `{"id":%q}`, id), Type: "TestEvent", Version: "1.0.0",
		Stream: "s", Shard: "t", RowID: 1, Origin: sink.FromTail, Time: time.Now(),
	}
}

func mustPublish(t testing.TB, s sink.Sink, batch ...sink.Message) sink.Outcome {
	t.Helper()
	return sinktest.MustPublish(t, s, batch)
}

func TestRestart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made", "again")
	first := open(t, dir, "a")
	mustPublish(t, first, message("a", "1"))
	closed(t, first)

	t.Run("keeps what was acknowledged", func(t *testing.T) {
		second := open(t, dir, "a")
		if got := read(t, second, "a"); len(got) != 1 || got[0].ID != "1" {
			t.Errorf("the stream holds %v", got)
		}
	})
	t.Run("with more subjects adds them to the stream", func(t *testing.T) {
		third := open(t, dir, "a", "x.*.z", "y.>")
		mustPublish(t, third, message("x.y.z", "2"), message("a", "3"))
		closed(t, third)
		fourth := open(t, dir, "x.>")
		mustPublish(t, fourth, message("x.y", "4"))
		if got := read(t, fourth, ">"); len(got) != 4 {
			t.Errorf("the stream holds %d messages, want 4", len(got))
		}
	})
}

func TestOpenSaysWhatIsInTheWay(t *testing.T) {
	t.Parallel()
	refused := func(t *testing.T, dir, listen string, says ...string) {
		t.Helper()
		s, err := tryOpen(dir, listen, "a")
		if err == nil {
			closed(t, s)
			t.Fatal("it starts")
		}
		for _, part := range says {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %q", err, part)
			}
		}
	}
	t.Run("a folder that is in use", func(t *testing.T) {
		dir := t.TempDir()
		s := open(t, dir, "a")
		refused(t, dir, "", "another process uses it", "SINK_URL")
		mustPublish(t, s, message("a", "1"))
	})
	t.Run("a folder that somebody looks into", func(t *testing.T) {
		dir := t.TempDir()
		lock := must.Get(embedded.Lock(dir))(t)
		time.AfterFunc(100*time.Millisecond, func() { _ = lock.Close() })
		open(t, dir, "a")
	})
	t.Run("a file instead of the folder", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "nats")
		must.OK(t, os.WriteFile(file, nil, 0o600))
		refused(t, file, "", "not a directory")
	})
	t.Run("an address that is taken, and the folder is free again", func(t *testing.T) {
		listener := must.Get(net.Listen("tcp", onFreePort))(t)
		defer listener.Close()
		dir := t.TempDir()
		refused(t, dir, listener.Addr().String(), "another process has the port: end it; or choose another one")
		open(t, dir, "a")
	})
}

func TestNoListenerUnlessAsked(t *testing.T) {
	t.Parallel()
	s := must.Get(tryOpen(t.TempDir(), "", "a"))(t)
	defer closed(t, s)
	mustPublish(t, s, message("a", "1"))
	if s.Addr() != nil {
		t.Errorf("it listens on %s", s.Addr())
	}
	must.OK(t, s.Ready(sinktest.Deadline(t)))
}

func TestInspect(t *testing.T) {
	t.Parallel()
	t.Run("starts and makes nothing", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "nats")
		r := embedded.Inspect(sinktest.Deadline(t), embedded.Options{Dir: dir, Listen: onFreePort})
		if len(r.Findings) != 0 || !strings.Contains(r.Summary, "not started yet") {
			t.Errorf("%+v", r)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("the folder is there: %v", err)
		}
	})
	t.Run("sees a bridge that runs", func(t *testing.T) {
		dir := t.TempDir()
		s := open(t, dir, "a")
		r := embedded.Inspect(sinktest.Deadline(t), embedded.Options{Dir: dir, Listen: s.Addr().String()})
		if len(r.Findings) != 0 || !strings.Contains(r.Summary, "in use") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("finds a file instead of the folder and a port that is taken", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "nats")
		must.OK(t, os.WriteFile(file, nil, 0o600))
		listener := must.Get(net.Listen("tcp", onFreePort))(t)
		defer listener.Close()
		r := embedded.Inspect(sinktest.Deadline(t), embedded.Options{Dir: file, Listen: listener.Addr().String()})
		if len(r.Findings) != 2 {
			t.Errorf("%+v", r)
		}
	})
}

// TestAStreamThatIsThere has a folder used with other settings than it was begun with.
func TestAStreamThatIsThere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := tryOpen(dir, "")
	must.OK(t, err)
	mustPublish(t, s, message("a", "1"))
	closed(t, s)
	memory := jetstream.Keeping{Memory: true, MaxAge: time.Hour}
	o := embedded.Options{Dir: dir, Stream: "EVENTS", Subjects: []string{"a"}, Keep: memory.Keep}
	if r := embedded.Inspect(sinktest.Deadline(t), o); len(r.Findings) != 1 || !strings.Contains(r.Findings[0].What, "the storage file, not memory") {
		t.Errorf("%+v", r)
	}
	// Ids are remembered for no longer than messages are kept: no server takes more.
	for _, keeps := range []jetstream.Keeping{memory, {Duplicates: 30 * time.Minute}, {MaxAge: 10 * time.Minute}} {
		var config natsjs.StreamConfig
		o.Keep = keeps.Keep
		if s, err = embedded.Open(o, nil); err != nil {
			t.Fatal(err)
		}
		closed(t, s)
		o.Keep = func(c *natsjs.StreamConfig) string { config = *c; return "" }
		embedded.Inspect(sinktest.Deadline(t), o)
		if keeps.MaxAge > 0 && config.MaxAge != keeps.MaxAge || config.Duplicates > config.MaxAge || config.Duplicates < keeps.Duplicates {
			t.Errorf("the stream keeps messages for %s, ids for %s", config.MaxAge, config.Duplicates)
		}
	}
	o.Stream = "OTHER"
	r := embedded.Inspect(sinktest.Deadline(t), o)
	if _, err = embedded.Open(o, nil); len(r.Findings) != 1 || err == nil || !strings.Contains(err.Error(), "the stream EVENTS in "+dir+" takes its subjects") {
		t.Errorf("%v, %+v", err, r)
	}
}

// logger shows what the server says with -v.
func logger() *slog.Logger {
	if testing.Verbose() {
		return slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return slog.New(slog.DiscardHandler)
}

func TestJetStreamSwitchedOffIsSwitchedOnAgain(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), "a")
	mustPublish(t, s, message("a", "1"))
	// It may be switched on again before Ready is called.
	for tries, ready := 0, true; ready; tries++ {
		if tries == 20 {
			t.Fatal("ready without JetStream")
		}
		must.OK(t, s.SwitchOff())
		ready = s.Ready(sinktest.Deadline(t)) == nil
	}
	mustPublish(t, s, message("a", "2"))
	if got := read(t, s, "a"); len(got) != 2 {
		t.Errorf("the stream holds %d messages, want 2", len(got))
	}
	must.OK(t, s.Ready(sinktest.Deadline(t)))
}

// TestCloseWhileJetStreamIsSwitchedOn: a client from outside keeps it waiting when the server ends.
func TestCloseWhileJetStreamIsSwitchedOn(t *testing.T) {
	t.Parallel()
	s := must.Get(tryOpen(t.TempDir(), onFreePort, "a"))(t)
	nc, err := nats.Connect("nats://" + s.Addr().String())
	if err == nil {
		defer nc.Close()
		err = s.SwitchOff()
	}
	for err == nil {
		var conn net.Conn
		if conn, err = s.InProcessConn(); err == nil {
			_ = conn.Close()
		}
	}
	if closed(t, s); s.Stores() {
		t.Errorf("JetStream is on behind the end of the server, %v", err)
	}
}
