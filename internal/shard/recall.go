package shard

import (
	"context"
	"errors"
	"math"
	"time"

	"bridge/checkpoint"
	"bridge/event"
	"bridge/sink"
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
	var topics []*topicRecall
	var messages int
	err := s.retrier.wait(owning, forEver, func() (err error) {
		topics, messages, err = r.await(ctx, s.key(), state.Offsets, func(t *topicRecall) bool { return s.mayHave(t, state.Offsets) })
		return err
	})
	if err != nil || len(topics) == 0 {
		s.recalled = err == nil
		return state, err
	}
	// Without columns no entity can be read.
	if err := s.ping(ctx); err != nil {
		return state, err
	}
	if state, err = s.passJournals(ctx, state); err != nil {
		return state, err
	}
	c := newRecollection(s, state, topics, messages)
	if err := c.read(ctx); err != nil {
		return state, err
	}
	if err := s.reconcileAtOnce(ctx); err != nil {
		return state, err
	}
	r.done(s.key(), topics)
	marks := marksByPlace(state.Offsets)
	if s.raise(marks, c.ends) {
		state.Offsets = sorted(marks)
		if err := c.save(ctx, state.Offsets); err != nil {
			return state, err
		}
	}
	s.recalled = true
	s.opts.Logger.Warn("the checkpoint is older than the bus: what the bus says of the entities was taken over, and a reconcile follows at once",
		"messages", c.messages, "entities", c.changed, "unreadable", c.unread, "undecided", c.undecided)
	return state, nil
}

// mayHave reports whether a topic may hold messages of the shard that the checkpoint does not know: it has published there before or does so now.
// Where it is not known what a capability shard may publish to, that is what any shard of its stream has published to.
func (s *Shard) mayHave(t *topicRecall, marks []sink.Offset) bool {
	switch {
	case len(marks) == 0 || names(marks, t.name) || t.name == s.opts.DeadLetter:
		return true
	case s.opts.Reaches != nil:
		return s.opts.Reaches(t.name)
	}
	return s.opts.Kind == event.Capability && t.streams[s.opts.Stream]
}

// passJournals drops the journals of a shard of which more lies behind them on the bus. They are not sent: what they say may be history. One that
// arrived as a whole counts as that. The others are dropped all at once, since their states build on each other: something of them was
// refused, has left the bus, never came there, or lies before the mark of another shard.
func (s *Shard) passJournals(ctx context.Context, state checkpoint.State) (checkpoint.State, error) {
	for len(state.Journals) > 0 {
		j := state.Journals[0]
		if !s.wholly(j) {
			arrived := func(id [16]byte) bool { return s.opts.Recalls.arrived(s.key(), event.FormatID(id)) }
			err := s.retrier.writeStore(ctx, owning, func() error {
				return checkpoint.DropJournals(ctx, s.opts.Store, s.key(), state, math.MaxUint64, arrived)
			})
			if err != nil {
				return state, err
			}
			return s.opts.Store.Load(ctx, s.key())
		}
		after := j.After
		after.Offsets, after.Keep = state.Offsets, j.Number+1
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

// reconcileAtOnce has the next reconcile of the shard begin anew and at once, also after a restart: entities that came and went behind the
// checkpoint are gone by the rules for absence.
func (s *Shard) reconcileAtOnce(ctx context.Context) error {
	return s.retrier.readStore(ctx, func() error {
		run, err := s.opts.Store.LoadRun(ctx, s.key())
		if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
			return err
		}
		run = checkpoint.Run{Started: longAgo, Ended: longAgo, Guard: run.Guard, Verified: run.Verified}
		return s.opts.Store.SaveRun(ctx, s.key(), run, nil)
	})
}
