package world

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	_ "modernc.org/sqlite" // for worlds in a file

	"example.org/bridge/event"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/workload"
)

// The tables that writers write to: rows of a Workload, and states of Capabilities.
const (
	Orders = "orders"
	Strict = "strict"
)

// PollInterval is BRIDGE_POLL_INTERVAL of publishers.
const PollInterval = 100 * time.Millisecond

// Options say what a world holds.
type Options struct {
	// Database is what bridge reads. Without one the tables are in a file of SQLite.
	Database *testenv.DatabaseServer
	// Primary takes the writes where that is another server than Database. CaughtUp then waits
	// until Database has them all.
	Primary  *testenv.DatabaseServer
	CaughtUp func(testing.TB)
	// Rows describes the writers of Orders, which is not made without it.
	Rows *workload.Options
	// Entities describes the writers of Strict, which is not made without it.
	Entities *workload.CapabilityOptions
}

// World is a database of its own whose tables are written to, and the record of what was committed.
type World struct {
	T testing.TB
	// Name is the database, and the stem of the names of destinations.
	Name string
	// URL is the address of a login that may SELECT, User and Password are its own; DB is an
	// administrator's way to the tables.
	URL, User, Password string

	DB       *sql.DB
	Server   *testenv.DatabaseServer
	Rows     *workload.Workload
	Entities *workload.Capabilities
	caughtUp func(testing.TB)
}

func New(t testing.TB, o Options) *World {
	t.Helper()
	w := &World{T: t, Server: o.Database, caughtUp: o.CaughtUp}
	if o.Database == nil {
		w.Name = testenv.NewStreamName()
		path := filepath.Join(t.TempDir(), "app.db")
		w.DB = must.Get(sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)&_pragma=synchronous(NORMAL)&_txlock=immediate"))(t)
		t.Cleanup(func() { _ = w.DB.Close() })
		w.URL = "sqlite://" + path
	} else {
		primary := cmp.Or(o.Primary, o.Database)
		w.Name = primary.NewDatabase(t)
		w.DB = primary.Admin(t, w.Name)
		w.DB.SetMaxIdleConns(64)
		w.User, w.Password = "reader_"+w.Name[max(0, len(w.Name)-12):], "pa:ss@w/ord"
		w.Exec(fmt.Sprintf("DROP USER IF EXISTS '%s'@'%%'", w.User))
		w.Exec(fmt.Sprintf("CREATE USER '%s'@'%%' IDENTIFIED BY '%s'", w.User, w.Password))
		w.Exec(fmt.Sprintf("GRANT SELECT ON `%s`.* TO '%s'@'%%'", w.Name, w.User))
		w.URL = w.Server.URL(w.User, w.Password, w.Name)
	}
	if o.Rows != nil {
		rows := *o.Rows
		rows.DB = w.DB
		if o.Database == nil {
			rows.Dialect = workload.SQLite
		}
		w.Rows = workload.New(rows)
		must.OK(t, w.Rows.Create(t.Context()))
	}
	if o.Entities != nil {
		states := *o.Entities
		states.DB = w.DB
		w.Entities = workload.NewCapabilities(states)
		must.OK(t, w.Entities.Create(t.Context()))
	}
	return w
}

func Empty(t testing.TB, server *testenv.DatabaseServer) *World {
	t.Helper()
	return New(t, Options{Database: server})
}

// Exec runs a statement as the administrator.
func (w *World) Exec(statement string, args ...any) {
	w.T.Helper()
	if _, err := w.DB.Exec(statement, args...); err != nil {
		w.T.Fatalf("%s: %v", statement, err)
	}
}

func (w *World) Scan(query string, into ...any) {
	w.T.Helper()
	if err := w.DB.QueryRow(query).Scan(into...); err != nil {
		w.T.Fatalf("%s: %v", query, err)
	}
}

func (w *World) Highest(table string) (id uint64) {
	w.T.Helper()
	w.Scan("SELECT coalesce(max(id), 0) FROM "+table, &id)
	return id
}

func (w *World) tables(of string) (names []string) {
	w.T.Helper()
	for _, one := range strings.Split(of, ",") {
		begin, pattern := strings.CutSuffix(one, "*")
		if !pattern {
			names = append(names, one)
			continue
		}
		var name string
		w.Each("SELECT table_name FROM information_schema.tables WHERE table_schema = database() AND left(table_name, "+strconv.Itoa(len(begin))+") = '"+begin+"'",
			[]any{&name}, func() { names = append(names, name) })
	}
	return names
}

