package ledger

import (
	"slices"

	"bridge/source"
)

// parseGaps reads what appendGaps wrote and returns at least one gap. The error wraps ErrDamaged.
// Memory is set aside only in proportion to len(b), beyond that of dst, which is overwritten.
func parseGaps(dst []gap, b []byte) ([]gap, error) {
	f, err := openForm(b)
	if err != nil {
		return nil, err
	}
	missed := f.micros()
	count := f.uint()
	times := f.section()
	var list []gap
	switch f.byte() {
	case asDistances:
		list = f.distances(dst[:0], count)
	case asBits:
		list = f.bits(dst[:0])
	default:
		f.fail("ids of an unknown kind")
	}
	if f.err == nil && (count == 0 || uint64(len(list)) != count) {
		f.fail("another number of gaps")
	}
	if err := f.end(); err != nil {
		return nil, err
	}
	times.times(list, missed)
	return list, times.end()
}

// times gives the gaps of list their times.
func (f *form) times(list []gap, missed int64) {
	for first := true; len(list) > 0 && f.err == nil; first = false {
		later, n := f.uint(), f.uint()
		if later > uint64(maxLedgerTime-missed) || first && later > 0 {
			f.fail("a time out of bounds")
		}
		if n == 0 || n > uint64(len(list)) {
			f.fail("times of another number of gaps")
		}
		if f.err != nil {
			return
		}
		missed += int64(later)
		for i := range list[:n] {
			list[i].missed = missed
		}
		list = list[n:]
	}
}

// distances reads count gaps.
func (f *form) distances(dst []gap, count uint64) []gap {
	long := f.section()
	if count > uint64(len(f.rest)) {
		f.fail("a count is larger than what is there")
		return nil
	}
	list := slices.Grow(dst, int(count))[:count]
	clear(list)
	for i, first := uint64(0), true; len(long.rest) > 0; first = false {
		distance, more := long.uint(), long.uint()
		if long.err != nil || more == 0 || !first && distance == 0 || distance >= count-i {
			f.fail("long gaps that are damaged or do not ascend")
			return nil
		}
		i += distance
		list[i].Last = more
	}
	next := uint64(0)
	for i := range list {
		r := &list[i]
		r.First = next + f.uint()
		r.Last += r.First
		if f.err == nil && (i > 0 && next == 0 || r.First < next || r.Last < r.First || r.First == 0) {
			f.fail("gaps of ids that do not ascend")
		}
		if f.err != nil {
			return nil
		}
		next = r.Last + 1
	}
	return list
}

// bits reads gaps that are written as bits, to the end.
func (f *form) bits(list []gap) []gap {
	first := f.uint()
	b := f.rest
	if f.err == nil && (first == 0 || len(b) == 0 || b[0]&1 == 0 || b[len(b)-1] == 0 || first+uint64(8*len(b))-1 < first) {
		f.fail("bits that do not begin or end with an id")
	}
	if f.err != nil {
		return nil
	}
	f.rest = nil
	open := false
	for i := range b {
		for bit := range 8 {
			id := first + uint64(8*i+bit)
			switch set := b[i]>>bit&1 == 1; {
			case set && open:
				list[len(list)-1].Last = id
			case set:
				list = append(list, gap{Range: source.Range{First: id, Last: id}})
				open = true
			default:
				open = false
			}
		}
	}
	return list
}
