package catchup

import (
	"context"
	"fmt"
	"slices"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/client/backoff"
)

// trial is a change of coverage that is made once the store has taken the batch with it. Until then
// the coverage of c stays as it is.
type trial struct {
	c   *Committer
	tps []*covered
}

// commit applies b together with the registrations that are different by what was acknowledged and
// read. first is the first seq of the batch that was acknowledged, 0 for none. It returns an outage
// of the disk.
func (c *Committer) commit(ctx context.Context, b *store.Batch, first uint64, acked, read []Span) error {
	release, err := backoff.Acquire(ctx, c.applying)
	if err != nil {
		return err
	}
	defer release()
	t := trial{c: c}
	registrations, err := t.make(acked, read)
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
	t.install(b, first)
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

// make returns the registrations that are different by what was acknowledged and read.
func (t *trial) make(acked, read []Span) (changed []store.Registration, err error) {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	for i := range acked {
		if err := t.check(&acked[i]); err != nil {
			return nil, err
		}
		t.acknowledge(&acked[i])
	}
	for i := range read {
		t.read(&read[i])
	}
	for _, now := range t.tps {
		if now.Registration != t.c.tps.byNumber[now.Number].Registration {
			if _, left := now.hole(0); !left {
				now.Seen = uint64(time.Now().UnixMilli())
			}
			changed = append(changed, now.Registration)
		}
	}
	return changed, nil
}

// install makes the change, and registers what b registers.
func (t *trial) install(b *store.Batch, first uint64) {
	c := t.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, now := range t.tps {
		// An end may have been told meanwhile.
		now.end = max(now.end, c.tps.byNumber[now.Number].end)
		c.tps.byNumber[now.Number] = now
	}
	for _, stream := range b.Forget {
		c.tps.forget(stream)
	}
	for _, r := range b.Registrations {
		c.tps.put(r)
	}
	c.epoch = max(c.epoch, b.Epoch)
	c.flight.Remove(first)
	c.wake()
}

// of returns the coverage of a registration to be changed, nil where it is not in force.
func (t *trial) of(tp uint32) *covered {
	if i := slices.IndexFunc(t.tps, func(c *covered) bool { return c.Number == tp }); i >= 0 {
		return t.tps[i]
	}
	was := t.c.tps.get(tp)
	if was == nil {
		return nil
	}
	now := was.clone()
	t.tps = append(t.tps, now)
	return now
}

// check returns an error where a is not the acknowledgement of messages that were in flight: then a
// reader stopped before them, so they lie where nothing is covered (rule 2), by another message of
// the batch neither.
func (t *trial) check(a *Span) error {
	switch {
	case a.TP == 0:
		return nil
	case a.From >= a.To:
		return fmt.Errorf("the bus told no offset: %w", ErrReadBack)
	}
	switch now := t.of(a.TP); {
	case now == nil:
		return fmt.Errorf("the topic or stream of registration %d was made again: %w", a.TP, ErrReadBack)
	case !now.free(a.Range):
		return fmt.Errorf("offset %d was acknowledged, which holds another message: %w", a.From, ErrReadBack)
	}
	return nil
}

// acknowledge covers what was acknowledged for all streams on the TP: to the others it holds no
// message of theirs.
func (t *trial) acknowledge(a *Span) {
	if a.TP == 0 {
		return
	}
	covers := a.Range
	if a.Marker {
		covers.From--
	}
	for _, n := range t.c.tps.byTP[t.of(a.TP).TP] {
		now := t.of(n)
		// Rule 20: also of spans that are not remembered.
		now.High = later(now.High, a.Last)
		now.add(covers)
		now.Epoch = max(now.Epoch, t.c.epoch)
	}
}

// read covers what was read.
func (t *trial) read(s *Span) {
	now := t.of(s.TP)
	if now == nil {
		return
	}
	if !s.waits {
		now.add(s.Range)
	}
	// Rule 20: the view has what waits, and what lies beyond a hole, as if it were acknowledged.
	now.High = later(now.High, s.high)
	now.Epoch = max(now.Epoch, s.epoch)
	now.Late = now.Late || s.late
}

// registry has the registrations of the store. It has no lock: it belongs to the Committer.
type registry struct {
	// byNumber has retired ones, too.
	byNumber map[uint32]*covered
	// inForce has the number that is in force for a stream and a TP, byTP those of all streams.
	inForce map[streamTP]uint32
	byTP    map[string][]uint32
	last    uint32
}

type streamTP struct{ stream, tp string }

func newRegistry(list []store.Registration) registry {
	g := registry{byNumber: make(map[uint32]*covered), inForce: make(map[streamTP]uint32), byTP: make(map[string][]uint32)}
	for _, r := range list {
		g.put(r)
	}
	return g
}

// get returns the coverage of a registration that is in force, nil for another number.
func (g *registry) get(n uint32) *covered {
	if t := g.byNumber[n]; t != nil && !t.Retired {
		return t
	}
	return nil
}

// put adds or replaces the registration with the number of r, whose coverage begins as the store
// has it.
func (g *registry) put(r store.Registration) {
	key := streamTP{r.Stream, r.TP}
	g.byNumber[r.Number], g.last = &covered{Registration: r}, max(g.last, r.Number)
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

// forget drops the registrations of a stream.
func (g *registry) forget(stream string) {
	for n, t := range g.byNumber {
		if r := t.Registration; r.Stream == stream {
			r.Retired = true
			g.put(r)
			delete(g.byNumber, n)
		}
	}
}

// current returns the number in force where n was registered, 0 where n is not known.
func (g *registry) current(n uint32) uint32 {
	t := g.byNumber[n]
	switch {
	case t == nil:
		return 0
	case !t.Retired:
		return n
	}
	return g.inForce[streamTP{t.Stream, t.TP}]
}

// highest returns the highest epoch that was met in any TP.
func (g *registry) highest() (epoch uint64) {
	for _, t := range g.byNumber {
		epoch = max(epoch, t.Epoch)
	}
	return epoch
}
