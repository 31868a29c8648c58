package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"bridge/checkpoint"
	"bridge/internal/app"
	"bridge/internal/httpapi"
)

// checkpointView is a shard's checkpoint as --json shows it.
type checkpointView struct {
	Stream  string       `json:"stream"`
	Shard   string       `json:"shard"`
	ID      uint64       `json:"id"`
	Gaps    []gapView    `json:"gaps"`
	Offsets []offsetView `json:"marks"`
	Saved   time.Time    `json:"saved"`
	// Reconcile is null where none was ever begun.
	Reconcile *runView `json:"reconcile"`
}

// runView is how far a reconcile has come, or how the last one ended.
type runView struct {
	StartedAt *time.Time `json:"startedAt"`
	// EndedAt is null while it is under way or waits to be resumed: it has compared After of the
	// ids up to Bound.
	EndedAt         *time.Time `json:"endedAt"`
	After           uint64     `json:"after"`
	Bound           uint64     `json:"bound"`
	VerifiedThrough *time.Time `json:"verifiedThrough"`
	Guard           *string    `json:"guard"`
}

type gapView struct {
	First  uint64    `json:"first"`
	Last   uint64    `json:"last"`
	Missed time.Time `json:"missed"`
}

type offsetView struct {
	TP          string `json:"place"`
	Incarnation string `json:"incarnation,omitempty"`
	Last        uint64 `json:"last"`
	ID          string `json:"id,omitempty"`
}

// viewOf returns the checkpoint of e and what its store has on record of reconcile.
func viewOf(ctx context.Context, s app.Store, e checkpoint.Entry) (checkpointView, error) {
	view := checkpointView{
		Stream: e.Key.Stream, Shard: e.Key.Shard, ID: e.State.Position.ID,
		Gaps: []gapView{}, Offsets: []offsetView{}, Saved: e.State.Saved.UTC(),
	}
	for _, g := range e.State.Position.Gaps {
		view.Gaps = append(view.Gaps, gapView{g.First, g.Last, g.Missed.UTC()})
	}
	for _, m := range e.State.Offsets {
		view.Offsets = append(view.Offsets, offsetView{m.TP, m.Incarnation, m.Last, m.ID})
	}
	run, err := s.LoadRun(ctx, e.Key)
	switch {
	case errors.Is(err, checkpoint.ErrNotFound):
		return view, nil
	case err != nil:
		return view, err
	}
	view.Reconcile = &runView{
		StartedAt: httpapi.Moment(run.Started), EndedAt: httpapi.Moment(run.Ended), After: run.After, Bound: run.Bound,
		VerifiedThrough: httpapi.Moment(run.Verified), Guard: httpapi.Given(run.Guard),
	}
	return view, nil
}

func checkpointShow(p *process, ctx context.Context, call call) error {
	return p.withCheckpoint(false, func(s app.Store) error {
		entries, err := s.List(ctx)
		if err != nil {
			return err
		}
		views := make([]checkpointView, 0, len(entries))
		for _, e := range entries {
			view, err := viewOf(ctx, s, e)
			if err != nil {
				return err
			}
			views = append(views, view)
		}
		if call.flags["json"] {
			return p.printJSON(map[string][]checkpointView{"checkpoints": views})
		}
		return p.printCheckpoints(views)
	})
}

func (p *process) printCheckpoints(views []checkpointView) error {
	if len(views) == 0 {
		_, err := fmt.Fprintln(p.stdout, "no shard has a checkpoint yet")
		return err
	}
	var text strings.Builder
	// A strings.Builder takes every write.
	table := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(table, "STREAM\tSHARD\tID\tGAPS\tSAVED\tVERIFIED THROUGH\tRECONCILE")
	for _, v := range views {
		verified, state := v.Reconcile.words()
		_, _ = fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%s\t%s\t%s\n", v.Stream, v.Shard, v.ID, len(v.Gaps), v.Saved.Format(time.RFC3339), verified, state)
	}
	_ = table.Flush()
	_, err := fmt.Fprint(p.stdout, text.String())
	return err
}

// words says in short through when a shard is verified and how its reconcile stands.
func (r *runView) words() (verified, state string) {
	if r == nil {
		return "-", "none yet"
	}
	verified = "-"
	if r.VerifiedThrough != nil {
		verified = r.VerifiedThrough.Format(time.RFC3339)
	}
	switch {
	case r.EndedAt == nil:
		return verified, "to be resumed"
	case r.Guard != nil:
		return verified, "deletes held back"
	}
	return verified, "ended " + r.EndedAt.Format(time.RFC3339)
}
