package bus_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/internal/verify"
	"example.org/bridge/internal/verify/bus"
	"example.org/bridge/sink/jetstream"
	"example.org/bridge/tests/testenv"
)

// world is a server with one stream.
type world struct {
	server *testenv.NATSServer
	stream natsjs.Stream
	js     natsjs.JetStream
}

func newWorld(t *testing.T, adjust ...func(*natsjs.StreamConfig)) *world {
	t.Helper()
	w := &world{server: testenv.OwnNATS(t)}
	w.js = w.server.JetStream(t)
	config := natsjs.StreamConfig{Name: "T", Subjects: []string{"t.>"}}
	for _, f := range adjust {
		f(&config)
	}
	w.stream = w.server.CreateStream(t, config)
	return w
}

// publish publishes one message to each subject.
func (w *world) publish(t *testing.T, subjects ...string) {
	t.Helper()
	for i, subject := range subjects {
		m := &nats.Msg{Subject: subject, Data: fmt.Appendf(nil, "v%d", i), Header: nats.Header{"bridge-row-id": {fmt.Sprint(i)}, "other": {"x"}}}
		if _, err := w.js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) openSubjects(t *testing.T, stream string, subjects ...string) (*bus.Bus, error) {
	t.Helper()
	reader, err := jetstream.Open(jetstream.Options{
		Connection: jetstream.Connection{URLs: []string{w.server.URL()}, Stream: stream, Readable: subjects, GiveUpAfter: 30 * time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	return bus.Open(t.Context(), bus.Options{Reader: reader, Stream: stream, Subjects: subjects})
}

func (w *world) open(t *testing.T, stream string, subjects ...string) *bus.Bus {
	t.Helper()
	b, err := w.openSubjects(t, stream, subjects...)
	return closing(t, b, err)
}

func TestReadSubjects(t *testing.T) {
	w := newWorld(t)
	w.publish(t, "t.a", "t.b", "t.c.x", "t.a")
	for name, b := range map[string]*bus.Bus{
		"the stream that is named":              w.open(t, "T", "t.a", "t.c.*"),
		"the streams that take the subjects":    w.open(t, "", "t.a", "t.c.*"),
		"what of the subjects the stream takes": w.open(t, "T", "t.a", "t.c.*", "other.a"),
	} {
		t.Run(name, func(t *testing.T) {
			if got, want := read(t, b), []string{"0/1 =v0 0", "0/3 =v2 2", "0/4 =v3 3"}; !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
			if got := b.Partitions(); len(got) != 1 || got[0] != (verify.Partition{Name: "T", First: 1, Next: 5}) {
				t.Errorf("partitions %+v", got)
			}
		})
	}
	t.Run("fetches one message again", func(t *testing.T) {
		b := w.open(t, "T", "t.a")
		m, err := b.Fetch(t.Context(), 0, 3)
		if err != nil || string(m.Value) != "v2" || m.At != 3 || m.Header["bridge-row-id"] != "2" {
			t.Errorf("%+v, %v", m, err)
		}
	})
}

func TestWhatAStreamNoLongerHolds(t *testing.T) {
	for _, c := range []struct {
		name             string
		adjust           func(*natsjs.StreamConfig)
		remove           uint64
		expired, thinned bool
	}{
		{"without limits nothing goes by itself", func(*natsjs.StreamConfig) {}, 1, false, false},
		{"a limit removes the head", func(c *natsjs.StreamConfig) { c.MaxMsgs = 3 }, 0, true, false},
		{"an age removes the head", func(c *natsjs.StreamConfig) { c.MaxAge = time.Hour }, 1, true, false},
		{"a limit per subject removes single messages", func(c *natsjs.StreamConfig) { c.MaxMsgsPerSubject = 1 }, 0, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.adjust)
			w.publish(t, "t.b", "t.a", "t.b", "t.b", "t.b")
			if c.remove > 0 {
				if err := w.stream.DeleteMsg(t.Context(), c.remove); err != nil {
					t.Fatal(err)
				}
			}
			b := w.open(t, "T", "t.*")
			read(t, b)
			if p := b.Partitions()[0]; p.Expired != c.expired || p.Thinned != c.thinned {
				t.Errorf("%+v", p)
			}
		})
	}
}

func TestStreamThatIsMissing(t *testing.T) {
	w := newWorld(t)
	for stream, want := range map[string]string{"": "no stream takes the subjects nowhere", "NONE": "the stream NONE does not exist, so nothing is published there yet: create it"} {
		_, err := w.openSubjects(t, stream, "nowhere")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("stream %q: %v", stream, err)
		}
	}
}
