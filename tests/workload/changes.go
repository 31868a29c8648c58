package workload

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"bridge/internal/backoff"
)

// Change is what happens to entities in one commit.
type Change string

// The changes.
const (
	// Insert brings one entity, InsertMany several in a statement, InsertOld one under an id below
	// those that the table hands out, InsertDead one that is soft-deleted from the first.
	Insert     Change = "insert"
	InsertMany Change = "insert many"
	InsertOld  Change = "insert old"
	InsertDead Change = "insert dead"

	// Replace gives one entity another state and another row, ReplaceSame another row alone,
	// ReplaceMany several of both in a statement, ReplaceOld one under an id below those that the
	// table hands out. ReplaceCrossed is ReplaceMany that waits for a transaction which replaces
	// one of its entities: the newer state has the lower id.
	Replace        Change = "replace"
	ReplaceSame    Change = "replace same"
	ReplaceMany    Change = "replace many"
	ReplaceOld     Change = "replace old"
	ReplaceCrossed Change = "replace crossed"

	// Update changes a state in place, UpdateSilent without a trace in the column modified; Flap
	// goes to and fro between two states.
	Update       Change = "update"
	UpdateSilent Change = "update silent"
	Flap         Change = "flap"
	// Heartbeat changes the column modified alone, or nothing where there is none.
	Heartbeat Change = "heartbeat"

	// SoftDelete flags a row as deleted, Revive undoes that.
	SoftDelete Change = "soft delete"
	Revive     Change = "revive"
	// Delete removes a row. Reinsert removes one and inserts the entity again, in two commits or in
	// one.
	Delete   Change = "delete"
	Reinsert Change = "reinsert"
	// Purge removes the rows of a writer that have the lowest ids.
	Purge Change = "purge"
	// Rename changes a key: the row becomes another entity. Recase changes it to one that some
	// servers compare as equal.
	Rename Change = "rename"
	Recase Change = "recase"
)

// operation is what a change does, and its weight in [EveryChange]. It does nothing where the
// writer has no entity for it.
type operation struct {
	weight int
	run    func(w *stateWriter, ctx context.Context, change Change) error
}

var operations = map[Change]operation{
	Insert:     {6, bring("INSERT", func(w *stateWriter) []*stateEntity { return w.newcomers(1) })},
	InsertMany: {1, bring("INSERT", func(w *stateWriter) []*stateEntity { return w.newcomers(2 + w.rng.IntN(6)) })},
	InsertOld: {1, bring("INSERT", func(w *stateWriter) []*stateEntity {
		e := w.newcomers(1)
		e[0].id = w.oldID()
		return e
	})},
	InsertDead: {1, bring("INSERT", func(w *stateWriter) []*stateEntity {
		e := w.newcomers(1)
		e[0].condition = Tombstone
		return e
	})},

	Replace: {6, bring("REPLACE", func(w *stateWriter) []*stateEntity {
		now := w.replaced(1)
		if len(now) > 0 && w.rng.IntN(6) == 0 {
			now[0].name = w.alike(now[0].name)
		}
		return now
	})},
	ReplaceSame: {2, bring("REPLACE", func(w *stateWriter) []*stateEntity {
		if e := w.pick(Live); e != nil {
			return []*stateEntity{e.renewed(e.state)}
		}
		return nil
	})},
	ReplaceMany: {2, bring("REPLACE", func(w *stateWriter) []*stateEntity { return w.replaced(2 + w.rng.IntN(6)) })},
	ReplaceOld: {1, bring("REPLACE", func(w *stateWriter) []*stateEntity {
		now := w.replaced(1)
		for _, e := range now {
			e.id = w.oldID()
		}
		return now
	})},
	ReplaceCrossed: {1, replaceCrossed},

	Update:       {14, update(func(w *stateWriter, e *stateEntity) edit { return w.toState(e, w.newState(), true) }, Live, Tombstone)},
	UpdateSilent: {8, update(func(w *stateWriter, e *stateEntity) edit { return w.toState(e, w.newState(), false) }, Live, Tombstone)},
	Flap:         {12, flap},
	Heartbeat: {12, update(func(w *stateWriter, e *stateEntity) edit {
		return edit{set: "deleted = deleted" + w.opts.touched(true), now: []*stateEntity{e.with(e.condition, e.state)}}
	}, Live, Tombstone)},

	SoftDelete: {3, update(func(w *stateWriter, e *stateEntity) edit {
		return edit{set: "deleted = 1" + w.opts.touched(true), now: []*stateEntity{e.with(Tombstone, e.state)}}
	}, Live)},
	Revive: {2, update(func(w *stateWriter, e *stateEntity) edit {
		return edit{set: "deleted = 0" + w.opts.touched(w.coin()), now: []*stateEntity{e.with(Live, e.state)}}
	}, Tombstone)},
	Delete: {3, func(w *stateWriter, ctx context.Context, change Change) error {
		if e := w.pick(Live, Tombstone); e != nil {
			return w.remove(ctx, change, e)
		}
		return nil
	}},
	Reinsert: {3, reinsert},
	Purge:    {1, purge},
	Rename:   {2, update(func(w *stateWriter, e *stateEntity) edit { return w.rename(e, w.fresh()) }, Live, Tombstone)},
	Recase: {2, update(func(w *stateWriter, e *stateEntity) edit {
		name := w.alike(e.name)
		if other := w.byName[w.compared(name)]; name == e.name || other != nil && other != e {
			return edit{}
		}
		return w.rename(e, name)
	}, Live, Tombstone)},
}

