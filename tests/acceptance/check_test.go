package acceptance

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	_ "modernc.org/sqlite"

	"bridge/tests/testall"
	"bridge/tests/testenv"
	"bridge/tests/world"
)

// answered returns the report of a check; it checks again while a server that may only be slow has
// not answered in time, unless that is what the test wants.
func answered(t testing.TB, e world.Env, wanted ...string) (r world.CheckReport) {
	t.Helper()
	for range 5 {
		r = world.Check(t, e)
		if !slices.ContainsFunc(r.Findings(), func(f world.CheckFinding) bool {
			slow := strings.HasSuffix(f.Code, "-unreachable") || strings.Contains(f.What, "no answer within")
			return slow && !slices.Contains(wanted, f.Code)
		}) {
			break
		}
	}
	return r
}

// mustBeSilent fails the test unless a check finds nothing.
func mustBeSilent(t testing.TB, e world.Env) world.CheckReport {
	t.Helper()
	r := answered(t, e)
	if found := r.Findings(); len(found) > 0 {
		t.Errorf("found on a healthy set-up: %+v", found)
	}
	return r
}

// mustFind fails the test unless a check finds what the codes say and nothing else, and returns the
// first finding with the first of the codes, which has this severity.
func mustFind(t testing.TB, e world.Env, severity, codes string, words ...string) world.CheckFinding {
	t.Helper()
	r := answered(t, e, strings.Fields(codes)...)
	for _, f := range r.Findings() {
		if !slices.Contains(strings.Fields(codes), f.Code) {
			t.Errorf("want %s, found %+v", codes, f)
		}
	}
	found := r.Find(strings.Fields(codes)[0])
	if len(found) == 0 {
		t.Fatalf("want %s, found %+v", codes, r.Findings())
	}
	if found[0].Severity != severity {
		t.Errorf("%s is %s, want %s", codes, found[0].Severity, severity)
	}
	for _, word := range words {
		if text := fmt.Sprint(found); !strings.Contains(text, word) {
			t.Errorf("%q lacks %q", text, word)
		}
	}
	return found[0]
}

// mustFindAll fails the test unless a check finds one thing of each code and nothing else, and
// returns them.
func mustFindAll(t testing.TB, e world.Env, codes ...string) []world.CheckFinding {
	t.Helper()
	found := answered(t, e, codes...).Findings()
	if len(found) != len(codes) {
		t.Fatalf("want %q, found %+v", codes, found)
	}
	for i, f := range found {
		if f.Code != codes[i] {
			t.Fatalf("want %q, found %+v", codes, found)
		}
	}
	return found
}

// healthyTable is a table in which check finds nothing.
const healthyTable = `CREATE TABLE orders (
	id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
	region varchar(20) NOT NULL COMMENT 'where, NULL never',
	order_no varchar(40) NOT NULL,
	state varchar(20) DEFAULT NULL,
	gmt_create timestamp(6) NOT NULL DEFAULT current_timestamp(6),
	gmt_modified timestamp(6) NOT NULL DEFAULT current_timestamp(6) ON UPDATE current_timestamp(6),
	is_deleted tinyint(1) NOT NULL DEFAULT 0,
	UNIQUE KEY uk (region, order_no),
	KEY modified (gmt_modified)
) ENGINE=InnoDB`

// shop is a database with a healthy table and the environment that publishes it to nowhere.
func shop(t testing.TB, server *testenv.DatabaseServer) (*world.World, world.Env) {
	t.Helper()
	table := world.Empty(t, server)
	table.Exec(healthyTable)
	table.Exec("INSERT INTO orders (region, order_no, state) VALUES ('eu', '1', 'paid'), ('eu', '2', NULL)")
	return table, world.Env{
		"BRIDGE_SOURCE_URL":             table.URL,
		"BRIDGE_SINK_URL":               "stdout:",
		"BRIDGE_CHECKPOINT_URL":         "file:" + filepath.Join(t.TempDir(), "bridge.db"),
		"BRIDGE_STREAMS":                "orders",
		"BRIDGE_STREAM_ORDERS_TABLE":    "orders",
		"BRIDGE_STREAM_ORDERS_KIND":     "capability",
		"BRIDGE_STREAM_ORDERS_KEY":      "region,order_no",
		"BRIDGE_STREAM_ORDERS_CREATED":  "gmt_create",
		"BRIDGE_STREAM_ORDERS_MODIFIED": "gmt_modified",
		"BRIDGE_STREAM_ORDERS_DELETED":  "is_deleted",
	}
}

