package source

import (
	"context"
	"time"

	"bridge/internal/inspect"
)

// Inspector is a Source that can look at its server and at tables for what is unsafe, unwise, or
// keeps them from being read. It reads with SELECT and SHOW and nothing else.
type Inspector interface {
	// Inspect looks at the server, and, if that answers, at every table, at most atOnce of them at
	// the same time. It does not fail: what keeps it from looking is a finding. It returns soon
	// after ctx ends.
	Inspect(ctx context.Context, tables []Expected, atOnce int) Inspection
}

// Expected is a table to look at, and what the configuration and the checkpoint expect of it.
type Expected struct {
	Spec Spec
	// Order is ID_ORDER; empty is auto.
	Order IDOrder
	// Hold says that GAP_POLICY is hold.
	Hold bool
	// Updates says that updates are published: an index on MODIFIED then finds them within a
	// second.
	Updates bool
	// Zone is TIME_ZONE: the zone of columns without one. Nil is UTC.
	Zone *time.Location
	// Position is the id up to which the table has been published, nil when there is no checkpoint.
	Position *uint64
	// Stream and Shard are the names that commands about the checkpoint want.
	Stream, Shard string
}

// Inspection is what Inspect found.
type Inspection struct {
	// Server is about the server. Its summary names the product and what the login can see of it.
	Server inspect.Report
	// Tables has one entry a table, in the order given; nil when the server could not be asked.
	Tables []TableInspection
}

// TableInspection is what Inspect found out about a table.
type TableInspection struct {
	Findings []inspect.Finding
	// Order is how ids are taken to be handed out: as configured, or, for auto, what the server
	// shows. Why says why. Both are empty when the table could not be read.
	Order IDOrder
	Why   string
}
