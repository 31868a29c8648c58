package bolt

import (
	"bytes"
	"encoding/binary"
)

// blockMark is the first byte of the payload of a block. Lower ones begin the value of a single entry, the fate of an entity, which is
// what files up to version 2 have.
const blockMark = 0x80

// entry is one of an ordered map. Its slices share memory with the value that they are in.
type entry struct{ key, value []byte }

// appendEntry appends the form of an entry: its key and its value, each behind its length (uvarint).
func appendEntry(dst []byte, e entry) []byte {
	dst = append(binary.AppendUvarint(dst, uint64(len(e.key))), e.key...)
	return append(binary.AppendUvarint(dst, uint64(len(e.value))), e.value...)
}

// cutEntry returns the first entry of a form that is not empty, and what follows it.
func cutEntry(form []byte) (e entry, rest []byte, err error) {
	if e.key, rest, err = cutText(form); err == nil {
		e.value, rest, err = cutText(rest)
	}
	return e, rest, err
}

// cutText returns the bytes behind a length, and what follows them.
func cutText(b []byte) (text, rest []byte, err error) {
	// Nearly all are short.
	size, n := uint64(0), 0
	if len(b) > 0 && b[0] < 0x80 {
		size, n = uint64(b[0]), 1
	} else {
		size, n = binary.Uvarint(b)
	}
	if n <= 0 || size > uint64(len(b)-n) {
		return nil, nil, damaged("a block has an entry that does not fit")
	}
	end := n + int(size)
	return b[n:end:end], b[end:], nil
}

// entriesOf returns the form of the entries of a block with this name and payload.
func entriesOf(name, payload []byte) []byte {
	if len(payload) > 0 && payload[0] == blockMark {
		return payload[1:]
	}
	return appendEntry(nil, entry{name, payload})
}

// checkBlock checks a block behind one with the name before, which is empty for the first: it has entries, their keys ascend from there up to
// its own name, and each passes check.
func checkBlock(before, name, payload []byte, check func(entry) error) error {
	last, count := before, 0
	rest := entriesOf(name, payload)
	for len(rest) > 0 {
		e, behind, err := cutEntry(rest)
		if err != nil {
			return err
		}
		if bytes.Compare(last, e.key) >= 0 {
			return damaged("the block %.40q has its entries out of order", name)
		}
		if err := check(e); err != nil {
			return err
		}
		last, rest = e.key, behind
		count++
	}
	if count == 0 || bytes.Compare(last, name) > 0 {
		return damaged("the block %.40q has no entries, or others", name)
	}
	return nil
}
