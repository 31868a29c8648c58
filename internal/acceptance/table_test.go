package acceptance

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"bridge/internal/testenv"
)

// appRevision is the table of SOFARegistry's create_table.sql.
const appRevision = `CREATE TABLE app_revision (
	id bigint(20) unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
	data_center varchar(128) NOT NULL,
	revision varchar(128) NOT NULL,
	app_name varchar(128) NOT NULL,
	base_params text,
	service_params text,
	service_params_large mediumtext,
	gmt_create timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
	gmt_modified timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
	client_version varchar(512) DEFAULT NULL,
	deleted tinyint(1) NOT NULL DEFAULT 0,
	UNIQUE KEY uk_data_center_revision (data_center, revision)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4`

// revisions is an app_revision table in a database of its own.
type revisions struct {
	t      testing.TB
	server *testenv.MariaDBServer
	name   string
	db     *sql.DB

	mu      sync.Mutex
	written uint64
}

func newRevisions(t testing.TB, server *testenv.MariaDBServer) *revisions {
	t.Helper()
	name := server.NewDatabase(t)
	r := &revisions{t: t, server: server, name: name, db: server.Admin(t, name)}
	r.exec(appRevision)
	return r
}

func (r *revisions) exec(statement string, args ...any) {
	r.t.Helper()
	if _, err := r.db.Exec(statement, args...); err != nil {
		r.t.Fatalf("%s: %v", statement, err)
	}
}

// fill commits n rows whose gmt_create is an hour old, in one statement.
func (r *revisions) fill(n int) {
	r.t.Helper()
	r.exec(fmt.Sprintf(`INSERT INTO app_revision (data_center, revision, app_name, base_params, service_params, gmt_create, client_version)
		SELECT concat('dc', seq %% 3), concat('old-', md5(seq)), concat('app-', seq %% 97),
			concat('{"protocol":"bolt","seq":', seq, ',"tags":["a","b"]}'), repeat('x', 60 + seq %% 60), now() - interval 1 hour, 'SOFA-5.8.1 \u{1F600}'
		FROM seq_1_to_%d`, n))
}

// write commits n rows one by one, each in a transaction of its own by autocommit, at about rate rows a second, a tenth of
// them by REPLACE over an earlier key. It goes on over outages of the server and ends with ctx.
func (r *revisions) write(ctx context.Context, n, rate int) error {
	r.db.SetMaxOpenConns(1)
	started := time.Now()
	for i := range n {
		due := started.Add(time.Duration(i) * time.Second / time.Duration(rate))
		if wait := time.Until(due); wait > 0 {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		verb, key := "INSERT", i
		if i%10 == 9 {
			verb, key = "REPLACE", i-5
		}
		if err := r.writeOne(ctx, verb, key, i); err != nil {
			return err
		}
	}
	return nil
}

func (r *revisions) writeOne(ctx context.Context, verb string, key, i int) error {
	statement := verb + ` INTO app_revision (data_center, revision, app_name, base_params, service_params, client_version) VALUES (?, ?, ?, ?, ?, ?)`
	for {
		_, err := r.db.ExecContext(ctx, statement, "live", fmt.Sprintf("rev-%d", key), fmt.Sprintf("app-%d", key%97),
			fmt.Sprintf(`{"write":%d}`, i), "y", "5.8.1")
		if err == nil {
			r.mu.Lock()
			r.written++
			r.mu.Unlock()
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		// The server is away; a row whose commit was not answered is written again under REPLACE.
		if statement[0] == 'I' {
			statement = "REPLACE" + statement[len("INSERT"):]
		}
		pause(50 * time.Millisecond)
	}
}

// ids returns the ids that the table holds.
func (r *revisions) ids() map[uint64]bool {
	r.t.Helper()
	rows, err := r.db.Query("SELECT id FROM app_revision")
	if err != nil {
		r.t.Fatal(err)
	}
	defer rows.Close()
	ids := make(map[uint64]bool)
	for rows.Next() {
		var id uint64
		if err := rows.Scan(&id); err != nil {
			r.t.Fatal(err)
		}
		ids[id] = true
	}
	if err := rows.Err(); err != nil {
		r.t.Fatal(err)
	}
	return ids
}

func (r *revisions) maxID() uint64 {
	r.t.Helper()
	var id uint64
	if err := r.db.QueryRow("SELECT coalesce(max(id), 0) FROM app_revision").Scan(&id); err != nil {
		r.t.Fatal(err)
	}
	return id
}

// grantee makes a login that may SELECT from the database and nothing else, and returns the source URL for it.
func (r *revisions) sourceURL() string {
	r.t.Helper()
	user := "reader_" + r.name[max(0, len(r.name)-12):]
	r.exec(fmt.Sprintf("CREATE OR REPLACE USER '%s'@'%%' IDENTIFIED BY 'pa:ss@w/ord'", user))
	r.exec(fmt.Sprintf("GRANT SELECT ON `%s`.* TO '%s'@'%%'", r.name, user))
	return r.server.URL(user, "pa:ss@w/ord", r.name)
}
