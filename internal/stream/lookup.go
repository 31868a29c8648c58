package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/client/backoff"
	"example.org/bridge/sink"
)

// rechecks is how often a TP is looked up that seems to end early: a new leader knows less than the
// old one for a moment.
const rechecks = 3

type finding uint8

const (
	// same: it is the one that the store has.
	same finding = iota
	// unregistered: the stream has not used it yet (rule 10).
	unregistered
	// beginsLate: messages have expired that were not read (rule 22).
	beginsLate
	// another: it was made again, or has lost messages (rule 21).
	another
	// outdated: what says that an entity is gone may have been removed unread (rule 30).
	outdated
)

// lookedUp is a TP of a stream as it was looked up. t is nil where it is there no more.
type lookedUp struct {
	sink.TP
	t       *topicPartition
	was     store.Registration
	finding finding
}

type registrar struct {
	c *CatchUp

	mu  sync.Mutex
	tps map[string]*topicPartition
	// wrong are the numbers of registrations before whose holes another message was read than the
	// one that is covered there.
	wrong sync.Map
}

// lookup looks up the TPs of a stream, compares them with the store, and registers those that are
// new or another (rules 10, 20 to 22). It is done for one stream at a time. Anchors are compared
// where that is due, or all is true. What it registers is synced before the stream is ready.
func (g *registrar) lookup(ctx context.Context, s *stream, all bool) ([]lookedUp, error) {
	if g.c.opts.Reader == nil {
		return nil, nil
	}
	release, err := backoff.Acquire(ctx, s.looking)
	if err != nil {
		return nil, err
	}
	defer release()
	return g.refresh(ctx, s, all)
}

// compareAgain looks the TPs of a stream up, unless a look that began while this one waited has
// compared t: behind an outage all have new sessions.
func (g *registrar) compareAgain(ctx context.Context, s *stream, t *topicPartition) error {
	asked := time.Now()
	release, err := backoff.Acquire(ctx, s.looking)
	if err != nil {
		return err
	}
	defer release()
	if t.isDue(g.c.opts.AnchorsEvery) || s.lookBegan.Before(asked) {
		_, err = g.refresh(ctx, s, false)
	}
	return err
}

