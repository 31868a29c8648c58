package ledger

import (
	"fmt"

	"bridge/source"
)

// gap is a range of missing ids that were first missed at one moment, in microseconds of the
// ledger's time.
type gap struct {
	source.Range
	missed int64
}

// size is the number of ids in g; a gap never has all 2^64.
func (g gap) size() uint64 { return g.Last - g.First + 1 }

// leaf describes up to some hundreds of gaps, which are kept in the form in which they are saved.
type leaf struct {
	// key is at or below every id of the leaf and above every id of the leaf before. It never
	// changes.
	key uint64
	// Range is from the first id to the last.
	source.Range
	// ids, gaps and widest count the ids, the gaps and the ids of the largest gap.
	ids    uint64
	widest uint64
	gaps   int
	// oldest and newest are the times of the first and the last gap.
	oldest, newest int64
	// form is nil while the leaf is only in the store. It is replaced, never changed, so that it
	// can be read while it is saved. size is its length.
	form []byte
	size int
}

const (
	// leafGaps is how many gaps are put into one leaf.
	leafGaps = 512
	// leafSize is the memory of a leaf besides its form.
	leafSize = 112
)

// describe returns the leaf of list, which must not be empty, without its form.
func describe(key uint64, list []gap) leaf {
	n := len(list)
	l := leaf{
		key: key, Range: source.Range{First: list[0].First, Last: list[n-1].Last}, gaps: n,
		oldest: list[0].missed, newest: list[n-1].missed,
	}
	for _, g := range list {
		l.ids += g.size()
		l.widest = max(l.widest, g.size())
	}
	return l
}

// parseLeaf reads the saved form of the leaf with this key, and keeps b. It allocates only in
// proportion to len(b), in scratch, which it returns. The error wraps ErrDamaged.
func parseLeaf(key uint64, b []byte, scratch []gap) (leaf, []gap, error) {
	list, err := parseGaps(scratch, b)
	switch {
	case err != nil:
		return leaf{}, scratch, err
	case list[0].First < key:
		return leaf{}, list, fmt.Errorf("%w: ids below the key of their part", ErrDamaged)
	}
	l := describe(key, list)
	l.form, l.size = b, len(b)
	return l, list, nil
}
