package demo

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
)

// container is one process of a service that keeps the capabilities of test environments. It holds a block of ids, fetched from
// the number issuer, and uses it up at its own pace.
type container struct {
	*Writers
	number   int
	ids, end int64
}

var capabilities = []struct {
	key    string
	values []string
}{
	{"os.version", []string{"rocky-9.4", "rocky-9.5", "debian-13"}},
	{"cpu.cores", []string{"8", "16", "32", "64"}},
	{"memory.gb", []string{"32", "64", "128"}},
	{"radio.unit", []string{"ru-2217", "ru-4415"}},
	{"lab.rack", []string{"r1", "r2", "r3"}},
}

func newContainer(w *Writers, number int) *container { return &container{Writers: w, number: number} }

// write adds, replaces, soft-deletes or deletes one capability of an environment that this container looks after.
func (w *container) write(ctx context.Context) error {
	if w.ids == w.end {
		if err := w.fetch(ctx); err != nil {
			return err
		}
	}
	stp := fmt.Sprintf("stp-%02d", 1+w.number+containers*rand.IntN(5))
	capability := capabilities[rand.IntN(len(capabilities))]
	return w.transact(ctx, Capabilities, func(tx *sql.Tx, c *change) error {
		id, deleted, known, err := current(ctx, tx, "SELECT id, deleted FROM stp_capability WHERE stp_name = ? AND capability_key = ?", stp, capability.key)
		if err != nil {
			return err
		}
		entity := stp + "+" + capability.key
		which := rand.IntN(10)
		if known && !deleted && which == 0 {
			return remove(ctx, tx, c, entity, id)
		}
		text, marks := capability.values[rand.IntN(len(capability.values))], known && !deleted && which < 3
		w.ids++
		_, err = tx.ExecContext(ctx, "REPLACE INTO stp_capability (id, stp_name, capability_key, capability_value, deleted, gmt_create) VALUES (?, ?, ?, ?, ?, ?)",
			w.ids, stp, capability.key, text, marks, clock())
		if marks {
			text = marked
		}
		c.states = []state{{entity, w.ids, text}}
		return err
	})
}

// fewRows is how many rows a table must have before one is deleted: bridge believes in no deletes where most of a table is gone.
const fewRows = 8

// remove deletes a row, unless there are few.
func remove(ctx context.Context, tx *sql.Tx, c *change, entity string, id int64) error {
	result, err := tx.ExecContext(ctx, "DELETE FROM stp_capability WHERE id = ? AND (SELECT COUNT(*) FROM stp_capability) >= ?", id, fewRows)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return err
	}
	c.states = []state{{entity, id, gone}}
	return nil
}

// fetch draws the next block by compare-and-set, in a transaction of its own.
func (w *container) fetch(ctx context.Context) error {
	for {
		var num int64
		if err := w.db.QueryRowContext(ctx, "SELECT num FROM id_segments WHERE name = ?", Capabilities).Scan(&num); err != nil {
			return fmt.Errorf("read the number of the next block: %w", err)
		}
		result, err := w.db.ExecContext(ctx, "UPDATE id_segments SET num = ? WHERE name = ? AND num = ?", num+1, Capabilities, num)
		if err != nil {
			return fmt.Errorf("draw a block: %w", err)
		}
		if moved, err := result.RowsAffected(); err != nil {
			return fmt.Errorf("draw a block: %w", err)
		} else if moved == 1 {
			w.ids, w.end = num*Block, (num+1)*Block
			return nil
		}
	}
}