func TestCheckIsSilentOnAHealthySetUp(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	// The shared server flushes no commit, which check notes.
	durable := testenv.StartMariaDB(t, "--innodb-flush-log-at-trx-commit=1")
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		table, e := shop(t, durable)
		e = e.With(b.Env()).With(world.Env{"BRIDGE_STREAM_ORDERS_DESTINATION": b.Open(t, table.Name)})
		folder := filepath.Dir(strings.TrimPrefix(e["BRIDGE_CHECKPOINT_URL"], "file:"))
		before := b.Count(t, table.Name)
		r := mustBeSilent(t, e)
		if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
			t.Errorf("left behind %v, %v", left, err)
		}
		if after := b.Count(t, table.Name); after != before {
			t.Errorf("%d messages before, %d after", before, after)
		}
		if got := r.Summary("stream"); got != "1 table, ids strict (auto_increment_increment is 1), tail begins at the first row, if the bus has nothing of it" || r.Severity != "ok" {
			t.Errorf("%s: the stream is summed up as %q", r.Severity, got)
		}

		t.Run("before, while and after a bridge runs", func(t *testing.T) {
			d := world.NewDaemon(t, world.Binary(t, false), e)
			d.Start()
			world.Eventually(t, time.Minute, "published", func() bool { return d.Position("orders") == 2 })
			mustFind(t, d.Env, "note", "checkpoint-locked", "running")
			if status, _ := d.Term(); status != 0 {
				t.Errorf("exit status %d", status)
			}
			if log := d.Log.String(); strings.Contains(log, "finding about") {
				t.Errorf("the log of a healthy set-up names findings:\n%s", log)
			}
			if got := mustBeSilent(t, d.Env).Summary("stream"); !strings.HasSuffix(got, "tail goes on after id 2") {
				t.Errorf("the stream is summed up as %q", got)
			}
		})
		t.Run("for people, in 80 columns and without colour", func(t *testing.T) {
			status, stdout, stderr := world.Command(t, e, "check")
			if status != 0 || stderr != "" || !strings.Contains(stdout, "stream orders  ok") || !strings.HasSuffix(stdout, "nothing found: bridge run can be started\n") {
				t.Errorf("status %d, printed\n%s%s", status, stdout, stderr)
			}
			if strings.Contains(stdout, "\x1b") {
				t.Errorf("coloured in a pipe: %q", stdout)
			}
		})
	})
}

func TestCheckDoesNotWaitForHostsThatDoNotAnswer(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	// Connections are taken by the system, and nobody ever reads from them.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	closed := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	for name, addr := range map[string]string{"takes connections and says nothing": silent.Addr().String(), "refuses connections": closed} {
		for _, sink := range []string{"kafka", "nats"} {
			t.Run("a host that "+name+", "+sink, func(t *testing.T) {
				t.Parallel()
				e := world.Env{
					"BRIDGE_SOURCE_URL": "mysql://u:hunter2-secret@" + addr + "/db", "BRIDGE_SINK_URL": sink + "://" + addr,
					"BRIDGE_CHECKPOINT_URL": "file:" + filepath.Join(t.TempDir(), "none", "bridge.db"),
					"BRIDGE_STREAMS":        "a", "BRIDGE_STREAM_A_TABLE": "a_{0..9}", "BRIDGE_STREAM_A_KIND": "release",
				}
				started := time.Now()
				r := world.Check(t, e)
				// Ten tables, waited for in turn, would be 50 s, a statement 30 s.
				if took := time.Since(started); took > 25*time.Second {
					t.Errorf("took %s", took)
				}
				for _, code := range []string{"source-unreachable", "sink-unreachable", "checkpoint-not-writable"} {
					if f := r.Find(code); len(f) != 1 || f[0].Severity != "unsafe" || f[0].Statement == "" {
						t.Errorf("%s: found %+v", code, f)
					}
				}
				if t.Failed() {
					t.Logf("%+v", r)
				}
			})
		}
	}
}

