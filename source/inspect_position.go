package source

import (
	"fmt"

	"bridge/internal/inspect"
)

// CheckPosition adds to r what contradicts the position: highest is the highest id of the table, 0
// if it has none, and next the id of its next row, 0 if the database does not tell. Emptied is the
// database's word for a table that begins again at 1. Without a position, and at 0, nothing does.
func (e Expected) CheckPosition(r *inspect.Report, highest, next uint64, emptied string) {
	if e.Position == nil || *e.Position == 0 {
		return
	}
	position, set := *e.Position, "bridge checkpoint set "+e.Stream+" "+e.Shard
	commands := fmt.Sprintf("%s 0\n%s %d", set, set, highest)
	switch {
	case next > 0 && next <= position:
		r.Add(inspect.Unsafe, inspect.IDsReused, e.Spec.Table, fmt.Sprintf("gives the id %d to its next row, but ids up to %d count as published: new rows would never be seen", next, position)).
			Says("the table was %s or restored, or the checkpoint is of another table; stop bridge, then publish all of it, or go on after its highest id", emptied).
			Types("%s", commands)
	case position > highest && position-highest > inspect.StrayAbove:
		r.Add(inspect.Warning, inspect.StrayID, e.Spec.Table, fmt.Sprintf("has no id above %d, but ids up to %d count as published: a row with the id %d was inserted, and deleted", highest, position, position)).
			Says("rows that go on at the low end of the gap are published as late rows; if the id was a mistake, stop bridge and go on after the highest id").
			Types("%s %d", set, highest)
	case next == 0 && position > highest:
		r.Add(inspect.Warning, inspect.PositionAhead, e.Spec.Table, fmt.Sprintf("has no id above %d, but ids up to %d count as published", highest, position)).
			Says("nothing where the newest rows were deleted; otherwise the checkpoint is of another table: stop bridge, then publish all of this one, or go on after its highest id").
			Types("%s", commands)
	}
}
