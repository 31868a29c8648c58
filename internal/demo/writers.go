package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
)

// Writers are the application.
type Writers struct {
	db     *sql.DB
	record *Record
}

// NewWriters returns writers to the tables of db, which enter into record what they commit.
func NewWriters(db *sql.DB, record *Record) *Writers { return &Writers{db, record} }

// containers is how many processes of the application hold a block of ids each.
const containers = 3

// Run writes until ctx ends and returns nil then; what is open is finished first. An error of the database ends it.
func (w *Writers) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	loop := func(pause time.Duration, write func(context.Context) error) {
		group.Go(func() error { return repeat(ctx, pause, write) })
	}
	revisions, releases := newRevisions(w), &releases{Writers: w}
	loop(400*time.Millisecond, revisions.write)
	loop(700*time.Millisecond, releases.write)
	loop(6*time.Second, releases.burst)
	loop(3*time.Second, releases.purge)
	for i := range containers {
		// A fast container is ahead of a slow one in ids.
		loop(time.Duration(containers-i)*400*time.Millisecond, newContainer(w, i).write)
	}
	return group.Wait()
}

// repeat calls write until ctx ends, with pauses of pause on average.
func repeat(ctx context.Context, pause time.Duration, write func(context.Context) error) error {
	timer := time.NewTimer(rand.N(pause))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		// A transaction is short and not broken off: the record must know what became of it.
		if err := write(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		timer.Reset(pause/2 + rand.N(pause))
	}
}

// transact runs do in a transaction, which it commits with what do says that it changed.
func (w *Writers) transact(ctx context.Context, table string, do func(tx *sql.Tx, c *change) error) error {
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("write to %s: %w", table, err)
	}
	c := change{table: table}
	if err := do(tx, &c); err != nil {
		// The transaction is lost whatever the rollback says.
		_ = tx.Rollback()
		return fmt.Errorf("write to %s: %w", table, err)
	}
	if err := w.record.commit(c, tx.Commit); err != nil {
		return fmt.Errorf("commit to %s: %w", table, err)
	}
	return nil
}

// put runs a statement that inserts one row and returns its id.
func put(ctx context.Context, tx *sql.Tx, statement string, args ...any) (int64, error) {
	result, err := tx.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

// current reads the id of an entity's row and whether it is marked as deleted; known is false where there is none.
func current(ctx context.Context, tx *sql.Tx, query string, args ...any) (id int64, deleted, known bool, err error) {
	err = tx.QueryRowContext(ctx, query, args...).Scan(&id, &deleted)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, false, nil
	}
	return id, deleted, err == nil, err
}

// clock is the time of a row as the application writes it.
func clock() string { return time.Now().UTC().Format("2006-01-02 15:04:05.000000") }
