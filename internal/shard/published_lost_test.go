package shard_test

import (
	"fmt"
	"testing"
	"time"

	"bridge/checkpoint/store"
	"bridge/event"
	"bridge/internal/published"
	"bridge/internal/shard"
	"bridge/source/ledger"
	sourcememory "bridge/source/sourcetest/memory"
)

// TestIDsUsedAgainByAnOpenTransaction: the ids are used, and not committed, when the new server is
// seen first.
func TestIDsUsedAgainByAnOpenTransaction(t *testing.T) {
	for name, c := range map[string]struct {
		// rows are published before the transaction commits.
		rows    uint64
		restart bool
		// former is how often the former server still answers meanwhile.
		former int64
	}{
		"soon": {rows: 20}, "while the former server answers now and then": {rows: 20, former: 3}, "behind more rows than are kept": {rows: 200}, "over a restart": {rows: 20, restart: true},
		"over a restart, behind more rows than are kept": {rows: 200, restart: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.opts.LostEvery, b.opts.PublishedRows = 5*time.Millisecond, 64
			former := newFormerServer(b)
			b.source = former
			var g gate
			b.hook = g.pass
			(&writer{table: b.table, name: "old"}).insert(137)
			(&writer{table: former.table, name: "old"}).insert(137)
			s, stop := b.run(t)
			b.saved(t, 137)
			var open []uint64
			w := &writer{table: b.table, name: "new"}
			g.between(func() {
				b.table.Lose(127)
				b.table.Move("second", false)
				for range 20 {
					open = append(open, b.table.Open("new", "2021-01-01 00:00:00.000000"))
				}
			})
			for done := uint64(0); done < c.rows; done += 20 {
				w.insert(20)
				b.saved(t, 147+done+20)
			}
			if c.restart {
				stop()
				s, _ = b.run(t)
			}
			former.left.Store(c.former)
			eventually(t, "the former server has answered", func() bool { return former.answers.Load() >= c.former })
			for _, id := range open {
				b.table.Commit(id)
			}
			expectText(t, stopped(t, s), "from id 128 on", "bridge checkpoint set items items 127;")
		})
	}
}

// TestLostRowsThatComeBack, as on a copy that was behind for a moment, are no longer watched.
func TestLostRowsThatComeBack(t *testing.T) {
	for name, table := range map[string]*sourcememory.Table{"": nil, "without CREATED": bare()} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.opts.LostEvery = 5 * time.Millisecond
			if table != nil {
				b.table = table
			}
			var g gate
			b.hook = g.pass
			old := &writer{table: b.table, name: "old"}
			old.insert(137)
			s, _ := b.run(t)
			b.saved(t, 137)
			var open []uint64
			new := &writer{table: b.table, name: "new"}
			g.between(func() {
				b.table.Lose(127)
				b.table.Move("second", false)
				for old.n = 128; old.n <= 137; old.n++ {
					open = append(open, b.table.Open(old.values()...))
				}
			})
			lost := func() bool {
				next := b.position(t) + 1
				new.insert(1)
				eventually(t, "the next row is published", func() bool { return b.position(t) == next || s.Status().State == shard.Stopped })
				return b.published(t).Lost() != nil
			}
			new.insert(1)
			b.saved(t, 138)
			if !lost() {
				t.Error("nothing is lost")
			}
			for _, id := range open {
				b.table.Commit(id)
			}
			eventually(t, "nothing is lost any more", func() bool { return !lost() })
			if status := s.Status(); status.State != shard.Running {
				t.Errorf("the shard is %v: %s", status.State, status.LastError)
			}
		})
	}
}

func TestIDsUsedAgainByASecondFailover(t *testing.T) {
	b := newBench(t)
	var g gate
	b.hook = g.pass
	(&writer{table: b.table, name: "old"}).insert(137)
	s, _ := b.run(t)
	b.saved(t, 137)
	g.between(func() {
		b.table.Lose(127)
		b.table.Move("second", false)
		b.table.Skip(10)
		(&writer{table: b.table, name: "second"}).insert(100)
	})
	// The ids of the rows that are gone are watched from now on.
	b.saved(t, 237)
	g.between(func() {
		b.table.Lose(200)
		b.table.Move("third", false)
		(&writer{table: b.table, name: "third"}).insert(60)
	})
	expectText(t, stopped(t, s), "bridge checkpoint set items items 200;")
}

// TestPublishedRowsAreSavedWithTheirPosition: a restored copy of the store reads back what it
// lacks, and the ids of these rows are watched, too.
func TestPublishedRowsAreSavedWithTheirPosition(t *testing.T) {
	b := newBench(t)
	w := &writer{table: b.table, name: "old"}
	w.insert(100)
	_, stop := b.run(t)
	b.saved(t, 100)
	before := copyStore(t, b.store)
	w.insert(37)
	b.saved(t, 137)
	stop()

	b.store = before
	b.table.Lose(127)
	b.table.Move("second", false)
	(&writer{table: b.table, name: "new"}).insert(40)
	s, _ := b.run(t)
	expectText(t, stopped(t, s), "10 were others, from id 128 on", "bridge checkpoint set items items 127;")
	expectRun(t, b.ids(topic), 1, 137)
}

// published returns the rows published last, as the store has them.
func (b *bench) published(t testing.TB) *published.Log {
	t.Helper()
	var chunks []ledger.Chunk
	for part, err := range b.store.Parts(t.Context(), key, store.Published, 0) {
		if err != nil {
			t.Fatal(err)
		}
		chunks = append(chunks, ledger.Chunk{Key: part.Number, Bytes: part.Bytes})
	}
	log, err := published.Restore(1000, chunks)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// TestAStopOutlivesARefill: a table was truncated, and is filled with more rows than before while
// the shard is stopped. Only a command has it go on, whatever the table shows by then.
func TestAStopOutlivesARefill(t *testing.T) {
	for _, kind := range []event.Kind{event.Release, event.Capability} {
		t.Run(string(kind), func(t *testing.T) {
			b := newBench(t)
			b.opts.Kind = kind
			b.table = bare()
			fill := func(what string, rows int) {
				for i := range rows {
					b.table.Insert(fmt.Sprint(what, "-", i+1), "note")
				}
			}
			fill("old", 40)
			b.runTo(t, 40)
			b.table.Truncate()
			s, stop := b.run(t)
			stopped(t, s)
			stop()
			fill("new", 60)
			for range 2 {
				s, stop = b.run(t)
				expectText(t, stopped(t, s), shard.ErrIDsReused.Error(), "the next id of items was 1, the position is 40")
				expectRun(t, b.ids(topic), 1, 40)
				stop()
			}
			s, stop = b.run(t)
			stopped(t, s)
			if kind == event.Release {
				stop()
				b.set(t, 0)
				_, stop = b.run(t)
			} else if !s.Accept() {
				t.Fatal("a person cannot agree")
			}
			b.saved(t, 60)
			stop()
			s, _ = b.run(t)
			eventually(t, "it goes on after a restart", func() bool { return s.Status().State == shard.Running })
		})
	}
}
