package workload_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"bridge/tests/workload"
)

func TestARunGoesOnAfterItsRowsAreForgotten(t *testing.T) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "app.db")+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	w := newWorkload(t, workload.Options{DB: db, Dialect: workload.SQLite, Writers: 2, Rate: 2000, Mix: workload.Mix{MultiRow: 0.5, Replace: 0.3}})
	var all []*workload.Row
	for run := 1; run <= 2; run++ {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		until(t, func() bool { return w.Record().Sums().Commits >= run*300 })
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		all = append(all, w.Forget()...)
		if n := len(w.Record().Rows()); n > 0 {
			t.Errorf("run %d: %d rows are left", run, n)
		}
	}
	there := make(map[string]uint64)
	read(t, db, "orders", there)
	tokens, replaced := make(map[string]bool), 0
	for _, row := range all {
		if tokens[row.Token] {
			t.Errorf("two rows have the token %s", row.Token)
		}
		tokens[row.Token] = true
		if row.Version > 1 {
			replaced++
		}
		if _, ok := there[row.Token]; ok != (row.Fate == workload.Committed && row.GoneFrom.IsZero()) {
			t.Errorf("in the table: %v, the record says %+v", ok, *row)
		}
	}
	if replaced == 0 || len(there) == 0 {
		t.Errorf("%d rows, %d were replaced", len(there), replaced)
	}
}
