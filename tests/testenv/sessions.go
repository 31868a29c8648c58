package testenv

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
)

// Session is one of a MySQL or MariaDB server.
type Session struct {
	ID int64
	// User and Database may be empty: a session of the server itself, one that has chosen none.
	User, Database string
	// Command is what it does: Query or Execute; Sleep between two statements; Killed from the KILL
	// until its statement has ended; Busy on MariaDB where it changes at this moment, be it that it
	// is being killed, and nothing more can be read: then Database is empty, too.
	Command string
}

// Sessions returns all that the user of a pool, connection or transaction may see: its own, with
// the right PROCESS those of others.
//
// It does not read information_schema.processlist: MySQL 9.7 refuses that with error 3854 while any
// session runs a statement with a letter beyond utf8mb3.
func Sessions(ctx context.Context, db interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}) (_ []Session, err error) {
	rows, err := db.QueryContext(ctx, "SHOW PROCESSLIST")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var (
		p              Session
		user, database sql.NullString
		dest           = make([]any, len(columns))
	)
	for i := range dest {
		dest[i] = new(sql.RawBytes)
	}
	for name, to := range map[string]any{"Id": &p.ID, "User": &user, "db": &database, "Command": &p.Command} {
		i := slices.Index(columns, name)
		if i < 0 {
			return nil, fmt.Errorf("SHOW PROCESSLIST has no column %s: %v", name, columns)
		}
		dest[i] = to
	}
	var all []Session
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return nil, err
		}
		p.User, p.Database = user.String, database.String
		all = append(all, p)
	}
	return all, rows.Err()
}
