package reconcile_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/stream"
	"example.org/bridge/reconcile"
)

func TestRunJudges(t *testing.T) {
	for name, script := range map[string]string{
		"no row above the position": "fill a 10; insert b 1 0; want scanned=10 unverified",
		"no absence on a server that does not take the writes": `
			fill a 10; delete 4; update 6 a6 7; server replica replica; want-allowed scanned=9 modified=1 unjudged unverified`,
		"no absence when another server answers in the middle of it": `
			fill a 30; delete 4 29; before 3 server other; want scanned=28 unjudged unverified`,
		"no entity gone whose row did not fit into the page": `
			page 1; fill a 30; gone a3; delete 3; replace-all a 10-30; want scanned=8 deleted=1 gone=1 unverified`,
		"two entities of one row, after its key was changed in place, as the second cursor would": `
			fill a 30; gone a7; update 7 z7; nominate 7; want scanned=30 deleted=1 gone=1; compare`,
		"what was published meanwhile in the next run": `
			fill a 10; gone late; before 2 late-row; want scanned=10; want scanned=10 deleted=1 gone=1; compare`,
		"again that another server answered, once it is resumed": `
			fill a 60; delete 50; before 3 server other; cut 6; server memory; want scanned=59 unjudged resumed unverified`,
		"deletes that a person has allowed, once it is resumed": `
			fill a 60; gone a 3-60; delete 3-60; cut 3 allowed; want scanned=2 deleted=58 gone=58 resumed`,
		// A demand is answered once the whole table is compared, by a run that began after it.
		"a demand":                        "fill a 30; run; answered; demand 4; dry; answered; run; answered 4",
		"no demand that came later":       "fill a 30; before 3 demand 5; run; answered",
		"a demand though the guard trips": "fill a 30; truncate; demand 1; want gone=30 guard unverified; answered 1",
	} {
		t.Run(name, inBubble(func(t *testing.T) { newWorld(t, event.Capability).play(script) }))
	}
	t.Run("a young row not before it is old, unless its CREATED lies ahead of the database's clock", func(t *testing.T) {
		w := newWorld(t, event.Capability)
		now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
		w.table.Clock = func() time.Time { return now }
		w.options.Window = 5 * time.Second
		w.play("fill a 10; gone a4; gone a5; delete 4 5")
		w.table.InsertAt(4, "b", "1", "0", now.Add(-5*time.Second).Format(time.DateTime))
		w.table.InsertAt(5, "c", "1", "0", now.Add(time.Hour).Format(time.DateTime))
		w.play("want scanned=10 added=1 deleted=2 gone=2")
		now = now.Add(2 * time.Second)
		w.play("want scanned=10 added=1")
	})
	t.Run("no entity gone that has a row in another table of the stream", func(t *testing.T) {
		w, other := newWorld(t, event.Capability), newWorld(t, event.Capability)
		w.play("fill a 30; gone a4; gone a5; delete 1-20")
		for id := uint64(1); id <= 20; id++ {
			if id != 4 {
				other.table.Insert(fmt.Sprintf("a%d", id), "1", "0")
			}
		}
		w.options.ReadKeys = other.readKeys
		w.play("want scanned=10 deleted=1 gone=1")
	})
	t.Run("no absence where another table was read from a server that does not take the writes", func(t *testing.T) {
		w, other := newWorld(t, event.Capability), newWorld(t, event.Capability)
		w.options.ReadKeys = func(ctx context.Context, shard string, keys [][]byte) (stream.FoundRows, error) {
			reading, err := other.readKeys(ctx, shard, keys)
			reading.Unproved = true
			return reading, err
		}
		w.play("fill a 30; delete 4; want scanned=29 unjudged unverified")
	})
	t.Run("soft-deleted entities whose rows go leave in silence", func(t *testing.T) {
		w := newWorld(t, event.Capability)
		w.play("gone a 0-299")
		for i := range 300 {
			w.table.Insert(fmt.Sprintf("a%d", i), "1", "1")
		}
		w.play("fill b 10; tail 400; delete 1-300")
		before := len(w.bus)
		if w.play("want scanned=10"); len(w.bus) != before {
			t.Errorf("%d events", len(w.bus)-before)
		}
		left, err := w.options.View.ByRow(t.Context(), key.Shard, 0, 1000, nil)
		if err != nil || len(left) != 10 {
			t.Errorf("%d entities are left in the view: %v", len(left), err)
		}
	})
}

