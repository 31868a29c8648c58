package catchup_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"bridge/checkpoint/store"
	"bridge/checkpoint/store/memory"
	"bridge/internal/catchup"
	"bridge/internal/outage"
	"bridge/sink"
)

// counter is a feed that keeps nothing.
type counter struct{ messages int }

func (c *counter) Apply(_ context.Context, messages []catchup.Message, commit func(*store.Batch) error) error {
	c.messages += len(messages)
	return commit(&store.Batch{})
}

func (*counter) Ready(context.Context) error { return nil }

func (*counter) ForgetDecided(context.Context, func(*store.Batch) error) error { return nil }

func (*counter) Follow() {}

func (*counter) Restore(b *store.Batch, commit func(*store.Batch) error) error { return commit(b) }

func (*counter) Reconcile(_ context.Context, commit func(*store.Batch) error) error {
	return commit(&store.Batch{})
}

// BenchmarkStart reads a topic of ours, in memory, into a feed that keeps nothing. It reports
// messages a second.
func BenchmarkStart(b *testing.B) {
	const n = 200_000
	d := newBus("d")
	for i := range uint64(n) {
		m := ours(fmt.Sprint("key-", i), 5, i+1)
		m.row = i
		d.says(m)
	}
	log := slog.New(slog.DiscardHandler)
	b.ReportAllocs()
	for b.Loop() {
		var feed counter
		committer := catchup.NewCommitter(memory.New(), store.Image{}, outage.New(log))
		c := catchup.New(catchup.Options{Reader: sink.Reader(d), Committer: committer, Domain: "test", Log: log,
			Streams: []catchup.Stream{{Name: "s", Destinations: []string{"d"}, Hash: 9, Feed: &feed}}})
		if err := c.Start(b.Context()); err != nil || feed.messages != n {
			b.Fatalf("%d messages are read: %v", feed.messages, err)
		}
	}
	b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "messages/s")
}
