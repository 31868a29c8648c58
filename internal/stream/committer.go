package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/outage"
	"example.org/bridge/sink"
)

// ErrReadBack says that the bus must be read before the next batch (rules 2 and 9): an
// acknowledgement cannot be that of the message, or whether messages are on the bus is unknown.
var ErrReadBack = errors.New("the outcome of the publish is unknown")

// ErrUnread says that a part of the store was not read, which is not damaged: it may be read later.
var ErrUnread = errors.New("a part of the checkpoint was not read")

// errStore wraps an error of the store: it ends all streams.
var errStore = errors.New("write to the store")

// Committer applies the batches of the whole process. What it writes in one is what was read or
// acknowledged, and the offsets that cover this: so no offset is ever ahead of what it covers
// (rules 4, 20 and 25).
//
// What is applied is visible at once and durable later: Sync makes it so, for what must not be
// lost. Nobody waits for the disk but in Apply, which blocks while the store has too much to write.
// It is safe for concurrent use.
//
// One change of the process is made at a time: the one that has acquired the committer computes it
// by what the store has, commits it, and installs in memory what follows. Where the write fails
// nothing is installed. No other lock is held meanwhile but for moments, to read or change memory.
type Committer struct {
	store store.Store
	disk  disk
	// token is held from computing a change to installing it. A wait for it can be cancelled.
	token chan struct{}
	// durable says that the store was made durable once.
	durable atomic.Bool

	mu sync.Mutex
	// tps have the coverage that the store has.
	tps registry
	// flight has how many messages each batch has that this process has handed to the sink and has
	// no outcome of, by its first seq. A reader stops before them, because their acknowledgement
	// covers them (rule 4). A message of our epoch that is not in flight is read like any other.
	flight map[uint64]sending
	// doubts has the stream of each batch whose outcome is unknown, by its first seq, until the bus
	// was read behind it.
	doubts map[uint64]string
	// sent is the highest seq that was handed to the sink.
	sent uint64
	// epoch is the epoch of this process, 0 before it is synced.
	epoch uint64
	// changed is closed at the next change, nil where nobody waits.
	changed chan struct{}
}

type sending struct {
	stream string
	n      uint64
}

// NewCommitter returns the committer of a store that holds image. Nobody else may apply batches
// while it is used. faults is told when the store takes no writes.
func NewCommitter(s store.Store, image store.Image, faults *outage.Log) *Committer {
	c := &Committer{store: s, disk: disk{faults}, token: make(chan struct{}, 1), flight: make(map[uint64]sending), doubts: make(map[uint64]string)}
	c.tps.byNumber = make(map[uint32]*covered)
	c.tps.change(nil, image.Registrations)
	return c
}

// Acquire waits until nobody else makes a change, and keeps others from it until release is called.
func (c *Committer) Acquire(ctx context.Context) (release func(), err error) {
	return backoff.Acquire(ctx, c.token)
}

// Sending notes the seqs first to first+n-1 of a stream before their messages are handed to the
// sink. A reader stops before them until Acknowledged or Unknown is called with first.
func (c *Committer) Sending(stream string, first, n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flight[first] = sending{stream, n}
	c.sent = max(c.sent, first+n-1)
}

type sendState uint8

const (
	// outcomeUnknown: it is to be read like a message of others.
	outcomeUnknown sendState = iota
	// inFlight: its acknowledgement covers it.
	inFlight
	// acknowledged: it is covered.
	acknowledged
	// notOurs: this process has not sent it, so another one has our epoch.
	notOurs
)

func (c *Committer) sendState(seq uint64, tp uint32, offset uint64) sendState {
	c.mu.Lock()
	defer c.mu.Unlock()
	for first, b := range c.flight {
		if seq >= first && seq-first < b.n {
			return inFlight
		}
	}
	switch t := c.tps.get(tp); {
	case seq > c.sent:
		return notOurs
	case t != nil && t.has(offset):
		return acknowledged
	}
	return outcomeUnknown
}

// Unknown ends that the seqs from first on are in flight: what is on the bus of them is to be read.
func (c *Committer) Unknown(first uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b, is := c.flight[first]; is {
		c.doubts[first] = b.stream
	}
	delete(c.flight, first)
	c.wake()
}

// Apply applies b. It is visible at once.
func (c *Committer) Apply(ctx context.Context, b *store.Batch) error { return c.apply(ctx, b, Cover{}) }

// apply applies b with what it covers, again and again while the disk takes no writes.
func (c *Committer) apply(ctx context.Context, b *store.Batch, cover Cover) error {
	return c.disk.retry(ctx, func() error {
		return c.Still(ctx, func(store.Store) error { return c.Commit(ctx, b, cover) })
	})
}

// Sync applies b and returns when it is durable, with all that was applied before.
func (c *Committer) Sync(ctx context.Context, b *store.Batch) error {
	if err := c.Apply(ctx, b); err != nil {
		return err
	}
	if err := c.disk.retry(ctx, func() error { return c.store.Sync(ctx) }); err != nil {
		return fmt.Errorf("%w: %w", errStore, err)
	}
	c.durable.Store(true)
	return nil
}

