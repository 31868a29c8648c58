package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
)

// stock is what the warehouses hold.
type stock struct{ *Writers }

var (
	warehouses = []string{"east", "north", "west"}
	stocked    = []string{"lamp", "chair", "desk", "kettle", "radio"}
)

// fewRows is how many rows a table must have before one is deleted: bridge publishes no deletes
// where most of a table is gone.
const fewRows = 8

// write counts one item of one warehouse: its row is inserted, replaced, updated in place or
// deleted.
func (w *stock) write(ctx context.Context) error {
	warehouse, sku := warehouses[rand.IntN(len(warehouses))], stocked[rand.IntN(len(stocked))]
	return w.transact(ctx, Stock, func(tx *sql.Tx, c *change) error {
		var id, rows int64
		err := tx.QueryRowContext(ctx, "SELECT id, (SELECT COUNT(*) FROM stock) FROM stock WHERE warehouse = ? AND sku = ?", warehouse, sku).Scan(&id, &rows)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		there, quantity := err == nil, 1+rand.Int64N(5000)
		entity, text := warehouse+"+"+sku, left(quantity)
		switch dice := rand.IntN(10); {
		case there && rows >= fewRows && dice == 0:
			text = goneState
			_, err = tx.ExecContext(ctx, "DELETE FROM stock WHERE id = ?", id)
		case there && dice < 3:
			_, err = tx.ExecContext(ctx, "UPDATE stock SET quantity = ? WHERE id = ?", quantity, id)
		default:
			id, err = put(ctx, tx, "REPLACE INTO stock (warehouse, sku, quantity, created) VALUES (?, ?, ?, ?)", warehouse, sku, quantity, now())
		}
		c.states = []state{{entity, id, text}}
		return err
	})
}

func left(quantity int64) string { return fmt.Sprintf("%d left", quantity) }
