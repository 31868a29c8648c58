package acceptance

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"bridge/internal/testenv"
	"bridge/internal/workload"
)

// heartbeats is how many rows are touched that do not change.
const heartbeats = 10_000

// TestUpdatesArriveWithoutReconcile has an indexed MODIFIED column tell of updates and soft deletes, and of nothing else.
func TestUpdatesArriveWithoutReconcile(t *testing.T) {
	t.Parallel()
	occupy(t, 1)
	s := newStates(t, testenv.MariaDB(t), workload.CapabilityOptions{
		Entities: 2000, Writers: 4, Changes: 1500, Rate: 100, Seed: 2,
		Mix: map[workload.Change]int{workload.Update: 8, workload.SoftDelete: 1, workload.Heartbeat: 3},
	}, strict)
	seldom := env{"BRIDGE_RECONCILE_INTERVAL": "1h"}
	var all []*publisher
	noises := make(map[*publisher]*noise)
	for name, b := range map[string]bus{"kafka": kafkaBus{testenv.Kafka(t)}, "nats": natsBus{testenv.NATS(t)}} {
		p := s.publish(b, name, seldom)
		p.start()
		p.drained()
		// The first one is done before anything changes.
		p.reconcile()
		all, noises[p] = append(all, p), measure(t, s.db, b, s.name+"_"+name+"_noise")
	}
	s.run()
	for _, p := range all {
		p.complete(strict, 20*time.Second)
		r := p.judge(strict, true)
		for origin, n := range r.origins {
			if origin != "tail" && origin != "modified" {
				t.Errorf("%s: %d events have the origin %s", p.name, n, origin)
			}
		}
		// What noise adds at worst is not bridge's.
		noise := noises[p].ascending()
		bound := 2*time.Second + 2*percentile(noise, 1)
		if got := percentile(r.delays["modified"], 0.99); got == 0 || got > bound {
			t.Errorf("%s: p99 of updates is %s, want at most %s; noise %s", p.name, got, bound, figures(noise))
		}
		if r.ops["modified"] < 500 || r.ops["deletedtombstone"] < 50 {
			t.Errorf("%s: %v: the test shows too little", p.name, r.ops)
		}
	}

	before := make(map[*publisher]int)
	for _, p := range all {
		before[p] = len(p.received(strict))
	}
	took := s.touch(heartbeats)
	var last uint64
	if err := s.db.QueryRow("SELECT max(id) FROM strict WHERE deleted = 0").Scan(&last); err != nil {
		t.Fatal(err)
	}
	if _, err := s.db.Exec("UPDATE strict SET note = 'behind the heartbeats', modified = CURRENT_TIMESTAMP(6) WHERE id = ?", last); err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		t.Run("heartbeats publish nothing on "+p.name, func(t *testing.T) {
			tape := p.tapes[strict]
			eventually(t, 30*time.Second, "an update behind them", func() bool { return tape.count() > before[p] })
			// Heartbeats are read over a look-back: what they caused would come within the next polls.
			pause(2 * time.Second)
			messages := tape.all()[before[p]:]
			if len(messages) != 1 || !strings.Contains(string(messages[0].value), "behind the heartbeats") {
				t.Errorf("%d events behind %d heartbeats in %s, the first is %s", len(messages), heartbeats, took, messages[0].value)
			}
		})
	}
}

// touch sends n heartbeats to the rows of the table strict, spread evenly, at no more than a few thousand a second.
func (s *states) touch(n int) time.Duration {
	s.t.Helper()
	rows, err := s.db.Query("SELECT id FROM strict")
	if err != nil {
		s.t.Fatal(err)
	}
	defer rows.Close()
	var ids []uint64
	for rows.Next() {
		var id uint64
		if err := rows.Scan(&id); err != nil {
			s.t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		s.t.Fatal(err)
	}
	started := time.Now()
	writers, ctx := errgroup.WithContext(s.t.Context())
	const atOnce = 4
	for w := range atOnce {
		writers.Go(func() error { return s.touchSome(ctx, ids, w, atOnce, n) })
	}
	if err := writers.Wait(); err != nil {
		s.t.Fatal(err)
	}
	return time.Since(started)
}

// touchSome sends every step-th of n heartbeats.
func (s *states) touchSome(ctx context.Context, ids []uint64, first, step, n int) error {
	for i := first; i < n; i += step {
		if _, err := s.db.ExecContext(ctx, "UPDATE strict SET modified = CURRENT_TIMESTAMP(6) WHERE id = ?", ids[i%len(ids)]); err != nil {
			return fmt.Errorf("heartbeat %d: %w", i, err)
		}
	}
	return nil
}

// complete waits until a stream has arrived as the record ends, at most limit; what is then missing the judge reports.
func (p *publisher) complete(stream string, limit time.Duration) {
	p.t.Helper()
	schemas, histories := stateSchemas(p.t), p.states.loads[stream].Histories()
	deadline := time.Now().Add(limit)
	for time.Now().Before(deadline) {
		r := judgeStates(schemas, p.tapes[stream].all(), histories)
		if r.ended(); r.verdict() == "" {
			return
		}
		pause(500 * time.Millisecond)
	}
}
