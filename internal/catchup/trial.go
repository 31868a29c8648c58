package catchup

import (
	"context"
	"fmt"
	"slices"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/client/backoff"
)

// piece is what was read of a registration.
type piece struct {
	Range
	tp uint32
	// waits says that the offset must not pass it before the end of Start (rule 12).
	waits bool
	// high is the last message that was applied, also where the range begins behind it.
	high store.Anchor
	// epoch is the highest that was met.
	epoch uint64
	// late says that the range has expired unread (rule 27).
	late bool
}

// trial is a change of coverage that is made once the store has taken the batch with it. Until then
// the coverage of c stays as it is.
type trial struct {
	c   *Committer
	tps []attempt
	// sent is the first seq of the batch that it ends, 0 without one: seqs begin at 1.
	sent uint64
}

// attempt is the changed coverage of one registration.
type attempt struct {
	covered  *covered
	was, now store.Registration
}

// commit applies b together with the registrations that change changes. change is called under the
// lock, and its error ends the commit.
func (c *Committer) commit(ctx context.Context, b *store.Batch, change func(*trial) error) error {
	return c.disk.retry(ctx, func() error { return c.commitOnce(ctx, b, change) })
}

// commitOnce is commit, but for an outage of the disk: it returns that.
func (c *Committer) commitOnce(ctx context.Context, b *store.Batch, change func(*trial) error) error {
	release, err := backoff.Acquire(ctx, c.applying)
	if err != nil {
		return err
	}
	defer release()
	t := trial{c: c}
	registrations, err := t.make(change)
	if err != nil {
		return err
	}
	whole := *b
	whole.Registrations = slices.Concat(b.Registrations, registrations)
	if !empty(&whole) {
		if err := c.store.Apply(ctx, &whole); err != nil {
			return fmt.Errorf("%w: %w", errStore, err)
		}
	}
	t.install(b)
	return nil
}

// reconcile has a reconcile of a stream follow. commit does not wait for the disk: the feed holds
// locks meanwhile that shards need.
func (c *Committer) reconcile(ctx context.Context, s *stream, commit func(*store.Batch) error) error {
	return c.disk.retry(ctx, func() error { return s.Feed.Reconcile(ctx, commit) })
}

func empty(b *store.Batch) bool {
	return len(b.Forget)+len(b.Registrations)+len(b.Shards)+len(b.Views) == 0 && b.Epoch == 0
}

// make calls change and returns the registrations that are different by it.
func (t *trial) make(change func(*trial) error) (changed []store.Registration, err error) {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	if err := change(t); err != nil {
		return nil, err
	}
	for i := range t.tps {
		a := &t.tps[i]
		a.now.Next, a.now.Last, a.now.High = a.covered.Next, a.covered.Last, a.covered.High
		if a.now != a.was {
			if _, left := a.covered.hole(0); !left {
				a.now.Seen = uint64(time.Now().UnixMilli())
			}
			changed = append(changed, a.now)
		}
	}
	return changed, nil
}

// install makes the change, and registers what b registers.
func (t *trial) install(b *store.Batch) {
	c := t.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range t.tps {
		a := &t.tps[i]
		n := a.was.Number
		// An end may have been told meanwhile.
		a.covered.end = max(a.covered.end, c.coverage.tps[n].end)
		c.coverage.tps[n] = a.covered
		c.registrations.byNumber[n] = a.now
	}
	for _, stream := range b.Forget {
		for _, n := range c.registrations.forget(stream) {
			c.coverage.Forget(n)
		}
	}
	for _, r := range b.Registrations {
		c.registrations.put(r)
		c.restore(r)
	}
	c.epoch = max(c.epoch, b.Epoch)
	if t.sent != 0 {
		c.flight.Remove(t.sent)
	}
	c.wake()
}

// of returns the coverage of a registration to be changed, nil where it is not in force.
func (t *trial) of(tp uint32) *attempt {
	if i := slices.IndexFunc(t.tps, func(a attempt) bool { return a.was.Number == tp }); i >= 0 {
		return &t.tps[i]
	}
	covered, r := t.c.coverage.tps[tp], t.c.registrations.byNumber[tp]
	if covered == nil {
		return nil
	}
	t.tps = append(t.tps, attempt{covered.clone(), r, r})
	return &t.tps[len(t.tps)-1]
}

