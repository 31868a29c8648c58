// Command hundred-databases is a shop whose orders lie in a hundred databases, by the hash of their
// number. One bridge makes one stream of them, or three share the tables. One is killed with its
// folder while orders come, a table is made while they run, and no order is lost. See README.md.
//
//	make example-hundred-databases
//	make example-hundred-databases ARGS=--shares
package main

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"example.org/bridge/client"
	"example.org/bridge/examples/internal/stage"
)

//go:embed table.sql table.sqlite.sql bridge.env
var files embed.FS

const databases, tablesEach, orders, shares = 100, 4, 1000, 3

func main() {
	divided := flag.Bool("shares", false, "divide the tables between three processes of bridge")
	flag.Parse()
	s := &shop{written: make(map[string]string), heard: make(map[string]int)}
	layout := stage.Layout{Databases: s.createAll}
	if *divided {
		// The server inside bridge is that of one process.
		layout.Shares, layout.Server = shares, startNATS
	}
	stage.Play("hundred-databases", files, layout, s.story)
}

// shop has the judge's record.
type shop struct {
	databases []database

	mu sync.Mutex
	// written has the table of each order, before it is there; heard is how often it was heard.
	written map[string]string
	heard   map[string]int
	// wrong is the first event that no order explains.
	wrong   error
	repeats int
}

func startNATS(st *stage.Stage) (url string, err error) {
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: filepath.Join(st.Dir, "nats"), NoSigs: true, NoLog: true,
	})
	if err != nil {
		return "", err
	}
	s.Start()
	st.AtEnd(func() error { s.Shutdown(); s.WaitForShutdown(); return nil })
	if !s.ReadyForConnections(20 * time.Second) {
		return "", errors.New("NATS does not answer")
	}
	return s.ClientURL(), nil
}

// insert writes an order, after it is in the judge's record.
func (s *shop) insert(ctx context.Context, d *database, table, orderNo string) error {
	s.mu.Lock()
	s.written[orderNo] = d.shard + table
	s.mu.Unlock()
	_, err := d.of.ExecContext(ctx, "INSERT INTO "+d.statement+table+" (order_no) VALUES (?)", orderNo)
	return err
}

// write writes orders, each into the table of the hash of its number.
func (s *shop) write(ctx context.Context, from, to int) error {
	for n := from; n < to; n++ {
		orderNo := fmt.Sprintf("order-%04d", n)
		h := fnv.New32a()
		h.Write([]byte(orderNo))
		slot := int(h.Sum32() % (databases * tablesEach))
		if err := s.insert(ctx, &s.databases[slot/tablesEach], fmt.Sprintf("orders_%d", slot%tablesEach), orderNo); err != nil {
			return err
		}
	}
	return nil
}

// hear is what a consumer does with an order. bridge and bus may repeat one after a kill.
func (s *shop) hear(_ context.Context, e client.Event) error {
	var order struct{ OrderNo string }
	if err := e.Decode(&order); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if table := s.written[order.OrderNo]; table != e.Shard && s.wrong == nil {
		s.wrong = fmt.Errorf("order %q of %s was heard, it is in %q", order.OrderNo, e.Shard, table)
	}
	if s.heard[order.OrderNo]++; s.heard[order.OrderNo] > 1 {
		s.repeats++
	}
	return nil
}

func (s *shop) lost() (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for orderNo := range s.written {
		if s.heard[orderNo] == 0 {
			n++
		}
	}
	return n, s.wrong
}

func (s *shop) await(ctx context.Context, st *stage.Stage) error {
	err := st.Wait(ctx, "all orders are heard", func() (bool, error) {
		n, err := s.lost()
		return n == 0, err
	})
	if n, _ := s.lost(); n > 0 {
		err = errors.Join(err, fmt.Errorf("%d orders are lost", n))
	}
	return err
}

// placed waits until each table is read by one process, and says by which.
func placed(ctx context.Context, st *stage.Stage, tables int) error {
	each := make([]int, len(st.Bridges))
	err := st.Wait(ctx, fmt.Sprintf("%d tables are read", tables), func() (bool, error) {
		sum := 0
		for i, b := range st.Bridges {
			n, err := b.Running()
			if err != nil {
				return false, err
			}
			each[i], sum = n, sum+n
		}
		return sum == tables, nil
	})
	for i, b := range st.Bridges {
		if b.Share == "" {
			st.Say("one process reads %d tables in %d databases", each[i], databases)
		} else {
			st.Say("share %s reads %d of the %d tables", b.Share, each[i], tables)
		}
	}
	return err
}

func (s *shop) story(ctx context.Context, st *stage.Stage) error {
	if err := st.Listen(ctx, "warehouse", st.Options("orders"), s.hear); err != nil {
		return err
	}
	killed := st.Bridges[len(st.Bridges)/2]
	for _, step := range []func() error{
		func() error { return placed(ctx, st, databases*tablesEach) },
		func() error { return s.write(ctx, 0, orders/2) },
		killed.Kill,
		func() error {
			st.Say("kill -9, and its folder is lost; orders go on, also into a table that is new")
			return errors.Join(s.newTable(ctx, st, killed), s.write(ctx, orders/2, orders))
		},
		func() error { return errors.Join(killed.Start(ctx), killed.Ready(ctx), s.await(ctx, st)) },
		func() error { return placed(ctx, st, databases*tablesEach+1) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	st.Say("%d orders of %d tables in %d databases: lost 0, wrong 0, and %d came again", orders+1, databases*tablesEach+1, databases, s.repeats)
	return nil
}

// newTable makes a table and writes an order into it. bridge looks for tables when it starts, once
// a minute, and at once where it is told to reload.
func (s *shop) newTable(ctx context.Context, st *stage.Stage, killed *stage.Bridge) error {
	d, table := &s.databases[42], fmt.Sprintf("orders_%d", tablesEach)
	if err := errors.Join(d.create(ctx, st.MySQL, table), s.insert(ctx, d, table, "order-new")); err != nil {
		return err
	}
	var err error
	for _, b := range st.Bridges {
		if b != killed {
			err = errors.Join(err, b.Reload())
		}
	}
	return err
}

type database struct {
	// of is the server, or the file of SQLite.
	of *sql.DB
	// statement begins the names of its tables in SQL, shard begins those in events.
	statement, shard string
}

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
