package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"bridge/internal/outage"
	"bridge/internal/pipeline"
	"bridge/reconcile"
)

// health implements daemon over the parts of the process.
type health struct {
	streams []Stream
	shards  []*pipeline.Shard
	faults  *outage.Log
	// source and sink are asked whether they can be reached.
	source, sink *inquiry
	// reconcilers are those of shards, in their order; scheduler runs them.
	reconcilers []reconcile.Scheduled
	scheduler   *reconcile.Scheduler
	// started is when the process began.
	started time.Time
}

var _ daemon = (*health)(nil)

// turnLimit is how long a loop may stand still. Loops turn every few seconds, also while they wait.
const turnLimit = time.Minute

func (h *health) Live() error {
	for _, shard := range h.shards {
		if err := turns(shard.Status()); err != nil {
			return err
		}
	}
	for _, r := range h.reconcilers {
		if err := reconciles(r.Status()); err != nil {
			return err
		}
	}
	return nil
}

// turns returns why the loops of a shard do not turn, nil while they do.
func turns(s pipeline.Status) error {
	if still := time.Since(s.LastTurn); still > turnLimit {
		return fmt.Errorf("the %s of shard %s of stream %s has not turned for %s", s.Loop, s.Shard, s.Stream, still.Round(time.Second))
	}
	return nil
}

// reconciles returns why a reconcile does not go on, nil while it does.
func reconciles(s reconcile.Status) error {
	if still := s.Still(); still > turnLimit+reconcile.TryLimit {
		return fmt.Errorf("the reconcile of shard %s of stream %s has been at one read or save for %s", s.Shard, s.Stream, still.Round(time.Second))
	}
	return nil
}

func (h *health) Ready(ctx context.Context) []Reason {
	var fromSource, fromSink error
	var asked sync.WaitGroup
	asked.Go(func() { fromSource = h.source.ask(ctx) })
	asked.Go(func() { fromSink = h.sink.ask(ctx) })
	asked.Wait()

	var reasons []Reason
	if fromSource != nil {
		reasons = append(reasons, Reason{Reason: "source: " + fromSource.Error()})
	}
	if fromSink != nil {
		reasons = append(reasons, Reason{Reason: "sink: " + fromSink.Error()})
	}
	for _, fault := range h.faults.Faults() {
		if fault.Place != pipeline.PlaceSource || fromSource == nil {
			reasons = append(reasons, Reason{Reason: fault.Error()})
		}
	}
	return append(reasons, unready(h.snapshots(), len(reasons) > 0)...)
}

// unready says which shards are not ready. What those wait for that wait has been said already where known is set.
func unready(shards []snapshot, known bool) []Reason {
	var reasons []Reason
	for i := range shards {
		s := &shards[i]
		why := s.unready()
		if why == "" && s.State == pipeline.Waiting && !known {
			why = s.LastError
		}
		if why != "" {
			reasons = append(reasons, Reason{Stream: s.Stream, Shard: s.Shard, Reason: why})
		}
	}
	return reasons
}

// unready says why a shard is not ready, empty when it is.
func (s *snapshot) unready() string {
	switch {
	case s.State == pipeline.Stopped:
		return s.LastError
	case s.State == pipeline.Starting:
		return "has not been read since the start"
	}
	return s.reconcile.Guard
}

func (h *health) snapshots() []snapshot {
	snapshots := make([]snapshot, len(h.shards))
	for i, shard := range h.shards {
		snapshots[i] = snapshot{shard.Status(), h.reconcilers[i].Status()}
	}
	return snapshots
}

func (h *health) Status() Status {
	status := statusOf(h.streams, h.snapshots())
	status.Started = h.started.UTC()
	return status
}
