package ledger

import (
	"slices"
	"time"

	"bridge/source"
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
	// maxCandidates bounds what a probe is chosen from.
	maxCandidates = 1024
	// freshFor is how long vacant ids come before older ones where not all fit: an id that is
	// allocated is usually inserted soon.
	freshFor = 2 * time.Second
	// pendingWindow is how many ids of a pending range are read with all columns while no row of it
	// has been found.
	pendingWindow = 2048
	// blockIDs is the least number of ids in a gap that may be a block of a writer.
	blockIDs = 64
)

// prober chooses what to read at each poll. Where not all hot ids fit into a probe they take turns.
type prober struct {
	*state
	merge mergeLimits
	// maxRows and maxIDs are those of Options.
	maxRows, maxIDs int
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

func newProber(s *state, opts Options) prober {
	return prober{
		state: s, maxRows: opts.MaxRows, maxIDs: opts.MaxIDs,
		merge: mergeLimits{ranges: opts.MaxRanges, ids: opts.MaxIDs},
	}
}

// next returns what to read at the time t.
func (p *prober) next(t int64) Probe {
	spans := p.hot(t)
	list, fits := p.everything(spans)
	ids, n := []source.Range(nil), 0
	if fits {
		ids, n = p.merge.choose(list, p.maxIDs)
	}
	if n < len(list) || !fits {
		var turns rotation
		list, turns = p.urgent(spans, t)
		ids, n = p.merge.choose(list, p.maxIDs)
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
	fronts := p.fronts()
	rows, n := p.merge.choose(append(fronts, list...), p.maxRows)
	if n < len(fronts)+len(list) {
		// Ids that no evidence has shown yet may have committed since they were missed. Of the
		// others, those that are not pending can wait until an evidence shows them.
		first := append(fronts, p.unobserved()...)
		unobserved := len(first)
		first = p.addPending(first, p.nextPendingRows)
		rows, n = p.merge.choose(append(first, list...), p.maxRows)
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
	if p.cut > 0 {
		if rest := source.RangesAbove(rows, p.cut); len(rest) > 0 {
			rows = rest
		}
		p.cut = 0
	}
	return rows
}

// thin leaves no more than a window of each large pending range in rows, another one at every poll:
// reading rows that are not committed costs the server as much as if they were. Once a row of the
// range is found all of it is read.
func (p *prober) thin(rows []source.Range) []source.Range {
	var hidden []source.Range
	for _, f := range p.pending.list {
		if width := f.Last - f.First; f.shown && width >= pendingWindow {
			begin := f.First + p.window*pendingWindow%(width-width%pendingWindow)
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

// fronts returns the low ends of the wide gaps: their rows are read whatever the age. The ids that
// rows skip there are missing from then on, so that no evidence is needed before.
func (p *prober) fronts() []candidate {
	list := make([]candidate, 0, maxWide)
	for k := range p.missing.wide {
		if front := source.RangesThrough([]source.Range{p.missing.wide.front(k)}, p.position); len(front) > 0 {
			list = append(list, candidate{Range: front[0]})
		}
	}
	return list
}

// everything returns all hot ranges, and whether they are few enough to try.
func (p *prober) everything(spans []source.Range) ([]candidate, bool) {
	gaps := 0
	for _, span := range spans {
		gaps += p.missing.maxGaps(span)
	}
	if len(p.pending.list) > maxCandidates || gaps > maxCandidates {
		return nil, false
	}
	list := p.addPending(make([]candidate, 0, 64), 0)
	for _, span := range spans {
		p.missing.missingIn(span, func(r source.Range) bool {
			list = append(list, candidate{Range: r})
			return true
		})
	}
	return list, true
}

// descend calls yield for the gaps of spans that begin at or below top, in descending order, until
// it returns false.
func (p *prober) descend(spans []source.Range, top uint64, yield func(gap) bool) {
	for _, span := range slices.Backward(spans) {
		more := true
		if span.First > top {
			continue
		}
		p.missing.descend(min(top, span.Last), func(g gap) bool {
			if g.First < span.First {
				return false
			}
			more = yield(g)
			return more
		})
		if !more {
			return
		}
	}
}

// addPending appends the pending ranges, beginning with the i-th, at most maxCandidates of them.
func (p *prober) addPending(list []candidate, i int) []candidate {
	pending := p.pending.list
	for n := range min(len(pending), maxCandidates) {
		list = append(list, candidate{Range: pending[(i+n)%len(pending)].Range})
	}
	return list
}

// rotation says which candidates of a list take turns: the first ones, the pending ranges from one
// index to another, and all from rest on.
type rotation struct{ first, pending, pendingEnd, rest int }

// urgent returns hot ranges, the most urgent first. Those that take turns are in descending order.
// A few of them, and of those that no evidence has covered, come before all others, so that they do
// have their turn.
func (p *prober) urgent(spans []source.Range, t int64) ([]candidate, rotation) {
	var r rotation
	top := p.noticed
	if len(spans) > 0 && p.below >= spans[0].First && p.below < top {
		top = p.below
	}
	g := p.merge.gatherer(4)
	p.descend(spans, top, g.add)
	list := g.list
	r.first = len(list)

	list = append(list, p.unobserved()...)

	r.pending = len(list)
	list = p.addPending(list, p.nextPending)
	r.pendingEnd = len(list)

	g = p.merge.gatherer(1)
	for _, span := range slices.Backward(spans) {
		p.missing.descend(span.Last, func(one gap) bool {
			return one.First >= span.First && t-one.missed < freshFor.Microseconds() && g.add(one)
		})
	}
	list = append(append(list, g.list...), p.blocks(spans, maxCandidates/4)...)

	r.rest = len(list)
	g = p.merge.gatherer(1)
	if r.first > 0 {
		top = list[r.first-1].First - 1
	}
	p.descend(spans, top, g.add)
	return append(list, g.list...), r
}

// unobserved returns the first hot ranges of each segment that no evidence has covered yet.
func (p *prober) unobserved() []candidate {
	m := p.missing
	var list []candidate
	for k, at := range m.segments {
		from, ids := at.observed, m.wide.segment(k)
		if ids.Last > p.position && p.hold {
			from = p.position
		}
		if from >= ids.Last {
			continue
		}
		w := p.merge.gatherer(4 * len(m.segments))
		m.ascend(max(from+1, ids.First), func(g gap) bool { return g.First <= ids.Last && w.add(g) })
		list = append(list, w.list...)
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

// blocks returns the widest gaps of spans, at most n.
func (p *prober) blocks(spans []source.Range, n int) []candidate {
	var list []candidate
	leaves := &p.missing.leaves
	for i := len(leaves.list) - 1; i >= 0 && len(list) < n; i-- {
		for len(spans) > 0 && leaves.list[i].Last < spans[len(spans)-1].First {
			spans = spans[:len(spans)-1]
		}
		if len(spans) == 0 {
			break
		}
		if leaves.list[i].widest < blockIDs {
			continue
		}
		leaves.each(i, func(g gap) bool {
			if g.size() >= blockIDs && g.First >= spans[len(spans)-1].First {
				list = append(list, candidate{Range: g.Range})
			}
			return len(list) < n
		})
	}
	return list
}
