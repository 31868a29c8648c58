package shard_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bridge/internal/shard"
	"bridge/reconcile"
	"bridge/source"
	sourcememory "bridge/source/sourcetest/memory"
)

// writer writes rows that differ, as real ones do: each with its own name and CREATED.
type writer struct {
	table *sourcememory.Table
	name  string
	n     int
}

func (w *writer) insert(n int) {
	for range n {
		w.n++
		w.table.Insert(w.values()...)
	}
}

// values are those of the row that was written last.
func (w *writer) values() []string {
	created := time.Date(2020, 1, 1, 0, 0, 0, w.n*1000+len(w.name), time.UTC)
	return []string{fmt.Sprint(w.name, "-", w.n), created.Format(stamp)}
}

// gate blocks the reads of a bench while it is locked: whatever happens then happens between two
// reads.
type gate struct{ sync.RWMutex }

func (g *gate) pass(source.Query) error {
	g.RLock()
	defer g.RUnlock()
	return nil
}

func (g *gate) between(happen func()) {
	g.Lock()
	defer g.Unlock()
	happen()
}

// bare is a table with nothing but ids that identifies its rows.
func bare() *sourcememory.Table {
	return sourcememory.NewTable(source.Spec{Table: "items", ID: "id"},
		source.Column{Name: "id", Kind: source.Int},
		source.Column{Name: "name", Kind: source.Text},
		source.Column{Name: "note", Kind: source.Text})
}

// names returns the names that the last event of each row says.
func (b *bench) names(t testing.TB) map[uint64]string {
	t.Helper()
	all := make(map[uint64]string)
	for _, one := range b.said(t) {
		name, _, _ := strings.Cut(strings.Fields(one.text)[1], "=")
		all[one.row] = name
	}
	return all
}

// TestIDsUsedAgainAfterAFailover: rows 1 to 137 were published; the new server ends at 127 and has
// 40 other rows by the next read.
func TestIDsUsedAgainAfterAFailover(t *testing.T) {
	failOver := func(b *bench) {
		b.table.Lose(127)
		b.table.Move("second", false)
		(&writer{table: b.table, name: "new"}).insert(40)
	}
	for name, c := range map[string]struct {
		table   *sourcememory.Table
		stopped bool
	}{
		"while the shard runs": {}, "while it is stopped": {stopped: true},
		"while the shard runs, without CREATED": {table: bare()}, "while it is stopped, without CREATED": {table: bare(), stopped: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if c.table != nil {
				b.table = c.table
			}
			var g gate
			b.hook = g.pass
			(&writer{table: b.table, name: "old"}).insert(137)
			s, stop := b.run(t)
			b.saved(t, 137)
			if c.stopped {
				stop()
				failOver(b)
				s, stop = b.run(t)
			} else {
				g.between(func() { failOver(b) })
			}
			expectText(t, stopped(t, s), shard.ErrIDsReused.Error(), "10 were others, from id 128 on", "bridge checkpoint set items items 127;")
			expectRun(t, b.ids(topic), 1, 137)
			stop()

			// A restart changes nothing.
			s, stop = b.run(t)
			stopped(t, s)
			stop()

			// What the command does.
			b.set(t, 127)
			b.run(t)
			b.saved(t, 167)
			names := b.names(t)
			for id := uint64(1); id <= 167; id++ {
				want := fmt.Sprint("old-", id)
				if id > 127 {
					want = fmt.Sprint("new-", id-127)
				}
				if names[id] != want {
					t.Errorf("row %d was published as %q, want %q", id, names[id], want)
				}
			}
		})
	}
}

// formerServer answers some reads of single rows in place of the server that answers pages.
type formerServer struct {
	source.Shard
	table *sourcememory.Table
	// left is how many reads it still answers, answers how many it has answered.
	left, answers atomic.Int64
}