// refresh is lookup for the one that has stream.looking.
func (g *registrar) refresh(ctx context.Context, s *stream, all bool) ([]lookedUp, error) {
	s.lookBegan = time.Now()
	list, gone, err := g.findTPs(ctx, s)
	if err != nil {
		return nil, err
	}
	looked := time.Now()
	comparing, failed := errgroup.WithContext(ctx)
	comparing.SetLimit(g.c.opts.Workers)
	for i := 0; i < len(list) && failed.Err() == nil; i++ {
		// Not with failed: what was compared for a new session is not cut off.
		comparing.Go(func() error { return g.compareAnchors(ctx, &list[i], all) })
	}
	if err := cmp.Or(comparing.Wait(), context.Cause(ctx)); err != nil {
		return nil, err
	}
	if err := g.compareAge(ctx, s, list); err != nil {
		return nil, err
	}
	if err := g.register(ctx, s, slices.Concat(list, gone)); err != nil {
		return nil, err
	}
	tps := make([]*topicPartition, len(list))
	for i := range list {
		tps[i] = list[i].t
		// Rule 5. What lies beyond waits for a transaction of somebody, which Run does not.
		g.c.committer.ends(s.Name, sink.TPRef{Name: list[i].Name, Incarnation: list[i].Incarnation}, list[i].Stable, looked)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tps, s.found = tps, time.Now()
	return list, nil
}

// findTPs returns the TPs of a stream, compared by incarnation and bounds, and those that are gone.
func (g *registrar) findTPs(ctx context.Context, s *stream) (list, gone []lookedUp, err error) {
	for check := 0; ; check++ {
		// Before the bounds: what is acknowledged meanwhile may lie behind them.
		known := g.c.committer.registrations(s.Name)
		tps, err := g.c.opts.Reader.TPs(ctx, s.Destinations)
		if err != nil {
			return nil, nil, fmt.Errorf("look up the topics of stream %s: %w", s.Name, err)
		}
		list = list[:0]
		short := false
		for _, tp := range tps {
			f := lookedUp{TP: tp, t: g.partition(&tp), was: known[tp.Name]}
			f.finding = compare(&f)
			short = short || f.finding == another && f.was.Incarnation == tp.Incarnation
			list = append(list, f)
		}
		if !short || check == rechecks {
			if !s.Release {
				gone, err = g.lacking(ctx, known, list)
			}
			return list, gone, err
		}
		if err := backoff.Pause(ctx, g.c.opts.Recheck); err != nil {
			return nil, nil, err
		}
	}
}

// lacking returns the partitions that a topic lacks since it was made again, and the streams that
// were deleted and whose subjects others have: what they held is lost. A topic that stays keeps its
// partitions. A stream may be there without the subjects.
func (g *registrar) lacking(ctx context.Context, known map[string]store.Registration, list []lookedUp) (gone []lookedUp, err error) {
	made, there := make(map[string]string), make(map[string]bool)
	for i := range list {
		made[list[i].Destination], there[list[i].Name] = list[i].Incarnation, true
	}
	for name, was := range known {
		if there[name] {
			continue
		}
		topic, _, isPartition := strings.Cut(name, "/")
		id, is := made[topic]
		is = is && id != was.Incarnation
		if last := max(was.Next, was.High.Offset+1) - 1; !isPartition && len(list) > 0 && last > 0 {
			span := sink.Span{TP: name, Incarnation: was.Incarnation, From: last, To: last + 1}
			// Rule 14: a stream that is no destination any more may not answer ever.
			within, cancel := context.WithTimeout(ctx, 10*g.c.opts.Recheck)
			_, err := g.c.opts.Reader.Read(within, span, func(*sink.Stored) error { return nil })
			cancel()
			if is = errors.Is(err, sink.ErrGone); ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
		}
		if is {
			gone = append(gone, lookedUp{TP: sink.TP{Name: name, Destination: topic}, was: was, finding: another})
		}
	}
	return gone, nil
}

// compare compares a TP with its registration, but for anchors.
func compare(f *lookedUp) finding {
	switch r := &f.was; {
	case r.Number == 0:
		return unregistered
	case r.Incarnation != f.Incarnation && r.Incarnation != "" && f.Incarnation != "",
		f.End < r.Next, r.High.Hash != 0 && f.End <= r.High.Offset:
		return another
	case f.First > r.Next && late(&f.TP):
		return beginsLate
	}
	return same
}

// late reports whether messages are gone from the front of a TP. Sequences of JetStream begin at 1.
func late(tp *sink.TP) bool { return tp.First > 1 || tp.First == 1 && tp.Expired }

// compareAnchors compares the messages at the anchors of a TP (rule 20). One that is missing proves
// nothing: it may have expired, or be compacted away.
func (g *registrar) compareAnchors(ctx context.Context, f *lookedUp, all bool) error {
	if g.isWrong(f.was.Number) {
		f.finding = another
	}
	if !all && !f.t.isDue(g.c.opts.AnchorsEvery) {
		return nil
	}
	now := time.Now()
	f.t.compared.Store(&now)
	if f.finding != same && f.finding != beginsLate {
		return nil
	}
	for i, a := range []store.Anchor{f.was.Last, f.was.High} {
		if i > 0 && a == f.was.Last || a.Hash == 0 || a.Offset < f.First || a.Offset >= f.Stable {
			continue
		}
		span := sink.Span{TP: f.Name, Incarnation: f.Incarnation, From: a.Offset, To: a.Offset + 1}
		_, err := g.c.opts.Reader.Read(ctx, span, func(m *sink.Stored) error {
			if m.Offset == a.Offset && hashStored(m) != a.Hash {
				f.finding = another
			}
			return nil
		})
		switch {
		case errors.Is(err, sink.ErrExpired):
		case errors.Is(err, sink.ErrGone), errors.Is(err, sink.ErrBehind):
			return errMoved
		case err != nil:
			return fmt.Errorf("read offset %d of %s: %w", a.Offset, f.Name, err)
		}
	}
	return nil
}

func (g *registrar) partition(tp *sink.TP) *topicPartition {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.tps[tp.Name]
	if t == nil {
		t = &topicPartition{name: tp.Name, reading: make(chan struct{}, 1), cursors: make(map[uint32]uint64), shards: make(map[string]string)}
		g.tps[tp.Name] = t
	}
	t.first.Store(tp.First)
	t.end.Store(tp.End)
	return t
}

func (g *registrar) isWrong(number uint32) bool { _, is := g.wrong.Load(number); return is }

func (f finding) String() string {
	if f == beginsLate {
		return "messages expired before they were read"
	}
	return "it was made again, or has lost messages"
}

// setBack is by how much a clock may be set back: by more, it does not tell how much time has
// passed.
const setBack = time.Minute

// pair is how many offsets an event takes that says that an entity is gone, with its tombstone.
// Where less is left, such as the end of a transaction, none was removed.
const pair = 2

// compareAge has all TPs of a stream be read again from their beginnings where what is left to read
// of one may be so old that a compacted topic has removed a part of it: what says that an entity is
// gone (rule 30). The entity lives by its entry then, and nothing on the bus says otherwise. Of an
// entity that lives compaction leaves the last message.
//
// It counts by half of the time after which a topic forgets: the other half is for the reading, and
// for clocks that differ.
func (g *registrar) compareAge(ctx context.Context, s *stream, list []lookedUp) error {
	if s.Forgets == nil {
		return nil
	}
	now, least := time.Now(), -setBack
	if s.partitions() != nil {
		// This process has looked them up about once a minute, and may have failed to.
		least = 2 * g.c.opts.IdleEvery
	}
	// The answer about a topic, whose TPs come one after the other.
	var topic *string
	var after time.Duration
	var does bool
	for i := range list {
		f := &list[i]
		// A wall clock: it goes on while a machine sleeps.
		away := now.Sub(time.UnixMilli(int64(f.was.Seen)))
		if f.was.Number == 0 || f.End < f.was.Next+pair || s.isReread(f.was.Number, f.was.Next) || away >= 0 && away < least {
			continue
		}
		if topic == nil || *topic != f.Destination {
			var err error
			if after, does, err = s.Forgets(ctx, f.Destination); err != nil {
				return err
			}
			topic = &f.Destination
		}
		if does && (away > after/2 || away < -min(setBack, after/2)) {
			// All of them: an entity may have been in several.
			for i := range list {
				if list[i].finding == same {
					list[i].finding = outdated
				}
			}
			return nil
		}
	}
	return nil
}

// isReread reports whether a TP, read below next, lacks what lay there when this process registered
// it: to begin once more would never come to an end where the reading takes long.
func (s *stream) isReread(number uint32, next uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return next < s.rereads[number]
}
