package jetstream_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/sink"
	"example.org/bridge/sink/jetstream"
	"example.org/bridge/tests/testenv"
)

// claimed returns a stream that takes atomic batches and claims, and options that publish to it.
func claimed(t testing.TB, server *testenv.NATSServer, config natsjs.StreamConfig) (natsjs.Stream, jetstream.Options) {
	t.Helper()
	name := testenv.NewStreamName()
	config.Name, config.Subjects, config.AllowAtomicPublish = name, []string{name + ".>"}, true
	stream := server.CreateStream(t, config)
	return stream, jetstream.Options{
		Connection: jetstream.Connection{URLs: []string{server.URL()}, Stream: name, Readable: []string{name + ".a", name + ".b"}},
		Claim:      name + ".claim",
	}
}

// TestLongSubjects has a subject grow beyond what servers take in a line by default: the message is
// refused, those of others go on, and no connection is lost.
func TestLongSubjects(t *testing.T) {
	t.Parallel()
	const limit, most, least = 4096, 65, 55 // the line has more than the subject
	for _, once := range []bool{false, true} {
		_, o := claimed(t, testenv.AnyNATS(t), natsjs.StreamConfig{})
		o.Fault = func(tp string, err error) { t.Errorf("%s: %v", tp, err) }
		if !once {
			o.Claim = ""
		}
		s := open(t, o)
		for n, fits := range map[int]bool{limit - most - 10: true, limit - least: false, limit * 3: false, limit - most - 20: true} {
			long := o.Stream + "." + strings.Repeat("x", n-len(o.Stream)-1)
			batch := []sink.Message{{Destination: o.Stream + ".b", ID: fmt.Sprint("before-", n)}, {Destination: long, ID: fmt.Sprint("long-", n)}}
			out, err := s.Publish(deadline(t, time.Minute), batch)
			if err != nil {
				t.Fatalf("%d bytes: %v", n, err)
			}
			refused := len(out.Rejected) == 1 && out.Rejected[0].Index == 1 && strings.Contains(out.Rejected[0].Reason, "max_control_line")
			if fits != out.AllAcked() || fits == refused {
				t.Errorf("exactly once %t, a subject of %d bytes: %+v", once, n, out)
			}
		}
	}
}

// TestLongHeaders has a key that is longer than the headers of JetStream may be.
func TestLongHeaders(t *testing.T) {
	t.Parallel()
	server := testenv.AnyNATS(t)
	s, _, name := onStream(t, server, natsjs.StreamConfig{})
	for n, fits := range map[int]bool{60_000: true, 66_000: false} {
		m := sink.Message{Destination: name + ".a", ID: fmt.Sprint(n), Key: []byte(strings.Repeat("k", n))}
		out, err := s.Publish(deadline(t, time.Minute), []sink.Message{m})
		if err != nil || out.AllAcked() != fits || !fits && !strings.Contains(out.Rejected[0].Reason, "65535") {
			t.Errorf("a key of %d bytes: %+v, %v", n, out, err)
		}
		dead := sink.DeadLetter(sink.Refused{Message: m, Reason: "too long"}, name+".dead", 256<<10)
		if out, err := s.Publish(deadline(t, time.Minute), []sink.Message{dead}); err != nil || !out.AllAcked() {
			t.Errorf("the dead letter of a key of %d bytes: %+v, %v", n, out, err)
		}
	}
}
