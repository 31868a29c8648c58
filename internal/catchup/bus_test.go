package catchup_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"bridge/internal/catchup"
	"bridge/sink"
	"bridge/sink/sinktest"
	"bridge/sink/sinktest/memory"
)

// bus is a sink.Reader in memory, of which a test can make any message, and lose any.
type bus struct {
	mu      sync.Mutex
	logs    map[string]*busLog
	makings int
	closed  bool
	changed chan struct{}
	// topics says which TPs a destination has: by default the one with its name.
	topics map[string][]string
	// fail, when set, is asked before each Read.
	fail func(span sink.Span) error
}

type busLog struct {
	incarnation string
	// first is the first offset that has not expired. A message without headers and value is gone.
	first    uint64
	messages []sink.Stored
}

func newBus(tps ...string) *bus {
	b := &bus{logs: make(map[string]*busLog), changed: make(chan struct{}), topics: make(map[string][]string)}
	for _, tp := range tps {
		b.make(tp)
	}
	return b
}

// make makes a TP, or makes it again.
func (b *bus) make(tp string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.makings++
	b.logs[tp] = &busLog{incarnation: strconv.Itoa(b.makings)}
	b.wake()
}

func (b *bus) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// append stores a message and returns its offset.
func (b *bus) append(tp string, m sink.Stored) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.logs[tp]
	m.Offset = l.end()
	l.messages = append(l.messages, m)
	b.wake()
	return m.Offset
}

func (l *busLog) end() uint64 { return uint64(len(l.messages)) }

// expire removes the messages below an offset, lose those from one on, remove a single one.
func (b *bus) expire(tp string, below uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.logs[tp]
	l.first = max(l.first, min(below, l.end()))
}

func (b *bus) lose(tp string, from uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.logs[tp]
	l.messages = slices.Clip(l.messages[:max(from, l.first)])
}

func (b *bus) remove(tp string, offset uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.logs[tp]
	l.messages[offset] = sink.Stored{}
}

func (b *bus) end(tp string) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.logs[tp].end()
}

func (b *bus) TPs(ctx context.Context, destinations []string) (tps []sink.TP, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, sink.ErrClosed
	}
	for _, d := range destinations {
		names := b.topics[d]
		if names == nil {
			names = []string{d}
		}
		for _, name := range names {
			if l := b.logs[name]; l != nil {
				tps = append(tps, sink.TP{Name: name, Destination: d, Incarnation: l.incarnation, First: l.first, End: l.end(), Stable: l.end(), Expired: l.first > 0})
			}
		}
	}
	return tps, context.Cause(ctx)
}

func (b *bus) Read(ctx context.Context, span sink.Span, each func(*sink.Stored) error) (next uint64, err error) {
	next = span.From
	if b.fail != nil {
		if err := b.fail(span); err != nil {
			return next, err
		}
	}
	for next < span.To {
		messages, changed, err := b.behind(ctx, &span, next)
		if err != nil {
			return next, err
		}
		for i := range messages {
			if next >= span.To {
				break
			}
			next++
			if m := &messages[i]; m.Headers != nil || m.Value != nil {
				if err := each(m); err != nil {
					return next, err
				}
			}
		}
		if len(messages) == 0 {
			select {
			case <-changed:
			case <-ctx.Done():
				return next, context.Cause(ctx)
			}
		}
	}
	return next, nil
}

// behind returns up to 500 messages from an offset on.
func (b *bus) behind(ctx context.Context, span *sink.Span, at uint64) ([]sink.Stored, <-chan struct{}, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.logs[span.TP]
	switch {
	case ctx.Err() != nil:
		return nil, nil, context.Cause(ctx)
	case b.closed:
		return nil, nil, sink.ErrClosed
	case l == nil, span.Incarnation != "" && span.Incarnation != l.incarnation:
		return nil, nil, fmt.Errorf("read %s: %w", span.TP, sink.ErrGone)
	case at < l.first:
		return nil, nil, &sink.ExpiredError{TP: span.TP, From: at, First: l.first}
	case at > l.end():
		return nil, nil, fmt.Errorf("read %s from %d: %w", span.TP, at, sink.ErrBehind)
	}
	span.Incarnation = l.incarnation
	messages := l.messages[at:]
	return messages[:min(len(messages), 500)], b.changed, nil
}

func (b *bus) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.wake()
	return nil
}

