package reconcile_test

import (
	"context"
	"testing"
	"time"

	"bridge/event"
	"bridge/internal/backoff"
	"bridge/reconcile"
)

// forgetting counts how often entities that are gone for long are forgotten.
type forgetting struct {
	reconcile.Store
	calls *int
}

func (f forgetting) ForgetAbsent(ctx context.Context, stream string, before time.Time, limit int) (int, error) {
	*f.calls++
	return f.Store.ForgetAbsent(ctx, stream, before, limit)
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
			w.record(reconcile.Run{Started: began, Ended: began.Add(time.Second)})
			calls := 0
			w.options.Store = forgetting{w.store, &calls}
			w.run(reconcile.Mode{})
			if calls != c.want {
				t.Errorf("forgets %d times, want %d", calls, c.want)
			}
		}))
	}
}