// Write sets the writers going. wait returns when they are done; stop ends them.
func (w *World) Write() (wait, stop func()) {
	w.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var writers sync.WaitGroup
	write := func(table string, run func(context.Context) error) {
		writers.Go(func() {
			if err := run(ctx); err != nil {
				w.T.Errorf("the writers of %s: %v", table, err)
			}
		})
	}
	if w.Rows != nil {
		write(Orders, w.Rows.Run)
	}
	if w.Entities != nil {
		write(Strict, w.Entities.Run)
	}
	stop = sync.OnceFunc(func() { cancel(); writers.Wait() })
	w.T.Cleanup(stop)
	return func() {
		w.T.Helper()
		writers.Wait()
		if w.Rows != nil {
			w.T.Logf("%s: %+v", Orders, w.Rows.Sums())
		}
		if w.Entities != nil {
			w.T.Logf("%s: %v", Strict, w.Entities.Sums())
		}
	}, stop
}

func (w *World) Run() {
	w.T.Helper()
	wait, _ := w.Write()
	wait()
}

// Fill commits n rows of an hour ago to Orders in one statement, with the ids that every says: 1
// for one after the other.
func (w *World) Fill(name string, n, every int) {
	w.T.Helper()
	begun := time.Now()
	w.Exec(fmt.Sprintf("INSERT INTO orders (id, entity, token, body, created) SELECT %[1]d*seq, concat('%[2]s-', seq), concat('%[2]s-', seq), repeat('x', 60 + seq %% 60), now() - interval 1 hour FROM %[3]s ORDER BY seq",
		every, name, testenv.Sequence(n)))
	rows := NewRows(name, n)
	for i := range rows {
		rows[i].ID, rows[i].Begun = uint64(every*(i+1)), begun
	}
	w.RecordCommitted(rows, begun)
}

// NewRows returns n rows of the test's own, with the tokens name-1 to name-n, whose transaction
// begins now.
func NewRows(name string, n int) []workload.Row {
	begun, rows := time.Now(), make([]workload.Row, n)
	for i := range rows {
		token := fmt.Sprintf("%s-%d", name, i+1)
		rows[i] = workload.Row{Table: Orders, Entity: token, Token: token, Version: 1, Outcome: workload.Open, Begun: begun}
	}
	return rows
}

// Insert commits n rows to Orders in one transaction, with the tokens name-1 to name-n.
func (w *World) Insert(name string, n int) {
	w.T.Helper()
	w.Begin(name, n).Commit()
}

// InsertInto is Insert into a table that is as those of the writers of Orders.
func (w *World) InsertInto(table, name string, n int) {
	w.T.Helper()
	w.begin(table, name, n).Commit()
}

// Transaction is one that the test holds open itself.
type Transaction struct {
	Tx    *sql.Tx
	Rows  []workload.Row
	world *World
}

// Begin inserts n rows into Orders, with the tokens name-1 to name-n, and leaves the transaction
// open.
func (w *World) Begin(name string, n int) *Transaction {
	w.T.Helper()
	return w.begin(Orders, name, n)
}

func (w *World) begin(table, name string, n int) *Transaction {
	w.T.Helper()
	t := &Transaction{world: w, Tx: w.Open(), Rows: NewRows(name, n)}
	for i := range t.Rows {
		t.Rows[i].Table = table
	}
	for part := range slices.Chunk(t.Rows, 5000) {
		must.Get(t.Tx.Exec(InsertStatement(part)))(w.T)
	}
	return t
}

// FirstID returns the id of the first row of the statement that ran last.
func (t *Transaction) FirstID() (id uint64) {
	t.world.T.Helper()
	must.OK(t.world.T, t.Tx.QueryRow("SELECT LAST_INSERT_ID()").Scan(&id))
	return id
}

func InsertStatement(rows []workload.Row) string {
	b := []byte("INSERT INTO " + rows[0].Table + " (entity, token, body) VALUES ")
	for i, row := range rows {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = fmt.Appendf(b, "('%s', '%s', '')", row.Entity, row.Token)
	}
	return string(b)
}

// Commit commits and enters the rows.
func (t *Transaction) Commit() {
	t.world.T.Helper()
	begun := time.Now()
	must.OK(t.world.T, t.Tx.Commit())
	t.world.RecordCommitted(t.Rows, begun)
}

