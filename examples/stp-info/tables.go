package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"bridge/examples/internal/stage"
)

func stpName(n int) string { return fmt.Sprintf("stp-%04d", n) }

// tgf writes the capabilities of STPs as TGF does: it updates rows, and deletes them by a column.
type tgf struct {
	*stage.Stage
	tally *stage.Tally
}

func (w *tgf) run(ctx context.Context) error {
	keys := []string{"cpu.cores", "memory.gib", "gpu", "radio.5g", "rack"}
	for n := 1; stage.Pause(ctx, 25*time.Millisecond) == nil; n++ {
		stp, key := stpName(rand.IntN(stps)), keys[rand.IntN(len(keys))]
		if err := w.write(context.WithoutCancel(ctx), stp, key, fmt.Sprint(n), rand.IntN(3) == 0); err != nil {
			return fmt.Errorf("change %s of %s: %w", key, stp, err)
		}
	}
	return nil
}

// write sets a capability, or deletes it if it is there.
func (w *tgf) write(ctx context.Context, stp, key, value string, remove bool) error {
	now, insert := "CURRENT_TIMESTAMP(3)", "INSERT INTO stp_capability (stp_name, capability_key, capability_value) VALUES (?, ?, ?)"
	if !w.MySQL {
		now = "strftime('%Y-%m-%d %H:%M:%f', 'now')"
	}
	if remove {
		result, err := w.DB.ExecContext(ctx, "UPDATE stp_capability SET deleted = 'Y', gmt_modified = "+now+" WHERE stp_name = ? AND capability_key = ? AND deleted = 'N'", stp, key)
		return w.count("deleted", result, err)
	}
	result, err := w.DB.ExecContext(ctx, "UPDATE stp_capability SET capability_value = ?, deleted = 'N', gmt_modified = "+now+" WHERE stp_name = ? AND capability_key = ?", value, stp, key)
	if err != nil {
		return err
	}
	if met, err := result.RowsAffected(); err != nil || met > 0 {
		return w.count("set", result, err)
	}
	result, err = w.DB.ExecContext(ctx, insert, stp, key, value)
	return w.count("set", result, err)
}

func (w *tgf) count(what string, result sql.Result, err error) error {
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	w.tally.Add(what, int(n))
	return err
}

// truth returns the capabilities of an STP by TGF's table.
func truth(ctx context.Context, s *stage.Stage, stp string) (capabilities, error) {
	return scan(s.DB.QueryContext(ctx, "SELECT capability_key, capability_value FROM stp_capability WHERE stp_name = ? AND deleted = 'N'", stp))
}

// table is the store: STP-Info's own table.
type table struct{ *stage.Stage }

func (t table) load(ctx context.Context, stp string) (capabilities, error) {
	t.travel(ctx)
	defer t.travel(ctx)
	return scan(t.DB.QueryContext(ctx, "SELECT capability_key, capability_value FROM stp_info WHERE stp_name = ?", stp))
}

func (t table) put(ctx context.Context, c change) error {
	t.travel(ctx)
	_, err := t.DB.ExecContext(ctx, "REPLACE INTO stp_info (stp_name, capability_key, capability_value) VALUES (?, ?, ?)", c.StpName, c.CapabilityKey, c.CapabilityValue)
	return err
}

func (t table) remove(ctx context.Context, c change) error {
	t.travel(ctx)
	_, err := t.DB.ExecContext(ctx, "DELETE FROM stp_info WHERE stp_name = ? AND capability_key = ?", c.StpName, c.CapabilityKey)
	return err
}

// travel takes as long as a statement or its answer is under way to a server. A file is so near
// that nothing would happen in between.
func (t table) travel(ctx context.Context) {
	if !t.MySQL {
		_ = stage.Pause(ctx, 2*time.Millisecond) // the statement tells that ctx has ended
	}
}

func scan(rows *sql.Rows, err error) (capabilities, error) {
	if err != nil {
		return nil, err
	}
	found := make(capabilities)
	for rows.Next() {
		var key, value string
		if err := rows.Scan(&key, &value); err != nil {
			return nil, errors.Join(err, rows.Close())
		}
		found[key] = value
	}
	return found, errors.Join(rows.Err(), rows.Close())
}
