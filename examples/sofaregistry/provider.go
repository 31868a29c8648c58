package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"bridge/examples/internal/stage"
)

// Times are those of SOFARegistry divided by ten or more; gmt_modified has whole seconds.
const (
	dataCenter = "DefaultDataCenter"
	// registerEvery is how often a node reports its revision, silentFor how long a report spares
	// those behind it.
	registerEvery = 100 * time.Millisecond
	silentFor     = time.Second
	// expireAfter is the age of the last heartbeat at which a revision counts as gone, retention
	// that at which its row is purged, in seconds.
	expireAfter, retention = 3, 6
)

// registry is the writing side of SOFARegistry: what a session server does when nodes report.
type registry struct {
	*stage.Stage
	stage.Tally

	mu sync.Mutex
	// cache has the revisions that were written a moment ago.
	cache map[string]time.Time
}

// node is one application process: it reports its revision until ctx ends.
func (r *registry) node(app string, release int) func(context.Context) error {
	return func(ctx context.Context) error {
		for stage.Pause(ctx, registerEvery) == nil {
			if err := r.register(context.WithoutCancel(ctx), app, release); err != nil {
				return err
			}
		}
		return nil
	}
}

// register is refreshEntryToStorage: behind the cache, a heartbeat, and where that finds no row a
// REPLACE, which gives the row a new id.
func (r *registry) register(ctx context.Context, app string, release int) error {
	revision := fmt.Sprintf("%s-revision-%d", app, release)
	if r.cached(revision) {
		r.Add("spared by the cache", 1)
		return nil
	}
	met, err := affected(r.DB.ExecContext(ctx,
		"UPDATE app_revision SET gmt_modified = CURRENT_TIMESTAMP WHERE data_center = ? AND revision = ? AND deleted = 0", dataCenter, revision))
	if err != nil {
		return fmt.Errorf("heartbeat of %s: %w", revision, err)
	}
	if met > 0 {
		r.Add("heartbeats", met)
		return nil
	}
	r.Add("replaces", 1)
	return r.replace(ctx, revision, app, fmt.Sprintf("5.%d.0", release), false)
}

// cached reports whether a revision was written a moment ago, and notes that it is written now.
func (r *registry) cached(revision string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.cache[revision]) < silentFor {
		return true
	}
	r.cache[revision] = time.Now()
	return false
}

func (r *registry) replace(ctx context.Context, revision, app, version string, deleted bool) error {
	_, err := r.DB.ExecContext(ctx, `REPLACE INTO app_revision (data_center, revision, app_name, base_params, service_params, client_version, deleted, gmt_create, gmt_modified)
		VALUES (?, ?, ?, ?, ?, ?, ?, CURRENT_TIMESTAMP, CURRENT_TIMESTAMP)`, dataCenter, revision, app, `{"zone":"hz"}`, nil, version, deleted)
	if err != nil {
		return fmt.Errorf("replace %s: %w", revision, err)
	}
	return nil
}

// clean repeats a step of the cleaner until ctx ends.
func clean(step func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for stage.Pause(ctx, 500*time.Millisecond) == nil {
			if err := step(context.WithoutCancel(ctx)); err != nil {
				return err
			}
		}
		return nil
	}
}

// expire writes expired revisions as deleted, by a REPLACE as well: so a watcher of ids sees it.
func (r *registry) expire(ctx context.Context) error {
	rows, err := r.DB.QueryContext(ctx, "SELECT revision, app_name, client_version FROM app_revision WHERE data_center = ? AND deleted = 0 AND gmt_modified < "+r.ago(expireAfter)+" LIMIT 100", dataCenter)
	if err != nil {
		return fmt.Errorf("look for expired revisions: %w", err)
	}
	type expired struct{ revision, app, version string }
	var all []expired
	for rows.Next() {
		var e expired
		if err := rows.Scan(&e.revision, &e.app, &e.version); err != nil {
			return errors.Join(err, rows.Close())
		}
		all = append(all, e)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for _, e := range all {
		if err := r.replace(ctx, e.revision, e.app, e.version, true); err != nil {
			return err
		}
		r.Add("expired", 1)
	}
	return nil
}

// purge is cleanDeleted.
func (r *registry) purge(ctx context.Context) error {
	n, err := affected(r.DB.ExecContext(ctx, "DELETE FROM app_revision WHERE data_center = ? AND deleted = 1 AND gmt_modified < "+r.ago(retention), dataCenter))
	r.Add("purged", n)
	return err
}

// ago is the database's time some seconds ago.
func (r *registry) ago(seconds int) string {
	if r.MySQL {
		return fmt.Sprintf("CURRENT_TIMESTAMP - INTERVAL %d SECOND", seconds)
	}
	return fmt.Sprintf("datetime('now', '-%d seconds')", seconds)
}

func affected(result sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}
