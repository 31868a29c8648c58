package world

import (
	"context"
	"database/sql"
	"slices"
	"sync"
	"testing"
	"time"
)

// Noise measures how long a commit and a publish take on this machine without bridge, over and
// over, beside a test that judges delays: what the machine, the database or the bus adds is not
// bridge's.
type Noise struct {
	mu     sync.Mutex
	delays []time.Duration
}

// noiseEvery is the time from one measurement to the next. One that takes longer makes the next
// ones late, which counts, as it does for rows.
const noiseEvery = 100 * time.Millisecond

// MeasureNoise commits to db and publishes to b until the test ends.
func MeasureNoise(t testing.TB, db *sql.DB, b *Bus, destination string) *Noise {
	t.Helper()
	if _, err := db.Exec("CREATE TABLE IF NOT EXISTS noise (id integer PRIMARY KEY, n integer)"); err != nil {
		t.Fatal(err)
	}
	publish := b.Publisher(t, destination)
	n := new(Noise)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for due := time.Now(); ; due = due.Add(noiseEvery) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Until(due)):
			}
			// An error is noise as well: how long it took counts.
			_, _ = db.ExecContext(ctx, "REPLACE INTO noise (id, n) VALUES (1, 1)")
			_ = publish(ctx)
			n.Add(time.Since(due))
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return n
}

func (n *Noise) Add(delay time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delays = append(n.delays, delay)
}

// Ascending returns the delays so far.
func (n *Noise) Ascending() []time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(slices.Values(n.delays))
}
