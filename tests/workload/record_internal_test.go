package workload

import "testing"

func newTransaction(removes []*Row, tokens ...string) *transaction {
	t := &transaction{removes: removes}
	for _, token := range tokens {
		t.rows = append(t.rows, &Row{Entity: "e-" + token, Token: token, Version: 1})
	}
	return t
}

func TestTheRecord(t *testing.T) {
	var r Record
	committed := newTransaction(nil, "a", "b")
	t.Run("shows a transaction as open until it ends", func(t *testing.T) {
		r.begin(committed)
		if rows := r.Rows(); len(rows) != 2 || rows[0].Fate != Open || rows[0].Begun.IsZero() {
			t.Errorf("%+v", rows)
		}
	})
	t.Run("has the times around a COMMIT", func(t *testing.T) {
		r.committing(committed)
		r.committed(committed)
		row := r.Rows()[1]
		if row.Fate != Committed || row.CommitBegun.Before(row.Begun) || row.CommitEnded.Before(row.CommitBegun) || row.Ambiguous {
			t.Errorf("%+v", row)
		}
	})
	t.Run("knows what was rolled back", func(t *testing.T) {
		lost := newTransaction(committed.rows[:1], "c")
		r.begin(lost)
		r.rolledBack(lost)
		rows := r.Rows()
		if rows[2].Fate != RolledBack || !rows[0].GoneFrom.IsZero() {
			t.Errorf("%+v", rows)
		}
	})
	t.Run("takes a row for gone from before the COMMIT that replaced it", func(t *testing.T) {
		replacing := newTransaction(committed.rows[:1], "d")
		r.begin(replacing)
		r.committing(replacing)
		if r.Rows()[0].GoneFrom.IsZero() {
			t.Error("not gone")
		}
		r.committed(replacing)
	})
	t.Run("tells a COMMIT without an answer by what is there afterwards", func(t *testing.T) {
		for there, want := range map[string]Fate{"e": Committed, "b": Unknown} {
			doubtful := newTransaction(committed.rows[1:], "e")
			r.begin(doubtful)
			r.committing(doubtful)
			r.ambiguous(doubtful, map[string]bool{there: true})
			rows := r.Rows()
			last := rows[len(rows)-1]
			if last.Fate != want || !last.Ambiguous || last.CommitEnded.IsZero() || rows[1].GoneFrom.IsZero() != (there == "b") {
				t.Errorf("%s is there: %+v, replaced %+v", there, last, rows[1])
			}
		}
	})
	if got, want := r.Sums(), (Sums{Commits: 2, Rollbacks: 1, Unknown: 2, Rows: 4}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