func TestCheckFindsWhatIsWrongWithACheckpoint(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	server := testenv.MariaDB(t)
	t.Run("the checkpoint of another table", func(t *testing.T) {
		_, e := shop(t, server)
		for _, args := range []string{"orders orders 5000", "orders orders_old 7", "bills bills 9"} {
			if status, _, stderr := world.Command(t, e, append([]string{"checkpoint", "set"}, strings.Fields(args)...)...); status != 0 {
				t.Fatal(stderr)
			}
		}
		r := world.Check(t, e)
		if f := r.Find("ids-reused"); len(f) != 1 || f[0].Severity != "unsafe" || !strings.Contains(f[0].Statement, "bridge checkpoint set orders orders 0\nbridge checkpoint set orders orders 2") {
			t.Errorf("found %+v", r.Findings())
		}
		if f := r.Find("checkpoint-other"); len(f) != 2 || f[0].Severity != "warning" || !strings.Contains(f[0].What, "bills") || !strings.Contains(f[1].What, "orders_old") {
			t.Errorf("found %+v", r.Findings())
		}
		for _, command := range []string{"bridge checkpoint reset orders", "bridge checkpoint reset bills"} {
			if status, _, stderr := world.Command(t, e, strings.Fields(command)[1:]...); status != 0 {
				t.Fatal(stderr)
			}
		}
		mustBeSilent(t, e)
	})
	t.Run("a checkpoint that is not one", func(t *testing.T) {
		_, e := shop(t, server)
		path := strings.TrimPrefix(e["BRIDGE_CHECKPOINT_URL"], "file:")
		if err := os.WriteFile(path, []byte("a shopping list"), 0o600); err != nil {
			t.Fatal(err)
		}
		mustFind(t, e, "unsafe", "checkpoint-foreign", path)
	})
	t.Run("a checkpoint that cannot be written", func(t *testing.T) {
		_, e := shop(t, server)
		missing := filepath.Join(t.TempDir(), "none")
		f := mustFind(t, e.With(world.Env{"BRIDGE_CHECKPOINT_URL": "file:" + filepath.Join(missing, "bridge.db")}), "unsafe", "checkpoint-not-writable")
		if f.Statement != "mkdir -p "+missing {
			t.Errorf("the command is %q", f.Statement)
		}
	})
}

