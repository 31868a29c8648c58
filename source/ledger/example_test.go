package ledger_test

import (
	"fmt"
	"time"

	"example.org/bridge/source/ledger"
)

// A transaction allocates id 7 and commits after id 8 was published. A reader of "id > 8" never
// sees its row; the ledger does.
func Example() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	window := ledger.NewWindow(time.Second)
	l, err := ledger.New(ledger.Options{}, 6)
	if err != nil {
		panic(err)
	}

	// The page after position 6 has ids 8 and 9. The row with id 9 was created just now, so the
	// window holds it back and only 8 is published.
	created := map[uint64]time.Time{8: now.Add(-time.Minute), 9: now}
	window.See(9, now)
	l.See(9, now)
	for _, id := range []uint64{8, 9} {
		fmt.Println("id", id, "stable", window.Stable(id, created[id], 0, ledger.Age{Now: now, Steady: now}))
	}
	l.Advance(8, []uint64{8}, now)
	fmt.Println("position", l.Position(), "missing", l.Gaps(0)[0].First)

	// At every poll the ledger asks for id 7. An uncommitted row with it shows that it is pending.
	probe := l.Hot(now)
	fmt.Println("read", probe.IDs)
	l.Observe(ledger.Evidence{Ranges: probe.IDs, IDs: []uint64{7}, Now: now})
	fmt.Println("pending", l.Stats(now).Pending)

	// An hour later the transaction commits, and the committed read finds the row.
	now = now.Add(time.Hour)
	fmt.Println("read", l.Hot(now).Rows, "late row", l.Fill(7, now))
	fmt.Println("gaps", len(l.Gaps(0)))
	// Output:
	// id 8 stable true
	// id 9 stable false
	// position 8 missing 7
	// read [{7 7}]
	// pending 1
	// read [{7 7}] late row true
	// gaps 0
}
