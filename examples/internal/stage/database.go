package stage

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/go-sql-driver/mysql"
	_ "modernc.org/sqlite" // the driver of the example's own file
)

// openDatabase connects the writers and makes the tables.
func (s *Stage) openDatabase(ctx context.Context) (err error) {
	text := cmp.Or(os.Getenv("EXAMPLE_SOURCE_URL"), (&url.URL{Scheme: "sqlite", Path: s.path("app.db")}).String())
	if s.source, err = url.Parse(text); err != nil {
		return errors.New("EXAMPLE_SOURCE_URL cannot be read: write mysql://user:password@host:port/database")
	}
	switch s.source.Scheme {
	case "mysql":
		s.MySQL = true
		s.DB, err = openMySQL(s.source)
	case "sqlite":
		s.DB, err = openSQLite(s.source)
	default:
		return fmt.Errorf("EXAMPLE_SOURCE_URL has the scheme %q: use mysql:// or sqlite://", s.source.Scheme)
	}
	if err != nil {
		return err
	}
	s.atEnd(func(context.Context) error { return s.DB.Close() })
	return s.makeTables(ctx)
}

func openMySQL(u *url.URL) (*sql.DB, error) {
	config := mysql.NewConfig()
	config.Net, config.Addr, config.DBName = "tcp", u.Host, strings.TrimPrefix(u.Path, "/")
	if u.Port() == "" {
		config.Addr += ":3306"
	}
	// An UPDATE tells how many rows it has met, as with JDBC, not how many it has changed.
	config.ClientFoundRows = true
	config.User = u.User.Username()
	config.Passwd, _ = u.User.Password()
	config.TLSConfig = u.Query().Get("tls")
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, fmt.Errorf("EXAMPLE_SOURCE_URL: %w", err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(16)
	db.SetMaxIdleConns(16)
	return db, nil
}

// openSQLite opens a file in WAL mode. A transaction takes the write lock when it begins.
func openSQLite(u *url.URL) (*sql.DB, error) {
	file := url.URL{Scheme: "file", Path: u.Path, RawQuery: "_txlock=immediate&_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)"}
	db, err := sql.Open("sqlite", file.String())
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", u.Path, err)
	}
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(8)
	return db, nil
}

// creates is how a statement begins that makes a table.
var creates = regexp.MustCompile("(?i)^CREATE TABLE `?(\\w+)")

// makeTables makes the tables of the example, and has them removed at the end. One that is there
// already is somebody else's.
func (s *Stage) makeTables(ctx context.Context) error {
	name := "table.sqlite.sql"
	if s.MySQL {
		name = "table.sql"
	}
	text, err := fs.ReadFile(s.example.Files, name)
	if err != nil {
		return err
	}
	statements := string(text)
	if s.example.Tables != nil {
		statements = s.example.Tables(statements)
	}
	for statement := range strings.SplitSeq(statements, ";\n") {
		statement = withoutComments(statement)
		if statement == "" {
			continue
		}
		if _, err := s.DB.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("make the tables of %s in a database without them: %w", name, err)
		}
		if table := creates.FindStringSubmatch(statement); table != nil && s.MySQL {
			s.atEnd(func(ctx context.Context) error {
				_, err := s.DB.ExecContext(ctx, "DROP TABLE `"+table[1]+"`")
				return err
			})
		}
	}
	return nil
}

// withoutComments returns a statement without the comment lines before it.
func withoutComments(statement string) string {
	var b strings.Builder
	for line := range strings.Lines(statement) {
		if !strings.HasPrefix(line, "--") {
			b.WriteString(line)
		}
	}
	return strings.Trim(b.String(), "; \n")
}
