package stream_test

import (
	"context"
	"slices"
	"sync"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/stream"
)

// recorder is a Feed that keeps the messages that it has applied. No owner decides: what it
// nominates waits until decide.
type recorder struct {
	*stream.Feed
	view   *stream.View
	movers *stream.Movers

	mu   sync.Mutex
	seen []stream.Message
	// due says that a reconcile follows. followed counts the calls of Follow.
	due      bool
	followed int
	// err is returned of the messages with the key of, or of all, panics has Apply panic.
	err    error
	of     string
	panics bool
}

func newRecorder(name string, s store.Store, c *stream.Committer) *recorder {
	f := &recorder{view: stream.NewView(name, s, c.InForce)}
	f.movers = stream.NewMovers(f.view, stream.MoversOptions{
		Read: func(_ context.Context, _ string, entities [][]byte) (stream.FoundRows, error) {
			return stream.FoundRows{Rows: make([][]stream.Found, len(entities)), Unproved: true}, nil
		},
		Publish: func(context.Context, string, []stream.Move) error { return nil },
	})
	f.Feed = stream.NewFeed(stream.FeedOptions{Stream: name, View: f.view, Movers: f.movers, Store: s, Committer: c, Shards: []stream.FeedShard{{Name: "a"}}})
	return f
}

// fail has Apply return err, of messages with a key or, where that is empty, of all.
func (f *recorder) fail(err error, of string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err, f.of = err, of
}

func (f *recorder) Apply(ctx context.Context, facts []stream.Message, read *stream.Read, cover stream.Cover) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.panics:
		panic("a defect")
	case f.err != nil && (f.of == "" || slices.ContainsFunc(facts, func(m stream.Message) bool { return string(m.Key) == f.of })):
		return f.err
	}
	if err := f.Feed.Apply(ctx, facts, read, cover); err != nil {
		return err
	}
	for _, m := range facts {
		m.Key = slices.Clone(m.Key)
		f.seen = append(f.seen, m)
	}
	return nil
}

func (f *recorder) Follow(ctx context.Context) error {
	f.followed++
	return f.Feed.Follow(ctx)
}

func (f *recorder) Reconcile(ctx context.Context, b *store.Batch, cover stream.Cover) error {
	err := f.Feed.Reconcile(ctx, b, cover)
	f.due = f.due || err == nil
	return err
}

// entry returns the entry of an entity as it is now.
func (f *recorder) entry(ctx context.Context, key string) (store.Entry, error) {
	list, err := f.view.Lookup(ctx, "a", [][]byte{[]byte(key)}, nil)
	if err != nil {
		return store.Entry{}, err
	}
	return list[0], nil
}
