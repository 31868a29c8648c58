package jetstream_test

import (
	"sync/atomic"
	"testing"

	"bridge/tests/testenv"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
)

func TestAWorkerThatIsWarmAsksForFewAnswers(t *testing.T) {
	t.Parallel()
	server := testenv.OwnNATS(t)
	s, stream, name := onStream(t, server, natsjs.StreamConfig{})
	warm, batch := messages(name+".a", "warm", 2000, 50), messages(name+".a", "few", 2000, 50)
	mustPublish(t, s, warm)

	var answers atomic.Int64
	nc := server.Connect(t)
	if _, err := nc.Subscribe("_INBOX.>", func(*nats.Msg) { answers.Add(1) }); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	out := mustPublish(t, s, batch)
	if last := out.At[len(batch)-1]; out.Duplicates != 0 || last.Offset != 4000 {
		t.Errorf("%d duplicates, the last message is at %+v", out.Duplicates, last)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if n := answers.Load(); n == 0 || n > 100 {
		t.Errorf("%d answers to %d messages", n, len(batch))
	}
	wantWhole(t, read(t, stream, ""), warm, batch)
}