// RecordCommitted enters rows that the test has committed, whose COMMIT was begun at a time and has
// just ended.
func (w *World) RecordCommitted(rows []workload.Row, begun time.Time) {
	for i := range rows {
		rows[i].Outcome, rows[i].CommitBegun, rows[i].CommitEnded = workload.Committed, begun, time.Now()
	}
	w.Rows.Enter(rows...)
}

// Open begins a transaction with some statements, which ends with the test at the latest.
func (w *World) Open(statements ...string) *sql.Tx {
	w.T.Helper()
	// It ends by Commit, not with a context.
	tx := must.Get(w.DB.BeginTx(context.Background(), nil))(w.T)
	w.T.Cleanup(func() { _ = tx.Rollback() })
	for _, statement := range statements {
		if _, err := tx.Exec(statement); err != nil {
			w.T.Fatalf("%s: %v", statement, err)
		}
	}
	return tx
}

func (w *World) Pairs(query string) map[string]string {
	w.T.Helper()
	var key, value string
	pairs := make(map[string]string)
	w.Each(query, []any{&key, &value}, func() { pairs[key] = value })
	return pairs
}

// Each calls each with every row of a query, which is then in the variables that into points to.
func (w *World) Each(query string, into []any, each func()) {
	w.T.Helper()
	rows, err := w.DB.Query(query)
	if err != nil {
		w.T.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			w.T.Fatalf("%s: %v", query, err)
		}
		each()
	}
	if err := rows.Err(); err != nil {
		w.T.Fatalf("%s: %v", query, err)
	}
}

// Load returns writers of 250 commits a second: rows in transactions that stay open for up to 3 s,
// are rolled back and burn ids, and entities that change in every way.
func Load(seedOfRows, seedOfEntities uint64) (workload.Options, workload.CapabilityOptions) {
	return workload.Options{
			Writers: 8, Rate: 150, Seed: seedOfRows,
			Hold: workload.Hold{Short: 5 * time.Millisecond, Long: 3 * time.Second, LongShare: 0.01},
			Mix:  workload.Mix{Rollback: 0.03, Burn: 0.01, MultiRow: 0.05, InsertSelect: 0.01, Replace: 0.05, Delete: 0.01},
		}, workload.CapabilityOptions{
			Writers: 4, Rate: 100, Entities: 400, Seed: seedOfEntities,
		}
}

// LoadEnv is the environment of a program that publishes a world with that load and is harmed:
// reconcile is under way in the midst of it, and no guard hides a false delete, or waits for a
// person because many entities went during an outage. What the release stream has it has from its
// tail.
var LoadEnv = Env{"BRIDGE_RECONCILE_MAX_DELETES": "100%", "BRIDGE_STREAM_STRICT_RECONCILE_INTERVAL": "4s"}

func compile(t testing.TB, text []byte, change func(schema map[string]any)) *jsonschema.Schema {
	t.Helper()
	doc, c := must.Get(jsonschema.UnmarshalJSON(bytes.NewReader(text)))(t), jsonschema.NewCompiler()
	change(doc.(map[string]any))
	must.OK(t, c.AddResource("schema.json", doc))
	return must.Get(c.Compile("schema.json"))(t)
}

func general(t testing.TB) map[event.Op]*jsonschema.Schema {
	t.Helper()
	all := make(map[event.Op]*jsonschema.Schema)
	for op, kind := range map[event.Op]event.Kind{
		event.Added: event.Capability, event.Modified: event.Capability, event.Deleted: event.Capability, event.Published: event.Release,
	} {
		text := must.Get(event.Schema(kind, op))(t)
		all[op] = compile(t, text, func(map[string]any) {})
	}
	return all
}

// Schemas returns what `bridge schema` prints of a stream.
func Schemas(t testing.TB, e Env, stream string) map[event.Op]*jsonschema.Schema {
	t.Helper()
	status, stdout, stderr := Command(t, e, "schema", stream)
	var printed map[string]map[event.Op]json.RawMessage
	if err := json.Unmarshal([]byte(stdout), &printed); err != nil || status != 0 {
		t.Fatalf("status %d, %v: %s%s", status, err, stdout, stderr)
	}
	all := make(map[event.Op]*jsonschema.Schema)
	for op, text := range printed[stream] {
		all[op] = compile(t, text, closeData)
	}
	return all
}

// Where the table's members are known.
func closeData(schema map[string]any) {
	properties, _ := schema["properties"].(map[string]any)
	switch data, _ := properties["data"].(map[string]any); {
	case properties["specversion"] != nil || properties["meta"] != nil:
		closeData(data)
	case len(properties) > 0:
		schema["additionalProperties"] = false
	}
}
