package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"example.org/bridge/checkpoint/store"
)

// MaxSpans is how many spans beyond its offset Coverage remembers of a TP, about 40 bytes each
// (rule 4). Further ones are left to the reader.
const MaxSpans = 10_000

// Range is what was covered of a TP: all offsets from From to below To. Last is its last message;
// its Hash is 0 where nothing lies in the range.
type Range struct {
	From, To uint64
	Last     store.Anchor
}

// Span is what a batch of the store covers of a TP: what was read of it, or acknowledged. TP is the
// number of the stream's registration, 0 where it has none yet: then nothing is covered. Duplicates
// that the bus dropped are left out (rule 23).
type Span struct {
	TP uint32
	Range
	// Marker says that the offset before the range holds no message, and is covered with it
	// (sink.At).
	Marker bool

	// The rest is of what was read. waits says that the offset must not pass it before the end of
	// Start (rule 12), late that it has expired unread (rule 27).
	waits, late bool
	// high is the last message that was applied, also where the range begins behind it; epoch is
	// the highest that was met.
	high  store.Anchor
	epoch uint64
}

// covered is a registration with which offsets of its TP this process got acknowledged or has read.
// Its Next advances over nothing else (rule 4).
type covered struct {
	store.Registration
	// spans lie above Next, in order, with a hole before each.
	spans []Range
	// end is as it was looked up last, or that of a span which was not remembered: what lies below
	// and is not covered is to be read, never skipped (rule 5). It may be lower than before, where
	// a TP has lost messages that were not read: nobody is to wait for these.
	end uint64
	// served says that the end was looked up. Nobody does so for a stream that is not configured
	// any more, nor reads the holes between its spans: it has none.
	served bool
}

func (t *covered) clone() *covered {
	c := *t
	c.spans = slices.Clone(t.spans)
	return &c
}

func (t *covered) has(offset uint64) bool {
	i := t.above(offset)
	return offset < t.Next || i < len(t.spans) && t.spans[i].From <= offset
}

// above returns the index of the first span that ends above an offset.
func (t *covered) above(offset uint64) int {
	i, _ := slices.BinarySearchFunc(t.spans, offset+1, func(s Range, to uint64) int { return cmp.Compare(s.To, to) })
	return i
}

// hole returns what is not covered first at or above from, below the highest span and the end. It
// is without a message; found says that it is not empty.
func (t *covered) hole(from uint64) (h Range, found bool) {
	from = max(from, t.Next)
	for _, s := range t.spans {
		if s.From > from {
			return Range{From: from, To: s.From}, true
		}
		from = max(from, s.To)
	}
	return Range{From: from, To: t.end}, from < t.end
}

// before returns the last message that is covered right before a hole, with the hash 0 where there
// is none.
func (t *covered) before(from uint64) store.Anchor {
	if from == t.Next {
		return t.Last
	}
	for i := range t.spans {
		if t.spans[i].To == from {
			return t.spans[i].Last
		}
	}
	return store.Anchor{}
}

// hashAt returns the hash of the message at an offset, where that is the last one of what is
// covered before a hole; else 0.
func (t *covered) hashAt(offset uint64) uint64 {
	if t.Last.Offset == offset {
		return t.Last.Hash
	}
	if i := t.above(offset); i < len(t.spans) && t.spans[i].Last.Offset == offset {
		return t.spans[i].Last.Hash
	}
	return 0
}

// add joins r with the spans that it touches, and advances the offset over the first span where
// they meet.
func (t *covered) add(r Range) {
	if r.From >= r.To || r.To <= t.Next {
		return
	}
	// The spans from i to below j touch r.
	i, _ := slices.BinarySearchFunc(t.spans, r.From, func(s Range, from uint64) int { return cmp.Compare(s.To, from) })
	j := i
	for ; j < len(t.spans) && t.spans[j].From <= r.To; j++ {
		s := t.spans[j]
		r.From, r.To, r.Last = min(r.From, s.From), max(r.To, s.To), r.Last.Later(s.Last)
	}
	switch {
	case r.From <= t.Next:
		t.Next, t.Last = r.To, t.Last.Later(r.Last)
		t.spans = slices.Delete(t.spans, i, j)
	case i < j || t.served && len(t.spans) < MaxSpans:
		t.spans = slices.Replace(t.spans, i, j, r)
	default:
		// Rule 4: not remembered, so it is read. It is below the end for that.
		t.end = max(t.end, r.To)
	}
}

func (t *covered) free(r Range) bool {
	i := t.above(r.From)
	return r.From >= t.Next && (i == len(t.spans) || t.spans[i].From >= r.To)
}

// Cover is what a change covers of the bus: where a batch lies that was acknowledged as a whole, or
// what was read.
type Cover struct {
	// First is the first seq of the batch, 0 where it has no messages.
	First uint64
	Acked []Span
	read  []Span
}

// trial is a change of coverage that is made once the store has taken the batch with it. Until then
// the coverage of c stays as it is.
type trial struct {
	c   *Committer
	tps []*covered
}

