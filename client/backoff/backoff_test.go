package backoff_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/client/backoff"
)

func TestBackoff(t *testing.T) {
	t.Run("pauses double up to the bound, each shortened by up to a half", func(t *testing.T) {
		b := backoff.Backoff{First: 100 * time.Millisecond, Max: time.Second}
		for _, most := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
			most *= time.Millisecond
			if got := b.Next(); got > most || got < most/2 {
				t.Errorf("a pause of %s, want %s to %s", got, most/2, most)
			}
		}
		b.Reset()
		if got := b.Next(); got > 100*time.Millisecond {
			t.Errorf("a pause of %s after Reset", got)
		}
	})
	t.Run("Wait ends with the cause of its context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			why := errors.New("why")
			ctx, cancel := context.WithCancelCause(t.Context())
			b := backoff.Backoff{First: time.Hour, Max: time.Hour}
			time.AfterFunc(time.Minute, func() { cancel(why) })
			started := time.Now()
			if err := b.Wait(ctx); !errors.Is(err, why) || time.Since(started) != time.Minute {
				t.Errorf("%v after %s", err, time.Since(started))
			}
		})
	})
}

func TestAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := make(chan struct{}, 2)
		release, err := backoff.Acquire(t.Context(), slots)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := backoff.Acquire(t.Context(), slots); err != nil {
			t.Fatal(err)
		}
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(why) })
		if _, err := backoff.Acquire(ctx, slots); !errors.Is(err, why) {
			t.Errorf("without a free slot: %v", err)
		}
		time.AfterFunc(time.Minute, release)
		if _, err := backoff.Acquire(t.Context(), slots); err != nil {
			t.Errorf("with a slot that is released: %v", err)
		}
	})
}

func TestRetry(t *testing.T) {
	away, gone := errors.New("away"), errors.New("gone")
	for name, c := range map[string]struct {
		errs  []error // of the attempts; the last one repeats
		limit time.Duration
		want  error
		calls int
	}{
		"success at once":     {errs: []error{nil}, calls: 1},
		"success in the end":  {errs: []error{away, away, nil}, limit: time.Minute, calls: 3},
		"a permanent error":   {errs: []error{away, gone}, want: gone, calls: 2},
		"the limit is passed": {errs: []error{away}, limit: time.Second, want: away},
		"the context is done": {errs: []error{away}, want: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				calls := 0
				b := backoff.Backoff{Limit: c.limit}
				err := b.Retry(ctx, func() error {
					calls++
					return c.errs[min(calls, len(c.errs))-1]
				}, func(err error) bool { return err == away })
				if !errors.Is(err, c.want) || c.calls > 0 && calls != c.calls {
					t.Errorf("%v after %d calls", err, calls)
				}
			})
		})
	}
}
