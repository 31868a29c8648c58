package reconcile

import (
	"errors"
	"fmt"
	"strings"

	"bridge/internal/option"
)

// Guard decides whether suspiciously many entities are gone. It is pure.
type Guard struct {
	// MaxDeletes is the share of the live entities, in percent, that may be gone; 100 switches the
	// guard off.
	MaxDeletes float64
	// Stream is named in the command that resolves it.
	Stream string
}

// Found is what a scan found, as far as the guard is concerned.
type Found struct {
	// Rows counts the rows of the table that were scanned.
	Rows uint64
	// Live counts the live entities of the view, Gone those of them that have no row.
	Live, Gone uint64
}

// fewGone is how many entities may be gone whatever their share, up to a half.
const fewGone = 100

// Check returns an error that says why no delete may be published until a person agrees, nil when
// deletes may be.
func (g Guard) Check(f Found) error {
	if g.MaxDeletes >= 100 || f.Gone == 0 {
		return nil
	}
	var why error
	share := 100 * float64(f.Gone) / float64(max(f.Live, 1))
	switch {
	case f.Rows == 0:
		why = errors.New("no row was found in the table")
	case f.Gone > f.Live/2 && 2*f.Gone > f.Live:
		why = errors.New("that is more than half of them")
	case f.Gone > fewGone && share > g.MaxDeletes:
		why = option.Errorf("at most %s or %d of them may be gone (%s)", percent(g.MaxDeletes), fewGone, option.ReconcileMaxDeletes)
	default:
		return nil
	}
	return option.Errorf("%d of %d live entities (%s) have no row: %w. No delete is published. Was the table truncated, restored or exchanged? "+
		"If the rows were deleted on purpose: bridge reconcile --allow-deletes %s", f.Gone, f.Live, percent(share), why, g.Stream)
}

// Beyond reports whether the guard will trip whatever the rest of the view brings, when the table
// has been read to its end: every further entity has no row, save those that up to room rows may
// hold.
func (g Guard) Beyond(f Found, room uint64) bool {
	if f.Gone <= room {
		return false
	}
	f.Gone -= room
	return g.Check(f) != nil
}

func percent(p float64) string {
	text := fmt.Sprintf("%.1f", p)
	return strings.TrimSuffix(text, ".0") + "%"
}