// Commit applies b with what it covers: the caller has acquired c. An error says that nothing was
// applied. One that wraps store.ErrOutage leaves a batch in flight: the caller releases c and tries
// again later, or calls Unknown. Of any other error the outcome counts as unknown: the caller drops
// its claims and calls Resolve before its next batch. It wraps ErrReadBack where the bus told no
// offset, or one where another message lies (rule 2).
func (c *Committer) Commit(ctx context.Context, b *store.Batch, cover Cover) error {
	err := c.commit(ctx, b, cover)
	if err != nil && !errors.Is(err, store.ErrOutage) {
		c.Unknown(cover.First)
	}
	return err
}

func (c *Committer) commit(ctx context.Context, b *store.Batch, cover Cover) error {
	t := trial{c: c}
	registrations, err := t.make(cover)
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
	t.install(b, cover.First)
	return nil
}

func empty(b *store.Batch) bool {
	return len(b.Forget)+len(b.Registrations)+len(b.Shards)+len(b.Views) == 0 && b.Epoch == 0
}

func (t *trial) make(cover Cover) (changed []store.Registration, err error) {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	for i := range cover.Acked {
		if err := t.acknowledge(&cover.Acked[i]); err != nil {
			return nil, err
		}
	}
	for i := range cover.read {
		t.read(&cover.read[i])
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

func (t *trial) install(b *store.Batch, first uint64) {
	c := t.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, now := range t.tps {
		// An end may have been told meanwhile.
		was := c.tps.byNumber[now.Number]
		now.end, now.served = max(now.end, was.end), was.served
		c.tps.byNumber[now.Number] = now
		c.tps.streams[now.Stream] = c.tps.streams[now.Stream] || now.Late
	}
	if len(b.Forget)+len(b.Registrations) > 0 {
		c.tps.change(b.Forget, b.Registrations)
	}
	c.epoch = max(c.epoch, b.Epoch)
	delete(c.flight, first)
	c.wake()
}

func (t *trial) coverage(tp uint32) *covered {
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

// acknowledge covers what was acknowledged for all streams on the TP: to the others it holds no
// message of theirs. It returns an error where a is not the acknowledgement of messages that were
// in flight: a reader stopped before those, so they lie where nothing is covered (rule 2).
func (t *trial) acknowledge(a *Span) error {
	switch {
	case a.TP == 0:
		return nil
	case a.From >= a.To:
		return fmt.Errorf("the bus told no offset: %w", ErrReadBack)
	}
	own := t.coverage(a.TP)
	switch {
	case own == nil:
		return fmt.Errorf("the topic or stream of registration %d was made again: %w", a.TP, ErrReadBack)
	case !own.free(a.Range):
		return fmt.Errorf("offset %d was acknowledged, which holds another message: %w", a.From, ErrReadBack)
	}
	covers := a.Range
	if a.Marker {
		covers.From--
	}
	for _, n := range t.c.tps.byTP[own.TP] {
		now := t.coverage(n)
		// Rule 20: also of spans that are not remembered.
		now.High = now.High.Later(a.Last)
		now.add(covers)
		now.Epoch = max(now.Epoch, t.c.epoch)
	}
	return nil
}

func (t *trial) read(s *Span) {
	now := t.coverage(s.TP)
	if now == nil {
		return
	}
	if !s.waits {
		now.add(s.Range)
	}
	// Rule 20: the view has what waits, and what lies beyond a hole, as if it were acknowledged.
	now.High = now.High.Later(s.high)
	now.Epoch = max(now.Epoch, s.epoch)
	now.Late = now.Late || s.late
}

// registry has the registrations of the store. It has no lock: it belongs to the Committer.
type registry struct {
	// byNumber has retired ones, too. last is the last number that was given out.
	byNumber map[uint32]*covered
	last     uint32
	// What follows is made of that. inForce has the number that is in force for a stream and a TP;
	// byTP those of all streams.
	inForce map[streamTP]uint32
	byTP    map[string][]uint32
	// streams are those that have one in force, true where messages expired before they were read.
	streams map[string]bool
	// current has the number in force for the TP of each number. It is replaced, never changed, so
	// that it can be read beside all others.
	current atomic.Pointer[map[uint32]uint32]
}

type streamTP struct{ stream, tp string }

// change forgets the registrations of streams, and adds or replaces those in list, whose coverage
// begins as the store has it.
func (g *registry) change(forget []string, list []store.Registration) {
	maps.DeleteFunc(g.byNumber, func(_ uint32, t *covered) bool { return slices.Contains(forget, t.Stream) })
	for _, r := range list {
		g.last = max(g.last, r.Number)
		g.byNumber[r.Number] = &covered{Registration: r}
	}
	g.inForce, g.byTP, g.streams = make(map[streamTP]uint32), make(map[string][]uint32), make(map[string]bool)
	for n, t := range g.byNumber {
		if key := (streamTP{t.Stream, t.TP}); !t.Retired {
			g.inForce[key] = max(g.inForce[key], n)
			g.byTP[t.TP] = append(g.byTP[t.TP], n)
			g.streams[t.Stream] = g.streams[t.Stream] || t.Late
		}
	}
	current := make(map[uint32]uint32, len(g.byNumber))
	for n, t := range g.byNumber {
		current[n] = g.inForce[streamTP{t.Stream, t.TP}]
	}
	g.current.Store(&current)
}

func (g *registry) get(n uint32) *covered {
	if t := g.byNumber[n]; t != nil && !t.Retired {
		return t
	}
	return nil
}

func (g *registry) coverage(stream, tp string) *covered {
	return g.get(g.inForce[streamTP{stream, tp}])
}
