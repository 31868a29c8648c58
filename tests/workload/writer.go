package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"bridge/internal/backoff"
)

// writer runs one transaction after the other.
type writer struct {
	*Workload
	number int
	rng    *rand.Rand
	// own are the writer's rows that are there.
	own []*Row
	// tokens counts the insertions.
	tokens int
	pause  backoff.Backoff
}

// kind is what a transaction does.
type kind string

const (
	insert       kind = "insert"
	rollback     kind = "rollback"
	burn         kind = "burn"
	multiRow     kind = "multi-row"
	insertSelect kind = "insert-select"
	replace      kind = "replace"
	remove       kind = "delete"
)

// maxRows is the highest number of rows of one statement.
const maxRows = 8

// transaction is one transaction with the rows that it inserts and those that it removes.
type transaction struct {
	kind          kind
	hold          time.Duration
	table         string
	rows, removes []*Row
}

func (w *writer) run(ctx context.Context) error {
	lasting, end := outlast(ctx, w.opts.Grace)
	defer end()
	for w.pacer.reserve() {
		done, err := w.turn(ctx, lasting)
		if !done {
			w.pacer.giveBack()
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			w.pause.Reset()
		case !isAway(err):
			return fmt.Errorf("writer %d: %w", w.number, err)
		default:
			w.record.count(func(s *Sums) { s.Reconnects++ })
			if w.pause.Wait(ctx) != nil {
				return nil
			}
		}
	}
	return nil
}

// turn runs one transaction and reports whether it counts as a commit. Its last statement ends with
// lasting.
func (w *writer) turn(ctx, lasting context.Context) (done bool, err error) {
	if err := w.pacer.pace(ctx); err != nil {
		return false, err
	}
	t, err := w.prepare(ctx)
	if err != nil {
		return false, err
	}
	tx, err := open(ctx, w.opts.DB, w.opts.Dialect)
	if err != nil {
		return false, err
	}
	defer tx.end()
	w.record.begin(t)
	if err := w.work(ctx, tx, t); err != nil || t.kind == rollback || t.kind == burn {
		w.record.rolledBack(t)
		// A connection that is gone has rolled back.
		if ended := tx.rollback(lasting); err == nil {
			err = ended
		}
		return false, err
	}
	if ctx.Err() != nil {
		w.record.rolledBack(t)
		return false, ctx.Err()
	}
	return true, w.commit(lasting, tx, t)
}

// prepare decides what the next transaction does, draws ids and makes its rows.
func (w *writer) prepare(ctx context.Context) (*transaction, error) {
	t := &transaction{kind: w.opts.Mix.choose(w.rng), hold: w.opts.Hold.choose(w.rng)}
	var old *Row
	if t.kind == burn || t.kind == replace || t.kind == remove {
		if len(w.own) == 0 {
			t.kind = insert
		} else {
			old = w.choose()
			t.table = old.Table
		}
	}
	if t.kind == replace || t.kind == remove {
		t.removes = []*Row{old}
	}
	n := 1
	switch t.kind {
	case remove:
		return t, nil
	case multiRow, insertSelect:
		n = 2 + w.rng.IntN(maxRows-1)
	}
	table, ids, err := w.issuer.draw(ctx, draw{writer: w.number, rng: w.rng, table: t.table, rows: n})
	if err != nil {
		return nil, err
	}
	t.table = table
	for i := range n {
		w.tokens++
		token := fmt.Sprintf("s%d-w%02d-%d", w.opts.Seed, w.number, w.tokens)
		row := &Row{Table: table, Entity: "e-" + token, Token: token, Version: 1}
		if ids != nil {
			row.ID = ids[i]
		}
		if old != nil {
			row.Entity, row.Version = old.Entity, old.Version+1
		}
		t.rows = append(t.rows, row)
	}
	return t, nil
}

// choose returns a row of the writer, every other time a recent one: what was written just now is
// often written again.
func (w *writer) choose() *Row {
	among := len(w.own)
	if w.rng.IntN(2) == 0 {
		among = min(among, recent)
	}
	return w.own[len(w.own)-1-w.rng.IntN(among)]
}

