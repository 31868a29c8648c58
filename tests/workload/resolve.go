package workload

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"
)

// resolve records what a commit, begun at a time and ended with err, has made of entities: plan has
// what it was to make of them, those without a row first. Where it was not answered the
// table tells, once that can be asked; ctx bounds how long. It returns the error of a commit that
// has not happened.
func (w *stateWriter) resolve(ctx context.Context, err error, begun time.Time, plan ...*stateEntity) error {
	if err == nil {
		w.becomes(begun, plan...)
		return nil
	}
	if ctx.Err() == nil && (!isAway(err) || isConflict(err)) {
		return err
	}
	there, lookErr := w.find(ctx, plan)
	if lookErr != nil {
		w.doubt(begun, plan...)
		return errors.Join(err, lookErr)
	}
	var happened, not []*stateEntity
	explained := make(map[string]bool)
	for _, e := range plan {
		key := compared(e.name)
		row, was := there[key], w.byName[key]
		before := was == nil && row == nil || was != nil && row.shows(was)
		now := !before && row.shows(e)
		explained[key] = explained[key] || before || now
		if !now {
			not = append(not, e)
			continue
		}
		if row != nil && e.condition != Absent {
			e.id = row.id
		}
		happened = append(happened, e)
	}
	for _, known := range explained {
		if !known {
			return errNeither
		}
	}
	if n, _ := number(err); len(happened) > 0 || n == 0 && !errors.Is(err, errNotDeleted) {
		w.doubt(begun, not...)
	}
	if len(happened) == 0 {
		return err
	}
	w.becomes(begun, happened...)
	return nil
}

// nil if there is no row.
type foundRow struct {
	id                 uint64
	table, name, state string
	deleted            bool
}

// shows reports whether an entity is as a row says, whose id may not be known yet. A row of another
// entity that compares as equal shows that it is absent.
func (r *foundRow) shows(e *stateEntity) bool {
	if r == nil || r.name != e.name || e.condition == Absent {
		return e.condition == Absent && (r == nil || r.name != e.name)
	}
	return r.table == e.table && r.state == fmt.Sprintf("s%d", e.state) && r.deleted == (e.condition == Tombstone) && (e.id == 0 || e.id == r.id)
}

// find returns the rows of entities, by what the server compares of their names, once the database
// answers.
func (w *stateWriter) find(ctx context.Context, entities []*stateEntity) (map[string]*foundRow, error) {
	args := []any{w.app}
	for _, e := range entities {
		args = append(args, e.name)
	}
	there := make(map[string]*foundRow)
	for _, table := range w.opts.Tables {
		err := lookup(ctx, w.opts.DB, MySQL, func(rows *sql.Rows) error {
			r := foundRow{table: table}
			err := rows.Scan(&r.id, &r.name, &r.state, &r.deleted)
			there[compared(r.name)] = &r
			return err
		}, "SELECT id, name, state, deleted FROM "+table+" WHERE app = ? AND name IN ("+placeholders(len(entities))+")", args...)
		if err != nil {
			return nil, err
		}
	}
	return there, nil
}

// doubt enters what may not have happened, or what others may have seen and that has not lasted.
func (w *stateWriter) doubt(begun time.Time, entities ...*stateEntity) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range entities {
		w.enter(e, begun, func(h *History) *[]Version { return &h.Doubtful })
	}
}

// becomes brings the writer's entities and the record up to date after a commit.
func (w *stateWriter) becomes(begun time.Time, now ...*stateEntity) {
	var lost []uint64
	for _, e := range now {
		key := compared(e.name)
		was := w.byName[key]
		if was != nil {
			lost = append(lost, was.id)
		}
		switch {
		case e.condition == Absent:
			delete(w.byName, key)
			i := slices.Index(w.there, was)
			w.there = slices.Delete(w.there, i, i+1)
			w.gone = append(w.gone, e)
			w.gone = w.gone[max(0, len(w.gone)-4*recent):]
		case was != nil:
			*was = *e
		default:
			w.there = append(w.there, e)
			w.byName[key] = e
		}
	}
	for _, id := range lost {
		if !slices.ContainsFunc(now, func(e *stateEntity) bool { return e.condition != Absent && e.id == id }) {
			w.freed = append(w.freed, id)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sums[w.change]++
	for _, e := range now {
		w.enter(e, begun, func(h *History) *[]Version { return &h.Versions })
	}
}
