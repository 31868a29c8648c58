package shard

import (
	"fmt"
	"slices"

	"bridge/source/ledger"
)

// reasonTTL is why ids are no longer polled.
const reasonTTL = "ttl"

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

// spreadGaps is from how many wide gaps on ids count as far apart, so that none of them is stray.
const spreadGaps = 3

// warnOfStrays warns once of each wide gap that the ledger watches the low end of. Ids that hold a
// time leave one behind every row, which is no fault: it is told once.
func (g *gaps) warnOfStrays() {
	wide := g.ledger.Wide()
	for _, gap := range wide {
		if g.spread || slices.Contains(g.strays, gap.Last) {
			continue
		}
		if len(wide) >= spreadGaps || holdsTime(gap.Last+1) && (gap.First == 1 || holdsTime(gap.First-1)) {
			g.spread = true
			g.opts.Logger.Info("ids are far apart, as those that hold a time are: missing ids between rows are polled as all others, and "+
				"the first million ids of the eight widest gaps for ever", "last_id_before", gap.First-1, "id", gap.Last+1)
			continue
		}
		g.strays = append(g.strays, gap.Last)
		g.opts.Logger.Warn("ids jump: the position is behind a wide gap. Rows that go on at its low end are published as late rows, "+
			"the first million ids of it are polled for ever. If the id behind the gap was inserted by mistake, delete its row and go back with "+
			"bridge checkpoint set", "last_id_before", gap.First-1, "stray_id", gap.Last+1, "missed", gap.Missed,
			"command", fmt.Sprintf("bridge checkpoint set %s %s %d", g.opts.Stream, g.opts.Name, gap.First-1))
	}
}

// holdsTime reports whether an id can be one of Snowflake's kind: milliseconds above 22 bits,
// since an epoch that lies between three days and twenty years back.
func holdsTime(id uint64) bool {
	const day = 24 * 60 * 60 * 1000
	since := id >> 22
	return since > 3*day && since < 20*365*day
}

// unpublished reports whether the row with this id was not published, as far as the ledger tells.
func (g *gaps) unpublished(id uint64) bool {
	return g.ledger == nil || g.ledger.Missing(id)
}
