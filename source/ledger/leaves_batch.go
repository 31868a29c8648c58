package ledger

import (
	"slices"

	"bridge/source"
)

// subtract removes ids of ascending, disjoint ranges from leaf i, which may go or become several.
// No leaf may be open. It reports false when the leaf cannot be read.
func (s *leafList) subtract(i int, ranges []source.Range) bool {
	if r := ranges[0]; r.First <= s.list[i].First && r.Last >= s.list[i].Last {
		s.free(i)
		s.delete(i)
		return true
	}
	form := s.form(i)
	if form == nil {
		return false
	}
	list, removed := s.gaps[:0], false
	eachGap(form, func(g gap) bool {
		for len(ranges) > 0 && ranges[0].Last < g.First {
			ranges = ranges[1:]
		}
		for _, r := range ranges {
			if r.First > g.Last || g.Empty() {
				break
			}
			removed = true
			if r.First > g.First {
				list = append(list, gap{source.Range{First: g.First, Last: r.First - 1}, g.missed})
			}
			if r.Last >= g.Last {
				g = gap{Range: source.Range{First: 1}}
				break
			}
			g.First = r.Last + 1
		}
		if !g.Empty() {
			list = append(list, g)
		}
		return true
	})
	if s.gaps = list; removed {
		s.rewrite(i, list)
	}
	return true
}

// unite adds ascending, disjoint ranges to leaf i, above the leaf before and below the one after.
// No leaf may be open. It reports false when the leaf cannot be read.
func (s *leafList) unite(i int, ranges []source.Range) bool {
	form := s.form(i)
	if form == nil {
		return false
	}
	list := s.gaps[:0]
	add := func(r source.Range) {
		if n := len(list) - 1; n >= 0 && r.First <= list[n].Last+1 {
			list[n].Last = max(list[n].Last, r.Last)
			return
		}
		list = append(list, gap{Range: r})
	}
	eachGap(form, func(g gap) bool {
		for len(ranges) > 0 && ranges[0].First <= g.First {
			add(ranges[0])
			ranges = ranges[1:]
		}
		add(g.Range)
		return true
	})
	for _, r := range ranges {
		add(r)
	}
	s.gaps = list
	s.rewrite(i, list)
	return true
}

// rewrite makes list the gaps of leaf i, of which others above it become part when they are too
// many.
func (s *leafList) rewrite(i int, list []gap) {
	key := s.list[i].key
	s.free(i)
	s.changed[key] = struct{}{}
	if len(list) == 0 {
		s.delete(i)
		return
	}
	if len(list) <= 2*leafGaps {
		s.list[i] = s.encode(key, list)
		return
	}
	made := make([]leaf, 0, len(list)/leafGaps+1)
	for rest := list; len(rest) > 0; {
		n := min(leafGaps, len(rest))
		made = append(made, s.encode(key, rest[:n]))
		if rest = rest[n:]; len(rest) > 0 {
			key = rest[0].First
		}
	}
	s.list = slices.Replace(s.list, i, i+1, made...)
}
