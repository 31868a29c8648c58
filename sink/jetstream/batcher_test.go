package jetstream_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"bridge/sink"
	"bridge/sink/jetstream"
	"bridge/sink/sinktest"
	"bridge/tests/testenv"
)

// claimed returns a stream that takes atomic batches and claims, and options that publish to it.
func claimed(t testing.TB, server *testenv.NATSServer, config natsjs.StreamConfig) (natsjs.Stream, jetstream.Options) {
	t.Helper()
	name := testenv.NewStreamName()
	config.Name, config.Subjects, config.AllowAtomicPublish = name, []string{name + ".>"}, true
	stream := server.CreateStream(t, config)
	return stream, jetstream.Options{URLs: []string{server.URL()}, Stream: name, Readable: []string{name + ".a", name + ".b"}, Claim: name + ".claim"}
}

// exactlyOnce is a fixture whose sink publishes in atomic batches.
func exactlyOnce(t *testing.T, server *testenv.NATSServer) sinktest.Fixture {
	p := testenv.StartProxy(t, server.Addr())
	stream, options := claimed(t, server, natsjs.StreamConfig{})
	options.URLs = []string{"nats://" + p.Addr()}
	return sinktest.Fixture{
		Sink:         open(t, options),
		Destinations: []string{options.Stream + ".a", options.Stream + ".b"},
		Features:     sinktest.Features{Headers: true, Reads: true},
		Cut:          func(testing.TB) { p.Drop() },
		Read: func(t testing.TB, destination string) []sinktest.Record {
			return records(events(t, stream, destination))
		},
		Stall: func(testing.TB) func() {
			p.Stall()
			return sync.OnceFunc(p.Heal)
		},
	}
}

// events is read, with the events' ids: those of messages in batches are in no header of the
// server's.
func events(t testing.TB, stream natsjs.Stream, subject string) []seen {
	t.Helper()
	all := read(t, stream, subject)
	for i := range all {
		all[i].id = all[i].headers["eiffel-id"]
	}
	return all
}

// TestConformanceOfBatches leaves out what does not hold of batches that are whole or not there: a
// rejected message leaves nothing of its batch acknowledged, and a stream that was made again has
// no claim. Repeats are stored: batches have no message ids.
func TestConformanceOfBatches(t *testing.T) {
	t.Parallel()
	server := testenv.OwnNATS(t)
	sinktest.Run(t, func(t *testing.T) sinktest.Fixture { return exactlyOnce(t, server) })
}

// TestLongSubjects has a subject grow beyond what the server takes in a line, whatever its limit:
// the message is refused, those of others go on, and no connection is lost.
func TestLongSubjects(t *testing.T) {
	for _, limit := range []int{0, 700, 9000} {
		for _, once := range []bool{false, true} {
			t.Run(fmt.Sprintf("max_control_line %d, exactly once %t", limit, once), func(t *testing.T) {
				t.Parallel()
				limit := limit
				var lines []testenv.NATSOption
				if limit > 0 {
					lines = append(lines, testenv.NATSLines(fmt.Sprintf("max_control_line: %d", limit)))
				} else {
					limit = 4096
				}
				server := testenv.StartNATS(t, lines...)
				server.CreateStream(t, natsjs.StreamConfig{Name: "EVENTS", Subjects: []string{"a.>", "claim"}, AllowAtomicPublish: true})
				o := jetstream.Options{URLs: []string{server.URL()}, Stream: "EVENTS", Fault: func(tp string, err error) { t.Errorf("%s: %v", tp, err) }}
				if once {
					o.Claim = "claim"
				}
				s := open(t, o)
				// The line has more than the subject.
				const most, least = 65, 55
				for n, fits := range map[int]bool{10: true, limit - most - 10: true, limit - least: false, limit + 100: false, limit * 3: false, limit - most - 20: true} {
					batch := []sink.Message{{Destination: "a.b", ID: fmt.Sprint("before-", n)}, {Destination: "a." + strings.Repeat("x", n-2), ID: fmt.Sprint("long-", n)}}
					out, err := s.Publish(deadline(t, time.Minute), batch)
					if err != nil {
						t.Fatalf("%d bytes: %v", n, err)
					}
					switch {
					case fits && !out.AllAcked():
						t.Errorf("a subject of %d bytes: %+v", n, out)
					case !fits && (len(out.Rejected) != 1 || out.Rejected[0].Index != 1 || !strings.Contains(out.Rejected[0].Reason, "max_control_line")):
						t.Errorf("a subject of %d bytes: %+v", n, out)
					}
				}
			})
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
