package acceptance

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// TestFaultsThatOnlyAPersonCanFix takes away a table, a column and a grant, each from one of five
// streams, and gives one a row that the bus does not take.
func TestFaultsThatOnlyAPersonCanFix(t *testing.T) {
	testall.Beside(t)
	bus := testenv.StartNATS(t, testenv.NATSLines("max_payload: 20000"))
	b := world.NATSBus(bus)
	table := world.Empty(t, testenv.StartMariaDB(t))
	for _, name := range []string{"fine", "columnless", "hidden", "heavy"} {
		table.Exec("CREATE TABLE " + name + " (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, body text)")
		table.Exec("INSERT INTO " + name + " (body) VALUES ('x')")
	}
	user := "narrow_" + table.Name[max(0, len(table.Name)-12):]
	table.Exec(fmt.Sprintf("CREATE USER '%s'@'%%' IDENTIFIED BY 'hunter2-secret'", user))
	table.Exec("INSERT INTO heavy (body) VALUES (?)", large())
	for _, name := range []string{"fine", "columnless", "heavy"} {
		table.Exec(fmt.Sprintf("GRANT SELECT ON `%s`.%s TO '%s'@'%%'", table.Name, name, user))
	}
	// A grant outlives its table.
	table.Exec("CREATE TABLE gone (id int)")
	table.Exec(fmt.Sprintf("GRANT SELECT ON `%s`.gone TO '%s'@'%%'", table.Name, user))
	table.Exec("DROP TABLE gone")
	var streams []world.Stream
	for _, name := range []string{"fine", "gone", "columnless", "hidden", "heavy"} {
		streams = append(streams, world.Stream{Name: name, Table: name, Kind: "release"})
	}
	d := table.Publish(b, world.Publishing{Path: world.Faulty(t), Streams: streams, Env: world.Env{
		timesVariable: "quiet_after=1s,hot_time=1s", "BRIDGE_SOURCE_URL": table.Server.URL(user, "hunter2-secret", table.Name), "BRIDGE_STREAM_COLUMNLESS_CREATED": "born",
	}})
	d.Start()
	for stream, words := range map[string][]string{
		"gone":       {"gone", "exist"},
		"columnless": {"born"},
		"hidden":     {"GRANT SELECT ON", "hidden"},
		"heavy":      {"row 2 of", "max_payload"},
	} {
		world.AwaitStopped(t, d.Daemon, stream, words...)
	}
	goesOn := func(stream string, id uint64) {
		t.Helper()
		world.Eventually(t, time.Minute, stream+" goes on", func() bool { return d.Position(stream) == id })
	}
	goesOn("fine", 1)

	t.Run("and goes on by itself once the table is back", func(t *testing.T) {
		table.Exec("CREATE TABLE gone (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, body text)")
		table.Exec("INSERT INTO gone (body) VALUES ('x')")
		table.Exec("ALTER TABLE columnless ADD COLUMN born datetime(6) NOT NULL DEFAULT '2020-01-01'")
		table.Exec(fmt.Sprintf("GRANT SELECT ON `%s`.hidden TO '%s'@'%%'", table.Name, user))
		for _, stream := range []string{"gone", "columnless", "hidden"} {
			goesOn(stream, 1)
		}
	})
	t.Run("and after a restart, once the bus takes the row", func(t *testing.T) {
		bus.Reconfigure(t, "max_payload: 20000", "max_payload: 200000")
		d.Term()
		d.Start()
		goesOn("heavy", 2)
		world.AwaitReady(t, d.Daemon)
	})
	t.Run("and where an idle table is made again, and the database restarts", func(t *testing.T) {
		world.Pause(3 * time.Second)
		table.Exec("DROP TABLE gone")
		world.AwaitStopped(t, d.Daemon, "gone", "exist")
		table.Exec("CREATE TABLE gone (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, body text) AUTO_INCREMENT = 1000")
		table.Exec("INSERT INTO gone (body) VALUES ('x')")
		table.Server.Restart(t)
		table.Exec("INSERT INTO gone (body) VALUES ('x')")
		goesOn("gone", 1001)
		world.AwaitReady(t, d.Daemon)
	})
	for stream, rows := range map[string]int64{"fine": 1, "gone": 3, "columnless": 1, "hidden": 1, "heavy": 2} {
		if n := b.Count(t, d.Destination(stream)); n != rows {
			t.Errorf("%s: %d messages of %d rows", stream, n, rows)
		}
	}
	if strings.Contains(d.Log.String(), "hunter2-secret") {
		t.Error("the log holds the password")
	}
}

