package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"example.org/bridge/client/backoff"
	"example.org/bridge/client/bus"
)

// readAtOnce bounds how many TPs are read at the same time until the copy has caught up: each
// takes some MiB.
const readAtOnce = 32

// longestAway is for how long a bus may be out of reach, beside Options.RefreshEvery. Compaction
// keeps what says that entities are deleted for a day by default.
const longestAway = time.Hour

// copying is the making of one copy, from the beginning of the bus and on.
type copying struct {
	t      *Table
	reader Reader
	fold   *fold
	group  *errgroup.Group
	slots  chan struct{}
	// known has the TPs that are read, as they were when they were looked at last.
	known map[string]known
	// looked is when that was, by the wall clock, which goes on while the host sleeps.
	looked time.Time
	// behind counts TPs that have not been read to the end of when the copy began. caughtUp gets
	// one value when all have.
	behind   int
	caughtUp chan struct{}
}

type known struct {
	bus.TP
	number uint32
}

// read makes a copy and keeps it up to date until ctx ends or it has to be made again.
func (t *Table) read(ctx context.Context, reader Reader) error {
	tps, err := t.await(ctx, reader)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	c := &copying{
		t: t, reader: reader, group: group, slots: make(chan struct{}, readAtOnce),
		known: make(map[string]known), looked: time.Now().Round(0), caughtUp: make(chan struct{}, 1),
	}
	first := c.begin(len(tps))
	for i, tp := range tps {
		c.follow(ctx, tp, first+uint32(i), true)
	}
	group.Go(func() error { return c.watch(ctx) })
	return group.Wait()
}

// await waits until the bus has something to read from.
func (t *Table) await(ctx context.Context, reader Reader) ([]bus.TP, error) {
	pause := backoff.Backoff{First: 200 * time.Millisecond, Max: min(t.o.RefreshEvery, 5*time.Second)}
	for {
		tps, err := reader.TPs(ctx, t.o.Destinations)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err == nil && len(tps) > 0:
			t.faults.end("destinations")
			return tps, nil
		case err == nil:
			err = fmt.Errorf("none of the topics or subjects %q is there yet", t.o.Destinations)
		}
		t.faults.fail("destinations", fault{error: err})
		if err := pause.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

// begin sets the fold that is made, and returns the number of the first of its TPs: all are
// registered before one is read. The first fold is served from the start.
func (c *copying) begin(tps int) (first uint32) {
	t := c.t
	t.mu.Lock()
	defer t.mu.Unlock()
	c.behind = tps
	select {
	case <-t.ready:
		t.next = newFold(true, func(string, *entity, *entity) {})
		c.fold = t.next
	default:
		// The copy read so far is of no use: it was not reported as complete.
		for key, e := range t.current.entities {
			t.changed(key, e, nil)
		}
		t.current = newFold(false, t.changed)
		c.fold = t.current
	}
	return c.fold.register(tps)
}

// follow reads tp, to the end that it has now in a slot; counted says that the copy has not caught
// up before.
func (c *copying) follow(ctx context.Context, tp bus.TP, number uint32, counted bool) {
	c.known[tp.Name] = known{tp, number}
	r := &following{copying: c, tp: tp, number: number, parser: newParser(&c.t.o), next: tp.First}
	c.group.Go(func() error {
		release, err := backoff.Acquire(ctx, c.slots)
		if err != nil {
			return err
		}
		err = r.read(ctx, tp.End)
		if release(); err != nil {
			return err
		}
		if counted {
			c.t.mu.Lock()
			if c.behind--; c.behind == 0 {
				c.caughtUp <- struct{}{}
			}
			c.t.mu.Unlock()
		}
		return r.read(ctx, bus.NoEnd)
	})
}

// watch looks for what was made later and for what the bus has lost, and serves the copy once it
// has caught up.
func (c *copying) watch(ctx context.Context) error {
	ticker := time.NewTicker(c.t.o.RefreshEvery)
	defer ticker.Stop()
	keep := time.NewTimer(c.t.o.KeepFor)
	defer keep.Stop()
	keep.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.caughtUp:
			if c.serve() > 0 {
				keep.Reset(c.t.o.KeepFor)
			}
		case <-keep.C:
			c.t.mu.Lock()
			dropped := c.fold.dropStale()
			c.t.mu.Unlock()
			c.t.o.Logger.Info("entities that the bus does not have any more are dropped", "stream", c.t.o.Stream, "entities", dropped)
		case <-ticker.C:
			if err := c.refresh(ctx); err != nil {
				return err
			}
		}
	}
}

// serve has the copy follow the one before, and returns how many entities of that are
// kept for a while.
func (c *copying) serve() (stale int) {
	t := c.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next == c.fold {
		c.fold.changed = t.changed
		stale = c.fold.replace(t.current)
		t.current, t.next = c.fold, nil
		return stale
	}
	close(t.ready)
	return 0
}

