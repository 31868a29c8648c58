package verify

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"bridge/source"
)

// twin is a row whose key another table of the scope had, too, when it was seen.
type twin struct {
	suspect suspect
	verdict verdict
	row     uint64
	now     time.Time
	moved   bool
	// key has the values of its key columns.
	key [][]byte
	// other has the key in row otherRow, nil if no table has. fits says that a row of another table
	// is what the last event says.
	other    *table
	otherRow uint64
	fits     bool
}

func (t *table) twinOf(s suspect, v *verdict, row source.Row, now time.Time, moved bool) twin {
	key := make([][]byte, 0, len(t.shard.columns.Key))
	for _, c := range t.shard.columns.Key {
		key = append(key, bytes.Clone(row.Values[c]))
	}
	return twin{suspect: s, verdict: *v, row: row.ID, now: now, moved: moved, key: key}
}

// finishTwins looks the keys up in the other tables and reports what is the case now.
func (t *table) finishTwins(ctx context.Context) error {
	list := t.twins
	t.twins = nil
	if len(list) == 0 {
		return nil
	}
	for _, other := range t.shard.scope.tables {
		if other == t {
			continue
		}
		if err := other.findTwins(ctx, list); err != nil {
			return err
		}
	}
	for i := range list {
		t.finishTwin(&list[i])
	}
	return nil
}

// findTwins finds the rows of the table that have the keys of twins.
func (t *table) findTwins(ctx context.Context, list []twin) error {
	keys, index := make([][][]byte, len(list)), make(map[uint32]int, len(list))
	for i := range list {
		keys[i], index[list[i].verdict.entity] = list[i].key, i
	}
	if err := t.read(ctx, source.Query{Keys: keys, Limit: pageRows, MaxBytes: pageBytes}); err != nil {
		return err
	}
	page := &t.run.page
	if half := len(list) / 2; page.More && half > 0 {
		// It proves nothing about the rows that it lacks.
		if err := t.findTwins(ctx, list[:half]); err != nil {
			return err
		}
		return t.findTwins(ctx, list[half:])
	}
	for _, row := range page.Rows {
		v := t.shard.compareRow(row, page.Now)
		if i, ok := index[v.entity]; ok && v.entity != none {
			list[i].other, list[i].otherRow = t, row.ID
			list[i].fits = list[i].fits || v.fault == ""
		}
	}
	return nil
}

// finishTwin reports a row: alone, or with that of another table, once for both.
func (t *table) finishTwin(w *twin) {
	n := t.shard.at(w.verdict.entity)
	if w.other == nil {
		n.flags &^= double
		n.seenBy, w.verdict.double = t.shard.number, false
		if !t.accept(&w.verdict, w.row) {
			t.conclude(w.suspect, &w.verdict, w.row, w.now, w.moved)
		}
		return
	}
	if n.flags&reported != 0 {
		return
	}
	n.flags |= reported
	e := t.example(&w.verdict, w.row)
	e.What = fmt.Sprintf("the table %s has its key, too, in row %d", w.other.shard.Name, w.otherRow)
	t.shard.tally.doubt(TwoRows, e)
	if w.verdict.fault != "" && !w.fits {
		w.verdict.what += "; no table with its key has what the last event says"
		t.conclude(w.suspect, &w.verdict, w.row, w.now, w.moved)
	}
}
