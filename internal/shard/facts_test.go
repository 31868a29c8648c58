package shard_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/shard"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
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
	cut, mortal := make(chan []sink.Message), &faultyStore{Store: b.store}
	killed.sink, killed.store, killed.opts.ShutdownTimeout = cutSink{b.bus, cut}, mortal, time.Millisecond
	wait(t, time.Millisecond)
	_, stop := killed.run(t)
	batch := <-cut
	mortal.fail(errDead)
	stop()
	wait(t, time.Millisecond)
	return batch
}

func (b *bench) takes(t testing.TB, messages []sink.Message) {
	t.Helper()
	must.Get(b.bus.Publish(t.Context(), messages))(t)
}

// TestACommandThatIsHeardOfLate sets a shard back, and has the first batch behind that be in
// flight when its process is killed. The next one has a copy of the store from before: it learns of
// the command by those messages, while it runs (rule 28).
func TestACommandThatIsHeardOfLate(t *testing.T) {
	instantly(t, "it publishes the other rows again, and finds late ones", func(t *testing.T) {
		b := newBench(t)
		s := b.play(t, "batch 10; insert 100; run-to 100; copy; set 50")
		late := b.cutOff(t)
		s.play("restore; run; polls 20")
		b.takes(t, late)
		s.play("wait 200ms; begin open old; insert 1; count 151; commit; has 101; stop")
		got := b.ids(topic)[100:]
		slices.Sort(got)
		expectRun(t, got, 51, 102)
	})
}

// TestAFloorThatIsHeardOfLate loses the store of a shard that began at START=latest, whose only
// message is in flight when its process is killed. The next one reads it while it looks where the
// table ends: its floor holds, and rows up to that are history for a reconcile, too (rule 16).
func TestAFloorThatIsHeardOfLate(t *testing.T) {
	instantly(t, "a capability stream", func(t *testing.T) {
		b := newViewBench(t, false)
		stage := b.play(t, "latest; row a 1 0; row b 1 0; row c 1 0; run; recorded; stop; row d 1 0")
		late := b.cutOff(t)
		reached, read := make(chan struct{}), make(chan struct{})
		var once sync.Once
		b.hook = func(q source.Query) error {
			if q.Limit == 1 {
				once.Do(func() { close(reached); <-read })
			}
			return nil
		}
		stage.play("lost; run")
		<-reached
		b.takes(t, late)
		eventually(t, "the message is read", func() bool { return b.covers(t, 2) })
		close(read)
		stage.play("nominate 1-4; said Added d=1; reconciled; update 2 B 1 0; nominate 2-2; said Added B=1")
	})
}

// TestATopicThatIsRestoredBeforeATurn: a process that has waited for its turn has opened its
// progress when it finds that the topic is another one, which lacks the last rows. It begins again
// with what is there, and publishes the others again (rule 21).
func TestATopicThatIsRestoredBeforeATurn(t *testing.T) {
	instantly(t, "a release stream", func(t *testing.T) {
		b := newBench(t)
		b.insert(100)
		b.runTo(t, 100)
		kept := b.bus.Messages(topic)[:50]
		b.turn = make(chan struct{})
		close(b.turn)
		restored := make(chan struct{})
		var once sync.Once
		b.fence = func() {
			once.Do(func() {
				defer close(restored)
				b.bus.Wipe()
				b.bus.Create(deadTopic)
				if _, err := b.bus.Publish(t.Context(), kept); err != nil {
					t.Error(err)
				}
			})
		}
		_, stop := b.run(t)
		<-restored
		eventually(t, "the lost rows are published again", func() bool { return b.count(topic) == 100 })
		stop()
		expectRun(t, b.ids(topic), 1, 100)
	})
}

// TestAKillBehindFacts: what is read of others while a shard runs is in its progress in the store
// with the offset that covers it. The process is killed at each of its steps: no row comes again,
// and none is left out.
func TestAKillBehindFacts(t *testing.T) {
	every := testall.Cases(5, 1)
	for _, capability := range []bool{false, true} {
		for _, holes := range []bool{false, true} {
			deaths, died := 0, true
			for step := 0; died; step += every {
				instantly(t, fmt.Sprintf("a capability stream %t, with holes %t, at step %d", capability, holes, step), func(t *testing.T) {
					died = readAndDie(t, capability, holes, step)
				})
				if died {
					deaths++
				}
			}
			// A look at the bus, the facts, a page, its messages and its commit.
			if least := 10 / every; deaths < least && !t.Failed() {
				t.Errorf("it was killed %d times, want %d at least", deaths, least)
			}
		}
	}
}

