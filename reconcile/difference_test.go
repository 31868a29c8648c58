package reconcile_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/reconcile"
	"example.org/bridge/source"
)

// play plays a script on the table: steps between semicolons, of a name and its words.
func (w *world) play(script string) {
	w.t.Helper()
	for step := range strings.SplitSeq(script, ";") {
		words := strings.Fields(step)
		if len(words) == 0 {
			continue
		}
		name, words := words[0], words[1:]
		switch name {
		case "insert": // NAME VALUE DELETED
			w.table.Insert(words...)
		case "put": // ID NAME VALUE DELETED
			w.table.InsertAt(w.id(words[0]), words[1:]...)
		case "replace": // NAME VALUE DELETED
			w.table.Replace(words...)
		case "replace-all": // PREFIX FIRST-LAST
			first, last, _ := strings.Cut(words[1], "-")
			for id := w.id(first); id <= w.id(last); id++ {
				w.table.Replace(fmt.Sprint(words[0], id), "1", "0")
			}
		case "update": // ID NAME VALUE DELETED
			w.table.Update(w.id(words[0]), words[1:]...)
		case "delete": // ID or FIRST-LAST
			for _, ids := range words {
				first, last, ok := strings.Cut(ids, "-")
				if !ok {
					last = first
				}
				for id := w.id(first); id <= w.id(last); id++ {
					w.table.Delete(id)
				}
			}
		case "gone": // NAME or PREFIX FIRST-LAST: these may be deleted on the bus
			if len(words) == 1 {
				w.touch(words[0])
				break
			}
			first, last, _ := strings.Cut(words[1], "-")
			for id := w.id(first); id <= w.id(last); id++ {
				w.touch(fmt.Sprint(words[0], id))
			}
		case "disputed", "recorded":
			w.edit(words[0], func(e *store.Entry) {
				if e.Disputed = name == "disputed"; !e.Disputed {
					e.State = store.Recorded
				}
			})
		case "at": // NAME TP
			w.edit(words[0], func(e *store.Entry) { e.At = store.At{TP: uint32(w.id(words[1])), Offset: 7} })
		case "late": // TP
			w.late = uint32(w.id(words[0]))
		case "tail": // at most so many rows
			w.tail(int(w.id(words[0])))
		case "dry":
			w.run(reconcile.Mode{DryRun: true})
		case "run":
			w.run(reconcile.Mode{})
		case "want", "want-allowed": // what a run reports, see summary
			if got, want := summary(w.run(reconcile.Mode{AllowDeletes: name != "want"})), strings.Join(words, " "); got != want {
				w.t.Errorf("%s: it reports %q", step, got)
			}
		case "cut": // SAVE: a run is cut short by this save
			whole, saves := w.options.Committer, 0
			w.options.Committer = cut{w.store, &saves, int(w.id(words[0])), false}
			if report, err := reconcile.New(w.options).Run(w.t.Context(), reconcile.Mode{AllowDeletes: len(words) > 1}); err == nil {
				w.t.Errorf("%s: not cut: %+v", step, report)
			}
			w.options.Committer = whole
		case "before": // READ STEP: the step is played before this read of the next runs
			w.atRead(int(w.id(words[0])), func() { w.play(strings.Join(words[1:], " ")) })
		case "server": // NAME, or NAME replica
			w.table.Move(words[0], len(words) > 1)
		case "fill": // PREFIX N
			w.fill(words[0], int(w.id(words[1])))
		case "page": // BYTES
			w.options.PageBytes = int(w.id(words[0]))
		case "compare":
			w.compare()
		case "late-row": // is published, and goes
			id := w.table.Insert("late", "1", "0")
			w.tail(100)
			w.table.Delete(id)
		case "truncate":
			w.table.Truncate()
		case "nominate":
			id := w.id(words[0])
			if _, err := w.Nominate(w.t.Context(), reconcile.Nomination{Rows: []source.Range{{First: id, Last: id}}}); err != nil {
				w.t.Error(err)
			}
		case "demand":
			w.mu.Lock()
			w.demand = w.id(words[0])
			w.mu.Unlock()
		case "answered": // the demands that were, in all
			if got := strings.Trim(fmt.Sprint(w.answered), "[]"); got != strings.Join(words, " ") {
				w.t.Errorf("the demands %s were answered, want %v", got, words)
			}
		default:
			w.t.Fatalf("unknown step %q", step)
		}
	}
}

// summary says in words what a run reports.
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

func (w *world) id(text string) uint64 {
	w.t.Helper()
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		w.t.Fatal(err)
	}
	return n
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
