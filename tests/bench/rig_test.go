package bench

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

type rig struct {
	*world.World
	buses []*bus
	// path is the path of the program, profiling that of one with its own profiles.
	path, profiling string
	// made are the tables that are there, and whether they have their key.
	made map[string]bool
	// spools are the messages of a kind of stream over a table; the last one alone is kept.
	spools map[string]*spool
	// took are seconds, and allocations a row, of parts with which a backlog is compared.
	took map[string]float64
	// verify has the messages of bridge compared with those of the spools.
	verify bool
	// target numbers topics, streams and tables.
	target int
}

// newRig starts a database with a pool for the largest table with its keys, where there is room.
// The program is the one of BENCH_BRIDGE, to measure a former one, or is built.
func newRig(t testing.TB, arguments []string, buses ...*bus) *rig {
	t.Helper()
	pool := "1G"
	var machine syscall.Sysinfo_t
	// A machine of 16 GiB shows a little less.
	if err := syscall.Sysinfo(&machine); err == nil && machine.Totalram*uint64(machine.Unit) >= 15<<30 {
		pool = "4G"
	}
	server := testenv.StartMariaDB(t, append(arguments, "--innodb-buffer-pool-size="+pool, "--innodb-log-file-size=256M")...)
	r := &rig{
		World: world.Empty(t, server), buses: buses,
		made: make(map[string]bool), spools: make(map[string]*spool), took: make(map[string]float64),
	}
	r.path = cmp.Or(os.Getenv("BENCH_BRIDGE"), world.Binary(t, false))
	fmt.Fprintf(os.Stderr, "mariadb: %s\n", server.Version)
	for _, b := range buses {
		fmt.Fprintf(os.Stderr, "%s: %s\n", b.name, b.version)
	}
	return r
}

func (r *rig) exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	if _, err := r.DB.Exec(fmt.Sprintf(statement, args...)); err != nil {
		t.Fatalf("%.300s: %v", statement, err)
	}
}

type shape struct {
	name string
	// columns are all of them, written those that values sets, of the number seq.
	columns, written, values string
	// step is how many rows a statement inserts.
	step int
}

// wide rows take some 300 bytes.
var wide = shape{
	name: "rows",
	columns: `id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
	data_center varchar(64) COLLATE utf8mb4_bin NOT NULL,
	revision varchar(64) COLLATE utf8mb4_bin NOT NULL,
	app_name varchar(64) NOT NULL,
	params text,
	deleted tinyint(1) NOT NULL DEFAULT 0,
	gmt_create timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3)`,
	written: "data_center, revision, app_name, params", values: rowOf("seq"), step: 50_000,
}

// narrow rows take some 45 bytes.
var narrow = shape{
	name: "narrow",
	columns: `id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
	data_center varchar(8) COLLATE utf8mb4_bin NOT NULL,
	revision varchar(16) COLLATE utf8mb4_bin NOT NULL,
	deleted tinyint(1) NOT NULL DEFAULT 0,
	gmt_create timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3)`,
	written: "data_center, revision", values: "'dc1', hex(seq)", step: 1_000_000,
}

// rowOf is what a wide row of the number that the expression n says holds in the columns written.
func rowOf(n string) string {
	return fmt.Sprintf(`'DefaultDataCenter', md5(%[1]s), concat('order-center-', %[1]s %% 97),
		concat('protocol=bolt;zone=zone-', %[1]s %% 7, ';weight=', %[1]s %% 100, ';note=', sha1(%[1]s),
			';services=com.example.order.OrderFacade:1.0,com.example.order.RefundFacade:', %[1]s %% 10, '.0;tags=canary,stable')`, n)
}

// table returns a table of so many rows, committed an hour ago, which it makes at the first call. A
// narrow one has its key when that is first asked for.
func (r *rig) table(t testing.TB, of shape, rows int, key bool) string {
	t.Helper()
	name := fmt.Sprintf("%s_%d", of.name, rows)
	keyed, made := r.made[name]
	if !made {
		r.exec(t, "CREATE TABLE %s (%s)", name, of.columns)
		for from := 1; from <= rows; from += of.step {
			// With ids of their own: the server would burn some of those that it hands out to a
			// statement like this.
			r.exec(t, `INSERT INTO %s (id, %s, gmt_create) SELECT seq, %s, now(3) - interval 1 hour FROM seq_%d_to_%d`,
				name, of.written, of.values, from, min(from+of.step-1, rows))
		}
	}
	if key && !keyed {
		// In one go: row by row the pages of a key that looks random would not stay in memory.
		r.exec(t, "ALTER TABLE %s ADD UNIQUE KEY entity (data_center, revision)", name)
	}
	if !made || key && !keyed {
		r.exec(t, "ANALYZE TABLE %s", name)
	}
	r.made[name] = key || keyed
	return name
}

