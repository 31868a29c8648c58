package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/reconcile"
	"example.org/bridge/source"
	"example.org/bridge/source/ledger"
	"example.org/bridge/source/sourcetest/memory"
	"example.org/bridge/tests/must"
)

func TestRunThatIsCutShortGoesOn(t *testing.T) {
	for _, kind := range []event.Kind{event.Capability, event.Release} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, cut after the save: %v", kind, after), func(t *testing.T) {
				for at := 1; cutAt(t, kind, at, after); at++ {
					if at > 1000 {
						t.Fatal("no run ends")
					}
				}
			})
		}
	}
}

// cutAt cuts a run at the given save and finishes it, and reports whether there was such a save.
func cutAt(t *testing.T, kind event.Kind, at int, after bool) bool {
	t.Helper()
	w := newWorld(t, kind)
	w.fill("a", 60)
	change(w)
	saves := 0
	whole := w.options
	w.options.Committer = cut{w.store, &saves, at, after}
	first, err := reconcile.New(w.options).Run(t.Context(), reconcile.Mode{})
	if err == nil {
		return false
	}
	if !errors.Is(err, store.ErrClosed) {
		t.Fatalf("cut at save %d: %v", at, err)
	}
	w.options = whole
	second := w.run(reconcile.Mode{})
	begun := at > 1 || after
	if ended := after && !second.Resumed; second.Resumed != begun && !ended {
		t.Errorf("cut at save %d: resumed %v", at, second.Resumed)
	}
	if second.Guard != "" {
		t.Errorf("cut at save %d: %s", at, second.Guard)
	}
	if begun && second.Resumed && second.Rows != first.Rows && kind == event.Capability && second.Rows != 54 {
		t.Errorf("cut at save %d: %d rows scanned", at, second.Rows)
	}
	if kind == event.Capability {
		w.compare()
		if got := w.deletes(); got != 7 {
			t.Errorf("cut at save %d: %d deletes", at, got)
		}
	} else if last := w.run(reconcile.Mode{}); last.Missed != 0 || len(w.bus) != 62 {
		t.Errorf("cut at save %d: %d rows were still missed", at, last.Missed)
	}
	if run := w.recorded(); run.Ended.IsZero() || run.Waiting != 0 {
		t.Errorf("cut at save %d: on record %+v", at, run)
	}
	for part, err := range w.store.Parts(t.Context(), key, store.AbsentEntities, 0) {
		t.Errorf("cut at save %d: still waiting: %s, %v", at, part.Bytes, err)
	}
	return true
}

// change makes some of everything: 7 rows go, one of which another replaces.
func change(w *world) {
	for id := uint64(5); id <= 60; id += 8 {
		w.touch(fmt.Sprintf("a%d", id))
		w.table.Delete(id)
		w.table.Update(id+1, fmt.Sprintf("a%d", id+1), "2")
	}
	if w.release {
		// What is gone was published, but for 5 and what came under 13.
		w.age(60, 0, 21, 29, 37, 45, 53)
		w.table.InsertAt(5, "late", "1", "0")
	}
	w.table.InsertAt(13, "new", "1", "0")
}

