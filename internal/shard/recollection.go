package shard

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"maps"
	"slices"

	"bridge/checkpoint"
	"bridge/event"
	"bridge/sink"
)

// recallEntities and recallBytes bound what of a recall is held before it is saved.
const (
	recallEntities = 10_000
	recallBytes    = 4 << 20
)

// recallEvents is about how many events of several topics are held at a time. Tests make it small.
var recallEvents = 100_000

// recollection is what topics say of the entities of a shard. The last event of an entity holds. In one topic it is the last one that is read.
// What lies in several has no order but the one that the events tell: the last one is followed by none. They are read as often as it takes to
// hold what they tell of a part of the entities.
type recollection struct {
	opts    *Options
	retrier *retrier
	saver   *saver
	// state is saved again with what changes in the view.
	state  checkpoint.State
	topics []*topicRecall
	// ends are marks of where the topics ended when they were read first.
	ends []sink.Offset
	// parts is how often the topics are read, part the present time, of the entities with which hashes.
	parts, part uint64
	seed        maphash.Seed
	known       map[string]checkpoint.Known
	bytes       int
	// strands are what several topics tell of entities of the part.
	strands map[string]*strand
	// messages were read, changed entities were known otherwise, unread messages do not tell their entity, of undecided entities it is
	// not told which event is the last one.
	messages, changed, unread, undecided int
}

// strand is the last event of an entity in each topic that has some, and what its events follow.
type strand struct {
	topics   []*topicRecall
	lasts    []checkpoint.Known
	followed [][16]byte
}

// newRecollection returns the recollection of topics that hold so many messages of the shard.
func newRecollection(r *recovery, state checkpoint.State, topics []*topicRecall, messages int) *recollection {
	c := &recollection{opts: r.opts, retrier: r.retrier, saver: r.saver, state: state, topics: topics, parts: 1, seed: maphash.MakeSeed(), known: make(map[string]checkpoint.Known)}
	if len(topics) > 1 {
		c.parts += uint64(messages / recallEvents)
	}
	return c
}

// read takes over what the topics say.
func (c *recollection) read(ctx context.Context) error {
	for c.part = range c.parts {
		c.strands = make(map[string]*strand)
		for _, t := range c.topics {
			err := c.retrier.wait(owning, forEver, func() error {
				ends, err := c.opts.Recalls.bus.Recall(ctx, c.behind(t), func(m *sink.Message) error { return c.take(ctx, t, m) })
				if c.part == 0 {
					c.ends = append(c.ends, ends...)
				}
				return err
			})
			if err != nil && !errors.Is(err, sink.ErrUnreadable) {
				return err
			}
		}
		for entity, one := range c.strands {
			if err := c.hold(ctx, entity, c.last(one)); err != nil {
				return err
			}
		}
		if err := c.flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

// behind returns the marks behind which a topic is read. A single one is read behind those of the file, which are higher: of an entity the
// last event is the last one there in any case.
func (c *recollection) behind(t *topicRecall) []sink.Offset {
	if len(c.topics) == 1 {
		return t.marks
	}
	return t.behind(c.state.Offsets)
}

// take takes in a message of a topic. One that tells nothing is counted: the next reconcile sees to its entity as well as it can.
func (c *recollection) take(ctx context.Context, t *topicRecall, m *sink.Message) error {
	if m.Stream != c.opts.Stream || m.Shard != c.opts.Name || m.Type == sink.DeadLetterType {
		return nil
	}
	first := c.part == 0
	if first {
		c.messages++
	}
	told, err := c.opts.Encoder.Tell(m.Value)
	if err != nil || len(told.Entity) > checkpoint.MaxEntity {
		if !first {
			return nil
		}
		if c.unread++; c.unread == 1 {
			c.opts.Logger.Warn("a message on the bus does not tell its entity, further ones are only counted", "event", m.ID, "row", m.RowID, "error", err)
		}
		return nil
	}
	if len(c.topics) == 1 {
		return c.hold(ctx, string(told.Entity), knownOf(&told))
	}
	if maphash.Bytes(c.seed, told.Entity)%c.parts == c.part {
		c.tie(t, &told)
	}
	return nil
}

// tie takes in what an event of a topic tells, the newest of its entity there so far.
func (c *recollection) tie(t *topicRecall, told *event.Told) {
	one := c.strands[string(told.Entity)]
	if one == nil {
		one = new(strand)
		c.strands[string(told.Entity)] = one
	}
	i := slices.Index(one.topics, t)
	if i < 0 {
		i = len(one.topics)
		one.topics, one.lasts = append(one.topics, t), append(one.lasts, checkpoint.Known{})
	}
	one.lasts[i] = knownOf(told)
	one.followed = append(one.followed, told.Predecessor)
}

// last returns what the last event of an entity says. Where an event between two topics cannot be read, was refused or has expired, none tells
// which of theirs came last: then the entity is in doubt, and whatever is true of it follows one that nothing follows yet.
func (c *recollection) last(one *strand) checkpoint.Known {
	open := slices.DeleteFunc(slices.Clone(one.lasts), func(k checkpoint.Known) bool { return slices.Contains(one.followed, k.Event) })
	if len(open) == 1 {
		return open[0]
	}
	if len(open) == 0 {
		open = one.lasts
	}
	c.undecided++
	newest := slices.MaxFunc(open, func(a, b checkpoint.Known) int { return cmp.Compare(a.Row, b.Row) })
	return checkpoint.Known{Row: newest.Row, Event: newest.Event, State: checkpoint.InDoubt, Fate: checkpoint.Live}
}

// hold takes in what is known of an entity, and saves what is held if that is enough.
func (c *recollection) hold(ctx context.Context, entity string, known checkpoint.Known) error {
	if _, held := c.known[entity]; !held {
		c.bytes += len(entity)
	}
	c.known[entity] = known
	if len(c.known) < recallEntities && c.bytes < recallBytes {
		return nil
	}
	return c.flush(ctx)
}

// flush saves what is held and differs from the view.
func (c *recollection) flush(ctx context.Context) error {
	entities := make([][]byte, 0, len(c.known))
	for entity := range maps.Keys(c.known) {
		entities = append(entities, []byte(entity))
	}
	slices.SortFunc(entities, bytes.Compare)
	var was []checkpoint.Known
	err := c.retrier.readStore(ctx, func() (err error) {
		was, err = c.opts.Store.Lookup(ctx, c.opts.key(), entities, was[:0])
		return err
	})
	if err != nil {
		return err
	}
	var changes []checkpoint.Change
	for i, entity := range entities {
		if now := c.known[string(entity)]; now.Event != was[i].Event || now.State == checkpoint.InDoubt {
			changes = append(changes, checkpoint.Change{Entity: entity, Known: now})
		}
	}
	clear(c.known)
	c.bytes = 0
	if len(changes) == 0 {
		return nil
	}
	c.changed += len(changes)
	return c.save(ctx, c.state.Offsets, changes...)
}

// save saves the state with marks and changes of the view.
func (c *recollection) save(ctx context.Context, marks []sink.Offset, changes ...checkpoint.Change) error {
	step := c.state
	step.Offsets, step.View, step.Ledger, step.ReplaceLedger, step.Published = marks, changes, nil, false, nil
	return c.saver.save(ctx, owning, step)
}
