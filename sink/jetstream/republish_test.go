package jetstream_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"bridge/sink/jetstream"
	"bridge/tests/testenv"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
)

// TestConsumersThatRepublish documents what stands in docs/operations.md: the server keeps the
// headers that it acted on, so that a message published again with all its headers asks for the
// same again.
func TestConsumersThatRepublish(t *testing.T) {
	t.Parallel()
	server := testenv.AnyNATS(t)
	t.Run("what was published at least once", func(t *testing.T) {
		stream := server.CreateStream(t, natsjs.StreamConfig{})
		republished(t, server, stream, jetstream.Options{URLs: []string{server.URL()}, Stream: stream.CachedInfo().Config.Name})
	})
	t.Run("what was published exactly once", func(t *testing.T) {
		stream, options := claimed(t, server, natsjs.StreamConfig{})
		republished(t, server, stream, options)
	})
}

func republished(t *testing.T, server *testenv.NATSServer, stream natsjs.Stream, options jetstream.Options) {
	js, name := server.JetStream(t), options.Stream
	const rows = 20
	mustPublish(t, open(t, options), messages(name+".a", "row", rows, 5))
	// kept returns the headers of all messages of a stream that make the server expect something.
	kept := func(t *testing.T, s natsjs.Stream) (n int) {
		t.Helper()
		for _, m := range read(t, s, "") {
			for header := range m.headers {
				if strings.HasPrefix(header, "Nats-Expected-") || strings.HasPrefix(header, "Nats-Batch-") {
					n++
				}
			}
		}
		return n
	}
	if kept(t, stream) < rows {
		t.Fatal("the server keeps no headers of the fences any more: say so in docs/operations.md")
	}
	// again publishes all messages to another stream, with the headers that keep lets pass, and
	// counts those that are refused.
	again := func(t *testing.T, keep func(header string) bool) (target natsjs.Stream, refused int) {
		t.Helper()
		target = server.CreateStream(t, natsjs.StreamConfig{})
		for _, m := range read(t, stream, name+".a") {
			copied := &nats.Msg{Subject: target.CachedInfo().Config.Name + ".b", Data: m.value, Header: nats.Header{}}
			for header, value := range m.headers {
				if keep(header) {
					copied.Header.Set(header, value)
				}
			}
			_, err := js.PublishMsg(deadline(t, 10*time.Second), copied)
			var answer *natsjs.APIError
			switch {
			case errors.As(err, &answer):
				refused++
			case err != nil:
				t.Fatal(err)
			}
		}
		return target, refused
	}
	t.Run("with all headers every message is refused", func(t *testing.T) {
		if _, refused := again(t, func(string) bool { return true }); refused != rows {
			t.Errorf("%d of %d messages are refused", refused, rows)
		}
	})
	t.Run("without those that begin with Nats- none is", func(t *testing.T) {
		target, refused := again(t, func(header string) bool { return !strings.HasPrefix(header, "Nats-") })
		if refused > 0 || kept(t, target) > 0 {
			t.Errorf("%d of %d messages are refused, %d headers are there", refused, rows, kept(t, target))
		}
		if got := read(t, target, "")[0].headers["eiffel-id"]; got != "row-0" {
			t.Errorf("the first event is %q", got)
		}
	})
	t.Run("a stream that sources this one has none of them", func(t *testing.T) {
		copied, err := js.CreateStream(deadline(t, 10*time.Second), natsjs.StreamConfig{
			Name: testenv.NewStreamName(), Sources: []*natsjs.StreamSource{{Name: name}},
		})
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, 10*time.Second, "the source is copied", func() bool {
			info, err := copied.Info(deadline(t, 10*time.Second))
			return err == nil && info.State.Msgs >= rows
		})
		if n := kept(t, copied); n > 0 {
			t.Errorf("%d headers are there", n)
		}
		if m := read(t, copied, name+".a")[0]; m.headers["eiffel-id"] != "row-0" || options.Claim == "" && m.id != "row-0" {
			t.Errorf("the first message has the headers %v", m.headers)
		}
	})
}
