package workload

import (
	"context"
	"slices"
	"time"

	"bridge/internal/backoff"
)

// commit runs one statement as a commit of its own, which makes of the entities what now says.
func (w *stateWriter) commit(ctx context.Context, change Change, statement string, args []any, now ...*stateEntity) error {
	c := commit{change: change, begun: time.Now(), now: now}
	if slices.ContainsFunc(now, func(e *stateEntity) bool { return e.condition != Absent }) {
		_, err := w.opts.DB.ExecContext(ctx, statement, args...)
		return w.resolve(ctx, err, c)
	}
	return w.resolve(ctx, deleteRows(ctx, w.opts.DB, len(now), statement, args...), c)
}

// toState changes the state of an entity in place.
func (w *stateWriter) toState(ctx context.Context, change Change, e *stateEntity, state uint64, touch bool) error {
	statement := "UPDATE " + w.opts.Table + " SET " + w.opts.set(touch) + ofEntity
	return w.commit(ctx, change, statement, append(stateValues(state), e.app, e.name), e.with(e.condition, state))
}

func (w *stateWriter) update(ctx context.Context, change Change, touch bool) error {
	e := w.pick(Live, Tombstone)
	if e == nil {
		return nil
	}
	return w.toState(ctx, change, e, w.newState(), touch)
}

// flap changes an entity to its other state, and often back at once or a moment later.
func (w *stateWriter) flap(ctx context.Context) error {
	e := w.pick(Live)
	if e == nil {
		return nil
	}
	if e.other == 0 {
		e.other = w.newState()
	}
	for range 1 + w.rng.IntN(4) {
		now := *e
		now.state, now.other = e.other, e.state
		touch := w.rng.IntN(2) == 0
		statement := "UPDATE " + w.opts.Table + " SET " + w.opts.set(touch) + ofEntity
		if err := w.commit(ctx, Flap, statement, append(stateValues(now.state), e.app, e.name), &now); err != nil {
			return err
		}
		if err := backoff.Pause(ctx, time.Duration(w.rng.IntN(20))*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func (w *stateWriter) heartbeat(ctx context.Context) error {
	e := w.pick(Live, Tombstone)
	if e == nil {
		return nil
	}
	statement := "UPDATE " + w.opts.Table + " SET deleted = deleted" + w.opts.touched() + ofEntity
	return w.commit(ctx, Heartbeat, statement, []any{e.app, e.name}, e.with(e.condition, e.state))
}

// setDeleted soft-deletes a row or revives it.
func (w *stateWriter) setDeleted(ctx context.Context, change Change, from, to Condition) error {
	e := w.pick(from)
	if e == nil {
		return nil
	}
	touched := w.opts.touched()
	if change == Revive && w.rng.IntN(2) == 0 {
		touched = ""
	}
	deleted := 0
	if to == Tombstone {
		deleted = 1
	}
	statement := "UPDATE " + w.opts.Table + " SET deleted = ?" + touched + ofEntity
	return w.commit(ctx, change, statement, []any{deleted, e.app, e.name}, e.with(to, e.state))
}

func (w *stateWriter) remove(ctx context.Context) error {
	e := w.pick(Live, Tombstone)
	if e == nil {
		return nil
	}
	return w.commit(ctx, Delete, "DELETE FROM "+w.opts.Table+ofEntity, []any{e.app, e.name}, e.with(Absent, 0))
}

// reinsert removes an entity and inserts it again with the same or another state: in one
// transaction, so that it is never gone, or in two commits.
func (w *stateWriter) reinsert(ctx context.Context) error {
	e := w.pick(Live, Tombstone)
	if e == nil {
		return nil
	}
	again := e.with(Live, e.state)
	again.id = 0
	if w.rng.IntN(2) == 0 {
		again.state = w.newState()
	}
	statement, args := "DELETE FROM "+w.opts.Table+ofEntity, []any{e.app, e.name}
	if w.rng.IntN(2) == 0 {
		if err := w.commit(ctx, Reinsert, statement, args, e.with(Absent, 0)); err != nil {
			return err
		}
		return w.bring(ctx, Reinsert, "INSERT", again)
	}
	tx, err := open(ctx, w.opts.DB, MySQL)
	if err != nil {
		return err
	}
	defer tx.end()
	if err := deleteRows(ctx, tx, 1, statement, args...); err != nil {
		return err
	}
	if err := w.write(ctx, "INSERT", tx, again); err != nil {
		return err
	}
	c := commit{change: Reinsert, begun: time.Now(), now: []*stateEntity{again}}
	return w.resolve(ctx, tx.commit(ctx), c)
}

// purge removes up to 8 rows, those with the lowest ids.
func (w *stateWriter) purge(ctx context.Context) error {
	if len(w.there) < 2*recent {
		return nil
	}
	lowest := slices.SortedFunc(slices.Values(w.there), func(a, b *stateEntity) int {
		if a.id < b.id {
			return -1
		}
		return 1
	})[:1+w.rng.IntN(recent)]
	var gone []*stateEntity
	for _, e := range lowest {
		gone = append(gone, e.with(Absent, 0))
	}
	statement := "DELETE FROM " + w.opts.Table + " WHERE app = ? AND id <= ?"
	return w.commit(ctx, Purge, statement, []any{w.app, gone[len(gone)-1].id}, gone...)
}

// rename makes the row of an entity that of another one.
func (w *stateWriter) rename(ctx context.Context, change Change, name string) error {
	e := w.pick(Live, Tombstone)
	if e == nil {
		return nil
	}
	return w.renameTo(ctx, change, e, name)
}

func (w *stateWriter) renameTo(ctx context.Context, change Change, e *stateEntity, name string) error {
	other := e.with(e.condition, e.state)
	other.name = name
	statement := "UPDATE " + w.opts.Table + " SET name = ?" + ofEntity
	if w.rng.IntN(2) == 0 {
		statement = "UPDATE " + w.opts.Table + " SET name = ?" + w.opts.touched() + ofEntity
	}
	return w.commit(ctx, change, statement, []any{name, e.app, e.name}, e.with(Absent, 0), other)
}

// recase changes the case of a name, or the spaces at its end.
func (w *stateWriter) recase(ctx context.Context) error {
	e := w.pick(Live, Tombstone)
	if e == nil {
		return nil
	}
	name := w.alike(e.name)
	if other := w.byName[w.compared(name)]; name == e.name || other != nil && other != e {
		return nil
	}
	return w.renameTo(ctx, Recase, e, name)
}
