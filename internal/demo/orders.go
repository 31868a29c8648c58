package demo

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// orders is the log of orders. A checkout draws an id first and inserts the row when it is paid.
type orders struct{ *Writers }

const (
	// importRows is how many orders an import inserts in one transaction.
	importRows = 60
	// paymentTakes is how long a slow payment keeps an order with its id from being committed.
	paymentTakes = 3 * time.Second
	// purgeAfter is the age at which an order is purged. Its event was published long before.
	purgeAfter = 2 * ReadWithin
)

var customers = []string{"ada", "grace", "edsger", "barbara", "donald", "frances"}

// write inserts one order that is paid at once.
func (o *orders) write(ctx context.Context) error { return o.checkout(ctx, 1, nil) }

// batch inserts many orders in one transaction.
func (o *orders) batch(ctx context.Context) error { return o.checkout(ctx, importRows, nil) }

// slow inserts one order whose payment takes a while: higher ids are committed meanwhile. The end
// of ended ends the payment early.
func (o *orders) slow(ended <-chan struct{}) func(context.Context) error {
	return func(ctx context.Context) error {
		return o.checkout(ctx, 1, func() {
			timer := time.NewTimer(paymentTakes)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ended:
			}
		})
	}
}

// checkout draws ids, waits for the payment and inserts the orders. Without a payment to wait for
// all of it is one transaction.
func (o *orders) checkout(ctx context.Context, rows int, pay func()) error {
	first := int64(0)
	if pay != nil {
		err := o.transact(ctx, Orders, func(tx *sql.Tx, _ *change) (err error) {
			first, err = drawIDs(ctx, tx, rows)
			return err
		})
		if err != nil {
			return err
		}
		pay()
	}
	return o.transact(ctx, Orders, func(tx *sql.Tx, c *change) (err error) {
		if first == 0 {
			if first, err = drawIDs(ctx, tx, rows); err != nil {
				return err
			}
		}
		for i := range rows {
			id, customer, cents := first+int64(i), customers[rand.IntN(len(customers))], price()
			if _, err := tx.ExecContext(ctx, "INSERT INTO orders VALUES (?, ?, ?, ?)", id, customer, cents, now()); err != nil {
				return err
			}
			c.states = append(c.states, order(id, customer, cents))
		}
		return nil
	})
}

// order is the state of a row of the log, which is an entity of its own.
func order(id int64, customer string, cents int64) state {
	return state{strconv.FormatInt(id, 10), id, customer + " " + money(cents)}
}

// drawIDs takes the next n ids from the counter and returns the first.
func drawIDs(ctx context.Context, tx *sql.Tx, n int) (first int64, err error) {
	err = tx.QueryRowContext(ctx, "UPDATE order_ids SET next = next + ? RETURNING next - ?", n, n).Scan(&first)
	if err != nil {
		return 0, fmt.Errorf("draw %d ids: %w", n, err)
	}
	return first, nil
}

// purge deletes the oldest rows of the log.
func (o *orders) purge(ctx context.Context) error {
	return o.transact(ctx, Orders, func(tx *sql.Tx, c *change) error {
		rows, err := tx.QueryContext(ctx, "DELETE FROM orders WHERE created < ? RETURNING id", timestamp(time.Now().Add(-purgeAfter)))
		if err != nil {
			return err
		}
		// Close repeats the error of Err.
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var id int64
			if err := rows.Scan(&id); err != nil {
				return fmt.Errorf("purge: %w", err)
			}
			c.purged = append(c.purged, id)
		}
		return rows.Err()
	})
}