// EveryChange returns a mix of all changes, in which entities live about as long as others come.
func EveryChange() map[Change]int {
	mix := make(map[Change]int)
	for change, o := range operations {
		mix[change] = o.weight
	}
	return mix
}

func (w *stateWriter) coin() bool { return w.rng.IntN(2) == 0 }

// bring returns one INSERT or REPLACE of entities, as a commit of its own.
func bring(verb string, of func(w *stateWriter) []*stateEntity) func(*stateWriter, context.Context, Change) error {
	return func(w *stateWriter, ctx context.Context, change Change) error {
		entities := of(w)
		if len(entities) == 0 {
			return nil
		}
		c := commit{change: change, begun: time.Now()}
		// Those whose rows they take, which compare as equal and differ.
		for _, e := range entities {
			if was := w.byName[w.compared(e.name)]; was != nil && was.name != e.name {
				c.now = append(c.now, was.with(Absent, 0))
			}
		}
		c.now = append(c.now, entities...)
		return w.resolve(ctx, w.write(ctx, verb, w.opts.DB, entities...), c)
	}
}

// write runs one INSERT or REPLACE of entities, whose ids are the table's or those that they bring.
// Without an error their ids are set.
func (w *stateWriter) write(ctx context.Context, verb string, db execer, entities ...*stateEntity) error {
	own := entities[0].id != 0
	var args []any
	for _, e := range entities {
		if own {
			args = append(args, e.id)
		}
		args = append(args, e.row()...)
	}
	result, err := db.ExecContext(ctx, w.opts.insertInto(verb, len(entities), own), args...)
	if err != nil || own {
		return err
	}
	// A statement that names its rows takes its ids one behind the other, as far apart as the
	// server hands them out.
	first, err := result.LastInsertId()
	for i, e := range entities {
		e.id = uint64(first) + uint64(i)*w.step
	}
	return err
}

// replaced returns up to n entities with other states and rows.
func (w *stateWriter) replaced(n int) (now []*stateEntity) {
	for _, e := range w.some(n) {
		now = append(now, e.renewed(w.newState()))
	}
	return now
}

// replaceCrossed locks one entity, lets a REPLACE of it and of another one take its ids and wait,
// and replaces the other one first.
func replaceCrossed(w *stateWriter, ctx context.Context, change Change) error {
	// How long the statement that waits has to take its ids. If it takes them later, the ids are in
	// order and the record is right all the same.
	const crossing = 5 * time.Millisecond
	pair := w.some(2)
	if len(pair) < 2 {
		return nil
	}
	tx, err := open(ctx, w.opts.DB, MySQL)
	if err != nil {
		return err
	}
	defer tx.end()
	if _, err := tx.ExecContext(ctx, "UPDATE "+w.opts.Table+" SET note = note"+ofEntity, pair[0].app, pair[0].name); err != nil {
		return err
	}
	lower := commit{change: change, begun: time.Now(), now: []*stateEntity{pair[0].renewed(w.newState()), pair[1].renewed(w.newState())}}
	waited := make(chan error, 1)
	go func() { waited <- w.write(ctx, "REPLACE", w.opts.DB, lower.now...) }()
	if err := backoff.Pause(ctx, crossing); err != nil {
		return worst(w.resolve(ctx, <-waited, lower), err)
	}
	higher := commit{change: change, now: []*stateEntity{pair[1].renewed(w.newState())}}
	if err := w.write(ctx, "REPLACE", tx, higher.now...); err != nil {
		_ = tx.rollback(ctx) // what failed here has not happened
		return worst(w.resolve(ctx, <-waited, lower), err)
	}
	higher.begun = time.Now()
	// The other one waits until this one is there.
	lower.begun = higher.begun
	first := tx.commit(ctx)
	second := <-waited
	switch {
	case first != nil && second == nil:
		// What the second one has replaced cannot be told any more.
		w.doubt(higher)
		return w.resolve(ctx, nil, lower)
	case first != nil && isAway(second) && !isRefused(second):
		return w.resolve(ctx, errors.Join(first, second), lower, higher)
	}
	return worst(w.resolve(ctx, first, higher), w.resolve(ctx, second, lower))
}

