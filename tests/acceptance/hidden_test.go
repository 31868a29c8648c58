package acceptance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"bridge/tests/testall"
	"bridge/tests/testenv"
	"bridge/tests/world"
)

// MariaDB lists none of the columns row_start and row_end, and yet they can be selected.
func TestAHiddenColumnStopsItsStreamAlone(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	table, e := shop(t, testenv.MariaDB(t))
	table.Exec("CREATE TABLE versions (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, name varchar(20) NOT NULL) ENGINE=InnoDB WITH SYSTEM VERSIONING")
	table.Exec("INSERT INTO versions (name) VALUES ('a')")
	e = e.With(world.Env{"BRIDGE_STREAMS": "versions,orders", "BRIDGE_STREAM_VERSIONS_TABLE": "versions", "BRIDGE_STREAM_VERSIONS_KIND": "release", "BRIDGE_STREAM_VERSIONS_CREATED": "row_start"})
	f := mustFind(t, e, "unsafe", "no-column", "row_start", "hidden", "CREATED")
	if f.Subject != "versions" || f.Statement != "" {
		t.Errorf("%+v", f)
	}

	d := world.NewDaemon(t, world.Binary(t, false), e)
	d.Start()
	world.Eventually(t, time.Minute, "the other stream is published", func() bool { return d.Position("orders") == 2 })
	world.Eventually(t, time.Minute, "the stream stops", func() bool {
		s := d.Shards("versions")
		return len(s) == 1 && s[0].State == "stopped" && strings.Contains(s[0].LastError, "is hidden")
	})
	if status, _ := d.Term(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	if log := d.Log.String(); strings.Contains(log, "panic") {
		t.Errorf("the log:\n%s", log)
	}
}

// The counter of MySQL stays at the last id of its type: no start takes that for ids that are used
// again, and a wider type is noticed while the program runs.
func TestTheLastIDOfItsTypeStopsNoStream(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	testenv.EachMySQL(t, func(t *testing.T, product testenv.Product) {
		b := world.NATSBus(testenv.NATS(t))
		table := world.Empty(t, product.Shared(t))
		table.Exec("CREATE TABLE ends (id int NOT NULL AUTO_INCREMENT PRIMARY KEY, body text)")
		table.Exec("INSERT INTO ends VALUES (1, 'x'), (2147483647, 'y')")
		e := b.Env().With(world.Env{
			"BRIDGE_SOURCE_URL":              table.URL,
			"BRIDGE_STREAMS":                 "ends",
			"BRIDGE_STREAM_ENDS_TABLE":       "ends",
			"BRIDGE_STREAM_ENDS_KIND":        "release",
			"BRIDGE_STREAM_ENDS_DESTINATION": b.Open(t, table.Name),
		})
		d := world.NewDaemon(t, world.Binary(t, false), e)
		for range 2 {
			d.Start()
			world.AwaitReady(t, d)
			world.Eventually(t, time.Minute, "published to the end", func() bool { return d.Position("ends") == 2147483647 })
			mustHaveNoCode(t, e, "ids-reused")
			d.Term()
		}
		d.Start()
		world.AwaitReady(t, d)
		table.Exec("ALTER TABLE ends MODIFY id bigint NOT NULL AUTO_INCREMENT")
		table.Exec("INSERT INTO ends (body) VALUES ('z')")
		world.Eventually(t, time.Minute, "published behind the former end", func() bool { return d.Position("ends") == 2147483648 })
		if got := len(b.ReadAll(t, table.Name)); got != 3 {
			t.Errorf("%d events, want 3", got)
		}
	})
}

// mustHaveNoCode fails the test where check finds something of a code.
func mustHaveNoCode(t *testing.T, e world.Env, code string) {
	t.Helper()
	for _, f := range world.Check(t, e).Findings() {
		if f.Code == code {
			t.Errorf("found %+v", f)
		}
	}
}

// TestAKeyThatMayBeNull publishes a table whose unique index has a column that may be NULL: rows
// with NULL there are left out one by one.
func TestAKeyThatMayBeNull(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	for name, server := range map[string]*testenv.DatabaseServer{"mariadb": testenv.MariaDB(t), "sqlite": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world.Empty(t, server)
			id := "id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY"
			if server == nil {
				id = "id INTEGER PRIMARY KEY AUTOINCREMENT"
			}
			w.Exec("CREATE TABLE items (" + id + ", a varchar(20) NOT NULL, b varchar(20), v int, UNIQUE (a, b))")
			w.Exec("INSERT INTO items (a, b) VALUES ('x', '1'), ('x', NULL), ('x', NULL), ('y', '2')")
			b := world.NATSBus(testenv.NATS(t))
			e := b.Env().With(world.Env{
				"BRIDGE_SOURCE_URL": w.URL, "BRIDGE_STREAMS": "items", "BRIDGE_STABILITY_WINDOW": "0s", "BRIDGE_STREAM_ITEMS_TABLE": "items",
				"BRIDGE_STREAM_ITEMS_KIND": "capability", "BRIDGE_STREAM_ITEMS_KEY": "a,b", "BRIDGE_STREAM_ITEMS_DESTINATION": b.Open(t, w.Name+"_items"),
			})
			if found := answered(t, e).Find("key-null"); len(found) != 1 || found[0].Severity != "note" {
				t.Errorf("check finds %+v", answered(t, e).Findings())
			}
			d := world.NewDaemon(t, world.Binary(t, false), e)
			d.Start()
			expect := func(want string) {
				t.Helper()
				texts := func() (list []string) {
					for _, m := range b.ReadAll(t, w.Name+"_items") {
						list = append(list, strings.TrimSuffix(strings.TrimPrefix(world.TypeOf(m), "Items"), "Event"))
					}
					return list
				}
				world.Eventually(t, time.Minute, want, func() bool { return len(texts()) >= len(strings.Fields(want)) })
				if got := strings.Join(texts(), " "); got != want {
					t.Fatalf("the bus has %s, want %s", got, want)
				}
			}
			expect("Added Added")
			world.AwaitReady(t, d)
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
			if r := world.Verify(t, e); !r.Good {
				t.Errorf("bridge verify: %+v", r)
			}
			d.Kill()
			d.Env = d.Env.With(world.Env{"BRIDGE_ON_BAD_VALUE": "stop"})
			w.Exec("INSERT INTO items (a, b) VALUES ('z', NULL)")
			d.Start()
			if s := world.AwaitStopped(t, d, "items"); !strings.Contains(s.LastError, "row 5") || !strings.Contains(s.LastError, "ON_BAD_VALUE=null") {
				t.Errorf("it is stopped by %s", s.LastError)
			}
		})
	}
}

