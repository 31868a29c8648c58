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
	// reports counts them, made and versions what was made up.
	reports, made, versions int
}

type revision struct{ dataCenter, name, app string }

func (r revision) entity() string { return r.dataCenter + "+" + r.name }

var (
	apps        = []string{"checkout", "catalog", "search", "billing", "login", "delivery"}
	dataCenters = []string{"dc-east", "dc-west"}
)

func newRevisions(w *Writers) *revisions { return &revisions{Writers: w} }

// report is what a client has to say about its revision.
type report int

const (
	isNew report = iota
	isAlive
	isReplaced
	isUpdated
	isSilent
)

// begins is how the reports begin, so that a short demo shows everything; often is how they go on, at random.
var (
	begins = []report{isNew, isUpdated, isAlive, isUpdated, isReplaced, isNew, isSilent}
	often  = []report{isNew, isNew, isAlive, isAlive, isAlive, isReplaced, isReplaced, isUpdated, isUpdated, isSilent}
)

// write is one report.
func (r *revisions) write(ctx context.Context) error {
	what := often[rand.IntN(len(often))]
	if r.reports < len(begins) {
		what = begins[r.reports]
	}
	r.reports++
	if what == isNew || len(r.known) == 0 {
		r.made++
		app := apps[rand.IntN(len(apps))]
		one := revision{dataCenters[rand.IntN(len(dataCenters))], fmt.Sprintf("%s-r%d", app, r.made), app}
		r.known = append(r.known, one)
		return r.replace(ctx, one)
	}
	at := rand.IntN(len(r.known))
	one := r.known[at]
	switch what {
	case isAlive:
		return r.heartbeat(ctx, one)
	case isReplaced:
		return r.replace(ctx, one)
	case isUpdated:
		return r.update(ctx, one)
	default:
		r.known = append(r.known[:at], r.known[at+1:]...)
		return r.mark(ctx, one)
	}
}

// heartbeat moves the time of modification and nothing else.
func (r *revisions) heartbeat(ctx context.Context, one revision) error {
	return r.transact(ctx, Revisions, func(tx *sql.Tx, c *change) error {
		c.heartbeats = 1
		_, err := tx.ExecContext(ctx, "UPDATE app_revision SET gmt_modified = ? WHERE data_center = ? AND revision = ?", clock(), one.dataCenter, one.name)
		return err
	})
}

// update changes the revision's row in place.
func (r *revisions) update(ctx context.Context, one revision) error {
	version := r.version()
	return r.inPlace(ctx, one, "v"+version, "client_version = ?", version)
}

// mark marks the revision's row as deleted, in place.
func (r *revisions) mark(ctx context.Context, one revision) error {
	return r.inPlace(ctx, one, marked, "deleted = ?", true)
}

// inPlace sets a column of the revision's row.
func (r *revisions) inPlace(ctx context.Context, one revision, text, assignment string, value any) error {
	return r.transact(ctx, Revisions, func(tx *sql.Tx, c *change) error {
		id, _, _, err := current(ctx, tx, "SELECT id, deleted FROM app_revision WHERE data_center = ? AND revision = ?", one.dataCenter, one.name)
		if err != nil {
			return err
		}
		c.states = []state{{one.entity(), id, text}}
		_, err = tx.ExecContext(ctx, "UPDATE app_revision SET gmt_modified = ?, "+assignment+" WHERE id = ?", clock(), value, id)
		return err
	})
}

// replace gives the revision a new row under a new id.
func (r *revisions) replace(ctx context.Context, one revision) error {
	return r.transact(ctx, Revisions, func(tx *sql.Tx, c *change) error {
		version, now := r.version(), clock()
		id, err := put(ctx, tx, `REPLACE INTO app_revision (data_center, revision, app_name, client_version, base_params, deleted, gmt_create, gmt_modified)
			VALUES (?, ?, ?, ?, ?, 0, ?, ?)`, one.dataCenter, one.name, one.app, version,
			fmt.Sprintf(`{"zone":"z%d","weight":%d}`, rand.IntN(4), 10*rand.IntN(11)), now, now)
		c.states = []state{{one.entity(), id, "v" + version}}
		return err
	})
}

// version returns the next version, so that each change is one that can be told from the others.
func (r *revisions) version() string {
	r.versions++
	return fmt.Sprintf("5.%d.%d", r.versions/10, r.versions%10)
}
