package ledger

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"example.org/bridge/source"
)

// Probe says what to read at one poll. Its ranges are ascending and disjoint. They may have ids
// that are not missing: neighbours are merged so that one statement with a bounded number of ranges
// reads them.
type Probe struct {
	// Rows are the ranges whose committed rows to read; Missing tells which of them are late rows.
	// Where a limit cuts the read off, call CutOff, so that the next probe continues there. A limit
	// above MaxRows rows seldom cuts it off.
	Rows []source.Range
	// IDs are the ranges whose ids to read afterwards, for Observe. They include those of Rows,
	// except the fronts of wide gaps, and where they continue an evidence that was cut off.
	IDs []source.Range
}

const (
	maxCandidates = 1024
	// freshFor is how long vacant ids come first: an id that is allocated is usually inserted soon.
	freshFor = 2 * time.Second
	// pendingWindow is how many ids of a pending range are read until a row of it is found.
	pendingWindow = 2048
	// blockIDs is the least number of ids in a gap that may be a block of a writer.
	blockIDs = 64
)

// prober chooses what to read at each poll. Where not all hot ids fit into a probe they take turns.
type prober struct {
	*state
	opts *Options
	// last is the end of the last probe; resume is where the evidence of it was cut off, 0 when it
	// was not.
	last, resume uint64
	// cut is where the read of rows was cut off, 0 when it was not.
	cut uint64
	// below, nextPending and nextPendingRows say where those hot ids begin that did not fit into
	// the last probe.
	below                        uint64
	nextPending, nextPendingRows int
	// window says which part of a large pending range is read.
	window uint64
}

// candidate is a range that may become part of a probe and how many ids in it are not missing.
type candidate struct {
	source.Range
	extra uint64
}

func (p *prober) next(t int64) Probe {
	spans := p.hot(t)
	list, ids, n := []candidate(nil), []source.Range(nil), 0
	// Gaps that lie apart are read as one only where they do not fit otherwise.
	for slack := 0; slack <= p.opts.MaxIDs/p.opts.MaxRanges; slack = 2*slack + 1 {
		list = gather(p.everything(spans), p.opts.MaxRanges+1, uint64(slack), uint64(p.opts.MaxIDs))
		if ids, n = p.choose(list, p.opts.MaxIDs); n == len(list) {
			break
		}
	}
	if len(list) == 0 {
		// No pending range has an id that is still missing, and no evidence is asked that shows it.
		p.pending.list = nil
	}
	if n < len(list) {
		var turns rotation
		list, turns = p.urgent(spans, t)
		ids, n = p.choose(list, p.opts.MaxIDs)
		p.rotate(list, n, turns)
		list = list[turns.first:turns.rest]
	} else {
		p.nextPending, p.below = 0, 0
	}
	probe := Probe{Rows: p.rows(list), IDs: ids}
	if len(ids) > 0 {
		p.last = ids[len(ids)-1].Last
		if rest := source.RangesAbove(ids, p.resume); p.resume > 0 && len(rest) > 0 {
			probe.IDs = rest
		}
	}
	return probe
}

// read notes which ranges of the last probe's IDs were read.
func (p *prober) read(ranges []source.Range) {
	p.resume = 0
	if n := len(ranges); n > 0 && ranges[n-1].Last < p.last {
		p.resume = ranges[n-1].Last
	}
}

