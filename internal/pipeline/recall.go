package pipeline

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"bridge/checkpoint"
	"bridge/event"
	"bridge/sink"
)

const (
	// recallEntities and recallBytes bound what of a recall is held before it is saved.
	recallEntities = 10_000
	recallBytes    = 4 << 20
)

// longAgo is when a reconcile ended that has to run again at once.
var longAgo = time.Unix(1, 0)

// recall takes over into the view what the bus says of entities and the checkpoint does not know, because it is a copy from before. Nothing is
// published meanwhile, so that a kill repeats it.
//
// Invariants 3 and 4: the next event of an entity follows on its last one on the bus.
func (s *Shard) recall(ctx context.Context, state checkpoint.State) (checkpoint.State, error) {
	r := s.opts.Recalls
	if r == nil || s.recalled {
		return state, nil
	}
	var behind []*topicRecall
	err := s.alive(owning, forEver, func() (err error) {
		behind, err = r.await(ctx, s.key(), state.Marks)
		return err
	})
	if err != nil || len(behind) == 0 {
		s.recalled = err == nil
		return state, err
	}
	// Without columns no entity can be read.
	if err := s.greet(ctx); err != nil {
		return state, err
	}
	if state, err = s.passJournals(ctx, state); err != nil {
		return state, err
	}
	c := &recollection{shard: s, state: state, known: make(map[string]checkpoint.Known)}
	for _, one := range behind {
		err := s.alive(owning, forEver, func() error {
			return r.bus.Recall(ctx, one.marks, func(m *sink.Message) error { return c.take(ctx, m) })
		})
		if err != nil && !errors.Is(err, sink.ErrUnreadable) {
			return state, err
		}
	}
	if err := c.flush(ctx); err != nil {
		return state, err
	}
	if err := s.reconcileAtOnce(ctx); err != nil {
		return state, err
	}
	s.recalled = true
	r.done(s.key())
	s.opts.Logger.Warn("the checkpoint is older than the bus: what the bus says of the entities was taken over, and a reconcile follows at once",
		"messages", c.messages, "entities", c.changed, "unreadable", c.unread)
	return state, nil
}

// passJournals drops the journals of a shard of which more lies behind them on the bus. They are not sent: what they say may be history. One that
// arrived as a whole counts as that. The others are dropped all at once, since their states build on each other: something of them was
// refused, has left the bus, never came there, or lies before the mark of another shard.
func (s *Shard) passJournals(ctx context.Context, state checkpoint.State) (checkpoint.State, error) {
	for len(state.Journals) > 0 {
		j := state.Journals[0]
		if !s.wholly(j) {
			arrived := func(id [16]byte) bool { return s.opts.Recalls.arrived(s.key(), event.FormatID(id)) }
			err := s.retry(ctx, s.stores(owning), func() error { return checkpoint.DropJournals(ctx, s.opts.Store, s.key(), state, arrived) })
			if err != nil {
				return state, err
			}
			s.opts.Faults.OK(s.saveFault(ctx))
			return s.opts.Store.Load(ctx, s.key())
		}
		after := j.After
		after.Marks, after.Keep = state.Marks, j.Number+1
		if err := s.save(ctx, owning, after); err != nil {
			return state, err
		}
		var err error
		if state, err = s.opts.Store.Load(ctx, s.key()); err != nil {
			return state, err
		}
	}
	return state, nil
}

// wholly reports whether all messages of a journal have arrived.
func (s *Shard) wholly(j *checkpoint.Journal) bool {
	for i := range j.Messages {
		if !s.opts.Recalls.arrived(s.key(), j.Messages[i].ID) {
			return false
		}
	}
	return true
}

// recollection is what the bus says of the entities of a shard. The last event of an entity holds.
type recollection struct {
	shard *Shard
	// state is saved again with what changes in the view.
	state checkpoint.State
	known map[string]checkpoint.Known
	bytes int
	// messages were read, changed entities were known otherwise, unread messages do not tell their entity.
	messages, changed, unread int
}

