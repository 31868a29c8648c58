package verify

import "hash/maphash"

// shapes are the shapes of events that have a member of no column, or of another type than their
// column. An event from before a column was dropped, renamed or changed has company: others of its
// shape, or it is among the first. One alone, after events of the shape that the table has, was
// altered.
type shapes struct {
	strange map[uint64]*strangers
	// usual are the partitions where an event of the table's shape has come.
	usual map[int]bool
}

// strangers are the events of one shape.
type strangers struct {
	count uint64
	first Example
	// late says that the first of them came after an event of the table's shape, proven that its
	// meta.id fits.
	late, proven bool
	// retyped says that a member has another type than its column makes.
	retyped bool
	// fits says that one of them is proven: so would be the others, which are unfit by the columns
	// that could excuse them.
	fits  bool
	unfit map[doubtful]*Finding
}

// note takes in an event.
func (l *shapes) note(s *shard, m *Message, e *envelope, f finding) {
	if l.usual == nil {
		l.usual, l.strange = make(map[int]bool), make(map[uint64]*strangers)
	}
	if f.usual {
		l.usual[m.Partition] = true
	}
	what := "it has a member of no column"
	switch v := f.variant; {
	case v == nil || f.proof == refuted:
		return
	case v.strange:
	case v.retyped && f.proof == proven:
		what = "a member has another type than its column makes"
	default:
		return
	}
	d := s.digest[:0]
	for _, member := range e.members {
		d = append(append(d, member.name...), 0)
		if !f.variant.strange {
			d = append(d, member.value[0])
		}
	}
	s.digest = d
	shape := maphash.Bytes(seed1, d)
	found := l.strange[shape]
	if found == nil {
		found = &strangers{first: s.example(m, e, what), late: l.usual[m.Partition], proven: f.proof == proven, retyped: !f.variant.strange, unfit: make(map[doubtful]*Finding)}
		l.strange[shape] = found
	}
	found.count++
	if found.fits = found.fits || f.proof == proven; f.proof == unproven && f.why != "" {
		unfit := found.unfit[f.doubt]
		if unfit == nil {
			unfit = new(Finding)
			found.unfit[f.doubt] = unfit
		}
		if unfit.Count++; len(unfit.Examples) < s.tally.most {
			unfit.Examples = append(unfit.Examples, s.example(m, e, f.why))
		}
	}
}

// altered returns the events that were altered, and how many of them are not proven.
func (l *shapes) altered(of lossy) (found []*Finding, unproven uint64) {
	for _, one := range l.strange {
		if one.fits {
			for doubt, unfit := range one.unfit {
				if !of.excuses(doubt) {
					found, unproven = append(found, unfit), unproven+unfit.Count
				}
			}
		}
		if one.count == 1 && one.late && (one.retyped || !one.proven) {
			found = append(found, &Finding{Count: 1, Examples: []Example{one.first}})
			if !one.proven {
				unproven++
			}
		}
	}
	return found, unproven
}
