package source

import (
	"log/slog"

	"golang.org/x/sync/errgroup"

	"bridge/internal/inspect"
	"bridge/internal/panics"
)

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
