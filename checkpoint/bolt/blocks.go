package bolt

import (
	"bytes"
	"iter"

	"go.etcd.io/bbolt"
)

// blocks is an ordered map in a bucket, in one transaction. Its values are blocks of neighbours, so that what a library has to do for a
// value, and a page for an element, is done for some entries at once. A block is named by its last key or a later one, which is below all of
// the block behind it. It serves one goroutine.
type blocks struct {
	b *bbolt.Bucket
	// path leads to b.
	path []string
}

// unseal returns the entries of the block with this name and value, which must not be nil.
func (b blocks) unseal(name, value []byte) ([]byte, error) {
	payload, err := unsealNamed(value, name, b.path...)
	if err != nil {
		return nil, err
	}
	return entriesOf(name, payload), nil
}

// from goes through the entries from a key on. What it yields is good as long as the transaction.
func (b blocks) from(key []byte) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		c := b.b.Cursor()
		for name, value := c.Seek(key); name != nil; name, value = c.Next() {
			rest, err := b.unseal(name, value)
			for err == nil && len(rest) > 0 {
				var e entry
				e, rest, err = cutEntry(rest)
				if err == nil && bytes.Compare(e.key, key) >= 0 && !yield(e, nil) {
					return
				}
			}
			if err != nil {
				yield(entry{}, err)
				return
			}
		}
	}
}

// finder finds values. Keys that ascend are found the faster, the nearer they are to one another.
type finder struct {
	blocks
	c *bbolt.Cursor
	// rest are the entries of a block that are not below the key at; nil before the first search.
	rest, at []byte
}

func (b blocks) finder() *finder { return &finder{blocks: b, c: b.b.Cursor()} }

// get returns the value of a key, nil where there is none. It is good as long as the transaction.
func (f *finder) get(key []byte) ([]byte, error) {
	near := len(f.rest) > 0 && bytes.Compare(f.at, key) <= 0
	for {
		if !near {
			name, value := f.c.Seek(key)
			if name == nil {
				return nil, nil
			}
			var err error
			if f.rest, err = f.unseal(name, value); err != nil {
				return nil, err
			}
		}
		f.at = append(f.at[:0], key...)
		for len(f.rest) > 0 {
			e, behind, err := cutEntry(f.rest)
			if err != nil {
				return nil, err
			}
			switch c := bytes.Compare(e.key, key); {
			case c == 0:
				return e.value, nil
			case c > 0:
				return nil, nil
			}
			f.rest = behind
		}
		if !near {
			return nil, nil
		}
		// It may be in a later block.
		near = false
	}
}