// The tables are called stem_0 and on, and dropped when the test ends.
func (r *rig) empty(t testing.TB, stem string, n int) (names []string) {
	t.Helper()
	for i := range n {
		names = append(names, fmt.Sprintf("%s_%d", stem, i))
		r.exec(t, "CREATE TABLE %s (%s, UNIQUE KEY entity (data_center, revision))", names[i], wide.columns)
	}
	t.Cleanup(func() { r.exec(t, "DROP TABLE %s", strings.Join(names, ", ")) })
	return names
}

func (r *rig) newName(kind any) string {
	r.target++
	return fmt.Sprintf("bench_%v_%d", kind, r.target)
}

func (r *rig) questions(t testing.TB) (n int64) {
	t.Helper()
	var name string
	must.OK(t, r.DB.QueryRow("SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &n))
	return n
}

type load struct {
	kind  event.Kind
	bus   *bus
	rows  int
	shape shape
	// recover has a lost checkpoint measured, too.
	recover bool
}

// String is what a name of a measurement has of it.
func (l load) String() string {
	return fmt.Sprintf("rows=%d/kind=%s/bus=%s", l.rows, l.kind, l.bus.name)
}

func (l load) delivering(once bool) load {
	if once {
		other := *l.bus
		other.Bus = l.bus.ExactlyOnce(fmt.Sprint("bench_", l.kind))
		l.bus = &other
	}
	return l
}

func (r *rig) tableOf(t testing.TB, l load) string {
	t.Helper()
	if l.shape.name == narrow.name {
		return r.table(t, narrow, l.rows, l.kind == event.Capability)
	}
	return r.table(t, wide, l.rows, true)
}

const streamName = "bench"

func (r *rig) streamEnv(kind event.Kind, tables, destination string) world.Env {
	const prefix = "BRIDGE_STREAM_BENCH_"
	e := world.Env{
		"BRIDGE_SOURCE_URL": r.URL, "BRIDGE_STREAMS": streamName, prefix + "TABLE": tables, prefix + "KIND": string(kind),
		prefix + "CREATED": "gmt_create", prefix + "KEY": "data_center,revision", prefix + "DESTINATION": destination,
		// Reconciles are asked for.
		"BRIDGE_RECONCILE_INTERVAL": "24h",
	}
	if kind == event.Capability {
		e[prefix+"DELETED"] = "deleted"
	}
	return e
}

type daemon struct {
	*world.Daemon
	*process
}

func (r *rig) start(t testing.TB, l load, path, tables string, more world.Env) (d *daemon, target string) {
	t.Helper()
	target = r.newName(l.kind)
	e := r.streamEnv(l.kind, tables, l.bus.open(t, target))
	maps.Copy(e, l.bus.Env())
	d = &daemon{Daemon: world.NewDaemon(t, path, e.With(more))}
	d.restart()
	t.Cleanup(func() { d.kill() })
	return d, target
}

func (d *daemon) restart() {
	began := time.Now()
	d.Start()
	d.process = &process{pid: d.Cmd.Process.Pid, done: d.Done, began: began, memory: watchMemory(d.T, d.Cmd.Process.Pid)}
}

func (d *daemon) kill() {
	d.Kill()
	d.memory.end()
}

// awaitReady waits until the program is ready, and returns how long after its start that was.
func (d *daemon) awaitReady(t testing.TB) (seconds float64) {
	t.Helper()
	eventually(t, 5*time.Minute, "bridge is ready", func() bool {
		d.alive(t)
		status, _ := d.Get("/readyz")
		seconds = time.Since(d.began).Seconds()
		return status == http.StatusOK
	})
	return seconds
}

// eventually waits until condition holds. The pauses between two looks are 20 ms, more where a look
// costs much.
func eventually(t testing.TB, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); ; {
		began := time.Now()
		if condition() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", limit, what)
		}
		world.Pause(max(20*time.Millisecond, 4*time.Since(began)))
	}
}

// profiler returns the path of the program with its own profiles, built at the first call.
func (r *rig) profiler(t testing.TB) string {
	t.Helper()
	if r.profiling == "" {
		r.profiling = filepath.Join(r.T.TempDir(), "bridge")
		must.OK(t, testenv.Build(r.profiling, []string{"CGO_ENABLED=0"}, "-trimpath", "-tags=bridge_pprof", "example.org/bridge/cmd/bridge"))
	}
	return r.profiling
}
