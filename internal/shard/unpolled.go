package shard

import (
	"fmt"
	"slices"

	"bridge/source/ledger"
)

// reasonTTL is why ids are no longer polled.
const reasonTTL = "ttl"

// straysTold bounds the warnings about wide gaps: ids that hold a time leave one behind every row.
const straysTold = 8

// unpolled counts the ids that are no longer polled, and warns of them at most once a minute.
func (g *gaps) unpolled(gone []ledger.Unpolled) {
	if len(gone) == 0 {
		return
	}
	ids := uint64(0)
	for _, g := range gone {
		ids += g.IDs
	}
	g.opts.Metrics.givenUp.WithLabelValues(g.opts.Stream, reasonTTL).Add(float64(ids))
	if g.warn() {
		g.opts.Logger.Warn("ids have been vacant for GAP_TTL and are no longer polled; a row that still appears there is published by reconcile",
			"first", gone[0].First, "last", gone[len(gone)-1].Last, "ids", ids, "missed", gone[0].Missed)
	}
}

// warnOfStrays warns once of each wide gap that the ledger watches the low end of.
func (g *gaps) warnOfStrays() {
	for _, gap := range g.ledger.Wide() {
		if slices.Contains(g.strays, gap.Last) {
			continue
		}
		if g.strays = append(g.strays, gap.Last); len(g.strays) > straysTold {
			continue
		}
		g.opts.Logger.Warn("ids jump: the position is behind a wide gap. Rows that go on at its low end are published as late rows, "+
			"the first million ids of it are polled for ever. If the id behind the gap was inserted by mistake, delete its row and go back with "+
			"bridge checkpoint set", "last_id_before", gap.First-1, "stray_id", gap.Last+1, "missed", gap.Missed,
			"command", fmt.Sprintf("bridge checkpoint set %s %s %d", g.opts.Stream, g.opts.Name, gap.First-1))
	}
}

// unpublished reports whether the row with this id was not published, as far as the ledger tells.
func (g *gaps) unpublished(id uint64) bool {
	return g.ledger == nil || g.ledger.Missing(id)
}