func newFormerServer(b *bench) *formerServer {
	spec := source.Spec{Table: "items", ID: "id", Created: "created"}
	return &formerServer{Shard: b.table, table: sourcememory.NewTable(spec,
		source.Column{Name: "id", Kind: source.Int}, source.Column{Name: "name", Kind: source.Text},
		source.Column{Name: "created", Kind: source.DateTime, Precision: 6})}
}

func (f *formerServer) Read(ctx context.Context, q source.Query, p *source.Page) error {
	// It never had higher ids, as those of gaps.
	if n := len(q.Ranges); n > 0 && q.Ranges[n-1].Last <= 137 && f.left.Load() > 0 {
		f.left.Add(-1)
		f.answers.Add(1)
		return f.table.Read(ctx, q, p)
	}
	return f.Shard.Read(ctx, q, p)
}

// TestIDsUsedAgainWhileTwoServersAnswer: pages come from the new server, and the first comparisons
// still from the former one, where every row is as it was published.
func TestIDsUsedAgainWhileTwoServersAnswer(t *testing.T) {
	b := newBench(t)
	former := newFormerServer(b)
	b.source = former
	(&writer{table: b.table, name: "old"}).insert(137)
	(&writer{table: former.table, name: "old"}).insert(137)
	b.runTo(t, 137)
	b.table.Lose(127)
	b.table.Move("second", false)
	(&writer{table: b.table, name: "new"}).insert(40)
	former.left.Store(3)
	s, _ := b.run(t)
	stopped(t, s)
	if got := s.Status().LastError; !strings.Contains(got, "10 were others, from id 128 on") || former.answers.Load() != 3 {
		t.Errorf("after %d comparisons by the former server: %s", former.answers.Load(), got)
	}
	expectRun(t, b.ids(topic), 1, 137)
}

// TestComparisonsThatNeverFit: a proxy sends single rows to a copy, forever. Pages are published
// all the same.
func TestComparisonsThatNeverFit(t *testing.T) {
	b := newBench(t)
	b.source = elsewhere{b.table}
	(&writer{table: b.table, name: "old"}).insert(137)
	b.runTo(t, 137)
	(&writer{table: b.table, name: "new"}).insert(40)
	var log lines
	b.opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s, _ := b.run(t)
	b.saved(t, 177)
	if status := s.Status(); status.State != shard.Running {
		t.Errorf("the shard is %v: %s", status.State, status.LastError)
	}
	b.polls(t, 20)
	for _, line := range []string{"nothing is published for now: one server answers", "publishing goes on after servers differed"} {
		if n := log.count(line); n != 1 {
			t.Errorf("%d lines say %q, want one", n, line)
		}
	}
}

// elsewhere has single rows come from another server than pages.
type elsewhere struct{ source.Shard }

func (e elsewhere) Read(ctx context.Context, q source.Query, p *source.Page) error {
	err := e.Shard.Read(ctx, q, p)
	if q.Ranges != nil {
		p.Server = "elsewhere"
	}
	return err
}

// TestIDsUsedAgainInACapabilityStream: the name of a row is its key, so the rows under the ids 128
// to 137 are about other entities.
func TestIDsUsedAgainInACapabilityStream(t *testing.T) {
	b := newViewBench(t, false)
	var g gate
	b.hook = g.pass
	for i := range 137 {
		b.table.Insert(fmt.Sprint("old-", i+1), "1", "0")
	}
	s, _ := b.run(t)
	b.saved(t, 137)
	g.between(func() {
		b.table.Lose(127)
		b.table.Move("second", false)
		for i := range 40 {
			b.table.Insert(fmt.Sprint("new-", i+1), "1", "0")
		}
	})
	expectText(t, stopped(t, s), "from id 128 on", "bridge reconcile --allow-deletes items")
	if !s.Accept() {
		t.Fatal("a person cannot agree")
	}
	eventually(t, "all rows are published", func() bool { return len(b.said(t)) == 177 })
	eventually(t, "the shard goes on", func() bool { return s.Status().State == shard.Running && b.position(t) == 167 })
}

