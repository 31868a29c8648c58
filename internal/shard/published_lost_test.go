package shard_test

import (
	"strings"
	"testing"
	"time"

	"bridge/internal/shard"
	sourcememory "bridge/source/memory"
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
			eventually(t, "saved", func() bool { return b.position(t) == 137 })
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
				eventually(t, "rows behind the open ones are published", func() bool { return b.position(t) == 147+done+20 })
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
			eventually(t, "stopped", func() bool { return s.Status().State == shard.Stopped })
			if got := s.Status().LastError; !strings.Contains(got, "from id 128 on") || !strings.Contains(got, "bridge checkpoint set items items 127;") {
				t.Error(got)
			}
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
			eventually(t, "saved", func() bool { return b.position(t) == 137 })
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
			eventually(t, "saved", func() bool { return b.position(t) == 138 })
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
	eventually(t, "saved", func() bool { return b.position(t) == 137 })
	g.between(func() {
		b.table.Lose(127)
		b.table.Move("second", false)
		b.table.Skip(10)
		(&writer{table: b.table, name: "second"}).insert(100)
	})
	// The ids of the rows that are gone are watched from now on.
	eventually(t, "rows of the second server are published", func() bool { return b.position(t) == 237 })
	g.between(func() {
		b.table.Lose(200)
		b.table.Move("third", false)
		(&writer{table: b.table, name: "third"}).insert(60)
	})
	eventually(t, "stopped", func() bool { return s.Status().State == shard.Stopped })
	if got := s.Status().LastError; !strings.Contains(got, "bridge checkpoint set items items 200;") {
		t.Error(got)
	}
}