// TestLongKeysOnNATS has keys that make a subject too long for a line of the protocol, or headers
// too long for JetStream: the row becomes a dead letter, or stops its stream alone.
func TestLongKeysOnNATS(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	server := testenv.OwnNATS(t)
	server.CreateStream(t, natsjs.StreamConfig{Name: "EVENTS", Subjects: []string{"s.>"}})
	server.CreateStream(t, natsjs.StreamConfig{Name: "SMALL", Subjects: []string{"small.>"}, MaxMsgSize: 4096})
	b := world.NATSBus(server)
	for i, c := range []struct {
		name, destination, kind string
		key                     string
		says                    string
		// twice is what the stream says where the dead letter is refused, too.
		twice string
	}{
		{"a long key in the subject", "k.{key}", "capability", strings.Repeat("订", 460), "max_control_line", ""},
		{"a long key in headers", "h", "release", strings.Repeat("k", 64<<10), "65535", ""},
		{"a key of an entity that the stream has no room for", "e", "capability", strings.Repeat("e", 6000), "max_msg_size",
			"give the bus a higher limit, set BRIDGE_STREAM_LONG_KEY to shorter columns, or leave the row out with BRIDGE_STREAM_LONG_FILTER"},
	} {
		name := fmt.Sprint(c.kind, i)
		for _, aside := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, with dead letters %t", c.name, aside), func(t *testing.T) {
				w := world.Empty(t, nil)
				for _, table := range []string{"long", "other"} {
					w.Exec("CREATE TABLE " + table + " (id integer PRIMARY KEY AUTOINCREMENT, k text NOT NULL UNIQUE)")
				}
				stream, prefix := "EVENTS", fmt.Sprintf("s.%s%t.", name, aside)
				if c.twice != "" {
					stream, prefix = "SMALL", fmt.Sprintf("small.%s%t.", name, aside)
				}
				e := b.Env().With(world.Env{
					"BRIDGE_SOURCE_URL": w.URL, "BRIDGE_STREAMS": "long,other", "BRIDGE_NATS_STREAM": stream, "BRIDGE_STABILITY_WINDOW": "0s",
					"BRIDGE_POLL_INTERVAL": "50ms", "BRIDGE_DOMAIN_ID": name,
				})
				for _, stream := range []string{"LONG", "OTHER"} {
					e["BRIDGE_STREAM_"+stream+"_TABLE"], e["BRIDGE_STREAM_"+stream+"_KIND"] = strings.ToLower(stream), c.kind
					e["BRIDGE_STREAM_"+stream+"_KEY"] = "k"
				}
				e["BRIDGE_STREAM_LONG_DESTINATION"] = prefix + c.destination
				e["BRIDGE_STREAM_OTHER_DESTINATION"] = prefix + "other"
				if aside {
					e["BRIDGE_DEAD_LETTER"] = prefix + "dead"
				}
				d := world.NewDaemon(t, world.Binary(t, false), e)
				d.Start()
				insert := func(key string) {
					for _, table := range []string{"long", "other"} {
						w.Exec("INSERT INTO "+table+" (k) VALUES (?)", map[bool]string{true: key, false: key[:1] + fmt.Sprint(len(key))}[table == "long"])
					}
				}
				insert("a")
				insert(c.key)
				insert("b")
				world.Eventually(t, time.Minute, "the other stream goes on", func() bool { return d.Position("other") >= 3 })
				if !aside || c.twice != "" {
					s := world.AwaitStopped(t, d, "long")
					if !strings.Contains(s.LastError, "row 2 of") || !strings.Contains(s.LastError, c.says) || len(s.LastError) > 1000 {
						t.Errorf("the stream stops with %.2000s", s.LastError)
					}
					if follow := "set BRIDGE_STREAM_LONG_DEAD_LETTER"; aside && !strings.Contains(s.LastError, c.twice) || strings.Contains(s.LastError, follow) == aside {
						t.Errorf("the stream says what to do: %.2000s", s.LastError)
					}
				} else {
					world.Eventually(t, time.Minute, "the stream goes on", func() bool { return d.Position("long") >= 3 })
					if got := d.Metric("bridge_dead_letters_total"); got != 1 {
						t.Errorf("%v dead letters", got)
					}
				}
				if log := d.Log.String(); strings.Contains(log, "outage begins") {
					t.Error("a connection was lost")
				}
				if status, _ := d.Term(); status != 0 {
					t.Errorf("exit status %d", status)
				}
			})
		}
	}
}