// check returns an error where a is not the acknowledgement of messages that were in flight: then a
// reader stopped before them, so they lie where nothing is covered (rule 2), by another message of
// the batch neither.
func (t *trial) check(a *Ack) error {
	switch {
	case a.TP == 0:
		return nil
	case a.Range.From >= a.Range.To:
		return fmt.Errorf("the bus told no offset: %w", ErrReadBack)
	}
	switch now := t.of(a.TP); {
	case now == nil:
		return fmt.Errorf("the topic or stream of registration %d was made again: %w", a.TP, ErrReadBack)
	case !now.covered.free(a.Range):
		return fmt.Errorf("offset %d was acknowledged, which holds another message: %w", a.Range.From, ErrReadBack)
	}
	return nil
}

// acknowledge covers what was acknowledged for all streams on the TP: to the others it holds no
// message of theirs.
func (t *trial) acknowledge(ack Ack) {
	covers := ack.Range
	if ack.Marker {
		covers.From--
	}
	for _, n := range t.c.registrations.byTP[t.c.registrations.byNumber[ack.TP].TP] {
		a := t.of(n)
		// Rule 20: also of spans that are not remembered.
		a.covered.High = later(a.covered.High, ack.Range.Last)
		a.covered.add(covers)
		a.now.Epoch = max(a.now.Epoch, t.c.epoch)
	}
}

// covered covers what was read.
func (t *trial) covered(p *piece) {
	a := t.of(p.tp)
	if a == nil {
		return
	}
	if !p.waits {
		a.covered.add(p.Range)
	}
	// Rule 20: the view has what waits, and what lies beyond a hole, as if it were acknowledged.
	a.covered.High = later(a.covered.High, p.high)
	a.now.Epoch = max(a.now.Epoch, p.epoch)
	a.now.Late = a.now.Late || p.late
}

// registry has the registrations of the store. It has no lock: it belongs to the Committer.
type registry struct {
	byNumber map[uint32]store.Registration
	// inForce has the number that is in force for a stream and a TP, byTP those of all streams.
	inForce map[streamTP]uint32
	byTP    map[string][]uint32
	last    uint32
}

type streamTP struct{ stream, tp string }

func newRegistry(list []store.Registration) registry {
	g := registry{byNumber: make(map[uint32]store.Registration), inForce: make(map[streamTP]uint32), byTP: make(map[string][]uint32)}
	for _, r := range list {
		g.put(r)
	}
	return g
}

// put adds or replaces the registration with the number of r.
func (g *registry) put(r store.Registration) {
	key := streamTP{r.Stream, r.TP}
	g.byNumber[r.Number], g.last = r, max(g.last, r.Number)
	others := slices.DeleteFunc(g.byTP[r.TP], func(n uint32) bool { return n == r.Number })
	switch {
	case !r.Retired:
		g.inForce[key] = r.Number
		others = append(others, r.Number)
	case g.inForce[key] == r.Number:
		delete(g.inForce, key)
	}
	g.byTP[r.TP] = others
}

// forget drops the registrations of a stream, and returns their numbers.
func (g *registry) forget(stream string) (gone []uint32) {
	for n, r := range g.byNumber {
		if r.Stream == stream {
			r.Retired = true
			g.put(r)
			delete(g.byNumber, n)
			gone = append(gone, n)
		}
	}
	return gone
}

// current returns the number in force where n was registered, 0 where n is not known.
func (g *registry) current(n uint32) uint32 {
	r, ok := g.byNumber[n]
	if !ok || !r.Retired {
		return r.Number
	}
	return g.inForce[streamTP{r.Stream, r.TP}]
}

// highest returns the highest epoch that was met in any TP.
func (g *registry) highest() (epoch uint64) {
	for _, r := range g.byNumber {
		epoch = max(epoch, r.Epoch)
	}
	return epoch
}
