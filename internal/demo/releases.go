package demo

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"time"
)

// releases is the log of a configuration service: a row a release, purged when it is old.
type releases struct{ *Writers }

const (
	// burstRows is how many releases a roll-out to all applications makes in one transaction.
	burstRows = 60
	// purgeAfter is the age at which a release is purged. Nobody misses its event by then.
	purgeAfter = 2 * SeenWithin
)

func (r *releases) write(ctx context.Context) error { return r.release(ctx, 1, "fix") }

func (r *releases) burst(ctx context.Context) error { return r.release(ctx, burstRows, "rollout") }

func (r *releases) release(ctx context.Context, rows int, comment string) error {
	return r.transact(ctx, Releases, func(tx *sql.Tx, c *change) error {
		for range rows {
			id, err := put(ctx, tx, "INSERT INTO release_message (app_id, cluster, namespace, comment, gmt_create) VALUES (?, ?, ?, ?, ?)",
				apps[rand.IntN(len(apps))], "prod", []string{"app", "database", "limits"}[rand.IntN(3)], comment, clock())
			if err != nil {
				return err
			}
			c.states = append(c.states, release(id, comment))
		}
		return nil
	})
}

// purge deletes the oldest rows of the log.
func (r *releases) purge(ctx context.Context) error {
	return r.transact(ctx, Releases, func(tx *sql.Tx, c *change) error {
		before := time.Now().Add(-purgeAfter).UTC().Format("2006-01-02 15:04:05.000000")
		rows, err := tx.QueryContext(ctx, "DELETE FROM release_message WHERE gmt_create < ? RETURNING id", before)
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
