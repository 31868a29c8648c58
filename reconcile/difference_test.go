package reconcile_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/reconcile"
	"example.org/bridge/source"
)

func (w *world) play(steps string) {
	w.t.Helper()
	w.Play(steps, w.do)
}

func (w *world) do(name string, words []string) bool {
	w.t.Helper()
	switch name {
	case "insert": // NAME VALUE DELETED
		w.table.Insert(words...)
	case "put": // ID NAME VALUE DELETED
		w.table.InsertAt(w.Number(words[0]), words[1:]...)
	case "replace": // NAME VALUE DELETED
		w.table.Replace(words...)
	case "replace-all": // PREFIX FIRST-LAST
		for _, id := range w.Numbers(words[1:]) {
			w.table.Replace(fmt.Sprint(words[0], id), "1", "0")
		}
	case "update": // ID NAME VALUE DELETED
		w.table.Update(w.Number(words[0]), words[1:]...)
	case "delete": // ID or FIRST-LAST
		for _, id := range w.Numbers(words) {
			w.table.Delete(id)
		}
	case "gone": // NAME or PREFIX FIRST-LAST: these may be deleted on the bus
		if len(words) == 1 {
			w.touch(words[0])
		}
		for _, id := range w.Numbers(words[1:]) {
			w.touch(fmt.Sprint(words[0], id))
		}
	case "disputed", "recorded":
		w.edit(words[0], func(e *store.Entry) {
			if e.Disputed = name == "disputed"; !e.Disputed {
				e.State = store.Recorded
			}
		})
	case "at": // NAME TP
		w.edit(words[0], func(e *store.Entry) { e.At = store.At{TP: uint32(w.Number(words[1])), Offset: 7} })
	case "late": // TP
		w.late = uint32(w.Number(words[0]))
	case "position":
		w.mu.Lock()
		w.position = w.Number(words[0])
		w.mu.Unlock()
	case "tail": // at most so many rows
		w.tail(int(w.Number(words[0])))
	case "dry":
		w.run(reconcile.Mode{DryRun: true})
	case "run":
		w.run(reconcile.Mode{})
	case "want", "want-allowed": // what a run reports, see summary
		w.Want(summary(w.run(reconcile.Mode{AllowDeletes: name != "want"})), strings.Join(words, " "))
	case "cut": // SAVE: a run is cut short by this save
		whole, saves := w.options.Committer, 0
		w.options.Committer = cut{w.store, &saves, int(w.Number(words[0])), false}
		if report, err := reconcile.New(w.options).Run(w.t.Context(), reconcile.Mode{AllowDeletes: len(words) > 1}); err == nil {
			w.t.Errorf("%s: not cut: %+v", w.Step, report)
		}
		w.options.Committer = whole
	case "ago": // TIME: the run on record began so much earlier; later by a clock that was set back since
		last := w.recorded()
		last.Started = last.Started.Add(-w.Duration(words[0]))
		w.record(last)
	case "before": // READ STEP: the step is played before this read of the next runs
		w.atRead(int(w.Number(words[0])), func() { w.play(strings.Join(words[1:], " ")) })
	case "server": // NAME, or NAME replica
		w.table.Move(words[0], len(words) > 1)
	case "fill": // PREFIX N
		w.fill(words[0], int(w.Number(words[1])))
	case "page": // BYTES
		w.options.PageBytes = int(w.Number(words[0]))
	case "compare":
		w.compare()
	case "late-row": // is published, and goes
		id := w.table.Insert("late", "1", "0")
		w.tail(100)
		w.table.Delete(id)
	case "missing-once":
		w.table.Fail(1, fmt.Errorf("away: %w", source.ErrMissing))
	case "away": // TIMES
		w.table.Fail(int(w.Number(words[0])), errors.New("away"))
	case "other": // PREFIX FIRST-LAST: another table of the stream has these, or is away, missing, back or a replica
		if w.other == nil {
			w.other, w.options.RetryLimit, w.options.ReadKeys = &otherTable{world: newWorld(w.t, event.Capability)}, 5*time.Minute, w.readOther
		}
		w.other.is = words[0]
		for _, id := range w.Numbers(words[1:]) {
			w.other.table.Insert(fmt.Sprint(words[0], id), "1", "0")
		}
	case "within": // TIME, since the beginning
		w.Want(time.Since(w.began) <= w.Duration(words[0]), true)
	case "guarded":
		w.Want(w.recorded().Guard != "", true)
	case "truncate":
		w.table.Truncate()
	case "nominate":
		id := w.Number(words[0])
		if _, err := w.Nominate(w.t.Context(), reconcile.Nomination{Rows: []source.Range{{First: id, Last: id}}}); err != nil {
			w.t.Error(err)
		}
	case "demand":
		w.mu.Lock()
		w.demand = w.Number(words[0])
		w.mu.Unlock()
		w.part(store.Reconcile, store.AnsweringRun, "")
	case "answered": // the demands that were, in all
		w.Want(w.answered, words)
	default:
		return false
	}
	return true
}

