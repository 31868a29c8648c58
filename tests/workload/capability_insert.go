package workload

import (
	"context"
	"errors"
	"time"

	"bridge/internal/backoff"
)

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

// insertRows is how many rows fill inserts in a statement.
const insertRows = 500

// fill commits n new entities.
func (w *stateWriter) fill(ctx context.Context, n int) error {
	for n > 0 {
		rows := min(n, insertRows)
		if err := w.insert(ctx, InsertMany, rows); err != nil {
			return err
		}
		n -= rows
	}
	return nil
}

func (w *stateWriter) insert(ctx context.Context, change Change, n int) error {
	entities := w.newcomers(n)
	for _, e := range entities {
		e.id = 0
	}
	return w.bring(ctx, change, "INSERT", entities...)
}

func (w *stateWriter) insertOld(ctx context.Context) error {
	e := w.newcomer()
	e.id = w.oldID()
	return w.bring(ctx, InsertOld, "INSERT", e)
}

func (w *stateWriter) insertDead(ctx context.Context) error {
	e := w.newcomer()
	e.id, e.condition = 0, Tombstone
	return w.bring(ctx, InsertDead, "INSERT", e)
}

// bring runs one INSERT or REPLACE as a commit of its own.
func (w *stateWriter) bring(ctx context.Context, change Change, verb string, entities ...*stateEntity) error {
	c := commit{change: change, begun: time.Now(), now: w.displaced(entities)}
	return w.resolve(ctx, w.write(ctx, verb, w.opts.DB, entities...), c)
}

// displaced adds to entities those whose rows they took, which compare as equal and differ.
func (w *stateWriter) displaced(entities []*stateEntity) []*stateEntity {
	var all []*stateEntity
	for _, e := range entities {
		if was := w.byName[w.compared(e.name)]; was != nil && was.name != e.name {
			all = append(all, was.with(Absent, 0))
		}
	}
	return append(all, entities...)
}

func (w *stateWriter) replace(ctx context.Context, change Change, n int) error {
	var entities []*stateEntity
	for _, e := range w.some(n) {
		e = e.with(Live, w.newState())
		e.id = 0
		if n == 1 && w.rng.IntN(6) == 0 {
			e.name = w.alike(e.name)
		}
		entities = append(entities, e)
	}
	if len(entities) == 0 {
		return nil
	}
	return w.bring(ctx, change, "REPLACE", entities...)
}

func (w *stateWriter) replaceSame(ctx context.Context) error {
	e := w.pick(Live)
	if e == nil {
		return nil
	}
	e = e.with(Live, e.state)
	e.id = 0
	return w.bring(ctx, ReplaceSame, "REPLACE", e)
}

func (w *stateWriter) replaceOld(ctx context.Context) error {
	e := w.pick(Live, Tombstone)
	if e == nil {
		return nil
	}
	e = e.with(Live, w.newState())
	e.id = w.oldID()
	return w.bring(ctx, ReplaceOld, "REPLACE", e)
}

// crossing is how long the statement that waits has to take its ids. If it takes them later, the
// ids are in order and the record is right all the same.
const crossing = 5 * time.Millisecond

// replaceCrossed locks one entity, lets a REPLACE of it and of another one take its ids and wait,
// and replaces the other one first.
func (w *stateWriter) replaceCrossed(ctx context.Context) error {
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
	lower := commit{change: ReplaceCrossed, now: []*stateEntity{pair[0].with(Live, w.newState()), pair[1].with(Live, w.newState())}}
	lower.now[0].id, lower.now[1].id = 0, 0
	waited := make(chan error, 1)
	lower.begun = time.Now()
	go func() { waited <- w.write(ctx, "REPLACE", w.opts.DB, lower.now...) }()
	if err := backoff.Pause(ctx, crossing); err != nil {
		return worst(w.resolve(ctx, <-waited, lower), err)
	}
	higher := commit{change: ReplaceCrossed, now: []*stateEntity{pair[1].with(Live, w.newState())}}
	higher.now[0].id = 0
	err = w.write(ctx, "REPLACE", tx, higher.now...)
	if err != nil {
		_ = tx.rollback(ctx) // what failed here has not happened
		return worst(w.resolve(ctx, <-waited, lower), err)
	}
	higher.begun = time.Now()
	// The other one waits until this one is there.
	lower.begun = higher.begun
	err = tx.commit(ctx)
	return w.resolveCrossed(ctx, outcome{higher, err}, outcome{lower, <-waited})
}

// resolveCrossed enters two commits, of which the second one has waited for the first.
func (w *stateWriter) resolveCrossed(ctx context.Context, higher, lower outcome) error {
	switch {
	case higher.err != nil && lower.err == nil:
		// What the second one has replaced cannot be told any more.
		w.doubt(higher.commit)
		return w.resolve(ctx, nil, lower.commit)
	case higher.err != nil && isAway(lower.err) && !isRefused(lower.err):
		return w.resolve(ctx, errors.Join(higher.err, lower.err), lower.commit, higher.commit)
	}
	return worst(w.resolve(ctx, higher.err, higher.commit), w.resolve(ctx, lower.err, lower.commit))
}
