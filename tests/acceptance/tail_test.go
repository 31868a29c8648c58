package acceptance

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"example.org/bridge/tests/workload"
	"example.org/bridge/tests/world"
)

// slack is what may come on top of a bound that is counted in polls. These machines are noisy, and
// the program may be held where the noise is not measured: what should take two polls may take this
// and the noise of the time. That is less than a sweep; the log has the exact figures.
const slack = 50 * world.PollInterval

// tailer is a bridge that publishes a world, with a consumer beside it and a measurement of noise.
type tailer struct {
	*world.Publisher
	noise *noise
}

// tail runs a tailer with the program at path.
func tail(w *world.World, b *world.Bus, name, path string, more world.Env) *tailer {
	w.T.Helper()
	d := &tailer{Publisher: w.Publish(b, world.Publishing{Name: name, Env: more, Path: path, Follow: true})}
	d.noise = measureNoise(w, b, d.Destination("noise"))
	d.Start()
	return d
}

// plainTail is tail with the program as it is.
func plainTail(w *world.World, b *world.Bus, name string, more world.Env) *tailer {
	w.T.Helper()
	return tail(w, b, name, world.Binary(w.T, false), more)
}

// above returns how many rows with a higher id have arrived so far.
func (d *tailer) above(id uint64) (n int) {
	d.T.Helper()
	for _, m := range d.Tape().All() {
		e, err := world.DecodeEvent(m)
		check(d.T, err)
		if e.RowID > id {
			n++
		}
	}
	return n
}

// arrived reports whether a row has arrived, and when first.
func (d *tailer) arrived(token string) (at time.Time, ok bool) {
	for _, m := range d.Tape().All() {
		if strings.Contains(string(m.Value), fmt.Sprintf("%q", token)) {
			return m.At, true
		}
	}
	return time.Time{}, false
}

// complete waits until the consumer has all that must be there at the end. limit is ample on a
// machine that does nothing else; what is then missing a judge reports. Writers have ended.
func (d *tailer) complete(limit time.Duration) {
	d.T.Helper()
	read, tokens := 0, make(map[string]bool)
	complete := func() bool {
		for _, m := range d.Tape().From(read) {
			read++
			var token string
			if e, err := world.DecodeEvent(m); err == nil && json.Unmarshal(e.Data["token"], &token) == nil {
				tokens[token] = true
			}
		}
		return !slices.ContainsFunc(d.World.AllRows(), func(row workload.Row) bool {
			return row.Outcome == workload.Committed && row.GoneFrom.IsZero() && !tokens[row.Token]
		})
	}
	for deadline := time.Now().Add(4 * limit); time.Now().Before(deadline) && !complete(); {
		world.Pause(500 * time.Millisecond)
	}
}

// mustMatch judges the rows.
func (d *tailer) mustMatch(expect world.Expect) *world.Verdict {
	d.T.Helper()
	d.T.Logf("%s: noise %s", d.Name, world.FormatDelays(d.noise.ascending()))
	return d.MustMatch(world.Orders, expect)
}

// bounded fails the test when a part of delays lies above a bound and what noise may add.
func (d *tailer) bounded(what string, delays []time.Duration, part float64, bound time.Duration) {
	d.T.Helper()
	bound += d.noiseOf(part)
	if got := world.Percentile(delays, part); got > bound {
		d.T.Errorf("%s: %s: p%.0f is %s, want at most %s", d.Name, what, part*100, got, bound)
	}
}

// noiseOf is what noise may add to a part of delays: twice what it was for that part, or at worst
// where the slowest are asked for, since a few late rows may all fall into the worst moment.
func (d *tailer) noiseOf(part float64) time.Duration {
	if part > 0.9 {
		part = 1
	}
	return 2 * world.Percentile(d.noise.ascending(), part)
}

// noise measures how long a commit and a publish take on this machine without bridge, over and
// over, beside a test that judges delays: what the machine, the database or the bus adds is not
// bridge's.
type noise struct {
	mu     sync.Mutex
	delays []time.Duration
}

// measureNoise commits to the database and publishes to b until the test ends. A measurement that
// takes longer than the time to the next one makes that one late, which counts, as for rows.
func measureNoise(w *world.World, b *world.Bus, destination string) *noise {
	w.T.Helper()
	w.Exec("CREATE TABLE IF NOT EXISTS noise (id integer PRIMARY KEY, n integer)")
	publish := b.Publisher(w.T, destination)
	n := new(noise)
	ctx, cancel := context.WithCancel(context.Background())
	var measuring sync.WaitGroup
	measuring.Go(func() {
		for due := time.Now(); ; due = due.Add(100 * time.Millisecond) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Until(due)):
			}
			// An error is noise as well: how long it took counts.
			_, _ = w.DB.ExecContext(ctx, "REPLACE INTO noise (id, n) VALUES (1, 1)")
			_ = publish(ctx)
			n.mu.Lock()
			n.delays = append(n.delays, time.Since(due))
			n.mu.Unlock()
		}
	})
	w.T.Cleanup(func() { cancel(); measuring.Wait() })
	return n
}

// ascending returns the delays so far.
func (n *noise) ascending() []time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(slices.Values(n.delays))
}