// readAndDie has messages arrive late while a process waits for its table, which it then can read,
// until it dies at a step. It reports whether there were so many.
func readAndDie(t *testing.T, capability, holes bool, step int) (died bool) {
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
	b.runTo(t, 5)
	insert(2)
	var open uint64
	if holes {
		b.table.Skip(3)
		open = b.table.Open(append([]string{"open"}, row[1:]...)...)
	}
	insert(5)
	late := b.cutOff(t)
	const arrive = 4

	r, held := reap(step), *b
	held.opts.ShutdownTimeout = time.Millisecond
	held.sink, held.store, held.reader, held.reaper = reapedSink{b.bus, r}, reapedStore{b.store, r}, reapedReader{b.bus, r}, r
	var away atomic.Bool
	away.Store(true)
	held.hook = func(q source.Query) error {
		if q.After >= 5 && away.Load() {
			return errors.New("connection refused")
		}
		return nil
	}
	p := held.process(t)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = p.run(ctx) }) // what the dead say does not matter
	dead := func() bool { return r.waitDeath(idle) }
	eventually(t, "it waits for its table", func() bool { return dead() || p.shard.Status().State == shard.Waiting })
	b.takes(t, late[:arrive])
	eventually(t, "what arrives late is read", func() bool { return dead() || b.covers(t, 5+1+arrive) })
	if got := b.position(t); got != 5 {
		t.Fatalf("position %d: there was a batch", got)
	}
	away.Store(false)
	eventually(t, "all is published", func() bool { return dead() || b.position(t) == late[len(late)-1].RowID })
	died = dead()
	cancel()
	running.Wait()

	if holes {
		b.table.Commit(open)
	}
	insert(1)
	_, stop := b.run(t)
	want := 5 + 2 + 5 + 1
	if holes {
		want++
	}
	eventually(t, "all rows are published", func() bool { return b.count(topic) >= want })
	b.polls(t, 200)
	stop()
	ids := b.ids(topic)
	slices.Sort(ids)
	if len(ids) != want || len(slices.Compact(slices.Clone(ids))) != want {
		t.Errorf("%d messages, want one of each of %d rows: %v", len(ids), want, ids)
	}
	return died
}

// covers reports whether the store has what the topic holds below next.
func (b *bench) covers(t *testing.T, next uint64) bool {
	t.Helper()
	image := must.Get(b.store.Load(t.Context()))(t)
	return slices.ContainsFunc(image.Registrations, func(r store.Registration) bool { return r.TP == topic && r.Next == next })
}

// TestAKillOfAnAttemptThatWaits: a batch has an unknown outcome while the owner waits for its
// source, so the attempt has not ended when others read what the bus has of it. A kill then repeats
// nothing, as exactly-once has it.
func TestAKillOfAnAttemptThatWaits(t *testing.T) {
	for _, capability := range []bool{false, true} {
		instantly(t, fmt.Sprintf("a capability stream %t", capability), func(t *testing.T) {
			b := newBench(t)
			if capability {
				b = newViewBench(t, false)
			}
			b.insertRows(250, capability)
			killed, mortal, asked, gate := *b, &faultyStore{Store: b.store}, make(chan struct{}), make(chan struct{})
			killed.sink, killed.store = gatedSink{silentSink{b.bus}, asked}, mortal
			killed.opts.ShutdownTimeout = time.Millisecond
			ask := sync.OnceFunc(func() { close(asked) })
			killed.hook = func(q source.Query) error {
				if q.After >= 100 {
					ask()
					<-gate
				}
				return nil
			}
			_, stop := killed.run(t)
			eventually(t, "the first batch is read back", func() bool { return b.covers(t, 101) })
			mortal.fail(errDead)
			close(gate)
			stop()
			if got := b.position(t); got != 0 {
				t.Fatalf("position %d: it was committed", got)
			}
			b.runTo(t, 250)
			expectRun(t, b.ids(topic), 1, 250)
		})
	}
}