func TestVerifiedThrough(t *testing.T) {
	synctest.Test(t, testVerifiedThrough)
}

func testVerifiedThrough(t *testing.T) {
	w := newWorld(t, event.Capability)
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	w.table.Clock = func() time.Time { return now }
	w.options.Window = time.Millisecond
	w.fill("a", 10)
	want := now.Add(-time.Millisecond)
	if report := w.run(reconcile.Mode{}); !report.VerifiedThrough.Equal(want) {
		t.Errorf("verified through %v, want %v", report.VerifiedThrough, want)
	}
	now = now.Add(time.Minute)
	w.table.Insert("b", "1", "0")
	if report := w.run(reconcile.Mode{}); !report.VerifiedThrough.Equal(want) {
		t.Errorf("verified through %v while the tail is behind", report.VerifiedThrough)
	}
}

// TestDryRunShowsDeletes: deletes are among the examples however many other differences come first.
func TestDryRunShowsDeletes(t *testing.T) {
	w := newWorld(t, event.Capability)
	rows := reconcile.MaxDifferences + 20
	w.fill("a", rows)
	for id := 1; id <= rows-3; id++ {
		w.table.Update(uint64(id), fmt.Sprintf("a%d", id), "2")
	}
	w.play(fmt.Sprintf("delete %d-%d", rows-2, rows))
	before := w.recorded()
	report := w.run(reconcile.Mode{DryRun: true})
	var got []string
	for _, d := range report.Differences {
		got = append(got, fmt.Sprintf("%s %s %d", d.What, d.Entity, d.Row))
	}
	n := len(got)
	if n != reconcile.MaxDifferences || got[0] != "modified a1 1" || !slices.Equal(got[n-4:], []string{"modified a97 97", "deleted a118 118", "deleted a119 119", "deleted a120 120"}) {
		t.Errorf("%d examples: %v of %+v", n, got, report.Verdict)
	}
	if after := w.recorded(); before != after {
		t.Errorf("a dry run was saved: %+v", after)
	}
}

// TestReleaseIsVerifiedOnlyWhereItsRowsAreTheSame: that no id is missing says nothing about the
// rows under them.
func TestReleaseIsVerifiedOnlyWhereItsRowsAreTheSame(t *testing.T) {
	w := newWorld(t, event.Release)
	w.fill("a", 10)
	first := w.run(reconcile.Mode{})
	if first.VerifiedThrough.IsZero() {
		t.Fatalf("nothing is verified: %+v", first)
	}
	w.reused = true
	report, err := reconcile.New(w.options).Run(t.Context(), reconcile.Mode{})
	if err == nil || report.VerifiedThrough.After(first.VerifiedThrough.Time) {
		t.Errorf("verified through %v, %v", report.VerifiedThrough, err)
	}
}

// TestARunForgetsWhatIsGoneForLong: the entity "old" for eight days, "new" for six, "other" of
// another table, whose rows it has not read, for a year less a day, and "oldest" for more.
func TestARunForgetsWhatIsGoneForLong(t *testing.T) {
	w := newWorld(t, event.Capability)
	w.fill("a", 10)
	for name, e := range map[string]struct {
		shard string
		days  time.Duration
	}{"old": {key.Shard, 8}, "new": {key.Shard, 6}, "other": {"other", 364}, "oldest": {"other", 366}} {
		w.enter([]byte(name), store.Entry{Shard: e.shard, Row: 1, State: store.Absent, Since: time.Now().Add(-e.days * 24 * time.Hour).UTC().Truncate(time.Second)})
	}
	want := func(left string) {
		t.Helper()
		var names []string
		for _, name := range []string{"old", "new", "other", "oldest"} {
			if w.known([]byte(name)).State == store.Absent {
				names = append(names, name)
			}
		}
		if got := strings.Join(names, " "); got != left {
			t.Errorf("%q are known, want %q", got, left)
		}
	}
	// What a run that was cut short has read the one that resumes it does not read.
	w.record(reconcile.Run{Started: time.Now(), Clock: time.Now(), After: 5, Bound: 10})
	w.run(reconcile.Mode{})
	want("old new other")
	w.run(reconcile.Mode{})
	want("new other")
}
