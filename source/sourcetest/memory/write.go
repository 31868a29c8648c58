package memory

import (
	"bytes"
	"fmt"
	"slices"
	"sort"
	"strconv"

	"example.org/bridge/source"
)

// Null is the value to write for NULL.
const Null = "\x00NULL"

// Insert commits a row under the next id and returns that. values are those of the columns after
// the id, in their normal form; fewer than there are columns leave the others NULL.
func (t *Table) Insert(values ...string) uint64 {
	defer t.locked()()
	return t.insert(t.next, false, values)
}

// InsertAt commits a row under the given id. Fewer values than columns leave the others NULL.
func (t *Table) InsertAt(id uint64, values ...string) {
	defer t.locked()()
	t.insert(id, false, values)
}

// Update gives a row other values, in place. Fewer values than columns leave the others as they
// are. It panics when there is no such row.
func (t *Table) Update(id uint64, values ...string) {
	defer t.locked()()
	r := t.existing(id)
	// Rows that were read keep the former values.
	r.values = slices.Clone(r.values)
	put(r.values[1:], values)
}

func (t *Table) existing(id uint64) *row {
	at, found := t.find(id)
	if !found {
		panic(fmt.Sprintf("memory: no row %d", id))
	}
	return &t.rows[at]
}

// OpenUpdate gives a row other values in a transaction that CommitUpdate or RollbackUpdate ends.
// Nobody else may change the row meanwhile. It panics when there is no such row.
func (t *Table) OpenUpdate(id uint64, values ...string) {
	defer t.locked()()
	r := t.existing(id)
	r.pending = slices.Clone(r.values)
	put(r.pending[1:], values)
}

// CommitUpdate ends the transactions of OpenUpdate of rows at the same moment, RollbackUpdate takes
// their values back.
func (t *Table) CommitUpdate(ids ...uint64) { t.endUpdate(ids, true) }

// RollbackUpdate takes the values of OpenUpdate back.
func (t *Table) RollbackUpdate(ids ...uint64) { t.endUpdate(ids, false) }

func (t *Table) endUpdate(ids []uint64, commit bool) {
	defer t.locked()()
	for _, id := range ids {
		r := t.existing(id)
		if commit {
			r.values = r.pending
		}
		r.pending = nil
	}
}

// Replace commits a row under the next id, and deletes the one with the same key, as SQL's REPLACE
// does: case counts unless the table is Loose. It returns the new id.
func (t *Table) Replace(values ...string) uint64 {
	defer t.locked()()
	id := t.insert(t.next, false, values)
	key := textOf(t.Loose, t.keyOf(*t.existing(id)))
	t.rows = slices.DeleteFunc(t.rows, func(r row) bool { return r.id != id && textOf(t.Loose, t.keyOf(r)) == key })
	return id
}

// Delete removes a row; the next id stays.
func (t *Table) Delete(id uint64) {
	defer t.locked()()
	if at, found := t.find(id); found {
		t.rows = slices.Delete(t.rows, at, at+1)
	}
}

// Truncate removes all rows and hands out ids from 1 again.
func (t *Table) Truncate() {
	defer t.locked()()
	t.rows, t.next = nil, 1
}

// Lose removes all rows above last and hands out their ids again, as a server does that was behind
// when it took over. Open rows are lost, too.
func (t *Table) Lose(last uint64) {
	defer t.locked()()
	t.rows = slices.DeleteFunc(t.rows, func(r row) bool { return r.id > last })
	t.next = last + 1
}

// Skip takes the next n ids without inserting anything, as a rollback does.
func (t *Table) Skip(n uint64) {
	defer t.locked()()
	t.next += n
}

// Open inserts a row under the next id in a transaction that Commit ends, and returns the id.
func (t *Table) Open(values ...string) uint64 {
	defer t.locked()()
	return t.insert(t.next, true, values)
}

// Commit ends the transaction of an open row.
func (t *Table) Commit(id uint64) {
	defer t.locked()()
	t.existing(id).open = false
}

func (t *Table) insert(id uint64, open bool, values []string) uint64 {
	r := row{id: id, values: make([][]byte, len(t.list)), open: open}
	r.values[0] = strconv.AppendUint(nil, id, 10)
	put(r.values[1:], values)
	at, found := t.find(id)
	if found {
		panic(fmt.Sprintf("memory: duplicate id %d", id))
	}
	t.rows = slices.Insert(t.rows, at, r)
	t.next = max(t.next, id+1)
	return id
}

func (t *Table) find(id uint64) (at int, found bool) {
	at = sort.Search(len(t.rows), func(i int) bool { return t.rows[i].id >= id })
	return at, at < len(t.rows) && t.rows[at].id == id
}

func put(row [][]byte, values []string) {
	for i, v := range values {
		row[i] = []byte(v)
		if v == Null {
			row[i] = nil
		}
	}
}

func (t *Table) keyOf(r row) (tuple [][]byte) {
	for _, name := range t.spec.Key {
		tuple = append(tuple, r.values[t.column(name)])
	}
	if len(tuple) == 0 {
		return r.values[:1]
	}
	return tuple
}

// textOf returns a text that the tuples of one key have alike. NULL is like NULL alone.
func textOf(loose bool, tuple [][]byte) string {
	var text []byte
	for _, value := range tuple {
		if loose && value != nil {
			value = bytes.ToLower(value)
		}
		if value == nil {
			text = append(text, '-')
		}
		text = append(append(strconv.AppendInt(text, int64(len(value)), 10), ':'), value...)
	}
	return string(text)
}

// AddColumn adds a column that is NULL in every row, or alters the one of that name, whose values
// stay.
func (t *Table) AddColumn(column source.Column) {
	defer t.locked()()
	t.version++
	if at := t.column(column.Name); at >= 0 {
		t.list = slices.Clone(t.list)
		t.list[at] = column
		return
	}
	t.list = append(slices.Clone(t.list), column)
	for i, r := range t.rows {
		t.rows[i].values = append(slices.Clip(r.values), nil)
	}
}

// DropColumn removes a column, which must not be the id.
func (t *Table) DropColumn(name string) {
	defer t.locked()()
	at := t.column(name)
	t.list = slices.Delete(slices.Clone(t.list), at, at+1)
	for i, r := range t.rows {
		t.rows[i].values = slices.Delete(slices.Clone(r.values), at, at+1)
	}
	t.version++
}

func (t *Table) column(name string) int {
	return slices.IndexFunc(t.list, func(c source.Column) bool { return c.Name == name })
}
