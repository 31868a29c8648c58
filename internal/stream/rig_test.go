package stream_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/outage"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
)

// rig is a process on a bus and a store, for one rule at a time.
type rig struct {
	t         *testing.T
	bus       *bus
	disk      *disk
	committer *stream.Committer
	c         *stream.CatchUp
	feeds     map[string]*recorder
	stopped   map[string]error
	over      error
	faults    *outage.Log
}

// newRig makes a process with capability streams. change may change its options.
func newRig(t *testing.T, b *bus, batches []store.Batch, change func(*stream.Options), streams ...string) *rig {
	t.Helper()
	r := &rig{t: t, bus: b, disk: newDisk(batches), feeds: map[string]*recorder{}, stopped: map[string]error{}}
	image, err := r.disk.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	r.faults = outage.New(log)
	r.committer = stream.NewCommitter(r.disk, image, r.faults)
	opts := stream.Options{Reader: b, Committer: r.committer, Image: image, Domain: "test", Log: log,
		Superseded: func(err error) { r.over = err }, Stopped: func(stream string, err error) { r.stopped[stream] = err }}
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
	if err := r.c.Start(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	return r
}

// starting has Start run in the background.
func (r *rig) starting() <-chan error {
	done := make(chan error, 1)
	go func() { done <- r.c.Start(r.t.Context()) }()
	return done
}

// started is a test of a process that has started on an empty topic d, goesOn of one with a store
// that has read three messages of it.
func started(t *testing.T, name string, test func(t *testing.T, b *bus, r *rig)) {
	bubble(t, name, func(t *testing.T) {
		b := newBus("d")
		test(t, b, newRig(t, b, nil, nil, "s").start())
	})
}

func goesOn(t *testing.T, name string, test func(t *testing.T, b *bus, r *rig)) {
	bubble(t, name, func(t *testing.T) {
		b, batches := filled(t, nil)
		test(t, b, newRig(t, b, batches, nil, "s").start())
	})
}

// running is a test of a process that has started on an empty topic d, and runs.
func running(t *testing.T, name string, test func(t *testing.T, b *bus, r *rig)) {
	started(t, name, func(t *testing.T, b *bus, r *rig) {
		r.run()
		test(t, b, r)
	})
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

// pass lets time pass in a bubble.
func (r *rig) pass(d time.Duration) {
	if err := backoff.Pause(r.t.Context(), d); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

// registration returns the one that the store has in force.
func (r *rig) registration(stream, tp string) store.Registration {
	r.t.Helper()
	image, err := r.disk.Load(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	for _, g := range image.Registrations {
		if g.Stream == stream && g.TP == tp && !g.Retired {
			return g
		}
	}
	r.t.Fatalf("%s of %s is not registered: %+v", tp, stream, image.Registrations)
	return store.Registration{}
}

// wantRead fails the test unless d has a registration with this number, was read to its end, and a
// reconcile of stream s is due or not.
func (r *rig) wantRead(number uint32, due bool) {
	r.t.Helper()
	if g := r.registration("s", "d"); g.Number != number || g.Next != r.bus.end("d") || r.feeds["s"].due != due {
		r.t.Errorf("registration %+v, a reconcile is due: %v", g, r.feeds["s"].due)
	}
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

// ours is a message of stream s.
func ours(key string, epoch, seq uint64) *said {
	return &said{stream: "s", shard: "a", key: key, row: seq, epoch: epoch, seq: seq, digest: 1, hash: 9}
}

// says stores a message of a stream.
func (b *bus) says(m *said) uint64 { return b.append("d", m.stored()) }

// other stores a message of somebody else.
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
	if err := r.acknowledge(m, r.bus.says(m)); err != nil {
		r.t.Fatal(err)
	}
}

// acknowledge ends a message that lies at an offset.
func (r *rig) acknowledge(m *said, offset uint64) error {
	n := r.committer.Number(m.stream, sink.TPRef{Name: "d"})
	f := r.feeds[m.stream]
	last := store.Anchor{Offset: offset, Hash: stream.HashMessage([]byte(m.key), m.event(), m.epoch, m.seq)}
	cover := stream.Cover{First: m.seq, Acked: []stream.Span{{TP: n, Range: stream.Range{From: offset, To: offset + 1, Last: last}}}}
	return f.Feed.Apply(r.t.Context(), []stream.Message{m.message(store.At{TP: n, Offset: offset})}, nil, cover)
}

// message returns what a reader makes of m.
func (m *said) message(at store.At) stream.Message {
	state := sink.State{Epoch: m.epoch, Seq: m.seq, Digest: [16]byte{m.digest}, Hash: m.hash}
	if m.digest == 0 {
		state.Kind, state.Digest = sink.StateAbsent, [16]byte{}
	}
	return stream.Message{State: state, Stream: m.stream, Shard: m.shard, Row: m.row, Origin: sink.FromTail, Key: []byte(m.key), Event: m.event(), Time: published, At: at}
}
