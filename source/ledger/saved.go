package ledger

import (
	"fmt"

	"bridge/source"
)

// Saved is what a saved head says of a ledger, for readers of its parts beside its owner.
type Saved struct {
	segments []segment
	wide     wideGaps
	pending  []source.Range
}

// ReadSaved reads the head of a saved ledger, the part with the key 0. The error wraps ErrDamaged.
func ReadSaved(head []byte) (*Saved, error) {
	s := state{missing: newGapSet()}
	if _, _, err := parseHead(head, &s, 0); err != nil {
		return nil, fmt.Errorf("head: %w", err)
	}
	return &Saved{segments: s.missing.segments, wide: s.missing.wide, pending: s.pending.ranges()}, nil
}

// Unpolled appends to dst the ranges of missing ids in part that were no longer polled when it was
// saved, ascending. The error wraps ErrDamaged.
func (s *Saved) Unpolled(dst []source.Range, part Chunk) ([]source.Range, error) {
	list, err := parseGaps(nil, part.Bytes)
	if err != nil {
		return dst, fmt.Errorf("part %d: %w", part.Key, err)
	}
	for _, g := range list {
		dst = s.unpolled(dst, g.Range, s.wide.segmentOf(g.First))
	}
	return dst, nil
}

// Wide appends to dst the ranges of missing ids in wide gaps that were no longer polled, ascending:
// all but their fronts.
func (s *Saved) Wide(dst []source.Range) []source.Range {
	for k, w := range s.wide {
		if front := s.wide.front(k); front.Last < w.Last {
			dst = s.unpolled(dst, source.Range{First: front.Last + 1, Last: w.Last}, k+1)
		}
	}
	return dst
}

// unpolled appends the part of r, in segment k, that was not polled.
func (s *Saved) unpolled(dst []source.Range, r source.Range, k int) []source.Range {
	r.Last = min(r.Last, s.segments[k].expired)
	if r.Empty() {
		return dst
	}
	return outside(dst, []source.Range{r}, s.pending)
}
