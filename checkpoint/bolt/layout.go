package bolt

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"go.etcd.io/bbolt"

	"bridge/checkpoint"
	"bridge/internal/option"
)

// Names in the file; doc.go says what they hold.
const (
	markBucket  = "bridge"
	formatKey   = "format"
	shardBucket = "shards"
	stateKey    = "state"
	// meaningKey has the configuration that the state was made with.
	meaningKey = "meaning"
	// ledgerBucket holds the parts of a shard's gap ledger, publishedBucket those of the list of rows that were published last.
	ledgerBucket    = "ledger"
	publishedBucket = "published"
	// journalsBucket holds the journals of a shard. journalKey was the only one in version 1.
	journalsBucket = "journals"
	journalKey     = "journal"
	// viewBucket holds the view of a shard in the order of entities, rowsBucket in that of rows.
	viewBucket = "view"
	rowsBucket = "rows"
	// recentBucket holds the changes of a view that the two do not have yet.
	recentBucket = "recent"
	// givenBucket holds the ids that the ledger gave up.
	givenBucket = "given"
	runKey      = "run"
	// absentBucket holds the entities that wait for the end of a reconcile.
	absentBucket = "absent"
)

const (
	formatText    = "bridge checkpoint "
	formatVersion = 3
)

// mark writes what every file of ours has. An older file that has it is one of the present version, of which an older program could not read
// all.
func mark(tx *bbolt.Tx) error {
	b, err := tx.CreateBucketIfNotExists([]byte(markBucket))
	if err != nil {
		return err
	}
	if _, err := tx.CreateBucketIfNotExists([]byte(shardBucket)); err != nil {
		return err
	}
	return b.Put([]byte(formatKey), seal(formatMark(), markBucket, formatKey))
}

// formatMark is what a file of the present version says of itself.
func formatMark() []byte { return strconv.AppendInt([]byte(formatText), formatVersion, 10) }

// check reads a whole file and returns nil if it is a checkpoint of ours that can be trusted. Otherwise the error wraps
// ErrCorrupt, ErrForeign or ErrNewer.
func check(file io.ReaderAt, size int64) error {
	var c checker
	err := verify(file, size, c.visit)
	if err == nil && !c.marked {
		return fmt.Errorf("a bbolt file of another program: %w", checkpoint.ErrForeign)
	}
	return err
}

// checker checks the values of a file, in the order of their paths.
type checker struct {
	// marked: the mark was seen. It comes first in the order of names.
	marked bool
	// before is the path of the value before.
	before []string
}

func (c *checker) visit(path []string, value []byte) error {
	switch {
	case len(path) == 2 && path[0] == markBucket && path[1] == formatKey:
		c.marked = true
		return checkFormat(value)
	case c.marked && path[0] == shardBucket:
		err := c.record(value, path)
		c.before = path
		return err
	case c.marked:
		return damaged("the value at %q belongs to no file of version %d", path, formatVersion)
	}
	return nil
}

// record checks one value of a shard. A name that was damaged shows because the path is part of the seal.
func (c *checker) record(value []byte, path []string) error {
	payload, err := unseal(value, path...)
	if err != nil {
		return err
	}
	switch len(path) {
	case 4:
		return checkValue(path[3], payload)
	case 5:
		before := ""
		if len(c.before) == 5 && slices.Equal(c.before[:4], path[:4]) {
			before = c.before[4]
		}
		return checkEntry(path[3], before, path[4], payload)
	}
	return nil
}

// checkValue checks a value in the bucket of a shard.
func checkValue(name string, payload []byte) (err error) {
	switch name {
	case stateKey:
		_, err = checkpoint.DecodeState(payload)
	case journalKey:
		_, err = checkpoint.DecodeJournal(payload)
	case runKey:
		_, err = checkpoint.DecodeRun(payload)
	case meaningKey:
		_, err = checkpoint.DecodeMeaning(payload)
	}
	return err
}

// checkEntry checks a value in a bucket in that of a shard, behind one with the name before.
func checkEntry(bucket, before, name string, payload []byte) (err error) {
	switch bucket {
	case viewBucket:
		err = checkBlock([]byte(before), []byte(name), payload, func(e entry) error {
			_, err := settledKnown(e.key, e.value)
			return err
		})
	case rowsBucket:
		err = checkBlock([]byte(before), []byte(name), payload, func(e entry) error {
			_, err := settledEntity(e.key, e.value)
			return err
		})
	case recentBucket:
		err = eachChange(payload, func(int, checkpoint.Change) error { return nil })
	case givenBucket:
		_, err = givenRange([]byte(name), payload)
	case journalsBucket:
		if len(name) != 8 {
			return damaged("a journal has the name %.40q", name)
		}
		_, err = checkpoint.DecodeJournal(payload)
	case absentBucket:
		if len(name) != 8 || len(payload) == 0 {
			err = damaged("the absent entities have one named %.40q of %d bytes", name, len(payload))
		}
	}
	return err
}

func checkFormat(value []byte) error {
	payload, err := unseal(value, markBucket, formatKey)
	if err != nil {
		return err
	}
	text, ours := bytes.CutPrefix(payload, []byte(formatText))
	version, err := strconv.Atoi(string(text))
	switch {
	case !ours || err != nil || version < 1:
		return fmt.Errorf("the file says %q of itself: %w", payload, checkpoint.ErrForeign)
	case version > formatVersion:
		return fmt.Errorf("the file has version %d, this program knows up to %d: %w", version, formatVersion, checkpoint.ErrNewer)
	}
	return nil
}

// explain adds the file and the remedy to an error of Open.
func explain(path string, err error) error {
	switch {
	case errors.Is(err, checkpoint.ErrCorrupt):
		return fmt.Errorf("open checkpoint %s: %w: restore the file from a copy, or move it away: then every stream begins at its START again and repeats what it has published", path, err)
	case errors.Is(err, checkpoint.ErrForeign):
		return option.Errorf("open checkpoint %s: %w: set %s to a file of bridge's own; one that does not exist is made", path, err, option.CheckpointURL)
	case errors.Is(err, checkpoint.ErrNewer):
		return fmt.Errorf("open checkpoint %s: %w: run that version of bridge or a later one", path, err)
	case errors.Is(err, checkpoint.ErrLocked):
		return option.Errorf("open checkpoint %s: %w: stop the other process, or set %s to another file", path, err, option.CheckpointURL)
	}
	return fmt.Errorf("open checkpoint %s: %w", path, err)
}
