package bolt

import (
	"encoding/binary"
	"errors"

	"go.etcd.io/bbolt"

	"bridge/checkpoint"
)

// rowSize is what each entity has as its value in the order of rows, in bytes.
const rowSize = 1 + 16

// trees are the two orders in which the view of a shard is kept, in one transaction. They serve one goroutine.
type trees struct {
	// view is in the order of entities, rows in that of rows.
	view, rows blocks
	// entities finds what get is asked for.
	entities *finder
	// editView and editRows make the changes, for a transaction that writes; they count once flush was called.
	editView, editRows *editor
	// form is the memory of names and values that are being put.
	form *form
}

// form is memory for a name and a value: an editor keeps neither.
type form struct{ name, value []byte }

// room gives memory for values, which bbolt keeps as they are until the transaction ends, with an allocation for many of them.
type room struct {
	left []byte
}

const roomBytes = 16 << 10

// take returns an empty slice with space for n bytes.
func (r *room) take(n int) []byte {
	if len(r.left) < n {
		r.left = make([]byte, max(n, roomBytes))
	}
	taken := r.left[:0:n]
	r.left = r.left[n:]
	return taken
}

// makeTrees returns the trees in the bucket of a shard, for a transaction that writes, and plants them where there are none.
func makeTrees(shard *bbolt.Bucket, key checkpoint.Key) (trees, error) {
	view, err := shard.CreateBucketIfNotExists([]byte(viewBucket))
	if err != nil {
		return trees{}, err
	}
	rows, err := shard.CreateBucketIfNotExists([]byte(rowsBucket))
	if err != nil {
		return trees{}, err
	}
	// It grows at its end, where what is split off is not filled any more.
	rows.FillPercent = 0.9
	t := openTrees(key, view, rows)
	t.editView, t.editRows = t.view.editor(), t.rows.editor()
	return t, nil
}

// treesOf returns the trees in the bucket of a shard, which may be nil, and whether there are any.
func treesOf(shard *bbolt.Bucket, key checkpoint.Key) (trees, bool) {
	if shard == nil {
		return trees{}, false
	}
	view, rows := shard.Bucket([]byte(viewBucket)), shard.Bucket([]byte(rowsBucket))
	if view == nil || rows == nil {
		return trees{}, false
	}
	return openTrees(key, view, rows), true
}

func openTrees(key checkpoint.Key, view, rows *bbolt.Bucket) trees {
	path := []string{shardBucket, key.Stream, key.Shard}
	t := trees{
		view: blocks{view, append(path[:len(path):len(path)], viewBucket)},
		rows: blocks{rows, append(path[:len(path):len(path)], rowsBucket)},
		form: new(form),
	}
	t.entities = t.view.finder()
	return t
}

// get returns what is known about an entity.
func (t trees) get(entity []byte) (checkpoint.Known, error) {
	value, err := t.entities.get(entity)
	if err != nil || value == nil {
		return checkpoint.Known{}, err
	}
	return settledKnown(entity, value)
}

// settledKnown reads the payload of an entity.
func settledKnown(entity, payload []byte) (checkpoint.Known, error) {
	known, rest, err := checkpoint.DecodeKnown(payload)
	if err == nil && (len(rest) > 0 || known.Fate == checkpoint.Unknown) {
		err = damaged("the entry of entity %.40q is none", entity)
	}
	return known, err
}

// putView puts what is known about an entity in the order of entities.
func (t trees) putView(c checkpoint.Change) error {
	if c.Known.Fate == checkpoint.Unknown {
		return t.editView.delete(c.Entity)
	}
	t.form.value = checkpoint.AppendKnown(t.form.value[:0], c.Known)
	return t.editView.put(c.Entity, t.form.value)
}

// putRow puts an entity that has a row in the order of rows.
func (t trees) putRow(c checkpoint.Change) error {
	t.form.value = append(append(t.form.value[:0], byte(c.Known.Fate)), c.Known.State[:]...)
	return t.editRows.put(t.rowName(c.Known.Row, c.Entity), t.form.value)
}

// deleteRow removes an entity from the order of rows, if it is there with this row.
func (t trees) deleteRow(row uint64, entity []byte) error {
	return t.editRows.delete(t.rowName(row, entity))
}

// flush ends the changes of a transaction.
func (t trees) flush() error { return errors.Join(t.editRows.flush(), t.editView.flush()) }

// rowName is the name of an entity in the order of rows; it is good until the next one.
func (t trees) rowName(row uint64, entity []byte) []byte {
	t.form.name = appendRowName(t.form.name[:0], row, entity)
	return t.form.name
}

// hasRow reports whether an entity is in the order of rows.
func hasRow(k checkpoint.Known) bool {
	return k.Fate == checkpoint.Live || k.Fate == checkpoint.Tombstone
}

// appendRowName appends the name of an entity in the order of rows.
func appendRowName(dst []byte, row uint64, entity []byte) []byte {
	return append(binary.BigEndian.AppendUint64(dst, row), entity...)
}

// settledEntity reads a name and a payload in the order of rows.
func settledEntity(name, payload []byte) (checkpoint.Entity, error) {
	if len(name) <= 8 || len(payload) != rowSize || !hasRow(checkpoint.Known{Fate: checkpoint.Fate(payload[0])}) {
		return checkpoint.Entity{}, damaged("the order of rows has an entry named %.40q of %d bytes", name, len(payload))
	}
	e := checkpoint.Entity{Row: binary.BigEndian.Uint64(name), Fate: checkpoint.Fate(payload[0]), Entity: name[8:]}
	copy(e.State[:], payload[1:])
	return e, nil
}
