package ledger

import "bridge/source"

// compact encodes the leaves of segment k that end in ids, which are no longer polled, in less
// space: one time a leaf, and small leaves joined. What is kept for ever then takes about a byte a
// gap, or a bit an id. busy reports whether the times of a range are still needed.
func (s *gapSet) compact(k int, ids source.Range, busy func(source.Range) bool) {
	from, to := s.leavesOf(k)
	l := &s.leaves
	l.at = -1
	ready := func(i int) bool { return l.list[i].Last <= ids.Last && !busy(l.list[i].Range) }
	for i := max(from, l.index(ids.First)); i < to && l.list[i].Last <= ids.Last; i++ {
		if !ready(i) {
			continue
		}
		before := i - 1
		if before >= from && l.list[before].gaps+l.list[i].gaps <= leafGaps && ready(before) {
			list := flatten(l.decode(i, l.decode(before, nil)))
			l.free(i)
			l.delete(i)
			l.replace(before, list)
			i--
			to--
		} else if at := &l.list[i]; at.oldest != at.newest && at.size > 2*at.gaps {
			// Full leaves whose times take little space stay: encoding all of them at once would
			// make the file larger.
			l.replace(i, flatten(l.decode(i, nil)))
		}
	}
}

// flatten gives all gaps of list the time of the last one and joins adjacent ones. It overwrites
// list.
func flatten(list []gap) []gap {
	kept := list[:0]
	for _, g := range list {
		g.missed = list[len(list)-1].missed
		if n := len(kept) - 1; n >= 0 && kept[n].Last+1 == g.First {
			kept[n].Last = g.Last
			continue
		}
		kept = append(kept, g)
	}
	return kept
}