// TestTheBusIsAReader holds the twin to what sinks promise.
func TestTheBusIsAReader(t *testing.T) {
	sinktest.RunReader(t, func(t *testing.T) sinktest.ReaderFixture {
		b := newBus("d")
		return sinktest.ReaderFixture{
			Reader: b, Destination: "d", Close: b.close, Keys: true, MaxBytes: 1 << 16,
			Publish: func(_ testing.TB, batch []sink.Message) {
				for i := range batch {
					b.append("d", storedOf(&batch[i]))
				}
			},
			Expire: func(_ testing.TB, first uint64) { b.expire("d", first) },
			Delete: func(_ testing.TB, offsets []uint64) {
				for _, at := range offsets {
					b.remove("d", at)
				}
			},
			Wipe: func(testing.TB) { b.make("d") },
		}
	})
}

func storedOf(m *sink.Message) sink.Stored {
	s := sink.Stored{Destination: m.Destination, Key: slices.Clone(m.Key), Value: slices.Clone(m.Value), Time: m.Time.UnixMilli()}
	m.EachHeader(func(name, value string) { s.Headers = append(s.Headers, sink.Header{Name: name, Value: []byte(value)}) })
	return s
}

// said is a message of ours, as a test makes it.
type said struct {
	stream, shard, key string
	row                uint64
	epoch, seq         uint64
	digest             byte
	hash               uint32
}

// published is when all messages of tests were made.
var published = time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)

// event returns the id of the event, by what it says and by its stamp.
func (s *said) event() (id [16]byte) {
	id[0] = s.digest
	binary.BigEndian.PutUint64(id[1:], s.epoch)
	binary.BigEndian.PutUint32(id[9:], uint32(s.seq))
	return id
}

func (s *said) stored() sink.Stored {
	state := sink.State{Epoch: s.epoch, Seq: s.seq, Digest: [16]byte{s.digest}, Hash: s.hash}
	if s.digest == 0 {
		state.Kind, state.Digest = sink.StateAbsent, [16]byte{}
	}
	id := s.event()
	header := func(name, value string) sink.Header { return sink.Header{Name: name, Value: []byte(value)} }
	return sink.Stored{Key: []byte(s.key), Value: []byte("{}"), Headers: []sink.Header{
		header(sink.HeaderContentType, sink.ContentType),
		header(sink.HeaderID, fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])),
		header(sink.HeaderType, "TestEvent"),
		header(sink.HeaderDomain, "test"),
		header(sink.HeaderStream, s.stream),
		header(sink.HeaderShard, s.shard),
		header(sink.HeaderRowID, strconv.FormatUint(s.row, 10)),
		header(sink.HeaderOrigin, string(sink.FromTail)),
		header(sink.HeaderPublishedAt, published.Format(sink.PublishedAtFormat)),
		header(sink.HeaderState, string(sink.AppendState(nil, &state))),
	}}
}

// TestOverASink reads what a sink has stored, whose offsets begin at 1, and finds the anchor that
// the publisher's hash makes.
func TestOverASink(t *testing.T) {
	bubble(t, "what a sink stores is read", func(t *testing.T) {
		s := memory.New(memory.Options{})
		publish := func(epoch uint64, from, to int) {
			for i := from; i < to; i++ {
				m := sink.Message{Destination: "d", Key: fmt.Append(nil, "k", i), Value: []byte("{}"), ID: fmt.Sprintf("00112233-4455-6677-8899-%012x", i),
					Domain: "test", Stream: "s", Shard: "a", RowID: uint64(i), Origin: sink.FromTail, Time: published, State: sink.State{Epoch: epoch, Seq: uint64(i), Hash: 9}}
				if out, err := s.Publish(t.Context(), []sink.Message{m}); err != nil || !out.AllAcked() {
					t.Fatalf("publish: %v", err)
				}
			}
		}
		over := func(o *catchup.Options) { o.Reader = s }
		publish(5, 1, 4)
		r := newRig(t, nil, nil, over, "s").start()
		r.wantSeen("s", "k1 k2 k3")
		g := r.registration("s", "d")
		event := [16]byte{0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 15: 3}
		if g.Next != 4 || g.Late || g.Last.Hash != catchup.HashMessage([]byte("k3"), event, 5, 3) {
			t.Errorf("registration %+v", g)
		}
		batches, _ := r.disk.applied()
		publish(1<<50, 4, 6)
		s.Expire("d", 2)
		r = newRig(t, nil, batches, over, "s").start()
		if g := r.registration("s", "d"); g.Number != 1 || g.Next != 6 {
			t.Errorf("registration %+v", g)
		}
		batches, _ = r.disk.applied()
		s.Lose("d", 1)
		if g := newRig(t, nil, batches, over, "s").start().registration("s", "d"); g.Number != 2 || g.Next != 5 || !g.Late {
			t.Errorf("registration %+v", g)
		}
	})
}
