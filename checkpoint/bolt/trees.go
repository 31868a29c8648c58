package bolt

import (
	"bytes"
	"encoding/binary"

	"go.etcd.io/bbolt"

	"bridge/checkpoint"
)

// knownSize is the most that a live entity takes in the order of entities, rowSize what each takes in the order of rows; in bytes.
const (
	knownSize = 1 + binary.MaxVarintLen64 + 2*16
	rowSize   = 1 + 16
)

// trees are the two orders in which the view of a shard is kept, in one transaction. They serve one goroutine.
type trees struct {
	key        checkpoint.Key
	view, rows *bbolt.Bucket
	// entities is the cursor that get moves about in view: one for all, because each has a stack of its own.
	entities *bbolt.Cursor
	// values is the memory of what is put.
	values *room
}

// room gives memory for values, which bbolt keeps as they are until the transaction ends, with an allocation for many of them.
type room struct {
	left []byte
	// name is the name that is being put, of which bbolt makes a copy.
	name []byte
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
	return openTrees(key, view, rows), nil
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
	return trees{key: key, view: view, rows: rows, entities: view.Cursor(), values: new(room)}
}

// get returns what is known about an entity.
func (t trees) get(entity []byte) (checkpoint.Known, error) {
	name, value := t.entities.Seek(entity)
	if value == nil || !bytes.Equal(name, entity) {
		return checkpoint.Known{}, nil
	}
	return t.known(entity, value)
}

// known reads the value of an entity.
func (t trees) known(entity, value []byte) (checkpoint.Known, error) {
	payload, err := unsealNamed(value, entity, shardBucket, t.key.Stream, t.key.Shard, viewBucket)
	if err != nil {
		return checkpoint.Known{}, err
	}
	return settledKnown(entity, payload)
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
		return t.view.Delete(c.Entity)
	}
	value := checkpoint.AppendKnown(t.values.take(knownSize+sealSize), c.Known)
	return t.view.Put(c.Entity, sealNamed(value, c.Entity, shardBucket, t.key.Stream, t.key.Shard, viewBucket))
}

// putRow puts an entity that has a row in the order of rows.
func (t trees) putRow(c checkpoint.Change) error {
	name := t.rowName(c.Known.Row, c.Entity)
	value := append(t.values.take(rowSize+sealSize), byte(c.Known.Fate))
	value = append(value, c.Known.State[:]...)
	return t.rows.Put(name, sealNamed(value, name, shardBucket, t.key.Stream, t.key.Shard, rowsBucket))
}

// deleteRow removes an entity from the order of rows, if it is there with this row.
func (t trees) deleteRow(row uint64, entity []byte) error {
	return t.rows.Delete(t.rowName(row, entity))
}

// rowName is the name of an entity in the order of rows; it is good until the next one.
func (t trees) rowName(row uint64, entity []byte) []byte {
	t.values.name = appendRowName(t.values.name[:0], row, entity)
	return t.values.name
}

// hasRow reports whether an entity is in the order of rows.
func hasRow(k checkpoint.Known) bool {
	return k.Fate == checkpoint.Live || k.Fate == checkpoint.Tombstone
}

// appendRowName appends the name of an entity in the order of rows.
func appendRowName(dst []byte, row uint64, entity []byte) []byte {
	return append(binary.BigEndian.AppendUint64(dst, row), entity...)
}

// entity reads a value in the order of rows; its entity shares memory with name.
func (t trees) entity(name, value []byte) (checkpoint.Entity, error) {
	payload, err := unsealNamed(value, name, shardBucket, t.key.Stream, t.key.Shard, rowsBucket)
	if err != nil {
		return checkpoint.Entity{}, err
	}
	return settledEntity(name, payload)
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