// TestCheckOfAFileAndABusInside needs no server.
func TestCheckOfAFileAndABusInside(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	dir := t.TempDir()
	db, err := sql.Open("sqlite", filepath.Join(dir, "app.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT, no TEXT NOT NULL, at TEXT); INSERT INTO orders (no) VALUES ('1')"); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	e := world.Env{
		"BRIDGE_SOURCE_URL": "sqlite://" + filepath.Join(dir, "app.db"), "BRIDGE_SINK_URL": "embedded:",
		"BRIDGE_CHECKPOINT_URL": "file:" + filepath.Join(data, "bridge.db"), "BRIDGE_STREAMS": "orders",
		"BRIDGE_STREAM_ORDERS_TABLE": "orders", "BRIDGE_STREAM_ORDERS_KIND": "capability", "BRIDGE_STREAM_ORDERS_KEY": "no",
		"BRIDGE_STREAM_ORDERS_MODIFIED": "at",
	}
	for _, f := range mustFindAll(t, e, "key-not-unique", "modified-index") {
		if _, err := db.Exec(f.Statement); err != nil {
			t.Fatalf("%s: %v", f.Statement, err)
		}
	}
	mustBeSilent(t, e)
	if left, err := os.ReadDir(data); err != nil || len(left) > 0 {
		t.Errorf("left behind %v, %v", left, err)
	}
	d := world.NewDaemon(t, world.Binary(t, false), e)
	d.Env["BRIDGE_CHECKPOINT_URL"] = e["BRIDGE_CHECKPOINT_URL"]
	d.Start()
	world.Eventually(t, time.Minute, "published", func() bool { return d.Position("orders") == 1 })
	if r := world.Check(t, d.Env); r.Severity != "note" || len(r.Find("checkpoint-locked")) != 1 {
		t.Errorf("beside a running bridge: %+v", r.Findings())
	}
	d.Term()
	mustBeSilent(t, d.Env)
}

func TestCheckReportsAWrongConfigurationAsRunDoes(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	status, stdout, stderr := world.Command(t, world.Env{"BRIDGE_STREAMS": "a", "BRIDGE_POL_INTERVAL": "1s", "BRIDGE_SINK_URL": "rabbit://x"}, "check")
	if status != 2 || stdout != "" || strings.Count(stderr, "\n  BRIDGE_") < 4 {
		t.Errorf("status %d, printed %s%s", status, stdout, stderr)
	}
}

// TestCheckReadsRows: what keeps a stream from publishing its rows, or has it publish live ones as
// deleted, is found before it runs, and the remedy is what the stream needs.
func TestCheckReadsRows(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	table, e := shop(t, testenv.MariaDB(t))
	// The shared server flushes no commit, which check notes.
	find := func(t *testing.T, e world.Env, code string) (found []world.CheckFinding) {
		t.Helper()
		return answered(t, e).Find(code)
	}
	runs := func(t *testing.T, e world.Env) map[string]bool {
		t.Helper()
		d := world.NewDaemon(t, world.Binary(t, false), e.With(world.Env{"BRIDGE_CHECKPOINT_URL": "file:" + filepath.Join(t.TempDir(), "bridge.db")}))
		d.Start()
		seen := make(map[string]bool)
		world.Eventually(t, time.Minute, "events, or a stop", func() bool {
			for line := range strings.Lines(d.Log.String()) {
				var event struct {
					Meta struct{ Type string }
					Data map[string]any
				}
				if json.Unmarshal([]byte(line), &event) == nil && event.Meta.Type != "" {
					seen[event.Meta.Type] = true
				}
			}
			return len(seen) > 0 || strings.Contains(d.Log.String(), `msg="shard stopped`)
		})
		d.Kill()
		return seen
	}
	t.Run("members that collide", func(t *testing.T) {
		table.Exec("ALTER TABLE orders ADD reason int, ADD user_id int, ADD userId int")
		defer table.Exec("ALTER TABLE orders DROP reason, DROP user_id, DROP userId")
		found := find(t, e, "table-unfit")
		if len(found) != 1 || found[0].Severity != "unsafe" || !strings.Contains(found[0].What, `member "reason"`) || !strings.Contains(found[0].What, `member "userId"`) ||
			!strings.Contains(found[0].What, "BRIDGE_STREAM_ORDERS_EXCLUDE") {
			t.Fatalf("found %+v", found)
		}
		if seen := runs(t, e); len(seen) > 0 {
			t.Errorf("it publishes %v", seen)
		}
		out := e.With(world.Env{"BRIDGE_STREAM_ORDERS_EXCLUDE": "reason,userId"})
		if found := find(t, out, "table-unfit"); len(found) > 0 || !runs(t, out)["OrdersAddedEvent"] {
			t.Errorf("found %+v", found)
		}
		facts := e.With(world.Env{"BRIDGE_STREAM_ORDERS_KIND": "release", "BRIDGE_STREAM_ORDERS_EXCLUDE": "userId"})
		if found := find(t, facts, "table-unfit"); len(found) > 0 || !runs(t, facts)["OrdersPublishedEvent"] {
			t.Errorf("a column reason of a release stream: found %+v", found)
		}
	})
	t.Run("values of DELETED", func(t *testing.T) {
		for name, c := range map[string]struct {
			column, set, deleted string
			// without says that nothing is found.
			without bool
		}{
			"an ENUM with other words":                {"enum('ACTIVE','DELETED') NOT NULL DEFAULT 'ACTIVE'", "", "x=deleted", false},
			"a text with other words":                 {"varchar(20) NOT NULL DEFAULT 'active'", "", "x=DELETED|ARCHIVED", false},
			"a number by which most rows are deleted": {"int NOT NULL DEFAULT 1", "", "x=2", false},
			"a date that is far":                      {"datetime NOT NULL DEFAULT '9999-12-31 23:59:59'", "", "x!=9999-12-31", false},
			"a flag":                                  {"enum('N','Y') NOT NULL DEFAULT 'N'", "", "", true},
		} {
			t.Run(name, func(t *testing.T) {
				table.Exec("ALTER TABLE orders ADD x " + c.column)
				defer table.Exec("ALTER TABLE orders DROP x")
				bare := e.With(world.Env{"BRIDGE_STREAM_ORDERS_DELETED": "x"})
				found := find(t, bare, "deleted-values")
				if c.without {
					if len(found) > 0 {
						t.Errorf("found %+v", found)
					}
					return
				}
				if len(found) != 1 || found[0].Severity != "warning" || !strings.Contains(found[0].Do, "BRIDGE_STREAM_ORDERS_DELETED=x=VALUE") {
					t.Fatalf("found %+v", answered(t, bare).Findings())
				}
				said := e.With(world.Env{"BRIDGE_STREAM_ORDERS_DELETED": c.deleted})
				for _, f := range find(t, said, "deleted-values") {
					// No row has some of these values yet.
					if f.Severity != "note" || !strings.Contains(f.What, "in none of 2 rows") {
						t.Errorf("found %+v", f)
					}
				}
				if seen := runs(t, said); !seen["OrdersAddedEvent"] {
					t.Errorf("events %v", seen)
				}
			})
		}
	})
	t.Run("values that DELETED names and no row has", func(t *testing.T) {
		for _, c := range []struct{ column, deleted, code, severity, what string }{
			{"enum('ACTIVE','DELETED') NOT NULL", "x=status=DELETE", "deleted-values", "warning", `never has "status=DELETE"`},
			{"enum('ACTIVE','DELETED') NOT NULL", "x=DELETED", "deleted-values", "", ""},
			{"enum('ACTIVE','DELETED') NOT NULL", "x!=ACTIVE|LIVE", "deleted-values", "warning", `never has "LIVE"`},
			{"set('a','it''s') NOT NULL", "x=b", "deleted-values", "warning", `never has "b"`},
			{"set('a','it''s') NOT NULL DEFAULT 'a,it''s'", "x=a,IT's", "deleted-values", "", ""},
			{"varchar(20) NOT NULL DEFAULT 'deleted'", "x=DELETED", "deleted-values", "", ""},
			{"varchar(20) NOT NULL DEFAULT 'deleted'", "x=DELETED|DELETE", "deleted-values", "note", `has "DELETE"`},
			{"int NOT NULL DEFAULT 1", "x=9", "deleted-values", "note", `has "9"`},
			{"datetime", "x=DELETED", "table-unfit", "unsafe", `"DELETED"`},
			{"date", "x!=9999-12-31 00:00:00", "table-unfit", "unsafe", `"9999-12-31 00:00:00"`},
		} {
			t.Run(c.column+" "+c.deleted, func(t *testing.T) {
				table.Exec("ALTER TABLE orders ADD x " + c.column)
				defer table.Exec("ALTER TABLE orders DROP x")
				found := find(t, e.With(world.Env{"BRIDGE_STREAM_ORDERS_DELETED": c.deleted}), c.code)
				if c.severity == "" && len(found) > 0 ||
					c.severity != "" && (len(found) != 1 || found[0].Severity != c.severity || !strings.Contains(found[0].What, c.what)) {
					t.Errorf("found %+v", found)
				}
			})
		}
	})
	t.Run("an ENUM in a table without rows", func(t *testing.T) {
		table.Exec("CREATE TABLE later (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, state enum('LIVE','GONE') NOT NULL)")
		empty := e.With(world.Env{"BRIDGE_STREAM_ORDERS_TABLE": "later", "BRIDGE_STREAM_ORDERS_KEY": "", "BRIDGE_STREAM_ORDERS_DELETED": "state"})
		for _, column := range []string{"CREATED", "MODIFIED"} {
			empty["BRIDGE_STREAM_ORDERS_"+column] = ""
		}
		if found := find(t, empty, "deleted-values"); !slices.ContainsFunc(found, func(f world.CheckFinding) bool { return strings.Contains(f.What, `"GONE", "LIVE"`) }) {
			t.Errorf("found %+v", answered(t, empty).Findings())
		}
	})
}

// TestAStandbyWithoutItsRights is named by the check, with the command, and by a process that waits
// for them.
func TestAStandbyWithoutItsRights(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	kafka := testenv.StartKafka(t, testenv.KafkaOptions{SASL: true, Config: map[string]string{
		"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users": "User:ANONYMOUS",
	}})
	_, e := shop(t, testenv.MariaDB(t))
	e = e.With(world.Env{
		"BRIDGE_SINK_URL": "kafka://" + strings.Join(kafka.SASLBrokers(), ","), "BRIDGE_KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
		"BRIDGE_KAFKA_SASL_USERNAME": testenv.KafkaUser, "BRIDGE_KAFKA_SASL_PASSWORD": testenv.KafkaPassword, "BRIDGE_STANDBY": "rights", "BRIDGE_HTTP_TOKEN": "0123456789abcdef",
		"BRIDGE_KAFKA_TOMBSTONES": "off", // which needs no right to see the topic's configuration
	})
	kafka.CreateTopic(t, "orders", 1, nil)
	for _, operation := range []kmsg.ACLOperation{kmsg.ACLOperationRead, kmsg.ACLOperationWrite, kmsg.ACLOperationDescribe} {
		allow(t, kafka, operation, "orders")
	}
	mustFind(t, e, "unsafe", "standby-grant", "cannot be joined", "grant READ on group bridge-standby.rights.0", "--operation Read --group bridge-standby.rights.0")
	d := world.NewDaemon(t, world.Binary(t, false), e)
	d.Start()
	world.Eventually(t, time.Minute, "the process names what is missing", func() bool {
		code, why := d.Get("/readyz")
		return code == 503 && strings.Contains(why, "grant READ on group bridge-standby.rights.0")
	})
	allowOn(t, kafka, kmsg.ACLOperationRead, kmsg.ACLResourceTypeGroup, "bridge-standby.rights.0")
	world.AwaitReady(t, d)
	d.Kill()
	mustBeSilent(t, e)
}