// refresh returns errAgain where a TP was made again, or has lost messages by no rule of the bus.
func (c *copying) refresh(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, c.t.o.RefreshEvery)
	tps, err := c.reader.TPs(within, c.t.o.Destinations)
	cancel()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		c.t.faults.fail("destinations", fault{error: fmt.Errorf("look for topics or streams: %w", err)})
		return nil
	}
	c.t.faults.end("destinations")
	now := time.Now().Round(0)
	if away := now.Sub(c.looked); away > longestAway+c.t.o.RefreshEvery && !slices.ContainsFunc(tps, headless) {
		return fmt.Errorf("%w: the bus was away for %s, and compaction may have removed deletions", errAgain, away)
	}
	c.looked = now
	for _, tp := range tps {
		before, read := c.known[tp.Name]
		switch {
		case !read:
			c.t.mu.Lock()
			number := c.fold.register(1)
			c.t.mu.Unlock()
			c.follow(ctx, tp, number, false)
			continue
		case tp.Incarnation != before.Incarnation && tp.Incarnation != "" && before.Incarnation != "":
			return fmt.Errorf("%w: %s was made again", errAgain, tp.Name)
		case tp.First > before.First && !tp.Expired && !tp.Thinned && c.lost(before.number, tp.First):
			return fmt.Errorf("%w: %s was purged up to %d", errAgain, tp.Name, tp.First)
		}
		c.known[tp.Name] = known{tp, before.number}
	}
	return nil
}

// headless reports whether a TP does not have all first messages, so that a new copy may lack
// entities that are there.
func headless(tp bus.TP) bool { return tp.First > 1 || tp.Expired }

// lost reports whether the last message of an entity was before the first one that is left of its
// TP.
func (c *copying) lost(number uint32, first uint64) bool {
	c.t.mu.RLock()
	defer c.t.mu.RUnlock()
	for _, e := range c.fold.entities {
		if e.at.tp == number && e.at.offset < first {
			return true
		}
	}
	return false
}

// following reads one TP for a copy. It serves one goroutine.
type following struct {
	*copying
	tp     bus.TP
	number uint32
	parser *parser
	next   uint64
	// unread is why a message of the stream cannot be understood.
	unread error
}

// read reads below an offset, for ever over outages.
func (r *following) read(ctx context.Context, to uint64) error {
	var pause backoff.Backoff
	for {
		from := r.next
		var err error
		var expired *bus.ExpiredError
		r.next, err = r.reader.Read(ctx, bus.Span{TP: r.tp.Name, Incarnation: r.tp.Incarnation, From: from, To: to}, r.each)
		switch {
		case r.unread != nil:
			return r.unread
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			return nil
		case errors.As(err, &expired) && r.tp.Thinned && !r.tp.Expired:
			// Newer messages of the same subjects have replaced them.
			r.next = max(r.next, expired.First)
			continue
		case errors.Is(err, bus.ErrGone), errors.Is(err, bus.ErrBehind), errors.Is(err, bus.ErrExpired):
			return fmt.Errorf("%w: %w", errAgain, err)
		}
		r.t.faults.fail(r.tp.Name, fault{err, time.Now().Add(faultLasts)})
		if r.next > from {
			pause.Reset()
		}
		if err := pause.Wait(ctx); err != nil {
			return err
		}
	}
}

func (r *following) each(stored *bus.Stored) error {
	t := r.t
	t.faults.end(r.tp.Name)
	whose, err := r.parser.parse(stored)
	if err != nil {
		r.unread = fmt.Errorf("read %s at offset %d: %w", r.tp.Name, stored.Offset, err)
		return r.unread
	}
	m := &r.parser.m
	var body []byte
	if whose == ours && !m.deleted {
		body = bytes.Clone(stored.Value)
	}
	now := int64(time.Since(t.began) / time.Second)
	first := false
	t.mu.Lock()
	switch whose {
	case ours:
		merged := r.fold.merged
		t.counts[r.fold.apply(m, r.number, body, now)]++
		first = r.fold.merged != merged
	case foreign:
		if t.foreign++; t.o.Swap && string(stored.Header(bus.HeaderDomain)) == t.o.Domain {
			if kind, id, stream, is := bus.ListOf(stored); is && stream == t.o.Stream {
				r.fold.bound(kind, id, r.number, stored.Offset, now)
			}
		}
	case stateless:
		t.stateless++
		first = t.stateless == 1
	}
	t.mu.Unlock()
	if first && whose == ours {
		t.o.Logger.Warn("two tables have an entity: if the stream has no KEY, these are two, set Options.ByTable",
			"stream", t.o.Stream, "topic_partition", r.tp.Name, "offset", stored.Offset, "key", string(m.key))
	} else if first {
		t.o.Logger.Warn("messages without the header bridge-state are passed over: an older bridge wrote them",
			"stream", t.o.Stream, "topic_partition", r.tp.Name, "offset", stored.Offset)
	}
	return nil
}
