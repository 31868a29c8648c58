package httpapi

import (
	"context"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/internal/buscopy"
	"example.org/bridge/internal/null"
	"example.org/bridge/internal/shard"
	"example.org/bridge/internal/share"
	"example.org/bridge/internal/standby"
	"example.org/bridge/internal/stream"
	"example.org/bridge/internal/tap"
	"example.org/bridge/reconcile"
)

// Daemon is the process that the HTTP server shows. It is safe for concurrent use.
type Daemon interface {
	// Live returns nil while the loops turn, also while the source and the bus are away.
	Live() error
	// Ready returns why the process is not ready; nothing if source and bus can be reached and no
	// stream is stopped or degraded.
	Ready(ctx context.Context) []Reason
	// Status returns a snapshot of all streams.
	Status() Status
	// Working returns the process that works. The error says why none can be asked, and what to do.
	Working() (Peer, error)
	// Reconcile asks for a reconcile of a stream and returns without waiting for it. The error is
	// ErrNoStream or ErrCannotReconcile.
	Reconcile(stream string, mode reconcile.Mode) (Accepted, error)
	// Resend makes the owner of a shard send dead letters again, and waits for it. The error is
	// ErrNoStream, ErrCannotResend, or that of ctx.
	Resend(ctx context.Context, request ResendRequest) ([]shard.ResendOutcome, error)
	// ResendAll has the dead letters of a stream that the bus holds sent again, and waits for it.
	// The error is as that of Resend.
	ResendAll(ctx context.Context, stream string, dryRun bool) (ResentAll, error)
	// Pause pauses or resumes a stream or one of its tables, and returns once that is durable and,
	// for a while, until nothing is in flight. The error is ErrNoStream, ErrCannotPause, or that of
	// ctx.
	Pause(ctx context.Context, request PauseRequest) (Paused, error)
	// Republish publishes rows again, or cancels that, and returns once the request is durable. The
	// error is ErrNoStream, ErrCannotRepublish, or that of ctx.
	Republish(ctx context.Context, request RepublishRequest) (Republished, error)
	// Entity and EntityPage show entities of a capability stream. The error is ErrNoStream,
	// ErrNoEntity, ErrNotServed, ErrBadQuery, or one that a later question may not get.
	Entity(ctx context.Context, q EntityQuery) (Entity, error)
	EntityPage(ctx context.Context, q PageQuery) (EntityPage, error)
	// Tail returns a listener to the events of a stream, or of all where the name is empty. The
	// error is ErrNoStream or tap.ErrTooMany.
	Tail(stream string) (*tap.Listener, error)
}

// Reason says why the process is not ready. Stream and Shard are empty if it concerns all streams.
type Reason struct {
	Stream string `json:"stream,omitempty"`
	Shard  string `json:"shard,omitempty"`
	Reason string `json:"reason"`
}

// Status is the answer of /api/v1/status.
type Status struct {
	// Started is when the process began, or its configuration was reloaded, by the host's clock.
	Started time.Time `json:"started"`
	// Delivery is "at-least-once" or "exactly-once".
	Delivery string `json:"delivery"`
	// Epoch is the epoch of the messages of this process, 0 until a stream has caught up.
	Epoch uint64 `json:"epoch"`
	// Share is left out where one process works on all tables.
	Share *share.Share `json:"share,omitempty"`
	// Standby is left out where the process works alone.
	Standby *standby.Status `json:"standby,omitempty"`
	// Totals count all streams, also those that are not listed. The handler fills them in.
	Totals  *Totals        `json:"totals,omitempty"`
	Streams []StreamStatus `json:"streams"`
	// Version is the version of the program. Source, Bus and Checkpoint are what the process
	// depends on, and Progress the progress on the bus, left out unless it is kept there. A
	// checkpoint answers once it was saved.
	Version string            `json:"version,omitempty"`
	Source  *DependencyStatus `json:"source,omitempty"`
	// Sources are the sources where there are several, of which Source is the sum.
	Sources    []DependencyStatus `json:"sources,omitempty"`
	Bus        *DependencyStatus  `json:"bus,omitempty"`
	Checkpoint *DependencyStatus  `json:"checkpoint,omitempty"`
	Progress   *DependencyStatus  `json:"progress,omitempty"`
}

// DependencyStatus says whether something answers that the process depends on.
type DependencyStatus struct {
	// Name is the name of a source among several, left out else.
	Name string `json:"name,omitempty"`
	// Kind is "mysql", "kafka" or the like. Address is host:port, a path, or empty.
	Kind    string `json:"kind"`
	Address string `json:"address"`
	// Answers is null until it was used for the first time.
	Answers *bool `json:"answers"`
	// Since is when its oldest outage that lasts began, by the host's clock, and Error is what
	// happened last. Both are null while it answers.
	Since null.Time `json:"since"`
	Error null.Text `json:"error"`
}

// StreamStatus is the status of one stream. Its state is the worst of its shards'.
type StreamStatus struct {
	Name    string                `json:"name"`
	Kind    event.Kind            `json:"kind"`
	State   shard.State           `json:"state"`
	CatchUp stream.StreamProgress `json:"catchUp"`
	// Resendable says that rows which the bus refuses go to a destination that can be read, and so
	// can be sent again.
	Resendable bool `json:"resendable"`
	// Nominated entities wait until their rows are read in all tables of the stream.
	Nominated int `json:"nominated"`
	// Duplicates counts how often a key was found to have two rows since the start.
	Duplicates uint64 `json:"twins"`
	// Progress is left out unless it is kept on the bus, too.
	Progress *buscopy.Status `json:"progress,omitempty"`
	Shards   []shard.Status  `json:"shards"`
	// Summary is about all shards, also those that are not listed. The handler fills it in.
	Summary *StreamSummary `json:"summary,omitempty"`
}
