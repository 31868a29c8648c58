package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/pebble"
	"example.org/bridge/internal/app"
	"example.org/bridge/internal/null"
	"example.org/bridge/internal/stream"
	"example.org/bridge/internal/terminal"
	"example.org/bridge/reconcile"
	"example.org/bridge/source/ledger"
)

// checkpointView is a shard's checkpoint as --json shows it.
type checkpointView struct {
	Stream  string       `json:"stream"`
	Shard   string       `json:"shard"`
	ID      uint64       `json:"id"`
	Gaps    []ledger.Gap `json:"gaps"`
	Offsets []offsetView `json:"marks"`
	Saved   time.Time    `json:"saved"`
	// Reconcile is null where none was ever begun.
	Reconcile *runView `json:"reconcile"`
}

// runView is how far a reconcile has come, or how the last one ended.
type runView struct {
	StartedAt null.Time `json:"startedAt"`
	// EndedAt is null while it is under way or waits to be resumed: it has compared After of the
	// ids up to Bound.
	EndedAt         null.Time `json:"endedAt"`
	After           uint64    `json:"after"`
	Bound           uint64    `json:"bound"`
	VerifiedThrough null.Time `json:"verifiedThrough"`
	Guard           null.Text `json:"guard"`
}

type offsetView struct {
	TP          string `json:"place"`
	Incarnation string `json:"incarnation,omitempty"`
	// Last is the highest offset up to which the checkpoint has everything.
	Last uint64 `json:"last"`
}

// viewOf returns the checkpoint of a shard and what its store has on record of reconcile.
func viewOf(ctx context.Context, s store.Store, image *store.Image, key store.Key) (checkpointView, error) {
	state := image.Shards[key]
	view := checkpointView{
		Stream: key.Stream, Shard: key.Shard, ID: state.Position,
		Gaps: []ledger.Gap{}, Offsets: []offsetView{}, Saved: state.Saved.UTC(),
	}
	gaps, err := stream.LoadGaps(ctx, s, key, state.Position)
	if errors.Is(err, ledger.ErrDamaged) {
		return view, fmt.Errorf("read the gaps of %s %s: %w: bridge checkpoint set %s %s %d goes on without them",
			key.Stream, key.Shard, err, key.Stream, key.Shard, state.Position)
	}
	if err != nil {
		return view, err
	}
	for _, g := range gaps {
		g.Missed = g.Missed.UTC()
		view.Gaps = append(view.Gaps, g)
	}
	for _, r := range image.Registrations {
		if r.Stream == key.Stream && !r.Retired && r.Next > 0 {
			view.Offsets = append(view.Offsets, offsetView{r.TP, r.Incarnation, r.Next - 1})
		}
	}
	run, found, err := reconcile.LoadRun(ctx, s, key)
	if err != nil || !found {
		return view, err
	}
	view.Reconcile = &runView{
		StartedAt: null.At(run.Started), EndedAt: null.At(run.Ended), After: run.After, Bound: run.Bound,
		VerifiedThrough: null.At(run.Verified), Guard: null.Text(run.Guard),
	}
	return view, nil
}

func checkpointShow(p *process) *cobra.Command {
	c := newCommand("show", "show how far each shard has been published", checkpointDetails)
	asJSON := c.Flags().Bool("json", false, "print it as JSON, with the gaps")
	c.RunE = func(c *cobra.Command, _ []string) (err error) {
		s, err := p.openToShow(c.Context())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		views, err := viewsOf(c.Context(), s)
		if err != nil {
			return err
		}
		rows := [][]any{{"STREAM", "SHARD", "ID", "GAPS", "SAVED", "VERIFIED THROUGH", "RECONCILE"}}
		for _, v := range views {
			verified, state := v.Reconcile.words()
			rows = append(rows, []any{v.Stream, v.Shard, v.ID, len(v.Gaps), v.Saved.Format(time.RFC3339), verified, state})
		}
		text := terminal.Table(3, rows)
		if len(views) == 0 {
			text = "no shard has a checkpoint yet\n"
		}
		return p.show(*asJSON, map[string][]checkpointView{"checkpoints": views}, text)
	}
	return c
}

// openToShow opens the store without changing it. Where there is none, it has what is on the bus.
func (p *process) openToShow(ctx context.Context) (store.Store, error) {
	path, onBus, err := p.checkpoint()
	if err != nil {
		return nil, err
	}
	s, err := pebble.OpenReadOnly(ctx, path, pebble.Options{LockWait: lockWait})
	switch {
	case errors.Is(err, fs.ErrNotExist) && onBus == nil:
		return nil, noCheckpoint(path)
	case errors.Is(err, fs.ErrNotExist):
		return app.LoadCopies(ctx, onBus, p.newLogger(slog.LevelWarn, "console"))
	case err != nil:
		return nil, unopened(err)
	}
	return s, nil
}

// viewsOf returns the checkpoints of the shards that have begun, in the order of stream and shard.
func viewsOf(ctx context.Context, s store.Store) ([]checkpointView, error) {
	image, err := s.Load(ctx)
	if err != nil {
		return nil, err
	}
	views := []checkpointView{}
	for _, key := range slices.SortedFunc(maps.Keys(image.Shards), store.Key.Compare) {
		if !image.Shards[key].Started {
			continue
		}
		view, err := viewOf(ctx, s, &image, key)
		if err != nil {
			return nil, err
		}
		views = append(views, view)
	}
	return views, nil
}

// words says in short through when a shard is verified and how its reconcile stands.
func (r *runView) words() (verified, state string) {
	if r == nil {
		return "-", "none yet"
	}
	verified = "-"
	if !r.VerifiedThrough.IsZero() {
		verified = r.VerifiedThrough.UTC().Format(time.RFC3339)
	}
	switch {
	case r.EndedAt.IsZero():
		return verified, "to be resumed"
	case r.Guard != "":
		return verified, "deletes held back"
	}
	return verified, "ended " + r.EndedAt.UTC().Format(time.RFC3339)
}
