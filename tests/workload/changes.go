package workload

import (
	"cmp"
	"context"
	"slices"
	"time"

	"example.org/bridge/client/backoff"
)

// Change is what happens to entities in one commit.
type Change string

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
	// Heartbeat changes the column modified alone, or nothing if there is none.
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
	// Rename changes a key: the row becomes another entity. Recase changes its
	// letters or the spaces at its end.
	Rename Change = "rename"
	Recase Change = "recase"

	// The others are for entities in several tables. Hop moves a row to another table, HopBack
	// there and back at once. HopInTwo takes two commits, so that no table has the row for a
	// moment, HopOverlapping, so that two have it. Swap has two rows change their tables. GiveUp
	// rolls a hop back, which burns an id.
	Hop            Change = "hop"
	HopBack        Change = "hop back"
	HopInTwo       Change = "hop in two"
	HopOverlapping Change = "hop overlapping"
	Swap           Change = "swap"
	GiveUp         Change = "give up"
	// Hide and Show set the column hidden, which the test adds.
	Hide Change = "hide"
	Show Change = "show"
)

// operation is what a change does, and its weight in [EveryChange], 0 for none. It does nothing
// where the writer has no entity for it.
type operation struct {
	weight int
	run    func(w *stateWriter, ctx context.Context) error
}

// there are the conditions of an entity that has a row, shown those of one that has one in a table
// without the column hidden.
var (
	there = []Condition{Live, Tombstone, Filtered}
	shown = []Condition{Live, Tombstone}
	live  = []Condition{Live}
)

var operations = map[Change]operation{
	Insert:     {6, bring("INSERT", func(w *stateWriter) []*stateEntity { return w.newcomers(1) })},
	InsertMany: {1, bring("INSERT", func(w *stateWriter) []*stateEntity { return w.newcomers(2 + w.rng.IntN(6)) })},
	InsertOld:  {1, bring("INSERT", func(w *stateWriter) []*stateEntity { return w.withOldID(w.newcomers(1)) })},
	InsertDead: {1, bring("INSERT", func(w *stateWriter) []*stateEntity {
		e := w.newcomers(1)
		e[0].condition = Tombstone
		return e
	})},

	Replace: {6, bring("REPLACE", func(w *stateWriter) []*stateEntity {
		now := w.replaced(1)
		if len(now) > 0 && len(w.opts.Tables) == 1 && w.rng.IntN(6) == 0 {
			now[0].name = w.alike(now[0].name)
		}
		return now
	})},
	ReplaceSame: {2, one(live, func(w *stateWriter, ctx context.Context, e *stateEntity) error {
		return w.bring(ctx, "REPLACE", e.renewed(e.state))
	})},
	ReplaceMany:    {2, bring("REPLACE", func(w *stateWriter) []*stateEntity { return w.replaced(2 + w.rng.IntN(6)) })},
	ReplaceOld:     {1, bring("REPLACE", func(w *stateWriter) []*stateEntity { return w.withOldID(w.replaced(1)) })},
	ReplaceCrossed: {1, replaceCrossed},

	Update:       {14, update(shown, func(w *stateWriter, e *stateEntity) edit { return w.toState(e, w.newState(), true) })},
	UpdateSilent: {8, update(shown, func(w *stateWriter, e *stateEntity) edit { return w.toState(e, w.newState(), false) })},
	Flap:         {12, one(live, flap)},
	Heartbeat: {12, update(shown, func(_ *stateWriter, e *stateEntity) edit {
		return edit{set: "deleted = deleted" + touched(true), now: []*stateEntity{e.with(e.condition, e.state)}}
	})},

	SoftDelete: {3, turn(live, "deleted = 1", Tombstone, true)}, Revive: {2, turn([]Condition{Tombstone}, "deleted = 0", Live, false)},
	Delete: {3, one(there, (*stateWriter).remove)}, Reinsert: {3, one(there, reinsert)}, Purge: {1, purge},
	Rename: {2, update(shown, func(w *stateWriter, e *stateEntity) edit { return w.rename(e, w.fresh()) })},
	Recase: {2, update(shown, func(w *stateWriter, e *stateEntity) edit {
		name := w.alike(e.name)
		if other := w.byName[compared(name)]; name == e.name || other != nil && other != e {
			return edit{}
		}
		return w.rename(e, name)
	})},

	Hop: {0, one(there, hop)}, HopBack: {0, one(live, hopBack)}, HopInTwo: {0, one(live, hopInTwo)},
	HopOverlapping: {0, one(live, hopOverlapping)}, Swap: {0, one(live, swap)}, GiveUp: {0, one(there, giveUp)},
	Hide: {0, turn(live, "hidden = 1", Filtered, true)}, Show: {0, turn([]Condition{Filtered}, "hidden = 0", Live, true)},
}

