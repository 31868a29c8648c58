package acceptance

import (
	"context"
	"database/sql"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// noise measures how long a commit and a publish take on this machine without bridge, over and over, beside a test that judges
// delays: what the machine, the database or the bus adds is not bridge's.
type noise struct {
	mu     sync.Mutex
	delays []time.Duration
}

// noiseEvery is the time from one measurement to the next. One that takes longer makes the next ones late, which counts, as it does
// for rows.
const noiseEvery = 100 * time.Millisecond

// measure commits to db and publishes to b until the test ends.
func measure(t testing.TB, db *sql.DB, b bus, destination string) *noise {
	t.Helper()
	if _, err := db.Exec("CREATE TABLE IF NOT EXISTS noise (id integer PRIMARY KEY, n integer)"); err != nil {
		t.Fatal(err)
	}
	publish := b.publisher(t, destination)
	n := new(noise)
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
			n.add(time.Since(due))
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return n
}

func (n *noise) add(delay time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delays = append(n.delays, delay)
}

// ascending returns the delays so far.
func (n *noise) ascending() []time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(slices.Values(n.delays))
}

func (b kafkaBus) publisher(t testing.TB, name string) func(context.Context) error {
	t.Helper()
	destination := b.open(t, name)
	client, err := kgo.NewClient(kgo.SeedBrokers(b.server.Brokers()...), kgo.DefaultProduceTopic(destination),
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.ProducerLinger(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return func(ctx context.Context) error {
		return client.ProduceSync(ctx, kgo.StringRecord("noise")).FirstErr()
	}
}

func (b natsBus) publisher(t testing.TB, name string) func(context.Context) error {
	t.Helper()
	b.open(t, name)
	js := b.server.JetStream(t)
	return func(ctx context.Context) error {
		_, err := js.Publish(ctx, name+".noise", []byte("noise"))
		return err
	}
}