// work runs the statement of a transaction and holds it open.
func (w *writer) work(ctx context.Context, tx *session, t *transaction) error {
	statement, args := t.statement()
	var err error
	if t.kind == remove {
		err = deleteRows(ctx, tx, 1, statement, args...)
	} else {
		_, err = tx.ExecContext(ctx, statement, args...)
	}
	if t.kind == burn && isDuplicate(err) {
		w.record.count(func(s *Sums) { s.Burned++ })
		err = nil
	}
	if err != nil {
		return err
	}
	return backoff.Pause(ctx, t.hold)
}

func (t *transaction) statement() (string, []any) {
	if t.kind == remove {
		return "DELETE FROM " + t.table + " WHERE entity = ?", []any{t.removes[0].Entity}
	}
	names := columns
	if t.rows[0].ID != 0 {
		names = "id, " + columns
	}
	var args []any
	for _, row := range t.rows {
		if row.ID != 0 {
			args = append(args, row.ID)
		}
		args = append(args, row.Entity, row.Token, fmt.Sprintf(`{"kind":%q,"version":%d}`, t.kind, row.Version))
	}
	values := placeholders(strings.Count(names, ",") + 1)
	into := "INTO " + t.table + " (" + names + ") "
	switch t.kind {
	case replace:
		return "REPLACE " + into + "VALUES (" + values + ")", args
	case insertSelect:
		return "INSERT " + into + strings.Join(slices.Repeat([]string{"SELECT " + values}, len(t.rows)), " UNION ALL "), args
	}
	return "INSERT " + into + "VALUES " + strings.Join(slices.Repeat([]string{"(" + values + ")"}, len(t.rows)), ", "), args
}

// commit sends the COMMIT and notes what became of it.
func (w *writer) commit(ctx context.Context, tx *session, t *transaction) error {
	w.record.committing(t)
	err := tx.commit(ctx)
	if err == nil {
		w.record.committed(t)
	} else {
		var there map[string]bool
		there, err = w.find(ctx, t)
		w.record.ambiguous(t, there)
	}
	w.keep(t)
	return err
}

// keep brings own up to date with a transaction that has ended.
func (w *writer) keep(t *transaction) {
	for _, row := range t.removes {
		if row.GoneFrom.IsZero() {
			continue
		}
		// Most of those that go have come of late.
		for i := len(w.own) - 1; i >= 0; i-- {
			if w.own[i] == row {
				w.own = slices.Delete(w.own, i, i+1)
				break
			}
		}
	}
	for _, row := range t.rows {
		if row.Fate == Committed {
			w.own = append(w.own, row)
		}
	}
}

// find returns which of the rows that a transaction inserted or removed are there, once the
// database answers.
func (w *writer) find(ctx context.Context, t *transaction) (map[string]bool, error) {
	for {
		w.record.count(func(s *Sums) { s.Reconnects++ })
		there, err := w.readBack(ctx, t)
		if err == nil || !isAway(err) {
			return there, err
		}
		if err := w.pause.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

func (w *writer) readBack(ctx context.Context, t *transaction) (_ map[string]bool, err error) {
	tx, err := open(ctx, w.opts.DB, w.opts.Dialect)
	if err != nil {
		return nil, err
	}
	defer tx.end()
	defer func() { err = errors.Join(err, tx.rollback(ctx)) }()
	if err := tx.killedEnded(ctx, w.opts.Dialect); err != nil {
		return nil, err
	}
	var entities []any
	for _, row := range slices.Concat(t.rows, t.removes) {
		entities = append(entities, row.Entity)
	}
	rows, err := tx.QueryContext(ctx, w.opts.Dialect.whatIsThere(t.table, len(entities)), entities...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	there := make(map[string]bool)
	for rows.Next() {
		var entity, token string
		if err := rows.Scan(&entity, &token); err != nil {
			return nil, err
		}
		there[token] = true
	}
	return there, rows.Err()
}
