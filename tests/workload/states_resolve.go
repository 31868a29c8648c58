package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// commit is what one commit makes of entities.
type commit struct {
	change Change
	// begun is before the commit.
	begun time.Time
	// now are the entities as they are to be, those without a row first. The ids of rows that the
	// table numbers are 0 until they are known.
	now []*stateEntity
}

// resolve records a commit that ended with err. Where it was not answered the table tells, once
// that can be asked, which one of candidates it was that came last; with the error of one that has
// not happened. ctx bounds how long the database is waited for.
func (w *stateWriter) resolve(ctx context.Context, err error, candidates ...commit) error {
	if err == nil {
		w.becomes(candidates[0])
		return nil
	}
	if ctx.Err() == nil && (!isAway(err) || isConflict(err)) {
		return err
	}
	there, lookErr := w.find(ctx, candidates)
	if lookErr != nil {
		w.doubt(candidates...)
		return errors.Join(err, lookErr)
	}
	if w.unchanged(there, candidates) {
		if !isRefused(err) && !errors.Is(err, errNotDeleted) {
			w.doubt(candidates...)
		}
		return err
	}
	i := slices.IndexFunc(candidates, func(c commit) bool { return w.holds(there, c) })
	if i < 0 {
		return fmt.Errorf("%w: %s, %s", errNeither, candidates[0].change, w.opts.Table)
	}
	w.count(func(i *Interruptions) { i.Found++ })
	w.doubt(slices.Concat(candidates[:i], candidates[i+1:])...)
	w.becomes(candidates[i])
	return nil
}

var errNeither = errors.New("the table holds neither what it held nor what the change was to make of it")

// worst returns an error that ends the run, if there is one among errs.
func worst(errs ...error) error {
	for _, err := range errs {
		if err != nil && !isAway(err) {
			return err
		}
	}
	return errors.Join(errs...)
}

// foundRow is a row as the table has it.
type foundRow struct {
	id          uint64
	name, state string
	deleted     bool
}

// is reports whether the row is that of e, whose id may not be known yet. No row is that of an
// absent entity.
func (r *foundRow) is(e *stateEntity) bool {
	if r == nil || e == nil || e.condition == Absent {
		return r == nil && (e == nil || e.condition == Absent)
	}
	return r.name == e.name && r.state == fmt.Sprintf("s%d", e.state) && r.deleted == (e.condition == Tombstone) && (e.id == 0 || e.id == r.id)
}

// unchanged reports whether the table holds what it held before the candidates.
func (w *stateWriter) unchanged(there map[string]*foundRow, candidates []commit) bool {
	for _, c := range candidates {
		for _, e := range c.now {
			key := w.compared(e.name)
			if !there[key].is(w.byName[key]) {
				return false
			}
		}
	}
	return true
}

// holds reports whether the table holds what c was to make of it, and sets the ids then.
func (w *stateWriter) holds(there map[string]*foundRow, c commit) bool {
	last := make(map[string]*stateEntity)
	for _, e := range c.now {
		last[w.compared(e.name)] = e
	}
	for key, e := range last {
		if !there[key].is(e) {
			return false
		}
	}
	for key, e := range last {
		if e.condition != Absent {
			e.id = there[key].id
		}
	}
	return true
}

// find returns the rows of the candidates' entities, by what the server compares of their names,
// once the database answers.
func (w *stateWriter) find(ctx context.Context, candidates []commit) (map[string]*foundRow, error) {
	for {
		there, err := w.readBack(ctx, candidates)
		if err == nil || !isAway(err) || ctx.Err() != nil {
			return there, err
		}
		if err := w.pause.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

// readBack waits for transactions that have not ended: the one that is looked for may be among
// them.
func (w *stateWriter) readBack(ctx context.Context, candidates []commit) (_ map[string]*foundRow, err error) {
	tx, err := open(ctx, w.opts.DB, MySQL)
	if err != nil {
		return nil, err
	}
	defer tx.end()
	if err := tx.killedEnded(ctx, MySQL); err != nil {
		return nil, err
	}
	args := []any{w.app}
	for _, c := range candidates {
		for _, e := range c.now {
			args = append(args, e.name)
		}
	}
	rows, err := tx.QueryContext(ctx, "SELECT id, name, state, deleted FROM "+w.opts.Table+
		" WHERE app = ? AND name IN ("+placeholders(len(args)-1)+") FOR UPDATE", args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	there := make(map[string]*foundRow)
	for rows.Next() {
		var r foundRow
		if err := rows.Scan(&r.id, &r.name, &r.state, &r.deleted); err != nil {
			return nil, err
		}
		there[w.compared(r.name)] = &r
	}
	return there, rows.Err()
}
