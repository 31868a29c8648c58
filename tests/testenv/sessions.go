package testenv

import (
	"context"
	"database/sql"
	"errors"
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
}) (all []Session, err error) {
	rows, err := db.QueryContext(ctx, "SHOW PROCESSLIST")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	dest := make([]any, len(columns))
	for i := range dest {
		dest[i] = new(sql.RawBytes)
	}
	for err == nil && rows.Next() {
		var p Session
		var user, database sql.NullString
		copy(dest, []any{&p.ID, &user, new(sql.RawBytes), &database, &p.Command})
		err = rows.Scan(dest...)
		p.User, p.Database = user.String, database.String
		all = append(all, p)
	}
	return all, errors.Join(err, rows.Err())
}
