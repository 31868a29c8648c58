package source

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"example.org/bridge/internal/inspect"
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
	// Start is START where it is an id and the checkpoint has nothing of the table, else 0.
	Start uint64
	// Stream and Shard name the shard in commands about the checkpoint.
	Stream, Shard string
}

type Inspection struct {
	// Server is about the server. Its summary names the product and what the login may see of it.
	Server inspect.Report
	// Tables has one entry per table, in the order given; nil if the server did not answer.
	Tables []TableInspection
}

type TableInspection struct {
	Findings []inspect.Finding
	// Order is how the tail takes ids to be handed out: as configured or, for auto, as the server
	// shows. Why says why. Both are empty if the table could not be read.
	Order IDOrder
	Why   string
	// DeletedType is the type of the DELETED column as the server writes it, where it is known.
	DeletedType string
	// KeyForm names the columns of the KEY whose type decides how a value stands in a key.
	KeyForm string
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

// Describer is a Source that says how a table could become a stream. It reads with SELECT and SHOW
// only.
type Describer interface {
	Lister
	Describe(ctx context.Context, table string) (Description, error)
}

// Description is how a table could become a stream: its columns by their roles, as far as types,
// indexes and names tell. A role that no column has is empty.
type Description struct {
	// ID is the column of the increasing id. Numbered says that the database hands ids out.
	ID       string
	Numbered bool
	// Key are the columns of a unique index beside the id, in which none may be NULL.
	Key []string
	// Created and Modified are columns of times. Moves says that the database itself sets Modified
	// at every update, Indexed that an index finds changes by it.
	Created, Modified string
	Moves, Indexed    bool
	// Deleted is a column that may say that a row is deleted, by its name alone.
	Deleted string
}
