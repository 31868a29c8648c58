package shard_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"bridge/checkpoint/store"
	"bridge/internal/shard"
	"bridge/sink"
	"bridge/source"
)

// cutSink is a bus that has not stored the first batch yet when its process is killed.
type cutSink struct {
	sink.Sink
	cut chan<- []sink.Message
}

func (s cutSink) Publish(ctx context.Context, batch []sink.Message) (sink.Outcome, error) {
	r := reap(0)
	r.leave(batch)
	s.cut <- r.cut
	return reapedSink{}.unanswered(ctx, len(batch))
}

// cutOff runs a process that is killed while its first batch is in flight, and returns that.
func (b *bench) cutOff(t *testing.T) []sink.Message {
	t.Helper()
	killed := *b
	cut, mortal := make(chan []sink.Message), newMortal(b.store)
	killed.sink, killed.store, killed.opts.ShutdownTimeout = cutSink{b.bus, cut}, mortal, time.Millisecond
	wait(t, time.Millisecond)
	_, stop := killed.run(t)
	batch := <-cut
	mortal.die()
	stop()
	wait(t, time.Millisecond)
	return batch
}

// TestACommandThatIsHeardOfLate sets a shard back, and has the first batch behind that be in
// flight when its process is killed. The next one has a copy of the store from before: it learns of
// the command by those messages, while it runs (rule 28).
func TestACommandThatIsHeardOfLate(t *testing.T) {
	instantly(t, "it publishes the other rows again, and finds late ones", func(t *testing.T) {
		b := newBench(t)
		b.opts.BatchRows = 10
		b.insert(100)
		_, stop := b.run(t)
		eventually(t, "saved", func() bool { return b.position(t) == 100 })
		stop()
		copied := copyStore(t, b.store)
		b.set(t, 50)
		late := b.cutOff(t)
		b.store = copied
		_, stop = b.run(t)
		b.polls(t, 20)
		if _, err := b.bus.Publish(t.Context(), late); err != nil {
			t.Fatal(err)
		}
		wait(t, 200*time.Millisecond)
		open := b.table.Open("open", old)
		b.insert(1)
		eventually(t, "all rows behind the id are published again", func() bool { return b.count(topic) == 151 })
		b.table.Commit(open)
		eventually(t, "the late row is published", func() bool { return slices.Contains(b.ids(topic), open) })
		stop()
		got := b.ids(topic)[100:]
		slices.Sort(got)
		expectRun(t, got, 51, 102)
	})
}

// TestNotesThatAKillHasForgotten: what is read of others while a shard runs is in its progress with
// its next batch, and offsets pass it before. A kill between makes rows of a release stream come
// again, with the ids that they had, and nothing worse: no row is left out, nor is one that fills a
// hole. The view has its part with the offsets, so nothing of a capability stream comes again.
func TestNotesThatAKillHasForgotten(t *testing.T) {
	for _, capability := range []bool{false, true} {
		for _, holes := range []bool{false, true} {
			instantly(t, fmt.Sprintf("a capability stream %t, with holes %t", capability, holes), func(t *testing.T) {
				forgetNotes(t, capability, holes)
			})
		}
	}
}

func forgetNotes(t *testing.T, capability, holes bool) {
	b, row := newBench(t), []string{"name", old}
	if capability {
		b, row = newViewBench(t, false), []string{"name", "1", "0"}
	}
	insert := func(n int) {
		for range n {
			row[0] += "x"
			b.table.Insert(row...)
		}
	}
	insert(5)
	_, stop := b.run(t)
	eventually(t, "saved", func() bool { return b.position(t) == 5 })
	stop()
	insert(2)
	var open uint64
	if holes {
		b.table.Skip(3)
		open = b.table.Open(append([]string{"open"}, row[1:]...)...)
	}
	insert(5)
	late := b.cutOff(t)
	const arrive = 4

	// The next process runs, and its table cannot be read.
	held := *b
	mortal := newMortal(b.store)
	held.store, held.opts.ShutdownTimeout = mortal, time.Millisecond
	held.hook = func(q source.Query) error {
		if q.After >= 5 {
			return errors.New("connection refused")
		}
		return nil
	}
	s, stop := held.run(t)
	eventually(t, "it waits for its table", func() bool { return s.Status().State == shard.Waiting })
	if _, err := b.bus.Publish(t.Context(), late[:arrive]); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what arrives late is read", func() bool {
		image, err := b.store.Load(t.Context())
		return err == nil && slices.ContainsFunc(image.Registrations, func(r store.Registration) bool { return r.TP == topic && r.Next == 5+1+arrive })
	})
	mortal.die()
	stop()
	if got := b.position(t); got != 5 {
		t.Fatalf("position %d: there was a batch", got)
	}

	if holes {
		b.table.Commit(open)
	}
	insert(1)
	_, stop = b.run(t)
	want, again := 5+2+5+1, arrive
	if holes {
		want++
	}
	if capability {
		again = 0
	}
	eventually(t, "all rows are published", func() bool { return b.count(topic) >= want+again })
	b.polls(t, 200)
	stop()
	ids := make(map[string]bool)
	for _, m := range b.bus.Messages(topic) {
		ids[m.ID] = true
	}
	if len(ids) != want || b.count(topic) != want+again {
		t.Errorf("%d messages with %d ids, want %d with %d: rows %v", b.count(topic), len(ids), want+again, want, b.ids(topic))
	}
}