// EveryChange returns a mix of all changes to entities in one table, in which entities live about
// as long as others come.
func EveryChange() map[Change]int {
	mix := make(map[Change]int)
	for change, o := range operations {
		if o.weight > 0 {
			mix[change] = o.weight
		}
	}
	return mix
}

func (w *stateWriter) coin() bool { return w.rng.IntN(2) == 0 }

// one returns what does something with an entity in one of the conditions.
func one(conditions []Condition, do func(*stateWriter, context.Context, *stateEntity) error) func(*stateWriter, context.Context) error {
	return func(w *stateWriter, ctx context.Context) error {
		if e := w.pick(conditions...); e != nil {
			return do(w, ctx, e)
		}
		return nil
	}
}

func bring(verb string, of func(w *stateWriter) []*stateEntity) func(*stateWriter, context.Context) error {
	return func(w *stateWriter, ctx context.Context) error { return w.bring(ctx, verb, of(w)...) }
}

func (w *stateWriter) bring(ctx context.Context, verb string, entities ...*stateEntity) error {
	if len(entities) == 0 {
		return nil
	}
	var now []*stateEntity
	// Those whose rows they take, which compare as equal and differ.
	for _, e := range entities {
		if was := w.byName[compared(e.name)]; was != nil && was.name != e.name {
			now = append(now, was.with(Absent, 0))
		}
	}
	return w.commit(ctx, w.write(verb, entities...), append(now, entities...)...)
}

// step is a statement.
type step func(ctx context.Context, db execer) error

// commit runs a statement, and records what it makes of entities.
func (w *stateWriter) commit(ctx context.Context, one step, now ...*stateEntity) error {
	begun := time.Now()
	return w.resolve(ctx, one(ctx, w.opts.DB), begun, now...)
}