// Saved reports whether the store was made durable since the Committer was made.
func (c *Committer) Saved() bool { return c.durable.Load() }

// Still calls do while no batch is applied: all that it reads of the store is of one image, but for
// entities that are forgotten.
func (c *Committer) Still(ctx context.Context, do func(store.Store) error) error {
	release, err := c.Acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	return do(c.store)
}

// ends tells the end of a TP at a time: what is below it and not covered is to be read (rule 5).
func (c *Committer) ends(stream string, tp sink.TPRef, end uint64, at time.Time) {
	number, _ := c.Number(stream, tp)
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tps.get(number)
	if t == nil {
		return
	}
	t.end, t.served = end, true
	if _, left := t.hole(0); !left {
		// Rule 30. The store has it with the next change.
		t.Seen = uint64(at.UnixMilli())
	}
}

// InForce returns the number that is in force for the TP of a registration: an entry that names
// another one is to be Renewed (rule 21). It is 0 where tp is not registered. It takes no lock.
func (c *Committer) InForce(tp uint32) uint32 { return (*c.tps.current.Load())[tp] }

// TP returns the name of a TP by its number in force, empty for another number.
func (c *Committer) TP(number uint32) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.tps.get(number); t != nil {
		return t.TP
	}
	return ""
}

// Lost reports whether a TP that ends there has lost messages which were covered.
func (c *Committer) Lost(number uint32, end uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tps.get(number)
	return t != nil && t.has(end)
}

// Number returns the number in force for a TP as a sink reports it, 0 where it is not registered,
// or was made again and is not registered again yet: then it reports another one.
func (c *Committer) Number(stream string, tp sink.TPRef) (number uint32, another bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tps.coverage(stream, tp.Name)
	switch {
	case t == nil:
		return 0, false
	case tp.Incarnation != "" && t.Incarnation != "" && tp.Incarnation != t.Incarnation:
		return 0, true
	}
	return t.Number, false
}

func (c *Committer) snapshot(stream, tp string) *covered {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.tps.coverage(stream, tp); t != nil {
		return t.clone()
	}
	return nil
}

func (c *Committer) registrations(stream string) map[string]store.Registration {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make(map[string]store.Registration)
	for _, t := range c.tps.byNumber {
		if t.Stream == stream && !t.Retired {
			list[t.TP] = t.Registration
		}
	}
	return list
}

// registered reports whether a stream has a registration in force, and whether messages expired
// before they were read in one of these (rules 22 and 27).
func (c *Committer) registered(stream string) (is, late bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	late, is = c.tps.streams[stream]
	return is, late
}

func (c *Committer) highest() (epoch uint64, number uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.tps.byNumber {
		epoch = max(epoch, t.Epoch)
	}
	return epoch, c.tps.last
}

// isBehind reports whether a registration in force, of those with the numbers in ends, is not read
// to its end there, though its TP is there. It forgets those that are.
func (c *Committer) isBehind(ends map[uint32]uint64, there func(tp string) bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for number, end := range ends {
		switch t := c.tps.get(number); {
		case t == nil:
		case t.Next >= end:
			delete(ends, number)
		case there(t.TP):
			return true
		}
	}
	return false
}

func (c *Committer) next() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tps.last++
	return c.tps.last
}

// wake lets everybody look again who waits for a change. c.mu is held.
func (c *Committer) wake() {
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// change returns a channel that is closed when coverage or what is in flight changes next.
func (c *Committer) change() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	return c.changed
}

// The pauses of Committer.Run. What reads nothing back relies on the store alone.
const (
	syncEvery     = time.Minute
	syncUnread    = time.Second
	syncAtTheEnd  = 10 * time.Second
	outagePause   = 5 * time.Second
	firstOfOutage = 100 * time.Millisecond
)

// Run makes what was applied durable about once a minute and at the end: each second where nothing
// can be read back, and every 5 s while the disk takes no writes. It returns nil when ctx ends, and
// the error of a store that is broken, at once where damage was seen.
func (c *Committer) Run(ctx context.Context) error {
	for pause := c.interval(); c.pause(ctx, pause) == nil; {
		durable, err := c.syncOnce(ctx)
		if err != nil {
			return err
		}
		if pause = c.interval(); !durable {
			pause = min(pause, outagePause)
		}
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), syncAtTheEnd, store.ErrOutage)
	defer cancel()
	_, err := c.syncOnce(ctx)
	return err
}

func (c *Committer) pause(ctx context.Context, d time.Duration) error {
	due := time.NewTimer(d)
	defer due.Stop()
	select {
	case <-due.C:
	case <-c.store.Damaged():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

func (c *Committer) interval() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.tps.byTP) == 0 {
		return syncUnread
	}
	return syncEvery
}

// That the disk takes no writes is not an error: the store keeps what was applied.
func (c *Committer) syncOnce(ctx context.Context) (durable bool, err error) {
	switch err := c.store.Sync(ctx); {
	case err == nil:
		c.disk.faults.OK(storeName)
		c.durable.Store(true)
		return true, nil
	case errors.Is(err, store.ErrOutage):
		c.disk.faults.Fail(storeName, err)
	case ctx.Err() == nil:
		return false, err
	}
	return false, nil
}
