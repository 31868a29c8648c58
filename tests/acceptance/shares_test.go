package acceptance

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"example.org/bridge/tests/faulty/failpoint"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// TestTheFoundingCase has four shares publish 1,000 tables in four databases on two servers, which
// patterns match, while rows come, some of them late. One share is killed and its folder lost,
// tables are created, and a server is killed, which the tables of the other do not notice, nor the
// share that starts meanwhile. Then there are three shares, and one of the four that stood still
// ends. The bus ends as the tables, on one of the buses, by chance, with nothing twice.
func TestTheFoundingCase(t *testing.T) {
	testall.Long(t)
	occupy(t)
	servers := [2]*testenv.DatabaseServer{testenv.StartMariaDB(t), testenv.StartMariaDB(t)}
	buses := []*world.Bus{world.KafkaBus(testenv.Kafka(t)), world.NATSBus(testenv.NATS(t))}
	buses[onceOn] = buses[onceOn].ExactlyOnce(t.Name())
	for _, b := range buses {
		t.Run(fmt.Sprintf("%s-once-%t", b, b.Once()), func(t *testing.T) { newFounding(t, b, servers, 199, 50).run() })
	}
}

// onceOn is the bus on which TestTheFoundingCase publishes exactly once. TestSharesComeAndGo does
// so on the other one.
var onceOn = rand.IntN(2)

// TestSharesComeAndGo has no shares, then two, three and none, by the deliveries that
// TestTheFoundingCase leaves out. Processes are killed, and a server stands still while one starts.
// Those of a former number that start in the end are refused.
func TestSharesComeAndGo(t *testing.T) {
	testall.Beside(t)
	a := testenv.MariaDB(t)
	buses := []*world.Bus{world.KafkaBus(testenv.Kafka(t)), world.NATSBus(testenv.NATS(t))}
	buses[1-onceOn] = buses[1-onceOn].ExactlyOnce(t.Name())
	for _, b := range buses {
		t.Run(fmt.Sprintf("%s-once-%t", b, b.Once()), func(t *testing.T) {
			t.Parallel()
			newFounding(t, b, [2]*testenv.DatabaseServer{a, testenv.StartMariaDB(t)}, 8, 8).comeAndGo()
		})
	}
}

// founding is one configuration for the tables of four databases, two on each server.
type founding struct {
	*world.Publisher
	servers [2]*testenv.DatabaseServer
	worlds  [4]*world.World
	parts   parts
	mu      sync.Mutex
	// logs are the tables of a release stream by the names of their shards. Each of their rows has
	// a number of its own, the last one is in rows.
	logs map[string]*world.World
	rows atomic.Int64
	// logsOf, itemsOf and one table of parts are in each database.
	logsOf, itemsOf int
}

func newFounding(t *testing.T, b *world.Bus, servers [2]*testenv.DatabaseServer, logsOf, itemsOf int) *founding {
	f := &founding{servers: servers, logs: make(map[string]*world.World), logsOf: logsOf, itemsOf: itemsOf}
	e := progressOnBus(t, b).With(world.Env{
		"BRIDGE_SOURCE_URL": "", "BRIDGE_SOURCES": "a,b", "BRIDGE_RECONCILE_MAX_DELETES": "100%", "BRIDGE_BATCH_ROWS": "50", "BRIDGE_POLL_INTERVAL": "500ms",
		// Else a process that stands still is waited for for 45 s when the number changes.
		failpoint.SilenceVariable: "12s",
	})
	var databases []string
	for i := range f.worlds {
		w := world.Empty(t, servers[i/2])
		f.worlds[i] = w
		databases = append(databases, "ab"[i/2:i/2+1]+"/"+w.Name)
		for n := range logsOf {
			f.create(i, n)
		}
		for n := range itemsOf {
			w.Exec(fmt.Sprintf("CREATE TABLE item_%d (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, state INT NOT NULL, modified DATETIME(6) NOT NULL, KEY (modified))", n))
		}
		reader, _, _ := strings.Cut(strings.TrimPrefix(f.worlds[i/2*2].URL, "mysql://"), ":")
		w.Exec(fmt.Sprintf("GRANT SELECT ON `%s`.* TO '%s'@'%%'", w.Name, reader))
	}
	e["BRIDGE_SOURCE_A_URL"], e["BRIDGE_SOURCE_B_URL"] = f.worlds[0].URL, f.worlds[2].URL
	f.parts = newParts(f.worlds[:])
	all := func(tables string) string { return strings.Join(databases, tables+",") + tables }
	f.Publisher = f.worlds[0].Publish(b, world.Publishing{Path: world.Faulty(t), Env: e, Streams: []world.Stream{
		{Name: "logs", Table: all(".log_*"), Kind: "release"},
		{Name: "items", Table: all(".item_*"), Kind: "capability", Env: world.Env{"MODIFIED": "modified"}},
		{Name: "parts", Table: all(".parts"), Kind: "capability", Env: world.Env{"KEY": "name", "MODIFIED": "modified"}},
	}})
	return f
}