// TestASettingThatTheCheckpointDependsOn: KIND is another one at the next start. Its stream stops
// and publishes nothing, the other goes on, and the command that is named has it begin again.
func TestASettingThatTheCheckpointDependsOn(t *testing.T) {
	testall.Beside(t)
	e, insert := newShop(t)
	insert(9)
	d := world.NewDaemon(t, world.Binary(t, false), e.With(world.Env{
		"BRIDGE_SINK_URL": "embedded:" + filepath.Join(t.TempDir(), "nats"), "BRIDGE_STREAMS": "orders,parts",
		"BRIDGE_STREAM_PARTS_TABLE": e["BRIDGE_STREAM_ORDERS_TABLE"], "BRIDGE_STREAM_PARTS_KIND": "release",
	}))
	d.Start()
	passed := func(stream string, id uint64) {
		t.Helper()
		world.Eventually(t, time.Minute, fmt.Sprintf("%s has passed %d", stream, id), func() bool { return d.Position(stream) == id })
	}
	passed("orders", 9)
	passed("parts", 9)
	d.Term()

	insert(1)
	d.Env["BRIDGE_STREAM_PARTS_KIND"] = "capability"
	found := runCheck(t, d.Env).find("checkpoint-meaning")
	if len(found) != 1 || found[0].Severity != "unsafe" || !strings.Contains(found[0].What, "KIND was release and is capability") || found[0].Statement != "bridge checkpoint reset parts" {
		t.Errorf("check finds %+v", found)
	}
	d.Start()
	passed("orders", 10)
	world.AwaitStopped(t, d, "parts", "bridge checkpoint reset parts")
	world.AwaitUnready(t, d, "another configuration")
	d.Term()
	types(t, d.Env, 0, "checkpoint", "reset", "parts")
	if found := runCheck(t, d.Env).find("checkpoint-meaning"); len(found) > 0 {
		t.Errorf("check finds %+v", found)
	}
	d.Start()
	passed("parts", 10)
	world.AwaitReady(t, d)
}

// TestAColumnThatIsDroppedStopsItsTable alters one of two tables of a stream while bridge runs on
// a real server and a real bus: the other one goes on, and a new version sets both going.
func TestAColumnThatIsDroppedStopsItsTable(t *testing.T) {
	testall.Beside(t)
	b := world.KafkaBus(testenv.Kafka(t))
	table := world.Empty(t, testenv.MariaDB(t))
	for i := range 2 {
		table.Exec(fmt.Sprintf("CREATE TABLE part_%d (id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, name varchar(20) NOT NULL, note varchar(20)) ENGINE=InnoDB", i))
		table.Exec(fmt.Sprintf("INSERT INTO part_%d (name) VALUES ('a')", i))
	}
	d := table.Publish(b, world.Publishing{
		Streams: []world.Stream{{Name: "parts", Table: "part_{0..1}", Kind: "release"}}, Env: world.Env{"BRIDGE_ON_SCHEMA_CHANGE": "stop"},
	})
	at := func(first, second uint64) func() bool {
		return func() bool {
			s := d.Shards("parts")
			return len(s) == 2 && s[0].Position == first && s[1].Position == second
		}
	}
	d.Start()
	world.Eventually(t, time.Minute, "the first rows are published", at(1, 1))
	table.Exec("ALTER TABLE part_1 DROP COLUMN note")
	table.Exec("INSERT INTO part_0 (name) VALUES ('b')")
	table.Exec("INSERT INTO part_1 (name) VALUES ('b')")
	world.Eventually(t, time.Minute, "one table goes on, the other one stops", func() bool {
		s := d.Shards("parts")
		return at(2, 1)() && s[1].State == "stopped" && strings.Contains(string(s[1].LastError), "member note was string or null and is gone") &&
			strings.Contains(string(s[1].LastError), "BRIDGE_STREAM_PARTS_EVENT_VERSION")
	})
	if n := d.Metric("bridge_breaking_schema_changes_total"); n != 1 {
		t.Errorf("%v breaking changes were counted", n)
	}
	d.Term()
	mustFind(t, d.Env, "unsafe", "schema-changed topic-compacted log-flush", "part_1", "note", "EVENT_VERSION")

	d.Env["BRIDGE_STREAM_PARTS_EVENT_VERSION"] = "2.0.0"
	d.Start()
	world.Eventually(t, time.Minute, "both go on", at(2, 2))
	d.Term()
	if n := b.Count(t, d.Destination("parts")); n != 4 {
		t.Errorf("%d messages, want 4", n)
	}
}

