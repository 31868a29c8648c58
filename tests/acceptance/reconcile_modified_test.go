package acceptance

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"bridge/tests/world"

	"golang.org/x/sync/errgroup"

	"bridge/tests/testall"
	"bridge/tests/testenv"
	"bridge/tests/workload"
)

// heartbeats is how many rows are touched that do not change.
const heartbeats = 10_000

// TestUpdatesArriveWithoutReconcile has an indexed MODIFIED column tell of updates and soft
// deletes, and of nothing else.
func TestUpdatesArriveWithoutReconcile(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	occupy(t, 1)
	s := newEntities(t, testenv.MariaDB(t), workload.CapabilityOptions{
		Entities: 2000, Writers: 4, Changes: 1500, Rate: 100, Seed: 2,
		Mix: map[workload.Change]int{workload.Update: 8, workload.SoftDelete: 1, workload.Heartbeat: 3},
	}, world.Strict)
	seldom := world.Env{"BRIDGE_RECONCILE_INTERVAL": "1h"}
	var all []*world.Publisher
	for name, b := range map[string]*world.Bus{"kafka": world.KafkaBus(testenv.Kafka(t)), "nats": world.NATSBus(testenv.NATS(t))} {
		p := follow(s, b, name, seldom)
		p.Start()
		p.Drained()
		// The first one is done before anything changes.
		p.Reconcile()
		p.Noise = world.MeasureNoise(t, s.DB, b, p.Destination("noise"))
		all = append(all, p)
	}
	s.Run()
	for _, p := range all {
		p.Complete(world.Strict, time.Minute)
		r := p.MustMatch(world.Strict, world.Expect{})
		for origin, n := range r.Origins {
			if origin != "tail" && origin != "modified" {
				t.Errorf("%s: %d events have the origin %s", p.Name, n, origin)
			}
		}
		// What noise adds at worst is not bridge's.
		noise := p.Noise.Ascending()
		bound := 2*time.Second + 2*world.Percentile(noise, 1)
		if got := world.Percentile(r.Delays["modified"], 0.99); got == 0 || got > bound {
			t.Errorf("%s: p99 of updates is %s, want at most %s; noise %s", p.Name, got, bound, world.FormatDelays(noise))
		}
		if r.Ops["modified"] < 500 || r.Ops["deletedtombstone"] < 50 {
			t.Errorf("%s: %v: the test shows too little", p.Name, r.Ops)
		}
	}

	before := make(map[*world.Publisher]int)
	for _, p := range all {
		before[p] = len(p.Received(world.Strict))
	}
	took := touch(s, heartbeats)
	var last uint64
	s.Scan("SELECT max(id) FROM strict WHERE deleted = 0", &last)
	s.Exec("UPDATE strict SET note = 'behind the heartbeats', modified = CURRENT_TIMESTAMP(6) WHERE id = ?", last)
	for _, p := range all {
		t.Run("heartbeats publish nothing on "+p.Name, func(t *testing.T) {
			tape := p.Tape(world.Strict)
			world.Eventually(t, time.Minute, "an update behind them", func() bool { return tape.Count() > before[p] })
			// Heartbeats are read over a look-back: what they caused would come within the next
			// polls.
			world.Pause(2 * time.Second)
			messages := tape.All()[before[p]:]
			if len(messages) != 1 || !strings.Contains(string(messages[0].Value), "behind the heartbeats") {
				t.Errorf("%d events behind %d heartbeats in %s, the first is %s", len(messages), heartbeats, took, messages[0].Value)
			}
		})
	}
}

// touch sends n heartbeats to the rows of the table strict, spread evenly, at no more than a few
// thousand a second.
func touch(s *world.World, n int) time.Duration {
	s.T.Helper()
	var ids []uint64
	var id uint64
	s.Each("SELECT id FROM strict", []any{&id}, func() { ids = append(ids, id) })
	started := time.Now()
	writers, ctx := errgroup.WithContext(s.T.Context())
	const atOnce = 4
	for w := range atOnce {
		writers.Go(func() error { return touchSome(s, ctx, ids, w, atOnce, n) })
	}
	if err := writers.Wait(); err != nil {
		s.T.Fatal(err)
	}
	return time.Since(started)
}

// touchSome sends every step-th of n heartbeats.
func touchSome(s *world.World, ctx context.Context, ids []uint64, first, step, n int) error {
	for i := first; i < n; i += step {
		if _, err := s.DB.ExecContext(ctx, "UPDATE strict SET modified = CURRENT_TIMESTAMP(6) WHERE id = ?", ids[i%len(ids)]); err != nil {
			return fmt.Errorf("heartbeat %d: %w", i, err)
		}
	}
	return nil
}
