package ledger

import (
	"fmt"
	"iter"
)

// RestoreParts returns the ledger with a saved head, and parts in the order of their keys, of which
// it keeps as many in memory as MaxBytes allows. It returns the errors of parts as they are; others
// wrap ErrDamaged when the parts are damaged, not all of one ledger, or do not belong to position.
func RestoreParts(opts Options, position uint64, head []byte, parts iter.Seq2[Chunk, error]) (*Ledger, error) {
	l, err := New(opts, position)
	if err != nil {
		return nil, err
	}
	s := &l.state
	c, leaves, err := parseHead(head, s, l.opts.Away)
	if err != nil {
		return nil, fmt.Errorf("head: %w", err)
	}
	l.clock = c
	if s.position != position {
		return nil, fmt.Errorf("%w: it belongs to position %d, not %d", ErrDamaged, s.position, position)
	}
	for c, err := range parts {
		if err != nil {
			return nil, err
		}
		if err := s.missing.restore(c, s.noticed); err != nil {
			return nil, fmt.Errorf("part %d: %w", c.Key, err)
		}
		s.missing.leaves.trim(l.opts.MaxBytes)
	}
	if n := len(s.missing.leaves.list); leaves != uint64(n) {
		return nil, fmt.Errorf("%w: %d parts are there, %d were saved", ErrDamaged, n, leaves)
	}
	return l, nil
}

// restore adds a saved leaf above the others.
func (s *gapSet) restore(c Chunk, noticed uint64) error {
	leaf, scratch, err := parseLeaf(c.Key, c.Bytes, s.leaves.open)
	s.leaves.open, s.leaves.at = scratch[:0], -1
	if err != nil {
		return err
	}
	list := s.leaves.list
	k := s.wide.segmentOf(leaf.First)
	n := len(list)
	switch {
	case n > 0 && c.Key <= list[n-1].Last:
		return fmt.Errorf("%w: it overlaps the part before", ErrDamaged)
	case n > 0 && s.wide.segmentOf(list[n-1].First) == k && leaf.oldest < list[n-1].newest:
		return fmt.Errorf("%w: it is older than the part before", ErrDamaged)
	case k > 0 && (c.Key <= s.wide[k-1].Last || leaf.oldest < s.wide[k-1].missed),
		k < len(s.wide) && leaf.Last >= s.wide[k].First:
		return fmt.Errorf("%w: it does not fit beside a wide gap", ErrDamaged)
	case leaf.Last > noticed:
		return fmt.Errorf("%w: it goes beyond the position", ErrDamaged)
	}
	s.leaves.list = append(list, leaf)
	s.leaves.forms += len(leaf.form)
	return nil
}
