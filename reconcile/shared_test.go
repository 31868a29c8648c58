package reconcile_test

import (
	"context"
	"fmt"
	"testing"

	"example.org/bridge/event"
	"example.org/bridge/reconcile"
	"example.org/bridge/source"
)

// shared is a table of which each three ids are one, as several ids with a format may be.
type shared struct {
	source.Shard
	columns map[*source.Columns]*source.Columns
}

const sharing = 3

// share has rows of the world share ids, with what reads them.
func (w *world) share() {
	w.reads = shared{w.table, make(map[*source.Columns]*source.Columns)}
	w.options.Source = w.reads
}

func (s shared) Read(ctx context.Context, q source.Query, p *source.Page) error {
	limit := q.Limit
	if q.Keys == nil {
		q.Limit, q.MaxBytes = 1<<30, 0
	}
	q.After = min(q.After, 1<<60) * sharing
	q.Through = min(q.Through, 1<<60) * sharing
	var ranges []source.Range
	for _, r := range q.Ranges {
		ranges = append(ranges, source.Range{First: r.First*sharing - sharing + 1, Last: r.Last * sharing})
	}
	if q.Ranges = ranges; ranges != nil {
		q.Ranges = source.JoinRanges(ranges, 0)
	}
	if err := s.Shard.Read(ctx, q, p); err != nil {
		return err
	}
	if s.columns[p.Columns] == nil {
		own := *p.Columns
		own.IDFormat = source.ULID
		s.columns[p.Columns] = &own
	}
	p.Columns, p.MaxID = s.columns[p.Columns], (p.MaxID+sharing-1)/sharing
	for i := range p.Rows {
		p.Rows[i].ID = (p.Rows[i].ID + sharing - 1) / sharing
	}
	for i := limit; q.Keys == nil && i < len(p.Rows); i++ {
		if p.Rows[i].ID != p.Rows[i-1].ID {
			p.Rows, p.More = p.Rows[:i], true
		}
	}
	return nil
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
			w.share()
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
