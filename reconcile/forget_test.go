package reconcile_test

import (
	"context"
	"testing"
	"time"

	"bridge/checkpoint"
	"bridge/event"
	"bridge/internal/backoff"
	"bridge/reconcile"
)

// forgetting counts how often entities that are gone for long are forgotten.
type forgetting struct {
	reconcile.Store
	calls *int
}

func (f forgetting) Forget(ctx context.Context, k checkpoint.Key, before time.Time, from []byte, most int) ([]byte, error) {
	*f.calls++
	return f.Store.Forget(ctx, k, before, from, most)
}

func TestTheFirstRunOfADayForgetsWhatIsGone(t *testing.T) {
	for name, c := range map[string]struct {
		// before is how long before this run the last one began.
		before time.Duration
		zone   *time.Location
		want   int
	}{
		"a second run of the same day does not":                 {time.Minute, time.UTC, 0},
		"nor where the last one is on record with another zone": {time.Minute, time.FixedZone("", 14*60*60), 0},
		"one of the next day does":                              {24 * time.Hour, time.UTC, 1},
		"one on the same day of the next year does":             {366 * 24 * time.Hour, time.UTC, 1},
	} {
		t.Run(name, inBubble(func(t *testing.T) {
			_ = backoff.Pause(t.Context(), 366*24*time.Hour+12*time.Hour)
			w := newWorld(t, event.Capability)
			w.fill("a", 3)
			began := time.Now().Add(-c.before).In(c.zone)
			if err := w.store.SaveRun(t.Context(), key, checkpoint.Run{Started: began, Ended: began.Add(time.Second)}, nil); err != nil {
				t.Fatal(err)
			}
			calls := 0
			w.options.Store = forgetting{zoned{w.store, c.zone}, &calls}
			w.run(reconcile.Mode{})
			if calls != c.want {
				t.Errorf("forgets %d times, want %d", calls, c.want)
			}
		}))
	}
}

// zoned is a store that returns the times of a run in a zone, as one that keeps seconds does.
type zoned struct {
	reconcile.Store
	zone *time.Location
}

func (z zoned) LoadRun(ctx context.Context, k checkpoint.Key) (checkpoint.Run, error) {
	run, err := z.Store.LoadRun(ctx, k)
	run.Started = run.Started.In(z.zone)
	return run, err
}
