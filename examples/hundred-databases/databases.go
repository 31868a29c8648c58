package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"example.org/bridge/examples/internal/stage"
)

// database is one of the hundred.
type database struct {
	// of is the server, or the file of SQLite.
	of *sql.DB
	// statement begins the names of its tables in SQL, shard begins those in events.
	statement, shard string
}

// create makes a table of orders.
func (d *database) create(ctx context.Context, isMySQL bool, table string) error {
	file := "table.sql"
	if !isMySQL {
		file = "table.sqlite.sql"
	}
	text, err := files.ReadFile(file)
	if err != nil {
		return err
	}
	if _, err := d.of.ExecContext(ctx, strings.Replace(string(text), "CREATE TABLE orders_0", "CREATE TABLE "+d.statement+table, 1)); err != nil {
		return fmt.Errorf("make a table of %s: %w", file, err)
	}
	return nil
}

// createAll makes the databases with their tables. The name of the database in EXAMPLE_SOURCE_URL
// begins theirs.
func (s *shop) createAll(ctx context.Context, st *stage.Stage) (err error) {
	if first := os.Getenv("EXAMPLE_SOURCE_URL"); first == "" {
		err = s.asFiles(st)
	} else {
		err = s.onServers(ctx, st, first, cmp.Or(os.Getenv("EXAMPLE_SOURCE_B_URL"), first))
	}
	for i := 0; i < len(s.databases) && err == nil; i++ {
		for n := 0; n < tablesEach && err == nil; n++ {
			err = s.databases[i].create(ctx, st.MySQL, fmt.Sprintf("orders_%d", n))
		}
	}
	return err
}

// asFiles makes files of SQLite: each has one database, so each is a source of its own.
func (s *shop) asFiles(st *stage.Stage) error {
	var names []string
	for i := range databases {
		name := fmt.Sprintf("shop_%02d", i)
		at := "sqlite://" + filepath.Join(st.Dir, name+".db")
		db, _, err := st.OpenDatabase(at)
		if err != nil {
			return err
		}
		s.databases, names = append(s.databases, database{of: db, shard: name + "/"}), append(names, name)
		st.Set("BRIDGE_SOURCE_"+strings.ToUpper(name)+"_URL", at)
	}
	st.Set("BRIDGE_SOURCES", strings.Join(names, ","))
	st.Set("BRIDGE_SOURCE_A_URL", "")
	st.Set("BRIDGE_SOURCE_B_URL", "")
	st.Set("BRIDGE_STREAM_ORDERS_TABLE", "shop_{00..99}/orders_*")
	return nil
}

// onServers makes databases, a half on each server, which may be one. They are removed at the end.
func (s *shop) onServers(ctx context.Context, st *stage.Stage, first, second string) error {
	named, err := url.Parse(first)
	if err != nil || strings.Trim(named.Path, "/") == "" {
		return errors.New("EXAMPLE_SOURCE_URL names no database: write mysql://user:password@host:port/shop for databases shop_00 to shop_99")
	}
	begin := strings.Trim(named.Path, "/") + "_"
	st.Set("BRIDGE_STREAM_ORDERS_TABLE", "a/"+begin+"{00..49}.orders_*,b/"+begin+"{50..99}.orders_*")
	for half, at := range []string{first, second} {
		source := "ab"[half : half+1]
		st.Set("BRIDGE_SOURCE_"+strings.ToUpper(source)+"_URL", at)
		var server *sql.DB
		if server, st.MySQL, err = st.OpenDatabase(at); err != nil {
			return err
		}
		for i := half * databases / 2; i < (half+1)*databases/2; i++ {
			name := fmt.Sprintf("%s%02d", begin, i)
			if _, err := server.ExecContext(ctx, "CREATE DATABASE `"+name+"`"); err != nil {
				return fmt.Errorf("make a database on a server without it: %w", err)
			}
			st.AtEnd(func() error {
				_, err := server.Exec("DROP DATABASE `" + name + "`")
				return err
			})
			s.databases = append(s.databases, database{server, "`" + name + "`.", source + "/" + name + "."})
		}
	}
	return nil
}