// edit is an UPDATE of the row of an entity: its assignments and their values, and what becomes of
// entities. Without assignments there is none.
type edit struct {
	set  string
	args []any
	now  []*stateEntity
}

// update returns one UPDATE of an entity in one of the given conditions, as a commit of its own.
func update(of func(w *stateWriter, e *stateEntity) edit, conditions ...Condition) func(*stateWriter, context.Context, Change) error {
	return func(w *stateWriter, ctx context.Context, change Change) error {
		if e := w.pick(conditions...); e != nil {
			return w.edit(ctx, change, e, of(w, e))
		}
		return nil
	}
}

func (w *stateWriter) edit(ctx context.Context, change Change, e *stateEntity, to edit) error {
	if to.set == "" {
		return nil
	}
	c := commit{change: change, begun: time.Now(), now: to.now}
	_, err := w.opts.DB.ExecContext(ctx, "UPDATE "+w.opts.Table+" SET "+to.set+ofEntity, append(to.args, e.app, e.name)...)
	return w.resolve(ctx, err, c)
}

func (w *stateWriter) toState(e *stateEntity, state uint64, touch bool) edit {
	return edit{set: w.opts.set(touch), args: stateValues(state), now: []*stateEntity{e.with(e.condition, state)}}
}

// rename makes the row of an entity that of another one.
func (w *stateWriter) rename(e *stateEntity, name string) edit {
	other := e.with(e.condition, e.state)
	other.name = name
	return edit{set: "name = ?" + w.opts.touched(w.coin()), args: []any{name}, now: []*stateEntity{e.with(Absent, 0), other}}
}

// flap changes an entity to its other state, and often back at once or a moment later.
func flap(w *stateWriter, ctx context.Context, change Change) error {
	e := w.pick(Live)
	if e == nil {
		return nil
	}
	if e.other == 0 {
		e.other = w.newState()
	}
	for range 1 + w.rng.IntN(4) {
		to := w.toState(e, e.other, w.coin())
		to.now[0].other = e.state
		if err := w.edit(ctx, change, e, to); err != nil {
			return err
		}
		if err := backoff.Pause(ctx, time.Duration(w.rng.IntN(20))*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func (w *stateWriter) remove(ctx context.Context, change Change, e *stateEntity) error {
	c := commit{change: change, begun: time.Now(), now: []*stateEntity{e.with(Absent, 0)}}
	return w.resolve(ctx, deleteRows(ctx, w.opts.DB, 1, "DELETE FROM "+w.opts.Table+ofEntity, e.app, e.name), c)
}

// purge removes up to 8 rows, those with the lowest ids.
func purge(w *stateWriter, ctx context.Context, change Change) error {
	if len(w.there) < 2*recent {
		return nil
	}
	c := commit{change: change, begun: time.Now()}
	byID := func(a, b *stateEntity) int { return cmp.Compare(a.id, b.id) }
	for _, e := range slices.SortedFunc(slices.Values(w.there), byID)[:1+w.rng.IntN(recent)] {
		c.now = append(c.now, e.with(Absent, 0))
	}
	highest := c.now[len(c.now)-1].id
	return w.resolve(ctx, deleteRows(ctx, w.opts.DB, len(c.now), "DELETE FROM "+w.opts.Table+" WHERE app = ? AND id <= ?", w.app, highest), c)
}

// reinsert removes an entity and inserts it again with the same or another state: in one
// transaction, so that it is never gone, or in two commits.
func reinsert(w *stateWriter, ctx context.Context, change Change) error {
	e := w.pick(Live, Tombstone)
	if e == nil {
		return nil
	}
	again := e.renewed(e.state)
	if w.coin() {
		again.state = w.newState()
	}
	if w.coin() {
		if err := w.remove(ctx, change, e); err != nil {
			return err
		}
		return bring("INSERT", func(*stateWriter) []*stateEntity { return []*stateEntity{again} })(w, ctx, change)
	}
	tx, err := open(ctx, w.opts.DB, MySQL)
	if err != nil {
		return err
	}
	defer tx.end()
	if err := deleteRows(ctx, tx, 1, "DELETE FROM "+w.opts.Table+ofEntity, e.app, e.name); err != nil {
		return err
	}
	if err := w.write(ctx, "INSERT", tx, again); err != nil {
		return err
	}
	c := commit{change: change, begun: time.Now(), now: []*stateEntity{again}}
	return w.resolve(ctx, tx.commit(ctx), c)
}
