package source

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/panics"
)

// Inspector is a Source that can inspect its server and tables for problems: what is unsafe or
// unwise, or keeps a table from being read. It reads with SELECT and SHOW only.
type Inspector interface {
	// Inspect inspects the server and, if that answers, every table, at most atOnce of them at a
	// time. It does not fail: if it cannot inspect something, that is a finding. It returns soon
	// after ctx ends.
	Inspect(ctx context.Context, tables []Expected, atOnce int) Inspection
}

// Expected is a table to inspect, and what configuration and checkpoint expect of it.
type Expected struct {
	Spec Spec
	// Order is ID_ORDER; empty for auto.
	Order IDOrder
	// Hold says that GAP_POLICY is hold.
	Hold bool
	// Updates says that updates are published. With an index on MODIFIED they are found within a
	// second.
	Updates bool
	// Zone is TIME_ZONE: the zone of columns without one. Nil is UTC.
	Zone *time.Location
	// Position is the id up to which the table has been published, nil if there is no checkpoint.
	Position *uint64
	// Stream and Shard name the shard in commands about the checkpoint.
	Stream, Shard string
}

// Inspection is the result of Inspect.
type Inspection struct {
	// Server is about the server. Its summary names the product and what the login may see of it.
	Server inspect.Report
	// Tables has one entry per table, in the order given; nil if the server did not answer.
	Tables []TableInspection
}

// TableInspection is the result for one table.
type TableInspection struct {
	Findings []inspect.Finding
	// Order is how the tail takes ids to be handed out: as configured or, for auto, as the server
	// shows. Why says why. Both are empty if the table could not be read.
	Order IDOrder
	Why   string
	// DeletedType is the type of the DELETED column as the server writes it, where it is known.
	DeletedType string
}

// Candidate is a column that may hold the time of a row's last change.
type Candidate struct {
	Name string
	// Sure says that the database sets it at every update.
	Sure bool
	// CreateIndex is the statement that makes the index by which changes are found, empty where
	// there is one.
	CreateIndex string
}

// ModifiedCandidates returns the columns of times, in their order, that look like the time of a
// row's last change: those that the database sets first, then those with such a name. A column
// with the role of CREATED or DELETED is none.
func (s *Spec) ModifiedCandidates(times []Candidate) []Candidate {
	times = slices.DeleteFunc(times, func(c Candidate) bool {
		return strings.EqualFold(c.Name, s.Created) || strings.EqualFold(c.Name, s.Deleted) || !c.Sure && !saysChange(c.Name)
	})
	slices.SortStableFunc(times, func(a, b Candidate) int {
		switch {
		case a.Sure == b.Sure:
			return 0
		case a.Sure:
			return -1
		}
		return 1
	})
	return times
}

// saysChange reports whether a column is named after the time of changes, as gmt_modified,
// updateTime and DataChange_LastTime are, and created_at and changed_by are not.
func saysChange(name string) bool {
	name = strings.ToLower(name)
	any := func(is func(s, word string) bool, words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return is(name, word) })
	}
	return any(strings.Contains, "modif", "updat", "chang", "mtime", "last_edit", "lastedit") && !any(strings.Contains, "creat") &&
		any(strings.HasSuffix, "at", "time", "ts", "on", "date", "stamp", "modified", "updated", "changed", "edit")
}

// CheckNoModified adds to r that updates wait for a reconcile because no MODIFIED is set, and which
// of the candidates to set it to.
func (e Expected) CheckNoModified(r *inspect.Report, candidates []Candidate) {
	if e.Spec.Modified != "" || !e.Updates {
		return
	}
	const waits = "has no MODIFIED: updates and soft deletes wait for the next reconcile"
	if len(candidates) == 0 {
		r.Add(inspect.Note, inspect.NoModified, e.Spec.Table, waits).
			Says("nothing where that is soon enough; otherwise let the application keep the time of a row's last change in an indexed column, and name it with %s", option.Modified)
		return
	}
	c := candidates[0]
	looks := ", and its column " + c.Name + " looks like the time of a row's last change"
	if c.Sure {
		looks = ", although the database sets its column " + c.Name + " at every update"
	}
	f := r.Add(inspect.Warning, inspect.NoModified, e.Spec.Table, waits+looks).
		Says("to have updates within a second set %s=%s, if every update sets it", option.Modified, c.Name)
	if c.CreateIndex != "" {
		f.Says("to have updates within a second set %s=%s, if every update sets it, and make the index that it lacks", option.Modified, c.Name).Types("%s", c.CreateIndex)
	}
}

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

// InspectTables calls inspectTable for every table, at most atOnce at a time, and returns the
// results in the order of tables. A panic becomes a finding about its table, with the stack in the
// log; the other tables are inspected all the same.
func InspectTables(tables []Expected, atOnce int, logger *slog.Logger, inspectTable func(Expected) TableInspection) []TableInspection {
	found := make([]TableInspection, len(tables))
	var group errgroup.Group
	group.SetLimit(max(1, atOnce))
	for i, expected := range tables {
		group.Go(func() error {
			err := panics.Guard(func() error {
				found[i] = inspectTable(expected)
				return nil
			})
			if err != nil {
				logger.Error("a table could not be looked at", append(panics.LogArgs(err), "stream", expected.Stream, "table", expected.Spec.Table)...)
				found[i] = TableInspection{Findings: []inspect.Finding{inspect.Panicked(expected.Spec.Table, err)}}
			}
			return nil
		})
	}
	// Every error has become a finding.
	_ = group.Wait()
	return found
}