// TestWhatCutsARunShort: a table that is missing, unlike a source that is away, a shard that does
// not run, and a record that is damaged.
func TestWhatCutsARunShort(t *testing.T) {
	for name, c := range map[string]struct {
		happen func(*world)
		want   error
	}{
		"a table that is missing":   {func(w *world) { w.atRead(3, func() { w.table.Fail(-1, source.ErrMissing) }) }, source.ErrMissing},
		"a shard that does not run": {func(w *world) { w.stopped = true }, reconcile.ErrNotRunning},
		"a run that cannot be read": {func(w *world) { w.part(store.Reconcile, 0, "{") }, store.ErrDamaged},
		"entities that waited": {func(w *world) {
			w.record(reconcile.Run{Started: time.Now(), Bound: 30, After: 30, Waiting: 3, Server: "memory"})
		}, store.ErrDamaged},
	} {
		w := newWorld(t, event.Capability)
		w.fill("a", 30)
		c.happen(w)
		reconciler := reconcile.New(w.options)
		if _, err := reconciler.Run(t.Context(), reconcile.Mode{}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if s := reconciler.Status(); s.LastError == "" || s.Totals.Failed != 1 || s.Running {
			t.Errorf("%s: status %+v", name, s)
		}
	}
}

func TestARunDropsWhatIsLeftOfAnotherOne(t *testing.T) {
	w := newWorld(t, event.Capability)
	w.fill("a", 10)
	// As of a run that a command has removed.
	w.part(store.AbsentEntities, 2, `["YTE="]`)
	w.run(reconcile.Mode{})
	for part, err := range w.store.Parts(t.Context(), key, store.AbsentEntities, 0) {
		t.Errorf("still waiting: %s, %v", part.Bytes, err)
	}
}

func TestNoDemandOfAReleaseStreamIsAnsweredWhereAnotherServerMayLackRows(t *testing.T) {
	w := newWorld(t, event.Release)
	w.fill("a", 10)
	w.table.Skip(20)
	w.fill("b", 2)
	w.age(32, 0)
	w.options.Source = hooked{Shard: w.table, readIDs: func(_ *source.IDs, read func() error) error { w.play("server other"); return read() }}
	w.play("demand 1; want unjudged unverified; answered")
}

// TestARunThatAnswersADemandGoesOn where it was cut short, unless there is another demand since, or
// another server.
func TestARunThatAnswersADemandGoesOn(t *testing.T) {
	for script, want := range map[string]string{
		"":                "scanned=30 modified=1 resumed; answered 7; want scanned=30 modified=1",
		"cut 2; cut 2":    "scanned=30 modified=1 resumed; answered 7; want scanned=30 modified=1",
		"demand 8":        "scanned=30 modified=2; answered 8; want scanned=30",
		"demand 8; cut 2": "scanned=30 modified=2; answered 8; want scanned=30",
		"demand 8; cut 4": "scanned=30 modified=2 resumed; answered 8; want scanned=30",
		"cut 2; demand 8": "scanned=30 modified=2; answered 8; want scanned=30",
		"server other":    "scanned=30 modified=2; answered 7; want scanned=30",
	} {
		w := newWorld(t, event.Capability)
		w.fill("a", 30)
		w.play("demand 7; cut 4; update 2 a2 2; update 28 a28 2; " + script + "; want " + want)
	}
}

// TestAFormerVersionReadsARunThatHasHardlyBegun: it takes the first part for the run.
func TestAFormerVersionReadsARunThatHasHardlyBegun(t *testing.T) {
	w := newWorld(t, event.Capability)
	w.fill("a", 10)
	w.play("demand 1; cut 2")
	for part, err := range w.store.Parts(t.Context(), key, store.Reconcile, 0) {
		if err != nil || part.Number != 0 {
			t.Errorf("the first part is %d, %v", part.Number, err)
		}
		break
	}
	w.play("want scanned=10; answered 1")
}

// TestReleaseComparesIDsInOnePass has rows with the even ids, and some that appeared under odd ones
// long after GAP_TTL: the ledger in the checkpoint says which, and the table is read once, in
// pages.
func TestReleaseComparesIDsInOnePass(t *testing.T) {
	const rows, stray = 30_000, 1 << 40
	w := newWorld(t, event.Release)
	w.options.SaveEvery = time.Hour
	for id := uint64(2); id <= 2*rows; id += 2 {
		w.table.InsertAt(id, fmt.Sprint(id), "1", "0")
	}
	w.table.InsertAt(stray, "stray", "1", "0")
	w.tail(rows + 1)
	w.age(stray, 555)
	late := []uint64{1, 777, 2*rows - 1, 2*rows + 5_000_000, stray - 1}
	for part, err := range w.store.Parts(t.Context(), key, store.Gaps, 0) {
		must.OK(t, err)
		// A read of parts of the ledger ends before such an id.
		if part.Number > 1 && part.Number < 2*rows {
			late = append(late, part.Number)
		}
	}
	for _, id := range late {
		w.table.InsertAt(id, fmt.Sprint("late", id), "1", "0")
	}
	// At the front of the wide gap the tail looks for rows itself, and an id in flight is found by
	// it, too.
	w.table.InsertAt(2*rows+7, "front", "1", "0")
	w.table.InsertAt(555, "flight", "1", "0")
	w.table.Delete(10)

	published := len(w.bus)
	if dry := w.run(reconcile.Mode{DryRun: true}); dry.Missed != uint64(len(late)) || len(w.bus) != published {
		t.Errorf("a dry run found %+v", dry)
	}
	reads, most := 0, 0
	w.options.Source = hooked{Shard: w.table, readIDs: func(ids *source.IDs, read func() error) error {
		err := read()
		reads, most = reads+1, max(most, len(ids.List))
		return err
	}}
	report := w.run(reconcile.Mode{})
	if report.Missed != uint64(len(late)) || len(w.bus) != published+len(late) {
		t.Errorf("report %+v, %d events", report, len(w.bus)-published)
	}
	if reads > 20 || most > 10_000 {
		t.Errorf("%d reads of ids, of %d at most: want a few, of a page each", reads, most)
	}
	if again := w.run(reconcile.Mode{}); again.Missed != 0 {
		t.Errorf("the next run published %d", again.Missed)
	}
}

// age saves the gap ledger as it is a day after the rows of the table, and those of other, were
// published, when the row flight is in flight, if it is not 0.
func (w *world) age(position, flight uint64, other ...uint64) {
	w.t.Helper()
	l := must.Get(ledger.New(ledger.Options{}, 0))(w.t)
	var page source.Page
	must.OK(w.t, w.table.Read(context.Background(), source.Query{Limit: 1 << 20}, &page))
	ids := other
	for _, row := range page.Rows {
		ids = append(ids, row.ID)
	}
	slices.Sort(ids)
	var flying []uint64
	if flight > 0 {
		flying = []uint64{flight}
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	l.Advance(position, ids, now)
	now = now.Add(25 * time.Hour)
	for range 1000 {
		l.Observe(ledger.Evidence{Ranges: l.Hot(now).IDs, IDs: flying, Now: now})
		ranges := l.Sweep(now)
		if len(ranges) == 0 {
			break
		}
		l.Swept(ledger.Evidence{Ranges: ranges, IDs: flying, Now: now})
	}
	if s := l.Stats(now); s.Cold > 0 || s.Hot != uint64(len(flying)) {
		w.t.Fatalf("%+v", s)
	}
	w.ledger, w.aged = l, now
	w.saveLedger(l.Changed())
}

// TestRowsThatShareAnID: of the rows of one id each is compared with its own entity, also by a run
// that was cut short among them.
func TestRowsThatShareAnID(t *testing.T) {
	for _, c := range []struct{ script, want string }{
		{"", "scanned=30"},
		{"gone a5; delete 5", "scanned=29 deleted=1 gone=1"},
		{"update 8 a8 2", "scanned=30 modified=1"},
		{"gone a 10-12; delete 10-12", "scanned=27 deleted=3 gone=3"},
		{"gone a5; delete 5; put 5 new 1 0; update 6 a6 2", "scanned=30 added=1 modified=1 deleted=1 gone=1"},
		{"gone a4; update 4 b4 1", "scanned=30 added=1 deleted=1 gone=1"},
		{"delete 4 5; put 4 a5 1 0; put 5 a4 1 0", "scanned=30"},
		{"gone a7; update 7 a7 1 1", "scanned=30 deleted=1"},
		{"gone a 28-30; delete 28-30; replace a1 2 0; tail 100", "scanned=27 deleted=3 gone=3"},
	} {
		world := func(rows int) *world {
			w := newWorld(t, event.Capability)
			w.reads = memory.Sharing(w.table)
			w.options.Source = w.reads
			w.options.PageRows = rows
			w.fill("a", 30)
			w.play(c.script)
			return w
		}
		for _, rows := range []int{1, 2, 7, 100} {
			w := world(rows)
			if got := summary(w.run(reconcile.Mode{DryRun: true})); got != c.want+" unverified" {
				t.Errorf("%s, %d rows at a time: a dry run reports %q", c.script, rows, got)
			}
			if got := summary(w.run(reconcile.Mode{})); got != c.want {
				t.Errorf("%s, %d rows at a time: it reports %q", c.script, rows, got)
			}
			w.compare()
		}
		for save := 2; save < 12; save++ {
			w := world(2)
			w.play(fmt.Sprintf("cut %d; run", save))
			w.compare()
		}
	}
}
