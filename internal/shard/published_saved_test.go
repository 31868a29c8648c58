package shard_test

import (
	"fmt"
	"strings"
	"testing"

	"bridge/checkpoint/store"
	"bridge/event"
	"bridge/internal/published"
	"bridge/internal/shard"
	"bridge/source/ledger"
)

// TestPublishedRowsAreSavedWithTheirPosition: a restored copy of the store reads back what it
// lacks, and the ids of these rows are watched, too.
func TestPublishedRowsAreSavedWithTheirPosition(t *testing.T) {
	b := newBench(t)
	w := &writer{table: b.table, name: "old"}
	w.insert(100)
	_, stop := b.run(t)
	eventually(t, "saved", func() bool { return b.position(t) == 100 })
	before := copyStore(t, b.store)
	w.insert(37)
	eventually(t, "saved", func() bool { return b.position(t) == 137 })
	stop()

	b.store = before
	b.table.Lose(127)
	b.table.Move("second", false)
	(&writer{table: b.table, name: "new"}).insert(40)
	s, _ := b.run(t)
	eventually(t, "stopped", func() bool { return s.Status().State == shard.Stopped })
	if got := s.Status().LastError; !strings.Contains(got, "10 were others, from id 128 on") || !strings.Contains(got, "bridge checkpoint set items items 127;") {
		t.Error(got)
	}
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
			_, stop := b.run(t)
			eventually(t, "saved", func() bool { return b.position(t) == 40 })
			stop()
			b.table.Truncate()
			s, stop := b.run(t)
			eventually(t, "stopped", func() bool { return s.Status().State == shard.Stopped })
			stop()
			fill("new", 60)
			for range 2 {
				s, stop = b.run(t)
				eventually(t, "stopped again", func() bool { return s.Status().State == shard.Stopped })
				for _, want := range []string{shard.ErrIDsReused.Error(), "the next id of items was 1, the position is 40"} {
					if got := s.Status().LastError; !strings.Contains(got, want) {
						t.Errorf("last error lacks %q: %s", want, got)
					}
				}
				expectRun(t, b.ids(topic), 1, 40)
				stop()
			}
			s, stop = b.run(t)
			eventually(t, "stopped once more", func() bool { return s.Status().State == shard.Stopped })
			if kind == event.Release {
				stop()
			}
			if kind == event.Release {
				b.set(t, 0)
				s, stop = b.run(t)
			} else if !s.Accept() {
				t.Fatal("a person cannot agree")
			}
			eventually(t, "all rows are published", func() bool { return b.position(t) == 60 })
			stop()
			s, _ = b.run(t)
			eventually(t, "it goes on after a restart", func() bool { return s.Status().State == shard.Running })
		})
	}
}
