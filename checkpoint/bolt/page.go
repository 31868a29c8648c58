package bolt

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"io"

	"bridge/checkpoint"
)

const (
	metaMagic   = 0xED0CDAED
	metaVersion = 2
	metaSize    = 64
	minPage     = 1 << 10
	maxPage     = 16 << 20
)

// meta is a header page of a bbolt file. There are two, written in turn.
type meta struct {
	pageSize uint32
	root     uint64
	freelist uint64
	high     uint64 // pages in use are below this one
	txid     uint64
}

// newestMeta reads both header pages and returns the newer one. Both must be sound: the 64 bytes that count lie in one
// sector, so that no crash leaves half of them; and without the newer one the file would silently be older than it was.
func newestMeta(file io.ReaderAt, size int64) (meta, error) {
	if !mayBeBolt(file, size) {
		return meta{}, fmt.Errorf("its %d bytes are no bbolt file: %w", size, checkpoint.ErrForeign)
	}
	first, err := readMeta(file, size, 0, 0)
	if err != nil {
		return meta{}, err
	}
	second, err := readMeta(file, size, int64(first.pageSize), 1)
	if err != nil {
		return meta{}, err
	}
	older, newer := first, second
	if first.txid > second.txid {
		older, newer = second, first
	}
	if older.pageSize != newer.pageSize || newer.txid-older.txid != 1 {
		return meta{}, damaged("its two header pages do not belong together")
	}
	return newer, nil
}

// mayBeBolt reports whether one of the header pages begins as one of bbolt does. The second lies at any power of two.
func mayBeBolt(file io.ReaderAt, size int64) bool {
	magic := native.AppendUint32(nil, metaMagic)
	var got [4]byte
	for at := int64(0); at < size && at <= maxPage; at = max(2*at, minPage) {
		if _, err := file.ReadAt(got[:], at+headerSize); err == nil && bytes.Equal(got[:], magic) {
			return true
		}
	}
	return false
}

// readMeta reads header page id, which begins at this offset.
func readMeta(file io.ReaderAt, size, at int64, id uint64) (meta, error) {
	var page [headerSize + metaSize]byte
	if size-at < int64(len(page)) {
		return meta{}, damaged("the file is cut off in its header: it has %d bytes", size)
	}
	if _, err := file.ReadAt(page[:], at); err != nil {
		return meta{}, fmt.Errorf("read header page %d: %w", id, err)
	}
	b := page[headerSize:]
	h := fnv.New64a()
	h.Write(b[:metaSize-8])
	m := meta{
		pageSize: native.Uint32(b[8:]),
		root:     native.Uint64(b[16:]),
		freelist: native.Uint64(b[32:]),
		high:     native.Uint64(b[40:]),
		txid:     native.Uint64(b[48:]),
	}
	switch {
	case native.Uint32(b) != metaMagic || native.Uint64(b[56:]) != h.Sum64():
		return meta{}, damaged("header page %d has a wrong checksum", id)
	case native.Uint32(b[4:]) != metaVersion:
		return meta{}, fmt.Errorf("a bbolt file of version %d, this program knows %d: %w", native.Uint32(b[4:]), metaVersion, checkpoint.ErrNewer)
	case native.Uint64(page[:]) != id || native.Uint16(page[8:]) != metaFlag:
		return meta{}, damaged("header page %d says it is something else", id)
	case m.pageSize < minPage || m.pageSize > maxPage || m.pageSize&(m.pageSize-1) != 0 || m.high < 2:
		return meta{}, damaged("header page %d speaks of %d pages of %d bytes", id, m.high, m.pageSize)
	}
	return m, nil
}

// element is one entry of a page: of a leaf page with flags and value, of a branch page with the child's page.
type element struct {
	key   []byte
	flags uint32
	value []byte
	child uint64
}

// parse returns the elements of a leaf or branch page, which share memory with it.
func parse(page []byte, id uint64) ([]element, error) {
	flags, count := native.Uint16(page[8:]), int(native.Uint16(page[10:]))
	if flags != leafFlag && flags != branchFlag {
		return nil, damaged("page %d is of kind %#x where keys were expected", id, flags)
	}
	next := headerSize + count*elementSize // where the bytes of the next element must begin
	if next > len(page) {
		return nil, damaged("page %d claims %d elements, more than it can hold", id, count)
	}
	if count == 0 && bytes.ContainsFunc(page[headerSize:], func(r rune) bool { return r != 0 }) {
		// bbolt zeroes pages before it fills them.
		return nil, damaged("page %d claims to be empty and is not", id)
	}
	elements := make([]element, count)
	for i := range elements {
		at := headerSize + i*elementSize
		b := page[at : at+elementSize]
		var pos, ksize, vsize uint32
		if flags == leafFlag {
			elements[i].flags = native.Uint32(b)
			pos, ksize, vsize = native.Uint32(b[4:]), native.Uint32(b[8:]), native.Uint32(b[12:])
		} else {
			pos, ksize, elements[i].child = native.Uint32(b), native.Uint32(b[4:]), native.Uint64(b[8:])
		}
		end := int64(next) + int64(ksize) + int64(vsize)
		if at+int(pos) != next || ksize == 0 || end > int64(len(page)) {
			return nil, damaged("page %d has an element that does not fit", id)
		}
		elements[i].key = page[next : next+int(ksize)]
		elements[i].value = page[next+int(ksize) : end]
		next = int(end)
	}
	return elements, nil
}