func summary(r reconcile.Report) string {
	var words []string
	for _, c := range []struct {
		name string
		n    uint64
	}{{"scanned", r.Rows}, {"added", r.Added}, {"modified", r.Modified}, {"deleted", r.Deleted}, {"missed", r.Missed}, {"gone", r.Absent}} {
		if c.n > 0 {
			words = append(words, fmt.Sprint(c.name, "=", c.n))
		}
	}
	for _, c := range []struct {
		name string
		is   bool
	}{{"guard", r.Guard != ""}, {"unjudged", r.Unjudged != ""}, {"resumed", r.Resumed}, {"unverified", r.VerifiedThrough.IsZero()}} {
		if c.is {
			words = append(words, c.name)
		}
	}
	return strings.Join(words, " ")
}

func (w *world) edit(name string, change func(*store.Entry)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.known([]byte(name))
	change(&e)
	w.enter([]byte(name), e)
}

// TestRunPublishesTheDifference of a table of 30 rows, a1 to a30, that were published. Where rows
// must match a condition, those with the value 9 do not: b1 and b2, in the rows 31 and 32, too.
func TestRunPublishesTheDifference(t *testing.T) {
	for _, c := range []struct {
		name, filter, script string
		want                 reconcile.Verdict
	}{
		{"nothing differs", "", "", reconcile.Verdict{}},
		{"a row was updated in place", "", "update 5 a5 2", reconcile.Verdict{Modified: 1}},
		{"a row was soft-deleted", "", "gone a5; update 5 a5 1 1", reconcile.Verdict{Deleted: 1}},
		{"a row is gone", "", "gone a5; delete 5", reconcile.Verdict{Deleted: 1}},
		{"the last row is gone", "", "gone a30; delete 30", reconcile.Verdict{Deleted: 1}},
		{"a row was replaced by the same", "", "replace a5 1 0", reconcile.Verdict{}},
		{"a row was moved to a lower id", "", "delete 30 5; put 5 a30 3 0; gone a5", reconcile.Verdict{Modified: 1, Deleted: 1}},
		{"two rows changed their ids", "", "update 5 a30; update 30 a5", reconcile.Verdict{}},
		{"a key changed its case", "", "gone a5; update 5 A5", reconcile.Verdict{Added: 1, Deleted: 1}},
		{"a row came under an old id", "", "gone a5; delete 5; run; put 5 b 1 0", reconcile.Verdict{Added: 1}},
		// Where the bus may say something else (rules 6, 21), and what is only recorded (rule 16).
		{"a disputed entity", "", "disputed a5", reconcile.Verdict{Modified: 1}},
		{"a disputed tombstone", "", "gone a5; update 5 a5 1 1; run; disputed a5", reconcile.Verdict{Deleted: 1}},
		{"an entity of a registration that is not in force", "", "at a4 3; at a5 1; late 1", reconcile.Verdict{Modified: 1}},
		{"a recorded entity that has not changed", "", "recorded a5", reconcile.Verdict{}},
		{"a recorded entity that has changed", "", "recorded a5; update 5 a5 2", reconcile.Verdict{Modified: 1}},
		{"a recorded entity that is gone", "", "recorded a5; gone a5; delete 5", reconcile.Verdict{Deleted: 1}},
		{"a row matched", "value <> '9'", "update 5 a5 9", reconcile.Verdict{Deleted: 1}},
		{"a row matches now", "value <> '9'", "update 31 b1 1", reconcile.Verdict{Added: 1}},
		{"a row changes and does not match", "value <> '9'", "update 31 b1 9 1", reconcile.Verdict{}},
		{"more rows than may be gone do not match", "value <> '9'", "update 1 a1 9" + updates(2, 29), reconcile.Verdict{Deleted: 29}},
		{"an entity that does not match was in another row, that is gone", "value <> '9'", "gone a2; delete 2 4; put 2 a4 9 0", reconcile.Verdict{Deleted: 2}},
		{"an entity that does not match was in a row that is another's", "value <> '9'", "delete 31; update 4 c4 1; put 31 a4 9 0",
			reconcile.Verdict{Added: 1, Deleted: 1}},
		{"a row that does not match comes back", "value <> '9'", "gone a7; delete 7; run; put 7 a7 9 0", reconcile.Verdict{}},
	} {
		t.Run(c.name, inBubble(func(t *testing.T) {
			w := newFilteredWorld(t, event.Capability, c.filter)
			if w.fill("a", 30); c.filter != "" {
				w.play("insert b1 9 0; insert b2 9 1; tail 2")
			}
			w.play(c.script)
			before := len(w.bus)
			if dry := w.run(reconcile.Mode{DryRun: true}); dry.Verdict != c.want || before != len(w.bus) {
				t.Errorf("a dry run found %+v, want %+v", dry.Verdict, c.want)
			}
			if report := w.run(reconcile.Mode{}); report.Verdict != c.want || report.Guard != "" {
				t.Errorf("published %+v, want %+v", report, c.want)
			}
			if again := w.run(reconcile.Mode{}); again.Verdict != (reconcile.Verdict{}) {
				t.Errorf("the next run published %+v", again.Verdict)
			}
			w.tail(100)
			w.compare()
		}))
	}
}

