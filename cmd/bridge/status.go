package main

import (
	"context"
	"time"

	"bridge/internal/pipeline"
	"bridge/reconcile"
)

// daemon is what HTTP shows of the process. It is safe for concurrent use.
type daemon interface {
	// Live returns nil while the loops turn, whatever the source and the bus do.
	Live() error
	// Ready returns why the process is not ready: nothing when source and bus can be reached and no stream is stopped or degraded.
	Ready(ctx context.Context) []Reason
	// Status returns a snapshot of all streams.
	Status() Status
	// Reconcile asks for a reconcile of a stream and returns without waiting for it. The error is errNoStream or errCannot.
	Reconcile(stream string, mode reconcile.Mode) (Asked, error)
	// Resend has the owner of a shard send dead letters again, and waits until it has. The error is errNoStream, errCannot, or that of ctx.
	Resend(ctx context.Context, request ResendRequest) ([]pipeline.LetterOutcome, error)
}

// Reason says why the process is not ready. Stream and Shard are empty where it concerns all of them.
type Reason struct {
	Stream string `json:"stream,omitempty"`
	Shard  string `json:"shard,omitempty"`
	Reason string `json:"reason"`
}

// Status is the answer of /api/v1/status.
type Status struct {
	// Started is when the process began, by the host's clock.
	Started time.Time      `json:"started"`
	Streams []StreamStatus `json:"streams"`
}

// StreamStatus is one stream. Its state is that of the shard that is worst off.
type StreamStatus struct {
	Name   string         `json:"name"`
	Kind   string         `json:"kind"`
	State  pipeline.State `json:"state"`
	Shards []ShardStatus  `json:"shards"`
}

// ShardStatus is one shard.
type ShardStatus struct {
	Shard string         `json:"shard"`
	State pipeline.State `json:"state"`
	// Position is the id up to which everything is published and saved.
	Position uint64 `json:"position"`
	// Highest is the highest id of the table when it was read last.
	Highest uint64 `json:"highest"`
	// OpenGaps counts the ranges of ids below the position that have not been seen.
	OpenGaps int `json:"openGaps"`
	// Gaps describes the ids below the position that have not been seen.
	Gaps GapsStatus `json:"gaps"`
	// LagSeconds is the age of the oldest committed row that is not published; 0 when drained.
	LagSeconds float64 `json:"lagSeconds"`
	// LastError is the latest fault, null while there is none.
	LastError *string `json:"lastError"`
	// LastPoll is when the source last answered, null before the first time.
	LastPoll *time.Time `json:"lastPoll"`
	// Reconcile says how the comparison of the table with what was published stands.
	Reconcile *ReconcileStatus `json:"reconcile"`
}

// Degraded is the state of a shard that goes on but publishes no delete that reconcile finds, until a person agrees.
const Degraded pipeline.State = "degraded"

// GapsStatus describes the ids of a shard that have not been seen.
type GapsStatus struct {
	// Hot ids are looked for at every poll, cold ones every minute; those in flight are hot, inserted by a transaction
	// that is open.
	Hot      uint64 `json:"hot"`
	Cold     uint64 `json:"cold"`
	InFlight uint64 `json:"inFlight"`
	// OldestSeconds is the age of the oldest gap, 0 when there is none; Oldest lists the lowest ranges, a few.
	OldestSeconds float64     `json:"oldestSeconds"`
	Oldest        []GapStatus `json:"oldest"`
}

// GapStatus is one range of ids.
type GapStatus struct {
	First  uint64    `json:"first"`
	Last   uint64    `json:"last"`
	Missed time.Time `json:"missed"`
}

// snapshot is one shard as it stands.
type snapshot struct {
	pipeline.Status
	reconcile reconcile.Status
}

// state is the worst of what tail and reconcile say.
func (s *snapshot) state() pipeline.State {
	if s.reconcile.Guard != "" && severity(Degraded) > severity(s.State) {
		return Degraded
	}
	return s.State
}

// statusOf groups the snapshots of shards by stream, in the order of the configuration.
func statusOf(streams []Stream, shards []snapshot) Status {
	status := Status{Streams: make([]StreamStatus, 0, len(streams))}
	for _, stream := range streams {
		one := StreamStatus{Name: stream.Name, Kind: string(stream.Kind), State: pipeline.Running, Shards: []ShardStatus{}}
		for _, shard := range shards {
			if shard.Stream != stream.Name {
				continue
			}
			one.Shards = append(one.Shards, shardStatus(shard))
			if state := shard.state(); severity(state) > severity(one.State) {
				one.State = state
			}
		}
		status.Streams = append(status.Streams, one)
	}
	return status
}

func shardStatus(s snapshot) ShardStatus {
	one := ShardStatus{
		Shard:      s.Shard,
		State:      s.state(),
		Position:   s.Position,
		Highest:    s.Highest,
		OpenGaps:   s.OpenGaps,
		LagSeconds: s.Lag.Seconds(),
		LastError:  given(s.LastError),
		LastPoll:   moment(s.LastPoll),
		Reconcile:  reconcileStatus(s.reconcile),
	}
	if one.State == Degraded && one.LastError == nil {
		one.LastError = given(s.reconcile.Guard)
	}
	one.Gaps = GapsStatus{
		Hot: s.Gaps.Hot, Cold: s.Gaps.Cold, InFlight: s.Gaps.InFlight,
		OldestSeconds: s.Gaps.OldestAge.Seconds(), Oldest: []GapStatus{},
	}
	for _, g := range s.Gaps.Oldest {
		one.Gaps.Oldest = append(one.Gaps.Oldest, GapStatus{g.First, g.Last, g.Missed.UTC()})
	}
	return one
}

// severity orders states from good to bad.
func severity(s pipeline.State) int {
	switch s {
	case pipeline.Stopped:
		return 4
	case Degraded:
		return 3
	case pipeline.Waiting:
		return 2
	case pipeline.Starting:
		return 1
	}
	return 0
}