// Without an error the ids of entities are set.
func (w *stateWriter) write(verb string, entities ...*stateEntity) step {
	own, hidden := entities[0].id != 0, entities[0].condition == Filtered
	names := append([]string{"app", "name", "deleted"}, stateColumns...)
	if own {
		names = append([]string{"id"}, names...)
	}
	if hidden {
		names = append(names, "hidden")
	}
	var args []any
	for _, e := range entities {
		if own {
			args = append(args, e.id)
		}
		args = append(append(args, e.app, e.name, e.condition == Tombstone), stateValues(e.state)...)
		if hidden {
			args = append(args, true)
		}
	}
	return func(ctx context.Context, db execer) error {
		result, err := db.ExecContext(ctx, insertInto(verb, entities[0].table, names, len(entities)), args...)
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
}

// replaceCrossed locks one entity, lets a REPLACE of it and of another one take its ids and wait,
// and replaces the other one first.
func replaceCrossed(w *stateWriter, ctx context.Context) error {
	// How long the statement that waits has to take its ids. If it takes them later, the ids are in
	// order and the record is right all the same.
	const crossing = 5 * time.Millisecond
	lower := w.replaced(2)
	if len(lower) < 2 {
		return nil
	}
	higher := lower[1].renewed(w.newState())
	tx, err := open(ctx, w.opts.DB, MySQL)
	if err != nil {
		return err
	}
	defer tx.end()
	if _, err := tx.ExecContext(ctx, "UPDATE "+lower[0].table+" SET note = note"+ofEntity, lower[0].app, lower[0].name); err != nil {
		return err
	}
	begun, waited := time.Now(), make(chan error, 1)
	go func() { waited <- w.write("REPLACE", lower...)(ctx, w.opts.DB) }()
	_ = backoff.Pause(ctx, crossing) // a statement says that ctx has ended
	if err := w.write("REPLACE", higher)(ctx, tx); err != nil {
		_ = tx.finish(ctx, "ROLLBACK") // what failed here has not happened
		if err := w.resolve(ctx, <-waited, begun, lower...); err != nil {
			return err
		}
		return err
	}
	// The other one waits until this one is there.
	begun = time.Now()
	first := tx.finish(ctx, "COMMIT")
	second := <-waited
	if first == nil {
		w.becomes(begun, higher)
		return w.resolve(ctx, second, begun, lower...)
	}
	return w.resolve(ctx, first, begun, append(lower, higher)...)
}

// edit is an UPDATE of the row of an entity: its assignments and their values, and what becomes of
// entities. Without assignments there is none.
type edit struct {
	set  string
	args []any
	now  []*stateEntity
}

func update(conditions []Condition, of func(w *stateWriter, e *stateEntity) edit) func(*stateWriter, context.Context) error {
	return one(conditions, func(w *stateWriter, ctx context.Context, e *stateEntity) error { return w.edit(ctx, e, of(w, e)) })
}

// turn has a row of one condition have another one, by an assignment that touches it always or by
// chance.
func turn(from []Condition, set string, to Condition, always bool) func(*stateWriter, context.Context) error {
	return update(from, func(w *stateWriter, e *stateEntity) edit {
		return edit{set: set + touched(always || w.coin()), now: []*stateEntity{e.with(to, e.state)}}
	})
}

func (w *stateWriter) edit(ctx context.Context, e *stateEntity, to edit) error {
	if to.set == "" {
		return nil
	}
	return w.commit(ctx, func(ctx context.Context, db execer) error {
		_, err := db.ExecContext(ctx, "UPDATE "+e.table+" SET "+to.set+ofEntity, append(to.args, e.app, e.name)...)
		return err
	}, to.now...)
}

func (w *stateWriter) toState(e *stateEntity, state uint64, touch bool) edit {
	return edit{set: set(touch), args: stateValues(state), now: []*stateEntity{e.with(e.condition, state)}}
}

func (w *stateWriter) rename(e *stateEntity, name string) edit {
	other := e.with(e.condition, e.state)
	other.name = name
	return edit{set: "name = ?" + touched(w.coin()), args: []any{name}, now: []*stateEntity{e.with(Absent, 0), other}}
}

func flap(w *stateWriter, ctx context.Context, e *stateEntity) error {
	if e.other == 0 {
		e.other = w.newState()
	}
	for range 1 + w.rng.IntN(4) {
		to := w.toState(e, e.other, w.coin())
		to.now[0].other = e.state
		if err := w.edit(ctx, e, to); err != nil {
			return err
		}
		if err := backoff.Pause(ctx, time.Duration(w.rng.IntN(20))*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func (w *stateWriter) remove(ctx context.Context, e *stateEntity) error {
	return w.commit(ctx, e.drop(), e.with(Absent, 0))
}

// It removes up to 8 rows.
func purge(w *stateWriter, ctx context.Context) error {
	if len(w.there) < 2*recent {
		return nil
	}
	var now []*stateEntity
	byID := func(a, b *stateEntity) int { return cmp.Compare(a.id, b.id) }
	for _, e := range slices.SortedFunc(slices.Values(w.there), byID)[:1+w.rng.IntN(recent)] {
		now = append(now, e.with(Absent, 0))
	}
	highest := now[len(now)-1].id
	return w.commit(ctx, func(ctx context.Context, db execer) error {
		return deleteRows(ctx, db, len(now), "DELETE FROM "+w.opts.Tables[0]+" WHERE app = ? AND id <= ?", w.app, highest)
	}, now...)
}

// In one transaction, so that the entity is never gone, or in two commits.
func reinsert(w *stateWriter, ctx context.Context, e *stateEntity) error {
	again := e.renewed(e.state)
	if w.coin() {
		again.state = w.newState()
	}
	if w.coin() {
		return w.inTwo(ctx, e, again)
	}
	return w.together(ctx, []*stateEntity{again}, e.drop(), w.write("INSERT", again))
}

// inTwo has no table have the row for a moment.
func (w *stateWriter) inTwo(ctx context.Context, e, again *stateEntity) error {
	if err := w.remove(ctx, e); err != nil {
		return err
	}
	return w.bring(ctx, "INSERT", again)
}
