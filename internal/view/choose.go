package view

import (
	"cmp"
	"time"

	"bridge/checkpoint/store"
)

// Found is a row that a table of the stream has of a key.
type Found struct {
	Shard  string
	Row    uint64
	Digest [16]byte
	// Deleted and Silent are those of a Row.
	Deleted, Silent bool
	// Modified is the row's MODIFIED; zero where it has none.
	Modified time.Time
}

// outcome is what follows from reading a key in all tables.
type outcome uint8

const (
	// nothing: the entity's last message says what is true.
	nothing outcome = iota
	// publish: the shard of the row that was chosen publishes.
	publish
	// absent: no table has the key, and that was published of none.
	absent
	// again: one more read is needed to prove that.
	again
)

// choose decides rule 29 for an entity with this entry, of which the tables have the rows found.
// row is the index of the row that has the entity, where there is one. proved says that what was
// not found is not there: all tables were read in one snapshot, or for the second time without a
// row.
//
// Of two rows of a key the one with the later MODIFIED has the entity; else one that is not
// deleted, one in the shard of the entry, and the one with the higher id: so nothing alternates.
func choose(e *store.Entry, found []Found, proved bool) (what outcome, row int) {
	if len(found) == 0 {
		switch {
		case e.State == store.Unknown || e.State == store.Absent && !e.Disputed:
			return nothing, -1
		case !proved:
			return again, -1
		}
		return absent, -1
	}
	for i := range found[1:] {
		if found[i+1].beats(&found[row], e.Shard) {
			row = i + 1
		}
	}
	f := &found[row]
	_, news, moves := verdict(e, f.Shard, &Row{ID: f.Row, Digest: f.Digest, Deleted: f.Deleted, Silent: f.Silent})
	if news || moves {
		return publish, row
	}
	return nothing, row
}

// beats reports whether f has the entity rather than o. shard is that of the entry.
func (f *Found) beats(o *Found, shard string) bool {
	if !f.Modified.IsZero() && !o.Modified.IsZero() && !f.Modified.Equal(o.Modified) {
		return f.Modified.After(o.Modified)
	}
	switch {
	case f.Deleted != o.Deleted:
		return o.Deleted
	case (f.Shard == shard) != (o.Shard == shard):
		return f.Shard == shard
	case f.Shard == o.Shard:
		return f.Row > o.Row
	}
	return cmp.Less(f.Shard, o.Shard)
}
