package bolt

import (
	"bytes"

	"go.etcd.io/bbolt"
)

const (
	// blockBytes is what the entries of a block take at most, unless there is only one.
	blockBytes = 1000
	// smallBlock is what they take before a block that is changed is joined with the one behind it.
	smallBlock = blockBytes / 4
)

// editor changes blocks, of which it has one open at a time. Changes may come in any order; those in the order of keys write each block once.
// What it did counts once it was flushed.
type editor struct {
	blocks
	c *bbolt.Cursor
	// opened: there is an open block. name is its name, nil for one that is not there yet, next that of the one behind it, nil at the end.
	opened     bool
	name, next []byte
	// out are its entries up to the key passed, rest those behind it.
	out, rest, passed []byte
	// changed: it is not what is in the bucket.
	changed bool
	values  *room
}

func (b blocks) editor() *editor { return &editor{blocks: b, c: b.b.Cursor(), values: new(room)} }

// put sets the value of a key.
func (e *editor) put(key, value []byte) error {
	if err := e.delete(key); err != nil {
		return err
	}
	e.out, e.changed = appendEntry(e.out, entry{key, value}), true
	return nil
}

// delete removes a key, if it is there.
func (e *editor) delete(key []byte) error {
	if err := e.reach(key); err != nil {
		return err
	}
	e.passed = append(e.passed[:0], key...)
	rest := e.rest
	for len(rest) > 0 {
		first, behind, err := cutEntry(rest)
		if err != nil {
			return err
		}
		if c := bytes.Compare(first.key, key); c >= 0 {
			e.out = append(e.out, e.rest[:len(e.rest)-len(rest)]...)
			if e.rest = rest; c == 0 {
				e.rest, e.changed = behind, true
			}
			return nil
		}
		rest = behind
	}
	e.out, e.rest = append(e.out, e.rest...), nil
	return nil
}

// reach opens the block where key belongs, unless it is open and key is still to come in it.
func (e *editor) reach(key []byte) error {
	for e.opened && bytes.Compare(key, e.passed) > 0 {
		if e.next == nil || bytes.Compare(key, e.name) <= 0 {
			return nil
		}
		if !e.changed || !e.small() {
			break
		}
		if err := e.join(); err != nil {
			return err
		}
	}
	if err := e.flush(); err != nil {
		return err
	}
	return e.open(key)
}

// open opens the block where key belongs: the last one is for all that is behind it, too.
func (e *editor) open(key []byte) error {
	name, value := e.c.Seek(key)
	if name == nil {
		// Last (bbolt v1.5) does not return where this transaction has emptied a map of several pages.
		if first, _ := e.c.First(); first != nil {
			name, value = e.c.Last()
		}
	}
	e.opened, e.changed = true, false
	e.name, e.next, e.out, e.rest, e.passed = nil, nil, e.out[:0], nil, e.passed[:0]
	if name == nil {
		return nil
	}
	e.name = bytes.Clone(name)
	var err error
	if e.rest, err = e.unseal(e.name, value); err != nil {
		return err
	}
	next, _ := e.c.Next()
	e.next = bytes.Clone(next)
	return nil
}

// small reports whether the open block is smaller than blocks are to be, and there is one behind it.
func (e *editor) small() bool { return e.next != nil && len(e.out)+len(e.rest) < smallBlock }

// join makes one of the open block and the one behind it.
func (e *editor) join() error {
	if err := e.b.Delete(e.name); err != nil {
		return err
	}
	_, value := e.c.Seek(e.next)
	rest, err := e.unseal(e.next, value)
	if err != nil {
		return err
	}
	e.out, e.rest = append(e.out, e.rest...), rest
	next, _ := e.c.Next()
	e.name, e.next, e.changed = e.next, bytes.Clone(next), true
	return nil
}

// flush puts the open block into the bucket, as several where it is too large for one, and closes it.
func (e *editor) flush() error {
	for e.changed && e.small() {
		if err := e.join(); err != nil {
			return err
		}
	}
	if e.opened = false; !e.changed {
		return nil
	}
	e.changed = false
	e.out, e.rest = append(e.out, e.rest...), nil
	if e.name != nil && (len(e.out) == 0 || e.next == nil) {
		// The last block of all is named anew: it may have grown beyond its name.
		if err := e.b.Delete(e.name); err != nil {
			return err
		}
	}
	size := e.pieceSize()
	for form := e.out; len(form) > 0; {
		piece, name, err := cutPiece(form, size)
		if err != nil {
			return err
		}
		if form = form[len(piece):]; len(form) == 0 && e.next != nil {
			name = e.name
		}
		value := append(e.values.take(1+len(piece)+sealSize), blockMark)
		if err := e.b.Put(name, sealNamed(append(value, piece...), name, e.path...)); err != nil {
			return err
		}
	}
	return nil
}

// pieceSize is how large the blocks are to be that the open one is cut into: as many as are needed, of one size; but full ones at the end,
// where a map grows.
func (e *editor) pieceSize() int {
	if e.next == nil {
		return blockBytes
	}
	pieces := (len(e.out) + blockBytes - 1) / blockBytes
	return (len(e.out) + pieces - 1) / pieces
}

// cutPiece returns the first entries of a form that take up to size bytes, at least one, and the key of the last of them.
func cutPiece(form []byte, size int) (piece, last []byte, err error) {
	rest := form
	for len(rest) > 0 {
		e, behind, err := cutEntry(rest)
		if err != nil {
			return nil, nil, err
		}
		if last != nil && len(form)-len(behind) > size {
			break
		}
		last, rest = e.key, behind
	}
	return form[:len(form)-len(rest)], last, nil
}
