package demo

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
)

// Writers are the shop.
type Writers struct {
	db     *sql.DB
	record *Record
}

// NewWriters returns writers to the tables of db, which enter into record what they commit.
func NewWriters(db *sql.DB, record *Record) *Writers { return &Writers{db, record} }

// Run writes until ctx ends and returns nil then; open transactions are finished first. An error of
// the database ends it.
func (w *Writers) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	loop := func(pause time.Duration, write func(context.Context) error) {
		group.Go(func() error { return repeat(ctx, pause, write) })
	}
	products, stock, orders := &products{Writers: w}, &stock{w}, &orders{w}
	loop(500*time.Millisecond, products.write)
	loop(400*time.Millisecond, stock.write)
	loop(700*time.Millisecond, orders.write)
	loop(6*time.Second, orders.batch)
	loop(3*time.Second, orders.purge)
	loop(time.Second, orders.slow(ctx.Done()))
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
		// A transaction is short and not cancelled: the record must know its outcome.
		if err := write(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		timer.Reset(pause/2 + rand.N(pause))
	}
}

// transact runs do in a transaction and commits it with the changes that do records in c.
func (w *Writers) transact(ctx context.Context, table string, do func(tx *sql.Tx, c *change) error) error {
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("write to %s: %w", table, err)
	}
	c := change{table: table}
	if err := do(tx, &c); err != nil {
		// The transaction is lost whatever the rollback returns.
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

// now is the time of a row as the shop writes it.
func now() string { return timestamp(time.Now()) }

func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000000") }
