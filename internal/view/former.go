package view

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"bridge/checkpoint/store"
)

// Formers appends to dst the entities that rows of a shard had when they were published last, and
// have no more: their keys were updated. Look each up before anything is concluded. The rows
// ascend.
func (v *View) Formers(ctx context.Context, shard string, rows []Row, dst [][]byte) ([][]byte, error) {
	// Claims first: one that ends meanwhile is in the store by then.
	dst = v.claimedFormers(shard, rows, dst)
	var list []store.Change
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && n < formersAtOnce && rows[n].ID == rows[n-1].ID+1 {
			n++
		}
		var err error
		if list, err = v.ByRow(ctx, shard, rows[0].ID-1, n, list[:0]); err != nil || len(list) == 0 {
			return dst, err
		}
		for _, known := range list {
			if row := rowWith(rows, known.Entry.Row); row != nil && !bytes.Equal(row.Entity, known.Entity) {
				dst = append(dst, known.Entity)
			}
		}
		through := list[len(list)-1].Entry.Row
		next, found := slices.BinarySearchFunc(rows, through, compareID)
		if found {
			next++
		}
		rows = rows[next:]
	}
	return dst, nil
}

// formersAtOnce bounds the entries of one read.
const formersAtOnce = 256

// claimedFormers appends to dst those entities that the claims of the shard's batches give to rows.
func (v *View) claimedFormers(shard string, rows []Row, dst [][]byte) [][]byte {
	v.lock()
	defer v.mu.Unlock()
	for _, c := range v.begun[shard] {
		for i := range c.items.n {
			one := c.items.at(i)
			row := rowWith(rows, one.entry.Row)
			if row == nil || one.entry.State == store.Absent {
				continue
			}
			if entity := v.scope.entity([]byte(one.record.name)); !bytes.Equal(row.Entity, entity) {
				dst = append(dst, entity)
			}
		}
	}
	return dst
}

// rowWith returns the row with an id, nil for none.
func rowWith(rows []Row, id uint64) *Row {
	if i, found := slices.BinarySearchFunc(rows, id, compareID); found {
		return &rows[i]
	}
	return nil
}

func compareID(row Row, id uint64) int { return cmp.Compare(row.ID, id) }
