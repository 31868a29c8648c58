package reconcile_test

import (
	"fmt"
	"testing"

	"example.org/bridge/event"
	"example.org/bridge/reconcile"
	"example.org/bridge/source/sourcetest/memory"
)

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
