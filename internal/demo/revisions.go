package demo

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
)

// revisions is a registry of services: clients report the revision of their application, again and again.
type revisions struct {
	*Writers
	// known are the revisions that are there.
	known []revision
	made  int
}

type revision struct{ dataCenter, name, app string }

var (
	apps        = []string{"checkout", "catalog", "search", "billing", "login", "delivery"}
	dataCenters = []string{"dc-east", "dc-west"}
)

func newRevisions(w *Writers) *revisions { return &revisions{Writers: w} }

// write is one report: of a new revision, a heartbeat, a change, or the removal of one that has been silent.
func (r *revisions) write(ctx context.Context) error {
	which := rand.IntN(10)
	if len(r.known) < 3 || which < 2 {
		r.made++
		app := apps[rand.IntN(len(apps))]
		one := revision{dataCenters[rand.IntN(len(dataCenters))], fmt.Sprintf("%s-r%d", app, r.made), app}
		r.known = append(r.known, one)
		return r.replace(ctx, one, false)
	}
	at := rand.IntN(len(r.known))
	one := r.known[at]
	switch {
	case which < 6:
		return r.heartbeat(ctx, one)
	case which < 9:
		return r.replace(ctx, one, false)
	}
	r.known = append(r.known[:at], r.known[at+1:]...)
	return r.replace(ctx, one, true)
}

// heartbeat moves the time of modification and nothing else.
func (r *revisions) heartbeat(ctx context.Context, one revision) error {
	return r.transact(ctx, Revisions, func(tx *sql.Tx, c *change) error {
		c.heartbeats = 1
		_, err := tx.ExecContext(ctx, "UPDATE app_revision SET gmt_modified = ? WHERE data_center = ? AND revision = ? AND deleted = 0",
			clock(), one.dataCenter, one.name)
		return err
	})
}

// replace gives the revision a new row under a new id.
func (r *revisions) replace(ctx context.Context, one revision, deleted bool) error {
	return r.transact(ctx, Revisions, func(tx *sql.Tx, c *change) error {
		id, _, known, err := current(ctx, tx, "SELECT id, deleted FROM app_revision WHERE data_center = ? AND revision = ?", one.dataCenter, one.name)
		if err != nil {
			return err
		}
		if known {
			c.removed = []int64{id}
		}
		now := clock()
		return c.put(ctx, tx, `REPLACE INTO app_revision (data_center, revision, app_name, client_version, base_params, deleted, gmt_create, gmt_modified)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, one.dataCenter, one.name, one.app, fmt.Sprintf("5.%d.%d", rand.IntN(4), rand.IntN(10)),
			fmt.Sprintf(`{"zone":"z%d","weight":%d}`, rand.IntN(4), 10*rand.IntN(11)), deleted, now, now)
	})
}
