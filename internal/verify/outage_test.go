package verify_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/internal/verify"
	"example.org/bridge/source"
)

// unsteady is a table that fails for a while before each read.
type unsteady struct {
	source.Shard
	away time.Duration
	// until is when the present outage ends, zero between two.
	until   time.Time
	outages int
}

func (u *unsteady) Read(ctx context.Context, q source.Query, page *source.Page) error {
	if u.until.IsZero() {
		u.until, u.outages = time.Now().Add(u.away), u.outages+1
	}
	if time.Now().Before(u.until) {
		return errors.New("away")
	}
	u.until = time.Time{}
	return u.Shard.Read(ctx, q, page)
}

func TestTheTimeLimitIsThatOfOneOutage(t *testing.T) {
	for name, c := range map[string]struct {
		away time.Duration
		ok   bool
	}{
		"several outages that take longer than the limit together": {20 * time.Second, true},
		"one that takes longer": {time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, event.Capability)
				for _, name := range []string{"a", "b", "c"} {
					w.insert(name, "1")
				}
				table := &unsteady{Shard: w.table, away: c.away}
				_, err := verify.Run(t.Context(), verify.Options{
					Bus: w.open(), Shards: []verify.Shard{{Stream: "things", Name: "thing", Kind: event.Capability, Source: table, Encoder: w.newEncoder()}},
				})
				if (err == nil) != c.ok || c.ok && table.outages < 2 {
					t.Errorf("%v after %d outages", err, table.outages)
				}
			})
		})
	}
}

// TestADatabaseThatIsAway is waited for once, and streams without a table there are judged.
func TestADatabaseThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, event.Capability)
		w.insert("a", "1")
		shards := []verify.Shard{{Stream: "things", Name: "thing", Kind: event.Capability, Source: w.table, Encoder: w.newEncoder(), Database: "a"}}
		for _, name := range []string{"t_0", "t_1", "t_2"} {
			shards = append(shards, verify.Shard{Stream: "s" + name, Name: name, Kind: event.Release, Source: &unsteady{Shard: w.table, away: time.Hour}, Encoder: w.newEncoder(), Database: "b"})
		}
		began := time.Now()
		report, err := verify.Run(t.Context(), verify.Options{Bus: w.open(), Shards: shards, Unfit: []verify.Unfit{{Stream: "other"}}})
		if err != nil || len(report.Unfit) != 4 || len(report.Streams) != 1 || report.Streams[0].Events != 1 || time.Since(began) > time.Minute {
			t.Errorf("%v after %s, %+v", err, time.Since(began), report)
		}
		if _, err := verify.Run(t.Context(), verify.Options{Bus: w.open(), Shards: shards[1:]}); err == nil {
			t.Error("no error where none is judged")
		}
	})
}
