package jetstream_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"bridge/sink"
	"bridge/sink/jetstream"
	"bridge/tests/testenv"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
)

func TestSilentMessages(t *testing.T) {
	t.Parallel()
	server := testenv.OwnNATS(t)

	t.Run("a worker that is warm asks for few answers", func(t *testing.T) {
		stream := server.CreateStream(t, natsjs.StreamConfig{})
		name := stream.CachedInfo().Config.Name
		s := open(t, jetstream.Options{URLs: []string{server.URL()}, Stream: name})
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
	})

	t.Run("a batch that is given up tells what is stored", func(t *testing.T) {
		stream := server.CreateStream(t, natsjs.StreamConfig{})
		name := stream.CachedInfo().Config.Name
		s := open(t, jetstream.Options{URLs: []string{server.URL()}, Stream: name})
		warm := messages(name+".a", "warm", 2000, 50)
		mustPublish(t, s, warm)
		batch, exact := messages(name+".a", "left", 20_000, 50), 0
		const rounds, each = 20, 1000
		var told [][]sink.Message
		for round := range rounds {
			part := batch[round*each : (round+1)*each]
			ctx, cancel := context.WithTimeout(t.Context(), rand.N(10*time.Millisecond))
			out, err := s.Publish(ctx, part)
			cancel()
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			acked := out.Acked()
			for i, status := range out.Status {
				if (status == sink.Acked) != (i < acked) {
					t.Fatalf("message %d of %d acknowledged is %v", i, acked, status)
				}
			}
			told = append(told, part[:acked])
			info, err := stream.Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			again, err := stream.Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := again.State.Msgs; got == info.State.LastSeq && got == uint64(len(warm)+count(told)) {
				exact++
			} else {
				// The server was still at it when it was asked: what it stored after that is sent
				// again.
				mustPublish(t, s, part)
				told[round] = part
			}
		}
		if exact == 0 {
			t.Error("no round told all that was stored")
		}
		wantWhole(t, read(t, stream, ""), append(told, warm)...)
	})
}

func count(batches [][]sink.Message) (n int) {
	for _, b := range batches {
		n += len(b)
	}
	return n
}