// take takes in a message of the bus. One that tells nothing is counted: the next reconcile sees to its entity as well as it can.
func (c *recollection) take(ctx context.Context, m *sink.Message) error {
	if m.Stream != c.shard.opts.Stream || m.Shard != c.shard.opts.Name || m.Type == sink.DeadLetterType {
		return nil
	}
	c.messages++
	told, err := c.shard.opts.Encoder.Tell(m.Value)
	if err != nil || len(told.Entity) > checkpoint.MaxEntity {
		if c.unread++; c.unread == 1 {
			c.shard.opts.Logger.Warn("a message on the bus does not tell its entity, further ones are only counted", "event", m.ID, "row", m.RowID, "error", err)
		}
		return nil
	}
	if _, held := c.known[string(told.Entity)]; !held {
		c.bytes += len(told.Entity)
	}
	c.known[string(told.Entity)] = knownOf(&told)
	if len(c.known) < recallEntities && c.bytes < recallBytes {
		return nil
	}
	return c.flush(ctx)
}

// knownOf is what a view holds of an entity whose last event tells this. In the place of a state that the event does not tell stands its
// predecessor, which no row has as its state: with it confirms finds out whether the event says what a row says.
func knownOf(told *event.Told) checkpoint.Known {
	known := checkpoint.Known{Row: told.Row, Event: told.ID, State: told.State, Fate: checkpoint.Live}
	if !told.Exact {
		known.State = told.Predecessor
	}
	switch {
	case told.Absent:
		known.Fate, known.State, known.Since = checkpoint.Gone, [16]byte{}, told.Time.Truncate(time.Second)
	case told.Op == event.Deleted:
		known.Fate = checkpoint.Tombstone
	}
	return known
}

// confirms reports whether the last event of an entity, whose state was not told when it was recalled, says what the row says.
func (s *Shard) confirms(one *sight) bool {
	told := event.Told{ID: one.known.Event, Entity: one.entity, Row: one.known.Row, Predecessor: one.known.State}
	return isPredecessor(told.Predecessor) && s.opts.Encoder.Says(told, one.state)
}

// isPredecessor reports whether b can be a meta.id, or stands for none. Most states cannot.
func isPredecessor(b [16]byte) bool {
	return b == [16]byte{} || b[6]>>4 == 5 && b[8]>>6 == 2
}

// flush saves what is held and differs from the view.
func (c *recollection) flush(ctx context.Context) error {
	s := c.shard
	entities := make([][]byte, 0, len(c.known))
	for entity := range maps.Keys(c.known) {
		entities = append(entities, []byte(entity))
	}
	slices.SortFunc(entities, bytes.Compare)
	var was []checkpoint.Known
	err := s.consult(ctx, func() (err error) {
		was, err = s.opts.Store.Lookup(ctx, s.key(), entities, was[:0])
		return err
	})
	if err != nil {
		return err
	}
	var changes []checkpoint.Change
	for i, entity := range entities {
		if now := c.known[string(entity)]; now.Event != was[i].Event {
			changes = append(changes, checkpoint.Change{Entity: entity, Known: now})
		}
	}
	clear(c.known)
	c.bytes = 0
	if len(changes) == 0 {
		return nil
	}
	c.changed += len(changes)
	step := c.state
	step.View, step.Ledger, step.LedgerAnew = changes, nil, false
	return s.save(ctx, owning, step)
}

// reconcileAtOnce has the next reconcile of the shard begin anew and at once, also after a restart: entities that came and went behind the
// checkpoint are gone by the rules for absence.
func (s *Shard) reconcileAtOnce(ctx context.Context) error {
	return s.consult(ctx, func() error {
		run, err := s.opts.Store.LoadRun(ctx, s.key())
		if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
			return err
		}
		run = checkpoint.Run{Started: longAgo, Ended: longAgo, Guard: run.Guard, Verified: run.Verified}
		return s.opts.Store.SaveRun(ctx, s.key(), run, nil)
	})
}