// TestSchemasOfOthers publishes every table of Apollo, Nacos and XXL-JOB that numbers its rows, as
// a stream of states and as one of facts: check finds nothing that stops one, verify nothing that
// differs. testdata/schemas has the tables, five rows of each, and the streams.
func TestSchemasOfOthers(t *testing.T) {
	testall.Beside(t)
	for _, name := range []string{"apollo", "nacos", "xxl-job"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, b := world.Empty(t, testenv.MariaDB(t)), world.NATSBus(testenv.NATS(t))
			topic := w.Name + "_all"
			e := b.Env().With(world.Env{"BRIDGE_SOURCE_URL": w.URL, "BRIDGE_STABILITY_WINDOW": "0s", "BRIDGE_RECONCILE_INTERVAL": "1h"})
			file := func(ending string) string {
				return string(contents(t, filepath.Join("testdata", "schemas", name+ending)))
			}
			for line := range strings.Lines(file(".env")) {
				variable, value, _ := strings.Cut(strings.TrimSpace(line), "=")
				e[variable] = value
			}
			for _, statement := range strings.Split(file(".sql"), ";\n") {
				if strings.TrimSpace(statement) != "" {
					w.Exec(statement)
				}
			}
			want, destination := make(map[string]int), b.Open(t, topic)
			for stream := range strings.SplitSeq(e["BRIDGE_STREAMS"], ",") {
				want[stream] = 5
				e = e.With(world.StreamEnv(stream, world.Env{"DESTINATION": destination, "EVENT": "E"}))
			}
			d := world.NewDaemon(t, world.Binary(t, false), e)
			for _, g := range answered(t, d.Env).findings() {
				if g.Severity == "unsafe" {
					t.Errorf("check finds %+v", g)
				}
			}
			d.Start()
			rows := make(map[string]int)
			world.Eventually(t, time.Minute, "all rows are published", func() bool { return b.Count(t, topic) >= int64(5*len(want)) })
			b.Read(t, topic, func(m world.Message) { rows[m.Headers["bridge-stream"]]++ })
			if !maps.Equal(rows, want) {
				t.Errorf("the streams have %v events, want 5 each", rows)
			}
			if r := world.Verify(t, d.Env); !r.Good {
				t.Errorf("bridge verify: %+v", r)
			}
		})
	}
}

// TestAKeyThatMayBeNull publishes a table whose unique index has a column that may be NULL: rows
// with NULL there are left out one by one.
func TestAKeyThatMayBeNull(t *testing.T) {
	testall.Beside(t)
	w := world.Empty(t, testenv.MariaDB(t))
	w.Exec("CREATE TABLE items (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, a varchar(20) NOT NULL, b varchar(20), v int, UNIQUE (a, b))")
	w.Exec("INSERT INTO items (a, b) VALUES ('x', '1'), ('x', NULL), ('x', NULL), ('y', '2')")
	d := w.Publish(world.NATSBus(testenv.NATS(t)), world.Publishing{
		Streams: []world.Stream{{Name: "items", Table: "items", Kind: "capability", Env: world.Env{"KEY": "a,b", "STABILITY_WINDOW": "0s"}}},
	})
	if found := answered(t, d.Env).find("key-null"); len(found) != 1 || found[0].Severity != "note" {
		t.Errorf("check finds %+v", found)
	}
	d.Start()
	expect := func(want string) {
		t.Helper()
		got := ""
		world.Eventually(t, time.Minute, want, func() bool {
			var texts []string
			for _, m := range d.Received("items") {
				texts = append(texts, strings.TrimSuffix(strings.TrimPrefix(world.TypeOf(m), "Items"), "Event"))
			}
			got = strings.Join(texts, " ")
			return len(got) >= len(want)
		})
		if got != want {
			t.Fatalf("the bus has %s, want %s", got, want)
		}
	}
	expect("Added Added")
	world.AwaitReady(t, d.Daemon)
	d.Reconcile("items")
	expect("Added Added")
	if n := d.Metric("bridge_bad_values_total"); n < 2 || !strings.Contains(d.Log.String(), "id=2 column=b") {
		t.Errorf("%v bad values; the log: %s", n, d.Log.String())
	}
	w.Exec("UPDATE items SET b = NULL WHERE a = 'y'")
	d.Reconcile("items")
	expect("Added Added Deleted")
	w.Exec("UPDATE items SET b = '3' WHERE id = 2")
	d.Reconcile("items")
	expect("Added Added Deleted Added")
	mustVerify(t, d.Env)
	d.Kill()
	d.Env = d.Env.With(world.Env{"BRIDGE_ON_BAD_VALUE": "stop"})
	w.Exec("INSERT INTO items (a, b) VALUES ('z', NULL)")
	d.Start()
	world.AwaitStopped(t, d.Daemon, "items", "row 5", "ON_BAD_VALUE=null")
}
