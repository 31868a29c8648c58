package stream_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/sink"
)

// bus is a sink.Reader in memory, of which a test can make any message, and lose any.
type bus struct {
	mu      sync.Mutex
	logs    map[string]*busLog
	makings int
	changed chan struct{}
	// topics says which TPs a destination has: by default the one with its name.
	topics map[string][]string
	// fail, when set, is asked before each Read, look before bounds are told.
	fail func(span sink.Span) error
	look func(ctx context.Context, destinations []string) error
	// open is how many messages at the end of each TP are in a transaction that has not ended.
	open uint64
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

// make makes a TP, or makes it again; "t/0" is a partition of a topic, which has one incarnation.
func (b *bus) make(tp string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.makings++
	b.logs[tp] = new(busLog)
	for name, l := range b.logs {
		if topic, _, _ := strings.Cut(tp, "/"); name == tp || strings.HasPrefix(name, topic+"/") {
			l.incarnation = strconv.Itoa(b.makings)
		}
	}
	b.wake()
}

func (b *bus) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

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

// holds has reads of a TP wait until open is closed.
func (b *bus) holds(tp string) (open chan struct{}) {
	open = make(chan struct{})
	b.fails(func(span sink.Span) error {
		if strings.HasPrefix(span.TP, tp) {
			<-open
		}
		return nil
	})
	return open
}

// fails has fail asked before each Read from now on, looks has look asked before bounds are told.
func (b *bus) fails(fail func(span sink.Span) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail = fail
}

func (b *bus) looks(look func(ctx context.Context, destinations []string) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.look = look
}

func (b *bus) faults() (fail func(span sink.Span) error, look func(ctx context.Context, destinations []string) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fail, b.look
}

func (b *bus) TPs(ctx context.Context, destinations []string) (tps []sink.TP, err error) {
	if _, look := b.faults(); look != nil {
		if err := look(ctx, destinations); err != nil {
			return nil, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range destinations {
		names := b.topics[d]
		if names == nil {
			names = []string{d}
		}
		for _, name := range names {
			if l := b.logs[name]; l != nil {
				tps = append(tps, sink.TP{Name: name, Destination: d, Incarnation: l.incarnation, First: l.first, End: l.end(), Stable: l.end() - b.open, Expired: l.first > 0})
			}
		}
	}
	return tps, context.Cause(ctx)
}

func (b *bus) Read(ctx context.Context, span sink.Span, each func(*sink.Stored) error) (next uint64, err error) {
	next = span.From
	if fail, _ := b.faults(); fail != nil {
		if err := fail(span); err != nil {
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

// said is a message of ours, as a test makes it.
type said struct {
	stream, shard, key string
	row, floor         uint64
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
	state := sink.State{Epoch: s.epoch, Seq: s.seq, Digest: [16]byte{s.digest}, Hash: s.hash, Floor: s.floor}
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

var errKilled = errors.New("killed")

// disk is a store in memory that can be killed.
type disk struct {
	*memory.Store
	mu sync.Mutex
	// applied and synced count batches; forgot has, of each stream that one forgets, its number.
	applied, synced int
	forgot          []int
	// left is how many more batches it applies before it is killed; below 0: any number.
	left int
	// fault, when not nil, is returned once it has run out of left batches.
	fault error
	// damaged, when not nil, is closed by the test.
	damaged chan struct{}
}

// newDisk returns a disk with what a store has, nil for nothing.
func newDisk(kept *memory.Store) *disk {
	if kept == nil {
		kept = memory.New()
	}
	return &disk{Store: kept, left: -1, fault: errKilled, damaged: make(chan struct{})}
}

func (d *disk) Apply(ctx context.Context, b *store.Batch) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left == 0 {
		return d.fault
	}
	d.left--
	err := d.Store.Apply(ctx, b)
	if err == nil {
		for range b.Forget {
			d.forgot = append(d.forgot, d.applied)
		}
		d.applied++
	}
	return err
}

func (d *disk) Sync(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left == 0 {
		return d.fault
	}
	d.synced = d.applied
	return d.Store.Sync(ctx)
}

// kill makes the store fail after some more batches.
func (d *disk) kill(after int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left = after
}

func (d *disk) counts() (applied, synced int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.applied, d.synced
}

func (d *disk) Damaged() <-chan struct{} { return d.damaged }
