package event

import (
	"bytes"
	"fmt"
	"hash/fnv"

	"bridge/source"
)

// formVersion is that of the digest. Increase it where the same row has another one.
const formVersion = 1

// formOf returns a hash of all that digests, and hashes of CREATED, depend on besides the values of
// a row, never 0: those of two rows compare only where it is equal. It does not depend on the order
// of the columns, nor on the names of members.
func formOf(columns *source.Columns, list []hashed) uint32 {
	h := fnv.New32a()
	add := func(c *source.Column) {
		// It takes every write.
		_, _ = fmt.Fprintf(h, "%q %d %d %q;", c.Name, c.Kind, c.Precision, c.Mask)
	}
	_, _ = fmt.Fprint(h, formVersion)
	for i := range list {
		add(&columns.List[list[i].index])
	}
	if i := createdAt(columns); i >= 0 {
		_, _ = h.Write([]byte("created"))
		add(&columns.List[i])
	}
	return max(1, h.Sum32())
}

// createdAt returns the column of CREATED, -1 where there is none or updates change it.
func createdAt(columns *source.Columns) int {
	if columns.CreatedMoves {
		return -1
	}
	return columns.Created
}

// Form returns the hash of all that Digest and Born depend on besides the values of a row. The
// encoder must be bound.
func (e *Encoder) Form() uint32 { return e.plan.form }

// Born is a hash of a row's CREATED. Two rows of one id with different ones are two rows, but for a
// program that writes CREATED again. 0: no CREATED, or one that updates change.
type Born uint32

// Exact reports whether hardly two rows have the same: CREATED is finer than a second.
func (b Born) Exact() bool { return b&1 != 0 }

// BornOf returns the hash of a text that tells a row from others.
func BornOf(text []byte) Born { return born(text) | 1 }

// Born returns the hash of the CREATED of a row, which has the shape of the last Bind.
func (e *Encoder) Born(row source.Row) Born { return e.plan.born(row.Values) }

func (p *plan) born(row [][]byte) Born {
	i := createdAt(p.columns)
	if i < 0 || row[i] == nil || bytes.HasPrefix(row[i], []byte("0000-")) {
		return 0
	}
	if p.columns.List[i].Precision > 0 {
		return BornOf(row[i])
	}
	return max(2, born(row[i])&^1)
}

// born folds a hash of 64 bits, as the lists of former versions have it.
func born(text []byte) Born {
	h := fnv.New64a()
	_, _ = h.Write(text)
	return FoldBorn(h.Sum64())
}

// FoldBorn returns the Born of a hash of 64 bits that a former version has saved.
func FoldBorn(sum uint64) Born { return Born(sum>>32 ^ sum) }

// Telling returns the members of data that may tell a row from another one: not its id, MODIFIED
// and approximate numbers. The encoder must be bound.
func (e *Encoder) Telling() (names []string) {
	for _, m := range e.plan.members {
		if m.index != e.plan.columns.ID && m.index != e.plan.columns.Modified && m.column.Kind != source.Float {
			names = append(names, m.text)
		}
	}
	return names
}
