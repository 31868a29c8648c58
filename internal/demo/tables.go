package demo

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"

	_ "modernc.org/sqlite" // the application's driver
)

// The tables, and the streams that tail them, which have the same names.
const (
	Revisions    = "app_revision"
	Capabilities = "stp_capability"
	Releases     = "release_message"
)

// Tables are all tables of the application.
var Tables = []string{Revisions, Capabilities, Releases}

// Block is how many ids a container fetches at once.
const Block = 5000

const schema = `
CREATE TABLE app_revision (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	data_center TEXT NOT NULL,
	revision TEXT NOT NULL,
	app_name TEXT NOT NULL,
	client_version TEXT NOT NULL,
	base_params JSON NOT NULL,
	deleted BOOLEAN NOT NULL DEFAULT 0,
	gmt_create DATETIME NOT NULL,
	gmt_modified DATETIME NOT NULL,
	UNIQUE (data_center, revision)
);
CREATE INDEX app_revision_modified ON app_revision (gmt_modified);
CREATE TABLE stp_capability (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	stp_name TEXT NOT NULL,
	capability_key TEXT NOT NULL,
	capability_value TEXT NOT NULL,
	deleted BOOLEAN NOT NULL DEFAULT 0,
	gmt_create DATETIME NOT NULL,
	UNIQUE (stp_name, capability_key)
);
CREATE TABLE release_message (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	app_id TEXT NOT NULL,
	cluster TEXT NOT NULL,
	namespace TEXT NOT NULL,
	comment TEXT NOT NULL,
	gmt_create DATETIME NOT NULL
);
CREATE TABLE id_segments (name TEXT PRIMARY KEY, num INTEGER NOT NULL);
INSERT INTO id_segments VALUES ('stp_capability', 0);`

// OpenDatabase makes the application's database in the file at path, in WAL mode, and returns a pool whose transactions
// take the write lock at once and wait for it.
func OpenDatabase(ctx context.Context, path string) (*sql.DB, error) {
	u := url.URL{Scheme: "file", Path: path, RawQuery: "_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)"}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(8)
	if _, err := db.ExecContext(ctx, schema); err != nil {
		// The first error is the one to tell.
		_ = db.Close()
		return nil, fmt.Errorf("make the tables in %s: %w", path, err)
	}
	return db, nil
}
