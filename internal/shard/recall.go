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

// recovery brings the state of a shard and the bus together before anything is read: it takes over
// what the bus knows and the store does not, and sends again what was on its way.
type recovery struct {
	opts    *Options
	retrier *retrier
	saver   *saver
	offsets *offsets
	// bind reads a page, so that the encoder knows the columns.
	bind func(context.Context) error
	// recalled says that the view holds what the bus says, as far as that can be read.
	recalled bool
}

// recall takes over into the view what the bus says of entities and the checkpoint does not know, because it is a copy from before. Nothing is
// published meanwhile, so that a kill repeats it.
//
// Invariants 3 and 4: the next event of an entity follows on its last one on the bus.
func (r *recovery) recall(ctx context.Context, state checkpoint.State) (checkpoint.State, error) {
	recalls := r.opts.Recalls
	if recalls == nil || r.recalled {
		return state, nil
	}
	var topics []*topicRecall
	var messages int
	err := r.retrier.wait(owning, forEver, func() (err error) {
		topics, messages, err = recalls.await(ctx, r.opts.key(), state.Offsets, func(t *topicRecall) bool { return r.mayHave(t, state.Offsets) })
		return err
	})
	if err != nil || len(topics) == 0 {
		r.recalled = err == nil
		return state, err
	}
	// Without columns no entity can be read.
	if err := r.bind(ctx); err != nil {
		return state, err
	}
	if state, err = r.passJournals(ctx, state); err != nil {
		return state, err
	}
	c := newRecollection(r, state, topics, messages)
	if err := c.read(ctx); err != nil {
		return state, err
	}
	if err := r.reconcileAtOnce(ctx); err != nil {
		return state, err
	}
	recalls.done(r.opts.key(), topics)
	reached := byTP(state.Offsets)
	if r.offsets.advance(reached, c.ends) {
		state.Offsets = sorted(reached)
		if err := c.save(ctx, state.Offsets); err != nil {
			return state, err
		}
	}
	r.recalled = true
	r.opts.Logger.Warn("the checkpoint is older than the bus: what the bus says of the entities was taken over, and a reconcile follows at once",
		"messages", c.messages, "entities", c.changed, "unreadable", c.unread, "undecided", c.undecided)
	return state, nil
}

// mayHave reports whether a topic may hold messages of the shard that the checkpoint does not know: it has published there before or does so now.
// Where it is not known what a capability shard may publish to, that is what any shard of its stream has published to.
func (r *recovery) mayHave(t *topicRecall, marks []sink.Offset) bool {
	switch {
	case len(marks) == 0 || names(marks, t.name) || t.name == r.opts.DeadLetter:
		return true
	case r.opts.Reaches != nil:
		return r.opts.Reaches(t.name)
	}
	return r.opts.Kind == event.Capability && t.streams[r.opts.Stream]
}

// passJournals drops the journals of a shard of which more lies behind them on the bus. They are not sent: what they say may be history. One that
// arrived as a whole counts as that. The others are dropped all at once, since their states build on each other: something of them was
// refused, has left the bus, never came there, or lies before the mark of another shard.
func (r *recovery) passJournals(ctx context.Context, state checkpoint.State) (checkpoint.State, error) {
	for len(state.Journals) > 0 {
		j := state.Journals[0]
		if !r.wholly(j) {
			arrived := func(id [16]byte) bool { return r.opts.Recalls.arrived(r.opts.key(), event.FormatID(id)) }
			err := r.retrier.writeStore(ctx, owning, func() error {
				return checkpoint.DropJournals(ctx, r.opts.Store, r.opts.key(), state, math.MaxUint64, arrived)
			})
			if err != nil {
				return state, err
			}
			return r.opts.Store.Load(ctx, r.opts.key())
		}
		after := j.After
		after.Offsets, after.Keep = state.Offsets, j.Number+1
		if err := r.saver.save(ctx, owning, after); err != nil {
			return state, err
		}
		var err error
		if state, err = r.opts.Store.Load(ctx, r.opts.key()); err != nil {
			return state, err
		}
	}
	return state, nil
}

// wholly reports whether all messages of a journal have arrived.
func (r *recovery) wholly(j *checkpoint.Journal) bool {
	for i := range j.Messages {
		if !r.opts.Recalls.arrived(r.opts.key(), j.Messages[i].ID) {
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

// reconcileAtOnce has the next reconcile of the shard begin anew and at once, also after a restart: entities that came and went behind the
// checkpoint are gone by the rules for absence.
func (r *recovery) reconcileAtOnce(ctx context.Context) error {
	return r.retrier.readStore(ctx, func() error {
		run, err := r.opts.Store.LoadRun(ctx, r.opts.key())
		if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
			return err
		}
		run = checkpoint.Run{Started: longAgo, Ended: longAgo, Guard: run.Guard, Verified: run.Verified}
		return r.opts.Store.SaveRun(ctx, r.opts.key(), run, nil)
	})
}
