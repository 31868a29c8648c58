package stream

import (
	"cmp"
	"slices"

	"example.org/bridge/checkpoint/store"
)

// MaxSpans is how many spans beyond its offset Coverage remembers of a TP, about 40 bytes each
// (rule 4). Further ones are left to the reader.
const MaxSpans = 10_000

// Range is what was covered of a TP: all offsets from From to below To. Last is its last message;
// its Hash is 0 where nothing lies in the range.
type Range struct {
	From, To uint64
	Last     store.Anchor
}

// Span is what a batch of the store covers of a TP: what was read of it, or acknowledged. TP is the
// number of the stream's registration, 0 where it has none yet: then nothing is covered. Duplicates
// that the bus dropped are left out (rule 23).
type Span struct {
	TP uint32
	Range
	// Marker says that the offset before the range holds no message, and is covered with it
	// (sink.At).
	Marker bool

	// The rest is of what was read. waits says that the offset must not pass it before the end of
	// Start (rule 12), late that it has expired unread (rule 27).
	waits, late bool
	// high is the last message that was applied, also where the range begins behind it; epoch is
	// the highest that was met.
	high  store.Anchor
	epoch uint64
}

// covered is a registration with which offsets of its TP this process got acknowledged or has read.
// Its Next advances over nothing else (rule 4).
type covered struct {
	store.Registration
	// spans lie above Next, in order, with a hole before each.
	spans []Range
	// end is as it was looked up last, or that of a span which was not remembered: what lies below
	// and is not covered is to be read, never skipped (rule 5). It may be lower than before, where
	// a TP has lost messages that were not read: nobody is to wait for these.
	end uint64
}

// clone returns a copy that shares nothing with t.
func (t *covered) clone() *covered {
	c := *t
	c.spans = slices.Clone(t.spans)
	return &c
}

// has reports whether an offset is covered.
func (t *covered) has(offset uint64) bool {
	i := t.above(offset)
	return offset < t.Next || i < len(t.spans) && t.spans[i].From <= offset
}

// above returns the index of the first span that ends above an offset.
func (t *covered) above(offset uint64) int {
	i, _ := slices.BinarySearchFunc(t.spans, offset+1, func(s Range, to uint64) int { return cmp.Compare(s.To, to) })
	return i
}

// hole returns what is not covered first at or above from, below the highest span and the end. It
// is without a message; found says that it is not empty.
func (t *covered) hole(from uint64) (h Range, found bool) {
	from = max(from, t.Next)
	for _, s := range t.spans {
		if s.From > from {
			return Range{From: from, To: s.From}, true
		}
		from = max(from, s.To)
	}
	return Range{From: from, To: t.end}, from < t.end
}

// before returns the last message that is covered right before a hole, with the hash 0 where there
// is none.
func (t *covered) before(from uint64) store.Anchor {
	if from == t.Next {
		return t.Last
	}
	for i := range t.spans {
		if t.spans[i].To == from {
			return t.spans[i].Last
		}
	}
	return store.Anchor{}
}

// hashAt returns the hash of the message at an offset, where that is the last one of what is
// covered before a hole; else 0.
func (t *covered) hashAt(offset uint64) uint64 {
	if t.Last.Offset == offset {
		return t.Last.Hash
	}
	if i := t.above(offset); i < len(t.spans) && t.spans[i].Last.Offset == offset {
		return t.spans[i].Last.Hash
	}
	return 0
}

// add joins r with the spans that it touches, and advances the offset over the first span where
// they meet.
func (t *covered) add(r Range) {
	if r.From >= r.To || r.To <= t.Next {
		return
	}
	// The spans from i to below j touch r.
	i, _ := slices.BinarySearchFunc(t.spans, r.From, func(s Range, from uint64) int { return cmp.Compare(s.To, from) })
	j := i
	for ; j < len(t.spans) && t.spans[j].From <= r.To; j++ {
		s := t.spans[j]
		r.From, r.To, r.Last = min(r.From, s.From), max(r.To, s.To), r.Last.Later(s.Last)
	}
	switch {
	case r.From <= t.Next:
		t.Next, t.Last = r.To, t.Last.Later(r.Last)
		t.spans = slices.Delete(t.spans, i, j)
	case i < j || len(t.spans) < MaxSpans:
		t.spans = slices.Replace(t.spans, i, j, r)
	default:
		// Rule 4: not remembered, so it is read. It is below the end for that.
		t.end = max(t.end, r.To)
	}
}

// free reports whether nothing of r is covered.
func (t *covered) free(r Range) bool {
	i := t.above(r.From)
	return r.From >= t.Next && (i == len(t.spans) || t.spans[i].From >= r.To)
}