// rows returns what to read of list with all columns.
func (p *prober) rows(list []candidate) []source.Range {
	// The rows of fronts are read whatever the age. The ids that rows skip there are missing from
	// then on, so that no evidence is needed before.
	fronts := make([]candidate, 0, maxWide)
	for _, w := range p.missing.wide() {
		if ids := front(w).Intersect(source.Range{Last: p.position}); !ids.Empty() {
			fronts = append(fronts, candidate{Range: ids})
		}
	}
	rows, n := p.choose(append(fronts, list...), p.opts.MaxRows)
	if n < len(fronts)+len(list) {
		// Ids that no evidence has shown yet may have committed since they were missed. Of the
		// others, those that are not pending can wait until an evidence shows them.
		first := append(fronts, p.unobserved()...)
		unobserved := len(first)
		first = p.addPending(first, p.nextPendingRows)
		rows, n = p.choose(append(first, list...), p.opts.MaxRows)
		if len(p.pending.list) > 0 {
			pending := min(n, len(first)) - unobserved
			p.nextPendingRows = (p.nextPendingRows + max(pending, 0)) % len(p.pending.list)
		}
	} else {
		p.nextPendingRows = 0
	}
	rows = p.thin(rows)
	if p.hold {
		// Rows after the position come with the page.
		rows = source.RangesThrough(rows, p.position)
	}
	if rest := source.RangesAbove(rows, p.cut); p.cut > 0 && len(rest) > 0 {
		rows = rest
	}
	p.cut = 0
	return rows
}

// thin leaves a window of each large pending range, another one at every poll, until a row of it is
// found: reading rows that are not committed costs the server as much as if they were.
func (p *prober) thin(rows []source.Range) []source.Range {
	var hidden []source.Range
	for _, f := range p.pending.list {
		if width := f.Last - f.First; f.shown && width >= pendingWindow {
			begin := f.First + p.window%(width/pendingWindow+1)*pendingWindow
			if begin > f.First {
				hidden = append(hidden, source.Range{First: f.First, Last: begin - 1})
			}
			if end := begin + pendingWindow - 1; end < f.Last {
				hidden = append(hidden, source.Range{First: end + 1, Last: f.Last})
			}
		}
	}
	if len(hidden) == 0 {
		return rows
	}
	p.window++
	return outside(nil, rows, hidden)
}

// everything returns the gaps of spans and the pending ranges outside them.
func (p *prober) everything(spans []source.Range) iter.Seq[gap] {
	return func(yield func(gap) bool) {
		for _, span := range spans {
			for g := range p.missing.ascend(span) {
				if !yield(g) {
					return
				}
			}
		}
		var pending []source.Range
		for _, one := range p.pending.list {
			pending = outside(pending[:0], []source.Range{one.Range}, spans)
			for _, ids := range pending {
				if !yield(gap{Range: ids}) {
					return
				}
			}
		}
	}
}

func (p *prober) descend(spans []source.Range, top uint64) iter.Seq[gap] {
	return func(yield func(gap) bool) {
		for _, span := range slices.Backward(spans) {
			for g := range p.missing.descend(span.Intersect(source.Range{Last: top})) {
				if !yield(g) {
					return
				}
			}
		}
	}
}

func (p *prober) addPending(list []candidate, i int) []candidate {
	pending := p.pending.list
	for n := range min(len(pending), maxCandidates) {
		list = append(list, candidate{Range: pending[(i+n)%len(pending)].Range})
	}
	return list
}

// rotation says who takes turns: the first ones, pending to pendingEnd, and all from rest on.
type rotation struct{ first, pending, pendingEnd, rest int }

// urgent returns hot ranges, the most urgent first. A few of those that take turns, which are in
// descending order, and of those without evidence come before all, so that they have their turn.
func (p *prober) urgent(spans []source.Range, t int64) ([]candidate, rotation) {
	var r rotation
	top := p.noticed
	if len(spans) > 0 && p.below >= spans[0].First && p.below < top {
		top = p.below
	}
	list := p.share(4, p.descend(spans, top))
	r.first = len(list)
	if r.first > 0 {
		top = list[r.first-1].First - 1
	}

	list = append(list, p.unobserved()...)

	r.pending = len(list)
	list = p.addPending(list, p.nextPending)
	r.pendingEnd = len(list)

	list = append(list, p.share(1, func(yield func(gap) bool) {
		for _, span := range slices.Backward(spans) {
			for g := range p.missing.descend(span) {
				if t-g.missed >= freshFor.Microseconds() {
					break
				}
				if !yield(g) {
					return
				}
			}
		}
	})...)
	list = append(list, p.blocks(spans, maxCandidates/4)...)

	r.rest = len(list)
	return append(list, p.share(1, p.descend(spans, top))...), r
}

