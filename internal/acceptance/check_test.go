package acceptance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"bridge/internal/testenv"
)

// checkReport is what `bridge check --json` prints.
type checkReport struct {
	Severity string
	Groups   []struct {
		Group, Stream, Severity, Summary string
		Findings                         []checkFinding
	}
}

type checkFinding struct{ Severity, Code, Subject, What, Do, Statement string }

// findings returns all findings but remarks about variables.
func (r checkReport) findings() (all []checkFinding) {
	for _, g := range r.Groups {
		if g.Group != "configuration" {
			all = append(all, g.Findings...)
		}
	}
	return all
}

// summary returns that of the first group of a kind.
func (r checkReport) summary(kind string) string {
	for _, g := range r.Groups {
		if g.Group == kind {
			return g.Summary
		}
	}
	return ""
}

// find returns the findings with a code.
func (r checkReport) find(code string) (found []checkFinding) {
	for _, f := range r.findings() {
		if f.Code == code {
			found = append(found, f)
		}
	}
	return found
}

// bridge runs a command to its end and returns what it printed.
func bridge(t testing.TB, e env, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	cmd := exec.Command(binary(t, false), args...)
	cmd.Env = []string{}
	for _, name := range slices.Sorted(maps.Keys(e)) {
		cmd.Env = append(cmd.Env, name+"="+e[name])
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// check runs bridge check and fails the test when its exit status does not fit what it found.
func check(t testing.TB, e env) checkReport {
	t.Helper()
	status, stdout, stderr := bridge(t, e, "check", "--json")
	var r checkReport
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatalf("status %d, %v: %s%s", status, err, stdout, stderr)
	}
	if want := map[bool]int{true: 1}[r.Severity == "unsafe"]; status != want {
		t.Errorf("exit status %d for %s: %s", status, r.Severity, stderr)
	}
	for _, f := range r.findings() {
		if f.Code == "" || f.Subject == "" || f.What == "" || f.Do == "" && f.Code != "setting" {
			t.Errorf("an incomplete finding: %+v", f)
		}
	}
	return r
}

// mustBeSilent fails the test unless a check finds nothing.
func mustBeSilent(t testing.TB, e env) checkReport {
	t.Helper()
	r := check(t, e)
	if found := r.findings(); len(found) > 0 {
		t.Errorf("found on a healthy set-up: %+v", found)
	}
	return r
}

// mustFind fails the test unless a check finds what the codes say and nothing else, and returns the first finding with the first of the
// codes, which has this severity.
func mustFind(t testing.TB, e env, severity, codes string, words ...string) checkFinding {
	t.Helper()
	r := check(t, e)
	for _, f := range r.findings() {
		if !slices.Contains(strings.Fields(codes), f.Code) {
			t.Errorf("want %s, found %+v", codes, f)
		}
	}
	found := r.find(strings.Fields(codes)[0])
	if len(found) == 0 {
		t.Fatalf("want %s, found %+v", codes, r.findings())
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
func shop(t testing.TB, server *testenv.MariaDBServer) (*revisions, env) {
	t.Helper()
	table := newRevisions(t, server)
	table.exec(healthyTable)
	table.exec("INSERT INTO orders (region, order_no, state) VALUES ('eu', '1', 'paid'), ('eu', '2', NULL)")
	return table, env{
		"BRIDGE_SOURCE_URL":             table.sourceURL(),
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
	eachBus(t, func(t *testing.T, b bus) {
		table, e := shop(t, testenv.MariaDB(t))
		e = e.with(b.env()).with(env{"BRIDGE_STREAM_ORDERS_DESTINATION": b.open(t, table.name)})
		folder := filepath.Dir(strings.TrimPrefix(e["BRIDGE_CHECKPOINT_URL"], "file:"))
		before := b.count(t, table.name)
		r := mustBeSilent(t, e)
		if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
			t.Errorf("left behind %v, %v", left, err)
		}
		if after := b.count(t, table.name); after != before {
			t.Errorf("%d messages before, %d after", before, after)
		}
		if got := r.summary("stream"); got != "1 table, ids strict (auto_increment_increment is 1), tail begins at the first row" || r.Severity != "ok" {
			t.Errorf("%s: the stream is summed up as %q", r.Severity, got)
		}

		t.Run("before, while and after a bridge runs", func(t *testing.T) {
			d := newDaemon(t, binary(t, false), e)
			d.start()
			eventually(t, 30*time.Second, "published", func() bool { return d.position("orders") == 2 })
			mustFind(t, d.env, "note", "checkpoint-locked", "running")
			if status, _ := d.term(); status != 0 {
				t.Errorf("exit status %d", status)
			}
			if log := d.log.String(); strings.Contains(log, "finding about") {
				t.Errorf("the log of a healthy set-up names findings:\n%s", log)
			}
			if got := mustBeSilent(t, d.env).summary("stream"); !strings.HasSuffix(got, "tail goes on behind id 2") {
				t.Errorf("the stream is summed up as %q", got)
			}
		})
		t.Run("for people, in 80 columns and without colour", func(t *testing.T) {
			status, stdout, stderr := bridge(t, e, "check")
			if status != 0 || stderr != "" || !strings.Contains(stdout, "stream orders  ok") || !strings.HasSuffix(stdout, "nothing found: bridge run can be started\n") {
				t.Errorf("status %d, printed\n%s%s", status, stdout, stderr)
			}
			if strings.Contains(stdout, "\x1b") {
				t.Errorf("coloured in a pipe: %q", stdout)
			}
		})
	})
}

// TestCheckFindsWhatIsWrongWithATable plants one problem after another and types what check says.
func TestCheckFindsWhatIsWrongWithATable(t *testing.T) {
	server := testenv.MariaDB(t)
	for _, test := range []struct {
		name string
		// plant makes the problem.
		plant          string
		set            env
		severity, code string
		words          []string
		// also is what the problem brings with it.
		also string
		// heals says that the statements that are printed remove the finding.
		heals bool
	}{
		{name: "no table", set: env{"BRIDGE_STREAM_ORDERS_TABLE": "ordres"}, severity: "unsafe", code: "no-table", words: []string{"ordres", "does not exist"}},
		{name: "no database", set: env{"BRIDGE_STREAM_ORDERS_TABLE": "nowhere.orders"}, severity: "unsafe", code: "no-grant", words: []string{"GRANT SELECT ON `nowhere`.`orders` TO"}},
		{name: "no column ID", set: env{"BRIDGE_STREAM_ORDERS_ID": "idd"}, severity: "unsafe", code: "no-column", words: []string{`"idd"`, "ID of the stream", "order_no"}},
		{name: "no column KEY", set: env{"BRIDGE_STREAM_ORDERS_KEY": "region,nr"}, severity: "unsafe", code: "no-column", words: []string{`"nr"`, "KEY of the stream"}},
		{name: "no column CREATED", set: env{"BRIDGE_STREAM_ORDERS_CREATED": "born"}, severity: "unsafe", code: "no-column", words: []string{"CREATED of the stream"}},
		{name: "no column MODIFIED", set: env{"BRIDGE_STREAM_ORDERS_MODIFIED": "changed"}, severity: "unsafe", code: "no-column", words: []string{"MODIFIED of the stream"}},
		{name: "no column DELETED", set: env{"BRIDGE_STREAM_ORDERS_DELETED": "dead"}, severity: "unsafe", code: "no-column", words: []string{"DELETED of the stream"}},
		{name: "no column FIELDS", set: env{"BRIDGE_STREAM_ORDERS_FIELDS": "region,order_no,stat"}, severity: "unsafe", code: "no-column", words: []string{`"stat"`, "FIELDS of the stream"}},
		{name: "an id that is not unique", plant: "ALTER TABLE orders MODIFY id bigint unsigned NOT NULL; ALTER TABLE orders DROP PRIMARY KEY, ADD PRIMARY KEY (id, region); " +
			"ALTER TABLE orders MODIFY id bigint unsigned NOT NULL AUTO_INCREMENT",
			severity: "unsafe", code: "id-not-unique", words: []string{"ADD UNIQUE KEY (`id`)"}},
		{name: "an id that is a text", set: env{"BRIDGE_STREAM_ORDERS_ID": "order_no", "BRIDGE_STREAM_ORDERS_ID_ORDER": "strict"}, severity: "unsafe", code: "id-type", words: []string{"varchar(40)"}},
		{name: "an id that may be NULL", plant: "ALTER TABLE orders ADD number int NULL UNIQUE COMMENT 'NULL, perhaps'; UPDATE orders SET number = id; " +
			"ALTER TABLE orders MODIFY id bigint unsigned NOT NULL, DROP PRIMARY KEY",
			set: env{"BRIDGE_STREAM_ORDERS_ID": "number", "BRIDGE_STREAM_ORDERS_ID_ORDER": "strict"}, severity: "unsafe", code: "id-null", also: "id-not-primary", heals: true},
		{name: "a KEY that is not unique", plant: "ALTER TABLE orders DROP KEY uk, ADD KEY (region, order_no)", severity: "unsafe", code: "key-not-unique",
			words: []string{"KEY (region, order_no)", "ADD UNIQUE KEY (`region`, `order_no`)"}, heals: true},
		{name: "a KEY that may be NULL", plant: "ALTER TABLE orders MODIFY order_no varchar(40) DEFAULT 'x' COMMENT 'a, b'", severity: "unsafe", code: "key-not-unique",
			words: []string{"may be NULL"}, heals: true},
		{name: "no index on MODIFIED", plant: "ALTER TABLE orders DROP KEY modified, ADD KEY (region, gmt_modified)", severity: "warning", code: "modified-index",
			words: []string{"CREATE INDEX"}, heals: true},
		{name: "an index on MODIFIED that is ignored", plant: "ALTER TABLE orders ALTER INDEX modified IGNORED", severity: "warning", code: "modified-index", heals: true},
		{name: "second precision", plant: "ALTER TABLE orders MODIFY gmt_create datetime NULL DEFAULT now() COMMENT 'current_timestamp()', " +
			"MODIFY gmt_modified timestamp NOT NULL DEFAULT now() ON UPDATE now()", set: env{"BRIDGE_TIME_ZONE": serverZone}, severity: "note", code: "second-precision", words: []string{"CREATED", "MODIFY `gmt_create` datetime(6)"}, heals: true},
		{name: "CREATED that is no time", set: env{"BRIDGE_STREAM_ORDERS_CREATED": "state"}, severity: "unsafe", code: "time-type", words: []string{"varchar(20)"}},
		{name: "an engine without transactions", plant: "ALTER TABLE orders ENGINE = MyISAM", severity: "warning", code: "engine", heals: true},
		{name: "ids of an unknown issuer", plant: "ALTER TABLE orders MODIFY id bigint unsigned NOT NULL", severity: "warning", code: "id-issuer", words: []string{"ID_ORDER"}},
		{name: "ids below 1", plant: "ALTER TABLE orders MODIFY id bigint NOT NULL AUTO_INCREMENT; INSERT INTO orders (id, region, order_no) VALUES (-7, 'eu', 'x')", severity: "warning", code: "id-negative", words: []string{"-7"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			table, e := shop(t, server)
			if test.plant != "" {
				table.exec(test.plant)
			}
			e = e.with(test.set)
			mustFind(t, e, test.severity, test.code+" "+test.also, test.words...)
			if !test.heals {
				return
			}
			for _, f := range check(t, e).findings() {
				table.exec(f.Statement)
				t.Logf("typed: %s", f.Statement)
			}
			mustBeSilent(t, e)
		})
	}
	t.Run("no grant, until the one that is printed is given", func(t *testing.T) {
		table, e := shop(t, server)
		user := "ungranted_" + table.name[max(0, len(table.name)-10):]
		table.exec(fmt.Sprintf("CREATE OR REPLACE USER '%s'@'%%' IDENTIFIED BY 'pa:ss@w/ord'", user))
		e["BRIDGE_SOURCE_URL"] = server.URL(user, "pa:ss@w/ord", table.name)
		f := mustFind(t, e, "unsafe", "no-grant", "GRANT SELECT ON")
		table.exec(f.Statement)
		mustBeSilent(t, e)
		table.exec(fmt.Sprintf("REVOKE SELECT ON orders FROM '%s'@'%%'", user))
		table.exec(fmt.Sprintf("GRANT INSERT, SELECT (id, region, order_no, gmt_create, gmt_modified) ON orders TO '%s'@'%%'", user))
		mustFind(t, e, "unsafe", "no-grant", "is_deleted", "GRANT SELECT ON")
	})
	t.Run("a stop of the shard, and a line in the log of the daemon", func(t *testing.T) {
		table, e := shop(t, server)
		table.exec("ALTER TABLE orders DROP KEY uk, DROP KEY modified")
		d := newDaemon(t, binary(t, false), e)
		d.start()
		eventually(t, 20*time.Second, "stopped", func() bool {
			shards := d.shards("orders")
			return len(shards) == 1 && shards[0].State == "stopped" && strings.Contains(shards[0].LastError, "ADD UNIQUE KEY (`region`, `order_no`)")
		})
		eventually(t, 20*time.Second, "logged", func() bool {
			log := d.log.String()
			return strings.Contains(log, "code=key-not-unique") && strings.Contains(log, "code=modified-index") && strings.Contains(log, "CREATE INDEX")
		})
	})
}

// serverZone is the zone in which the test's servers write times without one: that of this host.
var serverZone = func() string {
	name, err := filepath.EvalSymlinks("/etc/localtime")
	if _, zone, found := strings.Cut(name, "zoneinfo/"); err == nil && found {
		return zone
	}
	return "UTC"
}()

func TestCheckFindsWhatIsWrongWithAServer(t *testing.T) {
	t.Run("a stride", func(t *testing.T) {
		table, e := shop(t, testenv.StartMariaDB(t, "--auto-increment-increment=3", "--innodb-lock-wait-timeout=100", "--default-time-zone=+08:00"))
		r := check(t, e)
		if f := r.find("stride"); len(f) != 1 || f[0].Severity != "warning" || !strings.Contains(f[0].What, "every 3rd id") {
			t.Errorf("found %+v", r.findings())
		} else {
			table.exec(f[0].Statement)
		}
		if f := r.find("lock-wait"); len(f) != 1 || f[0].Severity != "note" || !strings.Contains(f[0].Do, "2m0s") {
			t.Errorf("found %+v", r.findings())
		}
		if got := r.summary("stream"); !strings.Contains(got, "ids strided (auto_increment_increment is 3)") {
			t.Errorf("the stream is summed up as %q", got)
		}
		mustFind(t, e, "note", "lock-wait")
		table.exec("SET GLOBAL innodb_lock_wait_timeout = 50")
		mustBeSilent(t, e)
		t.Run("and a zone that is not that of TIME_ZONE", func(t *testing.T) {
			table.exec("ALTER TABLE orders MODIFY gmt_create datetime(6) NOT NULL DEFAULT now(6)")
			mustFind(t, e, "note", "time-zone", "8h0m0s", "UTC")
			mustBeSilent(t, e.with(env{"BRIDGE_TIME_ZONE": "Asia/Shanghai"}))
		})
	})
	t.Run("a replica", func(t *testing.T) {
		primary := testenv.StartMariaDB(t, "--server-id=1", "--log-bin=binlog")
		replica := testenv.StartMariaDB(t, "--server-id=2", "--relay-log=relay")
		host, port, err := net.SplitHostPort(primary.Addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := primary.Root(t).Exec("CREATE USER copier@'%' IDENTIFIED BY 'copier'; GRANT REPLICATION SLAVE ON *.* TO copier@'%'"); err != nil {
			t.Fatal(err)
		}
		root := replica.Root(t)
		if _, err := root.Exec(fmt.Sprintf("CHANGE MASTER TO MASTER_HOST='%s', MASTER_PORT=%s, MASTER_USER='copier', MASTER_PASSWORD='copier'; START SLAVE", host, port)); err != nil {
			t.Fatal(err)
		}
		_, e := shop(t, primary)
		mustBeSilent(t, e)
		e["BRIDGE_SOURCE_URL"] = strings.Replace(e["BRIDGE_SOURCE_URL"], primary.Addr, replica.Addr, 1)
		eventually(t, 20*time.Second, "copied, and seen by a login with SELECT alone", func() bool {
			r := check(t, e)
			return len(r.findings()) == 1 && r.findings()[0].Code == "replica" && strings.Contains(r.findings()[0].What, "is a replica")
		})
		if _, err := root.Exec("STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = 1"); err != nil {
			t.Fatal(err)
		}
		mustFind(t, e, "warning", "replica", "read_only is on")
	})
	t.Run("a wrong password", func(t *testing.T) {
		table, e := shop(t, testenv.MariaDB(t))
		e["BRIDGE_SOURCE_URL"] = strings.Replace(table.sourceURL(), "w%2Ford", "wrong-secret", 1)
		mustFind(t, e, "unsafe", "source-login", "mysql -h 127.0.0.1")
		if _, stdout, stderr := bridge(t, e, "check"); strings.Contains(stdout+stderr, "wrong-secret") {
			t.Errorf("the password is printed: %s%s", stdout, stderr)
		}
	})
}

func TestCheckDoesNotWaitForHostsThatDoNotAnswer(t *testing.T) {
	// Connections are taken by the system, and nobody ever reads from them.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	closed := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	for name, addr := range map[string]string{"takes connections and says nothing": silent.Addr().String(), "refuses connections": closed} {
		for _, sink := range []string{"kafka", "nats"} {
			t.Run("a host that "+name+", "+sink, func(t *testing.T) {
				e := env{
					"BRIDGE_SOURCE_URL": "mysql://u:hunter2-secret@" + addr + "/db", "BRIDGE_SINK_URL": sink + "://" + addr,
					"BRIDGE_CHECKPOINT_URL": "file:" + filepath.Join(t.TempDir(), "none", "bridge.db"),
					"BRIDGE_STREAMS":        "a", "BRIDGE_STREAM_A_TABLE": "a_{0..9}", "BRIDGE_STREAM_A_KIND": "release",
				}
				started := time.Now()
				r := check(t, e)
				if took := time.Since(started); took > 15*time.Second {
					t.Errorf("took %s", took)
				}
				for _, code := range []string{"source-unreachable", "sink-unreachable", "checkpoint-not-writable"} {
					if f := r.find(code); len(f) != 1 || f[0].Severity != "unsafe" || f[0].Statement == "" {
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

func TestCheckFindsWhatIsWrongWithABus(t *testing.T) {
	server := testenv.MariaDB(t)
	t.Run("Kafka without the topic", func(t *testing.T) {
		b := kafkaBus{testenv.Kafka(t)}
		table, e := shop(t, server)
		name := table.name + "_topic"
		e = e.with(b.env()).with(env{"BRIDGE_STREAM_ORDERS_DESTINATION": name, "BRIDGE_DEAD_LETTER": name + "_dead"})
		if r := check(t, e); len(r.find("no-topic")) != 2 || len(r.findings()) != 2 || !strings.Contains(r.find("no-topic")[0].Statement, "--create --topic "+name) {
			t.Errorf("found %+v", r.findings())
		}
		size, cleanup := "1000", "compact,delete"
		b.server.CreateTopic(t, name, 3, map[string]*string{"max.message.bytes": &size, "cleanup.policy": &cleanup})
		b.server.CreateTopic(t, name+"_dead", 1, nil)
		r := check(t, e)
		if len(r.find("topic-message-size")) != 1 || len(r.find("topic-compacted")) != 1 || r.Severity != "note" {
			t.Errorf("found %+v", r.findings())
		}
		if got := r.summary("sink"); !strings.Contains(got, name+" has 3 partitions") {
			t.Errorf("the sink is summed up as %q", got)
		}
	})
	t.Run("Kafka with a wrong password, and without the right to write", func(t *testing.T) {
		kafka := testenv.StartKafka(t, testenv.KafkaOptions{SASL: true, Config: map[string]string{
			"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
			"super.users":           "User:ANONYMOUS",
		}})
		_, e := shop(t, server)
		e = e.with(env{
			"BRIDGE_SINK_URL": "kafka://" + strings.Join(kafka.SASLBrokers(), ","), "BRIDGE_KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
			"BRIDGE_KAFKA_SASL_USERNAME": testenv.KafkaUser, "BRIDGE_KAFKA_SASL_PASSWORD": "wrong-secret",
		})
		mustFind(t, e, "unsafe", "sink-login")
		e["BRIDGE_KAFKA_SASL_PASSWORD"] = testenv.KafkaPassword
		kafka.CreateTopic(t, "orders", 1, nil)
		mustFind(t, e, "unsafe", "topic-grant", "may not be described", "--operation Write --operation Describe --topic orders")
		allow(t, kafka, kmsg.ACLOperationDescribe, "orders")
		mustFind(t, e, "unsafe", "topic-grant", "may not be written to")
		allow(t, kafka, kmsg.ACLOperationWrite, "orders")
		if got := mustBeSilent(t, e).summary("sink"); !strings.Contains(got, "DESCRIBE_CONFIGS") {
			t.Errorf("the sink is summed up as %q", got)
		}
	})
	t.Run("NATS without the stream", func(t *testing.T) {
		b := natsBus{testenv.NATS(t)}
		table, e := shop(t, server)
		subjects := table.name + ".{type}"
		e = e.with(b.env()).with(env{"BRIDGE_STREAM_ORDERS_DESTINATION": subjects})
		mustFind(t, e, "unsafe", "no-stream", table.name+".OrdersDeletedEvent", "nats --server", "--subjects '"+table.name+".*'")
		named := e.with(env{"BRIDGE_NATS_STREAM": table.name})
		mustFind(t, named, "unsafe", "no-stream", table.name, "BRIDGE_NATS_CREATE_STREAM")
		mustBeSilent(t, named.with(env{"BRIDGE_NATS_CREATE_STREAM": "true"}))

		config := jetstream.StreamConfig{Name: table.name, Subjects: []string{table.name + ".other"}, Storage: jetstream.FileStorage, Duplicates: 2 * time.Minute}
		stream := b.server.CreateStream(t, config)
		mustFind(t, named, "unsafe", "stream-subject", table.name+".OrdersModifiedEvent")
		config.Subjects = []string{table.name + ".OrdersAddedEvent", table.name + ".OrdersModifiedEvent"}
		update(t, b, config)
		if r := check(t, named); len(r.find("stream-subject")) != 1 || !strings.Contains(r.find("stream-subject")[0].What, "OrdersDeletedEvent") {
			t.Errorf("found %+v", r.findings())
		}
		config.Subjects = append(config.Subjects, table.name+".OrdersDeletedEvent")
		update(t, b, config)
		mustBeSilent(t, named)
		keyed := named.with(env{"BRIDGE_STREAM_ORDERS_DESTINATION": table.name + ".{key}"})
		mustFind(t, keyed, "warning", "stream-subject", "only a part")
		config.Subjects, config.Duplicates, config.MaxMsgs, config.MaxMsgSize = []string{table.name + ".>"}, 30*time.Second, 10, 500
		update(t, b, config)
		r := check(t, e)
		for _, code := range []string{"stream-duplicates", "stream-discards", "stream-message-size"} {
			if f := r.find(code); len(f) != 1 || f[0].Severity != "note" {
				t.Errorf("%s: found %+v", code, r.findings())
			}
		}
		if n := stream.CachedInfo().State.Msgs; n != 0 || b.count(t, table.name) != 0 {
			t.Error("the check published something")
		}
	})
	t.Run("NATS with a stream in memory", func(t *testing.T) {
		b := natsBus{testenv.NATS(t)}
		table, e := shop(t, server)
		b.server.CreateStream(t, jetstream.StreamConfig{Name: table.name, Storage: jetstream.MemoryStorage, Duplicates: 2 * time.Minute})
		mustFind(t, e.with(b.env()).with(env{"BRIDGE_STREAM_ORDERS_DESTINATION": table.name + ".{type}"}), "note", "stream-storage")
	})
	t.Run("NATS with a wrong password", func(t *testing.T) {
		nats := testenv.StartNATS(t, testenv.NATSPassword("bridge", "right-secret"))
		_, e := shop(t, server)
		f := mustFind(t, e.with(env{"BRIDGE_SINK_URL": "nats://bridge:wrong-secret@" + nats.Addr()}), "unsafe", "sink-login")
		if strings.Contains(fmt.Sprint(f), "wrong-secret") {
			t.Errorf("the password is printed: %+v", f)
		}
	})
}

// allow lets the user of a broker with SASL do something with a topic.
func allow(t *testing.T, kafka *testenv.KafkaServer, operation kmsg.ACLOperation, topic string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(kafka.Brokers()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	grant := kmsg.NewCreateACLsRequestCreation()
	grant.ResourceType, grant.ResourceName, grant.ResourcePatternType = kmsg.ACLResourceTypeTopic, topic, kmsg.ACLResourcePatternTypeLiteral
	grant.Principal, grant.Host = "User:"+testenv.KafkaUser, "*"
	grant.Operation, grant.PermissionType = operation, kmsg.ACLPermissionTypeAllow
	request := kmsg.NewPtrCreateACLsRequest()
	request.Creations = append(request.Creations, grant)
	response, err := request.RequestWith(t.Context(), client)
	if err == nil {
		err = kerr.ErrorForCode(response.Results[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func update(t *testing.T, b natsBus, config jetstream.StreamConfig) {
	t.Helper()
	if _, err := b.server.JetStream(t).UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
}

func TestCheckFindsWhatIsWrongWithACheckpoint(t *testing.T) {
	server := testenv.MariaDB(t)
	t.Run("the checkpoint of another table", func(t *testing.T) {
		_, e := shop(t, server)
		for _, args := range []string{"orders orders 5000", "orders orders_old 7", "bills bills 9"} {
			if status, _, stderr := bridge(t, e, append([]string{"checkpoint", "set"}, strings.Fields(args)...)...); status != 0 {
				t.Fatal(stderr)
			}
		}
		r := check(t, e)
		if f := r.find("ids-reused"); len(f) != 1 || f[0].Severity != "unsafe" || !strings.Contains(f[0].Statement, "bridge checkpoint set orders orders 0\nbridge checkpoint set orders orders 2") {
			t.Errorf("found %+v", r.findings())
		}
		if f := r.find("checkpoint-other"); len(f) != 2 || f[0].Severity != "warning" || !strings.Contains(f[0].What, "bills") || !strings.Contains(f[1].What, "orders_old") {
			t.Errorf("found %+v", r.findings())
		}
		for _, command := range []string{"bridge checkpoint reset orders", "bridge checkpoint reset bills"} {
			if status, _, stderr := bridge(t, e, strings.Fields(command)[1:]...); status != 0 {
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
		f := mustFind(t, e.with(env{"BRIDGE_CHECKPOINT_URL": "file:" + filepath.Join(missing, "bridge.db")}), "unsafe", "checkpoint-not-writable")
		if f.Statement != "mkdir -p "+missing {
			t.Errorf("the command is %q", f.Statement)
		}
	})
}

func TestCheckReportsAWrongConfigurationAsRunDoes(t *testing.T) {
	status, stdout, stderr := bridge(t, env{"BRIDGE_STREAMS": "a", "BRIDGE_POL_INTERVAL": "1s", "BRIDGE_SINK_URL": "rabbit://x"}, "check")
	if status != 2 || stdout != "" || strings.Count(stderr, "\n  BRIDGE_") < 4 {
		t.Errorf("status %d, printed %s%s", status, stdout, stderr)
	}
}
