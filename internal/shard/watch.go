package shard

import "bridge/source"

// watch holds changes in flight: rows whose MODIFIED was read at READ UNCOMMITTED and is not
// committed. It is bounded; of what there is no room for it keeps the oldest MODIFIED, from which
// on everything is to be read until there is room.
//
// All rows of one statement have the same MODIFIED, and all of a transaction are committed at the
// same moment. So it is enough to look at one row of each moment at a poll: when that is no longer
// in flight, the others of its moment are looked at, too.
type watch struct {
	// most bounds the rows.
	most    int
	rows    map[uint64]*moment
	moments map[string]*moment
	// low is the oldest MODIFIED that there was no room for, next the same since begin; empty for
	// none.
	low, next string
}

// moment is the rows in flight with the same MODIFIED.
type moment struct {
	modified string
	ids      map[uint64]struct{}
}

func newWatch(most int) *watch {
	return &watch{most: most, rows: make(map[uint64]*moment), moments: make(map[string]*moment)}
}

// add watches a row, in place of what was known of it.
func (w *watch) add(at source.Cursor) {
	if known := w.rows[at.ID]; known != nil {
		if known.modified == at.Modified {
			return
		}
		w.remove(at.ID)
	}
	if w.full() {
		w.low, w.next = older(w.low, at.Modified), older(w.next, at.Modified)
		return
	}
	m := w.moments[at.Modified]
	if m == nil {
		m = &moment{modified: at.Modified, ids: make(map[uint64]struct{})}
		w.moments[at.Modified] = m
	}
	m.ids[at.ID] = struct{}{}
	w.rows[at.ID] = m
}

// full reports whether there is no room for another row.
func (w *watch) full() bool { return len(w.rows) >= w.most }

func older(a, b string) string {
	if a == "" || b < a {
		return b
	}
	return a
}

// begin notes that everything from low on is read from now on, end that it was: then there is room
// for all but next.
func (w *watch) begin() { w.next = "" }

func (w *watch) end() { w.low = w.next }

// remove ends the watch of a row.
func (w *watch) remove(id uint64) {
	m := w.rows[id]
	if m == nil {
		return
	}
	delete(w.rows, id)
	delete(m.ids, id)
	if len(m.ids) == 0 {
		delete(w.moments, m.modified)
	}
}

// sample returns one row of each moment, others where there is room, at most n: others at each call
// where there are more.
func (w *watch) sample(n int) (list []source.Cursor) {
	if len(w.rows) <= n {
		for id, m := range w.rows {
			list = append(list, source.Cursor{Modified: m.modified, ID: id})
		}
		return list
	}
	// Maps are walked from an entry that differs each time.
	for _, m := range w.moments {
		for id := range m.ids {
			list = append(list, source.Cursor{Modified: m.modified, ID: id})
			break
		}
		if len(list) >= n {
			return list
		}
	}
	taken := make(map[uint64]bool, len(list))
	for _, at := range list {
		taken[at.ID] = true
	}
	for id, m := range w.rows {
		if len(list) >= n {
			break
		}
		if !taken[id] {
			list = append(list, source.Cursor{Modified: m.modified, ID: id})
		}
	}
	return list
}

// beside returns the rows that are watched with the MODIFIED of one of these, at most n.
func (w *watch) beside(moments map[string]bool, n int) (list []source.Cursor) {
	for modified := range moments {
		m := w.moments[modified]
		if m == nil {
			continue
		}
		for id := range m.ids {
			if len(list) >= n {
				return list
			}
			list = append(list, source.Cursor{Modified: modified, ID: id})
		}
	}
	return list
}
