package bolt

import (
	"encoding/binary"

	"go.etcd.io/bbolt"

	"bridge/checkpoint"
)

// knownSize is the most that a live entity takes in the order of entities, rowSize what each takes in the order of rows; in bytes.
const (
	knownSize = 1 + binary.MaxVarintLen64 + 2*16
	rowSize   = 1 + 16
)

// trees are the two orders in which the view of a shard is kept.
type trees struct {
	key        checkpoint.Key
	view, rows *bbolt.Bucket
}

func makeTrees(shard *bbolt.Bucket, key checkpoint.Key) (trees, error) {
	t := trees{key: key}
	var err error
	if t.view, err = shard.CreateBucketIfNotExists([]byte(viewBucket)); err != nil {
		return t, err
	}
	if t.rows, err = shard.CreateBucketIfNotExists([]byte(rowsBucket)); err == nil {
		// It grows at its end, where what is split off is not filled any more.
		t.rows.FillPercent = 0.9
	}
	return t, err
}

// treesOf returns the trees in the bucket of a shard, which may be nil, and whether there are any.
func treesOf(shard *bbolt.Bucket, key checkpoint.Key) (trees, bool) {
	if shard == nil {
		return trees{}, false
	}
	t := trees{key: key, view: shard.Bucket([]byte(viewBucket)), rows: shard.Bucket([]byte(rowsBucket))}
	return t, t.view != nil && t.rows != nil
}

// get returns what is known about an entity.
func (t trees) get(entity []byte) (checkpoint.Known, error) {
	value := t.view.Get(entity)
	if value == nil {
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
	value := checkpoint.AppendKnown(make([]byte, 0, knownSize+sealSize), c.Known)
	return t.view.Put(c.Entity, sealNamed(value, c.Entity, shardBucket, t.key.Stream, t.key.Shard, viewBucket))
}

// putRow puts an entity that has a row in the order of rows.
func (t trees) putRow(c checkpoint.Change) error {
	name := rowName(c.Known.Row, c.Entity)
	value := append(make([]byte, 0, rowSize+sealSize), byte(c.Known.Fate))
	value = append(value, c.Known.State[:]...)
	return t.rows.Put(name, sealNamed(value, name, shardBucket, t.key.Stream, t.key.Shard, rowsBucket))
}

// deleteRow removes an entity from the order of rows, if it is there with this row.
func (t trees) deleteRow(row uint64, entity []byte) error { return t.rows.Delete(rowName(row, entity)) }

// hasRow reports whether an entity is in the order of rows.
func hasRow(k checkpoint.Known) bool {
	return k.Fate == checkpoint.Live || k.Fate == checkpoint.Tombstone
}

// rowName is the name of an entity in the order of rows.
func rowName(row uint64, entity []byte) []byte {
	name := make([]byte, 0, 8+len(entity))
	return append(binary.BigEndian.AppendUint64(name, row), entity...)
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