// updates has the rows from first to last no longer match.
func updates(first, last int) (script string) {
	for id := first; id <= last; id++ {
		script += fmt.Sprintf("; update %d a%d 9", id, id)
	}
	return script
}

func TestRunJudges(t *testing.T) {
	for name, script := range map[string]string{
		"all of a source that is away for a while": "fill a 30; update 5 a5 2; away 2; want scanned=30 modified=1",
		"no row above the position":                "fill a 10; insert b 1 0; want scanned=10 unverified",
		"no absence on a server that does not take the writes": `
			fill a 10; delete 4; update 6 a6 7; server replica replica; want-allowed scanned=9 modified=1 unjudged unverified`,
		"no absence when another server answers in the middle of it": `
			fill a 30; delete 4 29; before 3 server other; want scanned=28 unjudged unverified`,
		"no entity gone whose row did not fit into the page": `
			page 1; fill a 30; gone a3; delete 3; replace-all a 10-30; want scanned=8 deleted=1 gone=1 unverified`,
		"no entity gone whose row was replaced": `
			fill a 1500; replace-all a 1-500; want scanned=1000 unverified; tail 10000; compare`,
		"no entity gone whose row was replaced, of which the view does not know yet": `
			fill a 1500; replace-all a 1-500; position 10000; want scanned=1500; compare`,
		"two entities of one row, after its key was changed in place, as the second cursor would": `
			fill a 30; gone a7; update 7 z7; nominate 7; want scanned=30 deleted=1 gone=1; compare`,
		"what was published meanwhile in the next run": `
			fill a 10; gone late; before 2 late-row; want scanned=10; want scanned=10 deleted=1 gone=1; compare`,
		"again that another server answered, once it is resumed": `
			fill a 60; delete 50; before 3 server other; cut 6; server memory; want scanned=59 unjudged resumed unverified`,
		"deletes that a person has allowed, once it is resumed": `
			fill a 60; gone a 3-60; delete 3-60; cut 3 allowed; want scanned=2 deleted=58 gone=58 resumed`,
		"no deletes that a person has allowed long ago": `
			fill a 60; gone a 3-60; delete 3-60; cut 3 allowed; ago 2h; want scanned=2 gone=58 guard resumed unverified`,
		"no deletes that a person has allowed by a clock that was set back since": `
			fill a 60; gone a 3-60; delete 3-60; cut 3 allowed; ago -2h; want scanned=2 gone=58 guard resumed unverified`,
		"no deletes that a person has allowed of another server": `
			fill a 60; gone a 3-60; delete 3-60; cut 3 allowed; server other; want scanned=2 gone=58 guard unverified`,
		"no entity gone that has a row in another table of the stream": `
			fill a 30; gone a4; delete 1-20; other a 1-3 5-20; want scanned=10 deleted=1 gone=1`,
		"no guard for entities with a row in another table, though enough are gone before them": `
			fill a 3000; gone a 41-190; delete 41-3000; other a 191-3000; want scanned=40 deleted=150 gone=150`,
		"no absence where another table was read from a server that does not take the writes": `
			fill a 30; other replica; delete 4; want scanned=29 unjudged unverified`,
		"all but absence while another table does not answer, and no demand": `
			fill a 30; delete 4 20; update 29 a29 2; demand 3; other away; want scanned=28 modified=1 unjudged unverified; within 1m; answered`,
		"all but absence while another table is missing, and no demand": `
			fill a 30; delete 4 20; update 29 a29 2; demand 3; other missing; want scanned=28 modified=1 unjudged unverified; within 1m; answered`,
		"no demand by what it resumes where another table was away": `
			fill a 30; gone a4; delete 4; demand 3; other away; cut 4; other back; want scanned=29 unjudged resumed unverified; answered;
			want scanned=29 deleted=1 gone=1; answered 3`,
		"that the guard tripped, over a run that is cut short": `
			fill a 60; truncate; want gone=60 guard unverified; cut 2; guarded`,
		"again what was compared before a demand, but not the agreement to deletes": `
			fill a 30; gone a 1-20; delete 1-20; cut 3 allowed; demand 7; want scanned=10 deleted=20 gone=20; answered 7; compare`,
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
	w.tail(20)
	now = now.Add(-time.Hour)
	if report := w.run(reconcile.Mode{}); !report.VerifiedThrough.Equal(now.Add(-time.Millisecond)) {
		t.Errorf("verified through %v behind a clock that was set back to %v", report.VerifiedThrough, now)
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
// another table, whose rows it has not read, for a year less a day, and "oldest" for more. The
// database's clock has jumped by two days.
func TestARunForgetsWhatIsGoneForLong(t *testing.T) {
	w := newWorld(t, event.Capability)
	w.table.Clock = func() time.Time { return time.Now().Add(48 * time.Hour) }
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