// TestStatesUnderOtherIDsArePublished: where only the id identifies an entity, its new state is its
// state.
func TestStatesUnderOtherIDsArePublished(t *testing.T) {
	b := newViewBench(t, false)
	spec := source.Spec{Table: "items", ID: "id", UniqueKey: true}
	b.table = sourcememory.NewTable(spec, source.Column{Name: "id", Kind: source.Int}, source.Column{Name: "name", Kind: source.Text})
	var g gate
	b.hook = g.pass
	for i := range 137 {
		b.table.Insert(fmt.Sprint("old-", i+1))
	}
	b.run(t)
	b.saved(t, 137)
	g.between(func() {
		b.table.Lose(127)
		b.table.Move("second", false)
		for i := range 40 {
			b.table.Insert(fmt.Sprint("new-", i+1))
		}
	})
	eventually(t, "all rows are published", func() bool { return len(b.said(t)) == 177 })
	names := b.names(t)
	for id := uint64(128); id <= 167; id++ {
		if want := fmt.Sprint("new-", id-127); names[id] != want {
			t.Errorf("row %d was published last as %q, want %q", id, names[id], want)
		}
	}
}

// TestReconcileComparesTheRowsPublishedLast: a table was restored in place and filled again between
// two polls. Only its rows show that, and nothing may be called verified.
func TestReconcileComparesTheRowsPublishedLast(t *testing.T) {
	b := newBench(t)
	var g gate
	b.hook = g.pass
	w := &writer{table: b.table, name: "old"}
	w.insert(137)
	s, _ := b.run(t)
	b.saved(t, 137)
	confirm := func() error {
		_, err := s.Nominate(t.Context(), reconcile.Nomination{Published: true})
		return err
	}
	if err := confirm(); err != nil {
		t.Fatal(err)
	}
	g.between(func() {
		b.table.Lose(127)
		(&writer{table: b.table, name: "new"}).insert(40)
	})
	b.saved(t, 167)
	for id := uint64(138); id <= 167; id++ {
		// What would hide it: newer rows that are as they were published.
		b.table.Delete(id)
	}
	if err := confirm(); err == nil {
		t.Error("nothing is found")
	}
	expectText(t, stopped(t, s), "bridge checkpoint set items items 127;")
}

// TestWhatIsNoReuse: a table changes as its application or its operator likes, the server changes
// as well, and nothing stops.
func TestWhatIsNoReuse(t *testing.T) {
	deleteRows := func(b *bench, first, last uint64) {
		for id := first; id <= last; id++ {
			b.table.Delete(id)
		}
	}
	for name, happen := range map[string]func(b *bench){
		"nothing but another server":  func(*bench) {},
		"a purge from below":          func(b *bench) { deleteRows(b, 1, 100) },
		"a purge of everything":       func(b *bench) { deleteRows(b, 1, 137) },
		"a delete of the newest row":  func(b *bench) { deleteRows(b, 137, 137) },
		"a delete of the newest rows": func(b *bench) { deleteRows(b, 130, 137) },
		"an update of an old row":     func(b *bench) { b.table.Update(5, "changed") },
		"an update of the newest row": func(b *bench) { b.table.Update(137, "changed") },
		"an update of every row": func(b *bench) {
			for id := uint64(1); id <= 137; id++ {
				b.table.Update(id, "changed")
			}
		},
		"a server that copies and is behind": func(b *bench) {
			// It has what it lacks a moment later.
			b.table.Lose(127)
			w := &writer{table: b.table, name: "old", n: 127}
			w.insert(10)
		},
	} {
		for _, other := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, another server %t", name, other), func(t *testing.T) {
				b := newBench(t)
				w := &writer{table: b.table, name: "old"}
				w.insert(137)
				b.runTo(t, 137)
				happen(b)
				if other {
					b.table.Move("second", false)
				}
				s, _ := b.run(t)
				w.insert(1)
				b.saved(t, 138)
				if status := s.Status(); status.State != shard.Running {
					t.Errorf("the shard is %v: %s", status.State, status.LastError)
				}
				expectRun(t, b.ids(topic), 1, 138)
			})
		}
	}
}