// unobserved returns the first hot ranges of each segment that no evidence has covered yet.
func (p *prober) unobserved() (list []candidate) {
	m := p.missing
	for k, at := range m.segments {
		from, ids := at.observed, m.segment(k)
		if ids.Last > p.position && p.hold {
			from = p.position
		}
		if from < ids.Last {
			ids.First = max(from+1, ids.First)
			list = append(list, p.share(4*len(m.segments), m.ascend(ids))...)
		}
	}
	return list
}

// rotate notes what the next probe begins with when the first n of list fitted into this one.
func (p *prober) rotate(list []candidate, n int, r rotation) {
	p.below = 0
	if last := min(n, r.first) - 1; last >= 0 {
		p.below = list[last].First - 1
	}
	if n > r.rest {
		p.below = list[n-1].First - 1
	}
	if pending := min(n, r.pendingEnd) - r.pending; pending > 0 {
		p.nextPending = (p.nextPending + pending) % len(p.pending.list)
	}
}

// blocks returns wide gaps of spans, those of the highest blocks first, at most n.
func (p *prober) blocks(spans []source.Range, n int) (list []candidate) {
	m := p.missing
	for i := len(m.list) - 1; i >= 0; i-- {
		for len(spans) > 0 && m.list[i].Last < spans[len(spans)-1].First {
			spans = spans[:len(spans)-1]
		}
		if len(spans) == 0 {
			break
		}
		if m.list[i].wide || m.list[i].widest < blockIDs {
			continue
		}
		for g := range m.gaps(i) {
			if g.size() >= blockIDs && g.First >= spans[len(spans)-1].First {
				if list = append(list, candidate{Range: g.Range}); len(list) == n {
					return list
				}
			}
		}
	}
	return list
}

// gather joins gaps, in either direction, so that a probe can take some: of the ids between two at
// most slack, in a candidate twice as many, and spare in all.
func gather(gaps iter.Seq[gap], limit int, slack, spare uint64) (list []candidate) {
	for g := range gaps {
		if n := len(list) - 1; n >= 0 {
			c := &list[n]
			between := g.First - c.Last - 1
			if g.Last < c.First {
				between = c.First - g.Last - 1
			}
			if between <= slack && between <= spare && c.extra+between <= 2*slack {
				c.First, c.Last = min(c.First, g.First), max(c.Last, g.Last)
				c.extra += between
				spare -= between
				continue
			}
		}
		if len(list) == limit {
			break
		}
		list = append(list, candidate{Range: g.Range})
	}
	return list
}

// share gathers gaps for one of n parts of a probe.
func (p *prober) share(n int, gaps iter.Seq[gap]) []candidate {
	slack := max(1, p.opts.MaxIDs/p.opts.MaxRanges)
	return gather(gaps, max(1, p.opts.MaxRanges/n), uint64(slack), uint64(p.opts.MaxIDs/n))
}

// choose takes as many candidates from the head of list as go into MaxRanges ranges with at most
// budget ids that are not missing. It returns the ranges and how many candidates they hold.
func (p *prober) choose(list []candidate, budget int) (ranges []source.Range, n int) {
	if len(list) == 0 {
		return nil, 0
	}
	ranges = make([]source.Range, 0, min(len(list), p.opts.MaxRanges))
	extra := uint64(0)
	for n < min(len(list), p.opts.MaxRanges) && (n == 0 || extra+list[n].extra <= uint64(budget)) {
		ranges, extra = append(ranges, list[n].Range), extra+list[n].extra
		n++
	}
	slices.SortFunc(ranges, func(a, b source.Range) int { return cmp.Compare(a.First, b.First) })
	return source.JoinRanges(ranges, 0), n
}
