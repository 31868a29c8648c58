package shard

import (
	"context"
	"fmt"
	"slices"

	"bridge/source"
	"bridge/source/ledger"
)

// reasonTTL is why ids are no longer polled.
const reasonTTL = "ttl"

// straysTold bounds the warnings about wide gaps: ids that hold a time leave one behind every row.
const straysTold = 8

// unpolled counts the ids that are no longer polled, and warns of them at most once a minute.
func (s *Shard) unpolled(gone []ledger.Unpolled) {
	if len(gone) == 0 {
		return
	}
	ids := uint64(0)
	for _, g := range gone {
		ids += g.IDs
	}
	s.opts.Metrics.givenUp.WithLabelValues(s.opts.Stream, reasonTTL).Add(float64(ids))
	if s.warn() {
		s.opts.Logger.Warn("ids have been vacant for GAP_TTL and are no longer polled; a row that still appears there is published by reconcile",
			"first", gone[0].First, "last", gone[len(gone)-1].Last, "ids", ids, "missed", gone[0].Missed)
	}
}

// loadLedger reads a part of the ledger that is not in memory.
func (s *Shard) loadLedger(key uint64) ([]byte, error) {
	parts, err := s.opts.Store.LedgerParts(context.Background(), s.key(), key, 1, nil)
	if err != nil {
		return nil, err
	}
	if len(parts) == 0 || parts[0].Key != key {
		return nil, fmt.Errorf("%w: part %d is not in the checkpoint", ledger.ErrDamaged, key)
	}
	return parts[0].Bytes, nil
}

// tellStrays warns once of each wide gap that the ledger watches the low end of.
func (s *Shard) tellStrays() {
	for _, gap := range s.gaps.ledger.Wide() {
		if slices.Contains(s.gaps.strays, gap.Last) {
			continue
		}
		if s.gaps.strays = append(s.gaps.strays, gap.Last); len(s.gaps.strays) > straysTold {
			continue
		}
		s.opts.Logger.Warn("ids jump: the position is behind a wide gap. Rows that go on at its low end are published as late rows, "+
			"the first million ids of it are polled for ever. If the id behind the gap was inserted by mistake, delete its row and go back with "+
			"bridge checkpoint set", "last_id_before", gap.First-1, "stray_id", gap.Last+1, "missed", gap.Missed,
			"command", fmt.Sprintf("bridge checkpoint set %s %s %d", s.opts.Stream, s.opts.Name, gap.First-1))
	}
}

// unpublished reports whether the row with this id was not published, as far as the ledger tells, and the ids that an earlier version gave
// up: from those b removes it.
func (s *Shard) unpublished(ctx context.Context, b *batch, id uint64) (bool, error) {
	if s.gaps.ledger == nil || s.gaps.ledger.Missing(id) {
		return true, nil
	}
	given, err := s.opts.Store.GivenUp(ctx, s.key(), id, 1, nil)
	if err != nil || len(given) == 0 || given[0].First > id {
		return false, err
	}
	b.found = append(b.found, source.Range{First: id, Last: id})
	return true, nil
}
