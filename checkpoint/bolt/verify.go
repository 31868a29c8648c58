package bolt

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"bridge/checkpoint"
)

// The format of bbolt files (go.etcd.io/bbolt/internal/common), in the host's byte order.
const (
	headerSize    = 16 // id 8, flags 2, count 2, overflow 4
	elementSize   = 16 // of a leaf: flags, pos, ksize, vsize, 4 each; of a branch: pos 4, ksize 4, page 8
	bucketSize    = 16 // root page 8, sequence 8
	branchFlag    = 0x01
	leafFlag      = 0x02
	metaFlag      = 0x04
	freelistFlag  = 0x10
	bucketElement = 0x01
	longFreelist  = 0xFFFF
	noFreelist    = ^uint64(0)
)

// maxDepth is more than any tree of bbolt can have: branch pages have at least two children.
const maxDepth = 64

var native = binary.NativeEndian

// verify reads the newest state of a whole bbolt file and calls visit for each of its values with the path of names that
// leads there. It returns nil only if everything that bbolt will follow is sound: headers, page numbers, bounds, the order
// of keys, and that no page is used twice, or used and free. It trusts nothing that it reads and sets aside no more memory
// than the file is large.
//
// Pages that are neither used nor free are lost room and no damage: bbolt v1.5 leaves some when a bucket is changed and
// deleted in one transaction.
//
// What bbolt writes leaves no room between the elements of a page, nor before the first; verify insists on it, so that a
// damaged count or size shows.
func verify(file io.ReaderAt, size int64, visit func(path []string, value []byte) error) error {
	m, err := newestMeta(file, size)
	if err != nil {
		return err
	}
	if m.high > uint64(size)/uint64(m.pageSize) {
		return damaged("the file is cut off: it has %d bytes, its header speaks of %d pages of %d bytes", size, m.high, m.pageSize)
	}
	v := &verifier{file: file, meta: m, used: make([]uint64, m.high/64+1), visit: visit}
	if err := v.tree(m.root, nil, nil, nil, 0); err != nil {
		return err
	}
	if m.freelist == noFreelist {
		return nil
	}
	return v.freePages()
}

func damaged(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, checkpoint.ErrCorrupt)...)
}

// verifier walks one file.
type verifier struct {
	file  io.ReaderAt
	meta  meta
	used  []uint64 // one bit a page
	visit func(path []string, value []byte) error
}

// claim notes that page id is used; each may be once.
func (v *verifier) claim(id uint64) error {
	if id < 2 || id >= v.meta.high {
		return damaged("page %d is named, pages go from 2 to %d", id, v.meta.high-1)
	}
	if v.used[id/64]&(1<<(id%64)) != 0 {
		return damaged("page %d is used twice", id)
	}
	v.used[id/64] |= 1 << (id % 64)
	return nil
}

// page reads page id with its overflow.
func (v *verifier) page(id uint64) ([]byte, error) {
	if err := v.claim(id); err != nil {
		return nil, err
	}
	var header [headerSize]byte
	at := int64(id) * int64(v.meta.pageSize)
	if _, err := v.file.ReadAt(header[:], at); err != nil {
		return nil, fmt.Errorf("read page %d: %w", id, err)
	}
	if got := native.Uint64(header[:]); got != id {
		return nil, damaged("page %d says it is page %d", id, got)
	}
	overflow := uint64(native.Uint32(header[12:]))
	if overflow >= v.meta.high-id {
		return nil, damaged("page %d claims %d more pages, the last one is %d", id, overflow, v.meta.high-1)
	}
	for i := range overflow {
		if err := v.claim(id + i + 1); err != nil {
			return nil, err
		}
	}
	page := make([]byte, (overflow+1)*uint64(v.meta.pageSize))
	if _, err := v.file.ReadAt(page, at); err != nil {
		return nil, fmt.Errorf("read page %d: %w", id, err)
	}
	return page, nil
}

// tree walks the pages from id down, whose keys are at least from and, unless that is nil, below to.
func (v *verifier) tree(id uint64, path []string, from, to []byte, depth int) error {
	if depth > maxDepth {
		return damaged("the pages above page %d are nested too deeply", id)
	}
	page, err := v.page(id)
	if err != nil {
		return err
	}
	elements, err := parse(page, id)
	if err != nil {
		return err
	}
	if len(elements) == 0 && depth > 0 {
		return damaged("page %d is empty", id)
	}
	if err := ordered(elements, id, from, to); err != nil {
		return err
	}
	if native.Uint16(page[8:]) == leafFlag {
		return v.leaf(elements, id, path)
	}
	for i, e := range elements {
		end := to
		if i+1 < len(elements) {
			end = elements[i+1].key
		}
		if err := v.tree(e.child, path, e.key, end, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// leaf walks the values of a leaf page and the buckets that it holds.
func (v *verifier) leaf(elements []element, id uint64, path []string) error {
	for _, e := range elements {
		below := append(path[:len(path):len(path)], string(e.key))
		switch {
		case e.flags == 0:
			if err := v.visit(below, e.value); err != nil {
				return err
			}
		case e.flags != bucketElement || len(e.value) < bucketSize || len(below) > maxDepth:
			return damaged("page %d has an element that is neither value nor bucket", id)
		default:
			if err := v.bucket(e.value, id, below); err != nil {
				return err
			}
		}
	}
	return nil
}

// bucket walks the bucket with this header; a small one lies behind its header, in the page of its parent.
func (v *verifier) bucket(header []byte, id uint64, path []string) error {
	if root := native.Uint64(header); root != 0 {
		if len(header) != bucketSize {
			return damaged("page %d has bytes behind the header of bucket %q", id, path)
		}
		return v.tree(root, path, nil, nil, 0)
	}
	page := header[bucketSize:]
	if len(page) < headerSize || native.Uint64(page) != 0 || native.Uint16(page[8:]) != leafFlag || native.Uint32(page[12:]) != 0 {
		return damaged("page %d has a small bucket %q without a sound header", id, path)
	}
	elements, err := parse(page, id)
	if err != nil {
		return err
	}
	if err := ordered(elements, id, nil, nil); err != nil {
		return err
	}
	return v.leaf(elements, id, path)
}

// freePages walks the list of free pages.
func (v *verifier) freePages() error {
	id := v.meta.freelist
	page, err := v.page(id)
	if err != nil {
		return err
	}
	if native.Uint16(page[8:]) != freelistFlag {
		return damaged("page %d is no list of free pages", id)
	}
	count, ids := uint64(native.Uint16(page[10:])), page[headerSize:]
	if count == longFreelist {
		count, ids = native.Uint64(ids), ids[8:]
	}
	if count > uint64(len(ids)/8) {
		return damaged("page %d lists %d free pages, more than it can", id, count)
	}
	last := uint64(0)
	for i := range count {
		free := native.Uint64(ids[8*i:])
		if free <= last {
			return damaged("page %d lists free pages out of order", id)
		}
		if err := v.claim(free); err != nil {
			return err
		}
		last = free
	}
	return nil
}

// ordered checks that keys ascend and lie in [from, to).
func ordered(elements []element, id uint64, from, to []byte) error {
	for i, e := range elements {
		if i > 0 && bytes.Compare(elements[i-1].key, e.key) >= 0 {
			return damaged("page %d has keys out of order", id)
		}
		if bytes.Compare(e.key, from) < 0 || to != nil && bytes.Compare(e.key, to) >= 0 {
			return damaged("page %d has a key that belongs elsewhere", id)
		}
	}
	return nil
}