func (f *founding) shard(database int, table string) string {
	return fmt.Sprintf("%c/%s.%s", "ab"[database/2], f.worlds[database].Name, table)
}

func (f *founding) create(database, n int) {
	w, table := f.worlds[database], fmt.Sprintf("log_%d", n)
	w.Exec("CREATE TABLE " + table + " (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, v INT NOT NULL)")
	f.mu.Lock()
	defer f.mu.Unlock()
	f.logs[f.shard(database, table)] = w
}

// insert returns a statement that adds a row to a table of logs, and its number.
func (f *founding) insert(shard string) (statement string, v int) {
	v = int(f.rows.Add(1))
	return fmt.Sprintf("INSERT INTO %s (v) VALUES (%d)", shard[2:], v), v
}

// write changes all tables until stop is called. What a server that is away does not take is left.
func (f *founding) write() (stop func()) {
	stops := []func(){f.parts.move()}
	for range 4 {
		stops = append(stops, every(80*time.Millisecond, func() {
			f.mu.Lock()
			shards := slices.Collect(maps.Keys(f.logs))
			shard := shards[rand.IntN(len(shards))]
			db := f.logs[shard].DB
			f.mu.Unlock()
			late, _ := f.insert(shard)
			row, _ := f.insert(shard)
			if tx, err := db.Begin(); err == nil {
				_, _ = tx.Exec(late)
				_, _ = db.Exec(row)
				if rand.IntN(8) == 0 {
					world.Pause(world.Between(0, 3*time.Second))
				}
				if rand.IntN(8) == 0 {
					_ = tx.Rollback()
				} else {
					_ = tx.Commit()
				}
			}
			table, state := fmt.Sprintf("item_%d", rand.IntN(f.itemsOf)), f.rows.Load()
			_, _ = f.worlds[rand.IntN(4)].DB.Exec([]string{
				"INSERT INTO " + table + " (state, modified) VALUES (?, now(6))", "UPDATE " + table + " SET state = ?, modified = now(6) ORDER BY id LIMIT 1",
				"DELETE FROM " + table + " WHERE state < ? ORDER BY id LIMIT 1",
			}[min(2, rand.IntN(7)/3)], state)
		}))
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

func (f *founding) run() {
	f.T.Helper()
	f.StartShares(4)
	stop := f.write()
	f.T.Cleanup(stop)
	f.placed()
	f.goOn("before a share is killed", f.Shares...)
	i := rand.IntN(4)
	killed, others := f.Shares[i], slices.Delete(slices.Clone(f.Shares), i, i+1)
	killed.Kill()
	killed.LoseCheckpoint()
	for database := range f.worlds {
		f.create(database, f.logsOf)
	}
	for _, d := range others {
		d.Signal(syscall.SIGHUP)
	}
	f.goOn("while a share is away", others...)
	f.servers[1].Kill()
	f.goOn("while b is away", others...)
	killed.Start()
	f.showsThatBIsAway(killed)
	f.goOn("while b is away, of one that started meanwhile", killed)
	f.servers[1].Start(f.T)
	f.Ready()
	f.placed()
	still := f.Shares[rand.IntN(4)]
	still.Signal(syscall.SIGSTOP)
	for _, d := range f.Shares {
		if d != still {
			d.Ends()
		}
	}
	f.StartShares(3)
	still.Signal(syscall.SIGCONT)
	if status := still.Wait(); status != 1 {
		f.T.Errorf("the process of the former number has ended with status %d", status)
	}
	f.placed()
	f.goOn("of three shares", f.Shares...)
	stop()
	if f.compare() == 0 {
		f.T.Error("no row was late")
	}
}

func (f *founding) comeAndGo() {
	f.T.Helper()
	f.StartShares(0)
	stop := f.write()
	f.T.Cleanup(stop)
	f.placed()
	f.Shares[0].Kill()
	f.StartShares(2)
	f.placed()
	killed := f.Shares[rand.IntN(2)]
	f.goOn("before a share is killed", killed)
	killed.Kill()
	killed.LoseCheckpoint()
	f.servers[1].Pause()
	killed.Start()
	f.showsThatBIsAway(killed)
	f.goOn("while b stands still, of one that started meanwhile", killed)
	f.servers[1].Resume()
	f.Ready()
	f.placed()
	for _, d := range f.Shares {
		d.Kill()
	}
	f.StartShares(3)
	f.placed()
	for _, d := range f.Shares {
		d.Ends()
	}
	f.StartShares(0)
	for index := range 2 {
		former := f.NewShare(index, 3)
		former.Env["BRIDGE_CHECKPOINT_URL"] = "bus://" + filepath.Join(f.T.TempDir(), "former")
		former.Start()
		world.AwaitUnready(f.T, former, "no shares are in force")
		former.Term()
	}
	stop()
	f.compare()
}

// placed expects each table in one process, and all of them with tables of each stream.
func (f *founding) placed() {
	f.T.Helper()
	looks := 0
	want := len(f.logs) + len(f.worlds)*(f.itemsOf+1)
	world.Eventually(f.T, 2*time.Minute, fmt.Sprintf("%d tables are running", want), func() bool {
		n := 0
		for _, d := range f.Shares {
			n += d.Running()
		}
		if n > want {
			f.T.Errorf("processes run %d of %d tables", n, want)
		}
		if looks++; looks%10 == 0 {
			f.apart(false)
		}
		return n == want
	})
	f.apart(true)
}

// apart expects no table in two processes, and at the end tables of each stream in all of them.
func (f *founding) apart(end bool) {
	f.T.Helper()
	of := make(map[string]bool)
	for _, d := range f.Shares {
		before := len(of)
		for _, stream := range []string{"logs", "items", "parts"} {
			shards := d.Shards(stream)
			if end && len(shards) == 0 && stream != "parts" {
				f.T.Errorf("share %s has no tables of %s", d.Env["BRIDGE_SHARE"], stream)
			}
			for _, shard := range shards {
				if running := shard.State == "running"; running && of[shard.Shard] {
					f.T.Errorf("two processes have %s", shard.Shard)
				} else if running {
					of[shard.Shard] = true
				}
			}
		}
		f.T.Logf("share %s runs %d tables", d.Env["BRIDGE_SHARE"], len(of)-before)
	}
}

// goOn waits until a row is published that is committed from now on, of a table of the first server
// in each of some processes.
func (f *founding) goOn(when string, of ...*world.Daemon) {
	f.T.Helper()
	for _, d := range of {
		shard, id := "", uint64(0)
		world.Eventually(f.T, 2*time.Minute, "a row of a is published "+when, func() bool {
			for _, s := range d.Shards("logs") {
				if shard == "" && s.State == "running" && strings.HasPrefix(s.Shard, "a/") {
					statement, _ := f.insert(s.Shard)
					f.worlds[0].Exec(statement)
					shard, id = s.Shard, f.worlds[0].Highest(s.Shard[2:])
				}
				if s.Shard == shard && s.Position >= id {
					return true
				}
			}
			return false
		})
	}
}

// showsThatBIsAway waits until status, readiness and metrics of a process say that b is away, and
// that a is not.
func (f *founding) showsThatBIsAway(d *world.Daemon) {
	f.T.Helper()
	type source struct {
		Name    string
		Answers *bool
		Error   *string
	}
	is := func(s source, name string, up bool) bool {
		metric := d.Metric(`bridge_dependency_up{dependency="source ` + name + `",share="` + d.Env["BRIDGE_SHARE"][:1] + `"}`)
		return s.Name == name && s.Answers != nil && *s.Answers == up && (s.Error == nil) == up && (metric == 1) == up
	}
	world.Eventually(f.T, 2*time.Minute, "b is shown to be away, and a is not", func() bool {
		var status struct{ Sources []source }
		_, body := d.Get("/api/v1/status")
		code, ready := d.Get("/readyz")
		return json.Unmarshal([]byte(body), &status) == nil && len(status.Sources) == 2 && is(status.Sources[0], "a", true) && is(status.Sources[1], "b", false) &&
			code == http.StatusServiceUnavailable && strings.Contains(ready, "source b:") && !strings.Contains(ready, "source a:")
	})
	if !strings.Contains(d.Log.String(), `dependency="source b"`) {
		f.T.Error("the log does not say that b is away")
	}
}

// It compares the bus with the tables and with what `bridge verify` finds.
func (f *founding) compare() (late int) {
	f.T.Helper()
	rows, items := make(map[string]string), make(map[string]string)
	for shard, w := range f.logs {
		maps.Copy(rows, w.Pairs("SELECT v, '"+shard+"' FROM "+shard[2:]))
	}
	world.Eventually(f.T, 2*time.Minute, fmt.Sprintf("%d rows arrive", len(rows)), func() bool {
		return len(numbers(f.T, f.Bus, f.Destination("logs"), nil)) >= len(rows)
	})
	repeated := 0
	for _, n := range numbers(f.T, f.Bus, f.Destination("logs"), func(v int, e world.Event) {
		if in := rows[strconv.Itoa(v)]; in != e.Headers["bridge-shard"] {
			f.T.Errorf("the row %d of %s is in %q", v, e.Headers["bridge-shard"], in)
		}
		if e.Headers["bridge-origin"] == "late" {
			late++
		}
	}) {
		repeated += n - 1
	}
	for _, d := range f.Shares {
		for _, stream := range []string{"items", "parts"} {
			if len(d.Shards(stream)) > 0 {
				d.Reconcile(stream)
			}
		}
	}
	repeated += f.parts.compare(f.Publisher)
	for database, w := range f.worlds {
		for n := range f.itemsOf {
			table := fmt.Sprintf("item_%d", n)
			maps.Copy(items, w.Pairs("SELECT CONCAT('"+f.shard(database, table)+"/', id), state FROM "+table))
		}
	}
	got, again := fold(f.T, f.Bus, f.Destination("items"), func(e world.Event) (string, string) {
		return e.Headers["bridge-shard"] + "/" + e.Headers["bridge-row-id"], member(e, "state")
	})
	if repeated += again; !maps.Equal(got, items) {
		f.T.Errorf("items: the bus ends with %v, the tables have %v", got, items)
	}
	f.T.Logf("%d rows, %d of them late, %d items, %d messages repeated", len(rows), late, len(items), repeated)
	if f.Bus.Once() && repeated > 0 {
		f.T.Errorf("%d messages are there twice", repeated)
	}
	if r := world.Verify(f.T, f.Env); !r.Good {
		f.T.Errorf("bridge verify: %+v", r)
	}
	return late
}
