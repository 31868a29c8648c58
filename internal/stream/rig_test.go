package stream_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/outage"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
	"example.org/bridge/tests/must"
)

// rig is a process on a bus and a store, for one rule at a time.
type rig struct {
	t         testing.TB
	bus       *bus
	disk      *disk
	committer *stream.Committer
	c         *stream.CatchUp
	feeds     map[string]*recorder
	over      error
	faults    *outage.Log
}

// newRig makes a process with capability streams. change may change its options.
func newRig(t testing.TB, b *bus, kept *memory.Store, change func(*stream.Options), streams ...string) *rig {
	t.Helper()
	r := &rig{t: t, bus: b, disk: newDisk(kept), feeds: map[string]*recorder{}}
	image, err := r.disk.Load(t.Context())
	must.OK(t, err)
	log := slog.New(slog.DiscardHandler)
	r.faults = outage.New(log)
	r.committer = stream.NewCommitter(r.disk, image, r.faults)
	opts := stream.Options{Reader: b, Committer: r.committer, Image: image, Domain: "test", Log: log,
		Superseded: func(err error) { r.over = err }, Stopped: func(string, error) {}}
	for _, name := range streams {
		f := newRecorder(name, r.disk, r.committer)
		r.feeds[name] = f
		opts.Streams = append(opts.Streams, stream.Stream{Name: name, Destinations: []string{"d"}, Feed: f, Hash: 9})
	}
	if change != nil {
		change(&opts)
	}
	r.c = stream.New(opts)
	return r
}

func (r *rig) start() *rig {
	r.t.Helper()
	must.OK(r.t, r.c.Start(r.t.Context()))
	return r
}

func (r *rig) starting() <-chan error {
	done := make(chan error, 1)
	go func() { done <- r.c.Start(r.t.Context()) }()
	return done
}

// run runs the process in the background, in a bubble, until the test ends.
func (r *rig) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.c.Run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Errorf("Run: %v", err)
		}
	})
}

func (r *rig) pass(d time.Duration) {
	must.OK(r.t, backoff.Pause(r.t.Context(), d))
	synctest.Wait()
}

// registration returns the one that the store has in force.
func (r *rig) registration(stream, tp string) store.Registration {
	r.t.Helper()
	image := must.Get(r.disk.Load(r.t.Context()))(r.t)
	for _, g := range image.Registrations {
		if g.Stream == stream && g.TP == tp && !g.Retired {
			return g
		}
	}
	r.t.Fatalf("%s of %s is not registered: %+v", tp, stream, image.Registrations)
	return store.Registration{}
}

// seen returns the keys of the messages that a feed was given, late ones with an asterisk.
func (r *rig) seen(stream string) (keys string) {
	f := r.feeds[stream]
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.seen {
		if i > 0 {
			keys += " "
		}
		keys += string(f.seen[i].Key)
		if f.seen[i].Late {
			keys += "*"
		}
	}
	f.seen = nil
	return keys
}

// wantSeen fails the test unless a feed was given messages with these keys since the last time.
func (r *rig) wantSeen(stream, want string) {
	r.t.Helper()
	if got := r.seen(stream); got != want {
		r.t.Errorf("stream %s was given %q, want %q", stream, got, want)
	}
}

// wantNext fails the test unless the store covers a TP up to an offset.
func (r *rig) wantNext(stream, tp string, want uint64) {
	r.t.Helper()
	if g := r.registration(stream, tp); g.Next != want {
		r.t.Errorf("%s is covered up to %d for %s, want %d: %+v", tp, g.Next, stream, want, g)
	}
}

func ours(key string, epoch, seq uint64) *said {
	return &said{stream: "s", shard: "a", key: key, row: seq, epoch: epoch, seq: seq, digest: 1, hash: 9}
}

func (b *bus) says(m *said) uint64 { return b.append("d", m.stored()) }

func (b *bus) other(value string) uint64 { return b.append("d", sink.Stored{Value: []byte(value)}) }

// send has a message in flight and returns its seq.
func (r *rig) send() uint64 {
	seq := r.c.Epoch().Next(1)
	r.committer.Sending("s", seq, 1)
	return seq
}

// sends has a message in flight, as a publisher does.
func (r *rig) sends(key string) *said {
	m := ours(key, r.c.Epoch().Number(), 0)
	m.seq = r.send()
	return m
}

// publishes has a message of d be sent, stored and acknowledged.
func (r *rig) publishes(key string) {
	r.t.Helper()
	m := r.sends(key)
	must.OK(r.t, r.acknowledge(m, r.bus.says(m)))
}

func (r *rig) acknowledge(m *said, offset uint64) error {
	n, _ := r.committer.Number(m.stream, sink.TPRef{Name: "d"})
	f := r.feeds[m.stream]
	last := store.Anchor{Offset: offset, Hash: stream.HashMessage([]byte(m.key), m.event(), m.epoch, m.seq)}
	cover := stream.Cover{First: m.seq, Acked: []stream.Span{{TP: n, Range: stream.Range{From: offset, To: offset + 1, Last: last}}}}
	return f.Feed.Apply(r.t.Context(), []stream.Message{m.message(store.At{TP: n, Offset: offset})}, nil, cover)
}

func (m *said) message(at store.At) stream.Message {
	state := sink.State{Epoch: m.epoch, Seq: m.seq, Digest: [16]byte{m.digest}, Hash: m.hash}
	if m.digest == 0 {
		state.Kind, state.Digest = sink.StateAbsent, [16]byte{}
	}
	return stream.Message{State: state, Stream: m.stream, Shard: m.shard, Row: m.row, Origin: sink.FromTail, Key: []byte(m.key), Event: m.event(), Time: published, At: at}
}

func (r *rig) stopOf(stream string) error { return r.c.Wait(r.t.Context(), stream) }

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
