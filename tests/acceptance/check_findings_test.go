package acceptance

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

func TestCheckFindsWhatIsWrongWithATable(t *testing.T) {
	testall.Beside(t)
	server := testenv.MariaDB(t)
	for _, test := range []struct {
		name string
		// plant makes the problem.
		plant          string
		set            world.Env
		severity, code string
		words          []string
		// also is what the problem brings with it.
		also string
		// heals says that the statements that are printed remove the finding.
		heals bool
	}{
		{name: "no table", set: world.Env{"BRIDGE_STREAM_ORDERS_TABLE": "ordres"}, severity: "unsafe", code: "no-table", words: []string{"ordres", "does not exist"}},
		{name: "no database", set: world.Env{"BRIDGE_STREAM_ORDERS_TABLE": "nowhere.orders"}, severity: "unsafe", code: "no-grant", words: []string{"GRANT SELECT ON `nowhere`.`orders` TO"}},
		{name: "no column ID", set: world.Env{"BRIDGE_STREAM_ORDERS_ID": "idd"}, severity: "unsafe", code: "no-column", words: []string{`"idd"`, "which ID names", "order_no"}},
		{name: "no column KEY", set: world.Env{"BRIDGE_STREAM_ORDERS_KEY": "region,nr"}, severity: "unsafe", code: "no-column", words: []string{`"nr"`, "which KEY names"}},
		{name: "no column CREATED", set: world.Env{"BRIDGE_STREAM_ORDERS_CREATED": "born"}, severity: "unsafe", code: "no-column", words: []string{"which CREATED names"}},
		{name: "no column MODIFIED", set: world.Env{"BRIDGE_STREAM_ORDERS_MODIFIED": "changed"}, severity: "unsafe", code: "no-column", words: []string{"which MODIFIED names"}},
		{name: "no column DELETED", set: world.Env{"BRIDGE_STREAM_ORDERS_DELETED": "dead"}, severity: "unsafe", code: "no-column", words: []string{"which DELETED names"}},
		{name: "no column FIELDS", set: world.Env{"BRIDGE_STREAM_ORDERS_FIELDS": "region,order_no,stat"}, severity: "unsafe", code: "no-column", words: []string{`"stat"`, "which FIELDS names"}},
		{name: "an id that is not unique", plant: "ALTER TABLE orders DROP PRIMARY KEY, ADD KEY (id)",
			severity: "unsafe", code: "id-not-unique", words: []string{"ADD UNIQUE KEY (`id`)"}},
		{name: "an id that only its counter keeps unique", plant: "ALTER TABLE orders DROP PRIMARY KEY, ADD PRIMARY KEY (id, region)",
			severity: "warning", code: "id-unproved", words: []string{"ADD UNIQUE KEY (`id`)"}},
		{name: "an id that is a text", set: world.Env{"BRIDGE_STREAM_ORDERS_ID": "order_no", "BRIDGE_STREAM_ORDERS_ID_ORDER": "strict"}, severity: "unsafe", code: "id-type", words: []string{"varchar(40)"}},
		{name: "an id that may be NULL", plant: "ALTER TABLE orders ADD number int NULL UNIQUE COMMENT 'NULL, perhaps'; UPDATE orders SET number = id; " +
			"ALTER TABLE orders MODIFY id bigint unsigned NOT NULL, DROP PRIMARY KEY",
			set: world.Env{"BRIDGE_STREAM_ORDERS_ID": "number", "BRIDGE_STREAM_ORDERS_ID_ORDER": "strict"}, severity: "unsafe", code: "id-null", also: "id-not-primary", heals: true},
		{name: "a KEY that is not unique", plant: "ALTER TABLE orders DROP KEY uk, ADD KEY (region, order_no)", severity: "unsafe", code: "key-not-unique",
			words: []string{"KEY (region, order_no)", "ADD UNIQUE KEY (`region`, `order_no`)"}, heals: true},
		{name: "a KEY that may be NULL", plant: "ALTER TABLE orders MODIFY order_no varchar(40) DEFAULT 'x' COMMENT 'a, b'", severity: "note", code: "key-null",
			words: []string{"may be NULL", "BRIDGE_STREAM_ORDERS_ON_BAD_VALUE=stop"}},
		{name: "no index on MODIFIED", plant: "ALTER TABLE orders DROP KEY modified, ADD KEY (region, gmt_modified)", severity: "warning", code: "modified-index",
			words: []string{"CREATE INDEX"}, heals: true},
		{name: "an index on MODIFIED that is ignored", plant: "ALTER TABLE orders ALTER INDEX modified IGNORED", severity: "warning", code: "modified-index", heals: true},
		{name: "second precision", plant: "ALTER TABLE orders MODIFY gmt_create datetime NULL DEFAULT now() COMMENT 'current_timestamp()', " +
			"MODIFY gmt_modified timestamp NOT NULL DEFAULT now() ON UPDATE now()", set: world.Env{"BRIDGE_TIME_ZONE": serverZone}, severity: "note", code: "second-precision", words: []string{"CREATED", "MODIFY `gmt_create` datetime(6)"}, heals: true},
		{name: "CREATED of another type", set: world.Env{"BRIDGE_STREAM_ORDERS_CREATED": "state"}, severity: "unsafe", code: "time-type", words: []string{"varchar(20)"}},
		{name: "an engine without transactions", plant: "ALTER TABLE orders ENGINE = MyISAM", severity: "warning", code: "engine", heals: true},
		{name: "ids of an unknown issuer", plant: "ALTER TABLE orders MODIFY id bigint unsigned NOT NULL", severity: "warning", code: "id-issuer", words: []string{"ID_ORDER"}},
		{name: "a view", plant: "CREATE VIEW recent AS SELECT * FROM orders", set: world.Env{"BRIDGE_STREAM_ORDERS_TABLE": "recent"}, severity: "unsafe", code: "id-not-unique", words: []string{"is a view"}},
		{name: "ids below 1", plant: "ALTER TABLE orders MODIFY id bigint NOT NULL AUTO_INCREMENT; INSERT INTO orders (id, region, order_no) VALUES (-7, 'eu', 'x')", severity: "warning", code: "id-negative", words: []string{"-7"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			table, e := shop(t, server)
			if test.plant != "" {
				table.Exec(test.plant)
			}
			e = e.With(test.set)
			mustFind(t, e, test.severity, test.code+" "+test.also, test.words...)
			if !test.heals {
				return
			}
			for _, f := range runCheck(t, e).findings() {
				table.Exec(f.Statement)
				t.Logf("typed: %s", f.Statement)
			}
			mustBeSilent(t, e)
		})
	}
	t.Run("no grant, until the one that is printed is given", func(t *testing.T) {
		table, e := shop(t, server)
		user := "ungranted_" + table.Name[max(0, len(table.Name)-10):]
		table.Exec(fmt.Sprintf("CREATE OR REPLACE USER '%s'@'%%' IDENTIFIED BY 'pa:ss@w/ord'", user))
		e["BRIDGE_SOURCE_URL"] = server.URL(user, "pa:ss@w/ord", table.Name)
		f := mustFind(t, e, "unsafe", "no-grant", "GRANT SELECT ON")
		table.Exec(f.Statement)
		mustBeSilent(t, e)
		table.Exec(fmt.Sprintf("REVOKE SELECT ON orders FROM '%s'@'%%'", user))
		table.Exec(fmt.Sprintf("GRANT INSERT, SELECT (id, region, order_no, gmt_create, gmt_modified) ON orders TO '%s'@'%%'", user))
		mustFind(t, e, "unsafe", "no-grant", "is_deleted", "GRANT SELECT ON")
	})
	t.Run("a stop of the shard, and a line in the log of the daemon", func(t *testing.T) {
		table, e := shop(t, server)
		table.Exec("ALTER TABLE orders DROP KEY uk, DROP KEY modified")
		d := world.NewDaemon(t, world.Binary(t, false), e)
		d.Start()
		world.AwaitStopped(t, d, "orders", "ADD UNIQUE KEY (`region`, `order_no`)")
		world.Eventually(t, time.Minute, "logged", func() bool {
			log := d.Log.String()
			return strings.Contains(log, "code=modified-index") && strings.Contains(log, "CREATE INDEX")
		})
		// What stopped the stream is not a finding beside it.
		if log := d.Log.String(); strings.Count(log, "ADD UNIQUE KEY") != 1 || strings.Contains(log, "code=key-not-unique") {
			t.Errorf("the cause of the stop is not logged once:\n%s", log)
		}
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
	testall.Beside(t)
	t.Run("a stride", func(t *testing.T) {
		table, e := shop(t, testenv.StartMariaDB(t, "--auto-increment-increment=3", "--innodb-lock-wait-timeout=100", "--default-time-zone=+08:00"))
		r := runCheck(t, e)
		if f := r.find("stride"); len(f) != 1 || f[0].Severity != "warning" || !strings.Contains(f[0].What, "in steps of 3") {
			t.Errorf("found %+v", r.findings())
		} else {
			table.Exec(f[0].Statement)
		}
		if f := r.find("lock-wait"); len(f) != 1 || f[0].Severity != "note" || !strings.Contains(f[0].Do, "2m0s") {
			t.Errorf("found %+v", r.findings())
		}
		if f := r.find("log-flush"); len(f) != 1 || f[0].Severity != "note" || !strings.Contains(f[0].What, "innodb_flush_log_at_trx_commit=2") {
			t.Errorf("found %+v", f)
		} else {
			table.Exec(f[0].Statement)
			if f := runCheck(t, e).find("log-flush"); len(f) > 0 {
				t.Errorf("found %+v", f)
			}
		}
		if got := r.summary("stream"); !strings.Contains(got, "ids strided (auto_increment_increment is 3)") {
			t.Errorf("the stream is summed up as %q", got)
		}
		mustFind(t, e, "note", "lock-wait")
		table.Exec("SET GLOBAL innodb_lock_wait_timeout = 50")
		mustBeSilent(t, e)
		t.Run("and a zone that is not that of TIME_ZONE", func(t *testing.T) {
			table.Exec("ALTER TABLE orders MODIFY gmt_create datetime(6) NOT NULL DEFAULT now(6)")
			mustFind(t, e, "note", "time-zone", "8h0m0s", "UTC")
			mustBeSilent(t, e.With(world.Env{"BRIDGE_TIME_ZONE": "Asia/Shanghai"}))
		})
	})
	t.Run("a wrong password", func(t *testing.T) {
		table, e := shop(t, testenv.MariaDB(t))
		e["BRIDGE_SOURCE_URL"] = strings.Replace(table.URL, "w%2Ford", "wrong-secret", 1)
		mustFind(t, e, "unsafe", "source-login", "mysql -h 127.0.0.1")
		if _, stdout, stderr := world.Command(t, e, "check"); strings.Contains(stdout+stderr, "wrong-secret") {
			t.Errorf("the password is printed: %s%s", stdout, stderr)
		}
	})
}

func TestCheckFindsWhatIsWrongWithABus(t *testing.T) {
	testall.Beside(t)
	server := testenv.MariaDB(t)
	t.Run("Kafka without the topic", func(t *testing.T) {
		t.Parallel()
		b := world.KafkaBus(testenv.Kafka(t))
		table, e := shop(t, server)
		name := table.Name + "_topic"
		e = e.With(b.Env()).With(world.Env{"BRIDGE_STREAM_ORDERS_DESTINATION": name, "BRIDGE_DEAD_LETTER": name + "_dead"})
		if r := runCheck(t, e); len(r.find("no-topic")) != 2 || len(r.findings()) != 2 || !strings.Contains(r.find("no-topic")[0].Statement, "--create --topic "+name) {
			t.Errorf("found %+v", r.findings())
		}
		size, cleanup := "1000", "compact,delete"
		b.Kafka.CreateTopic(t, name, 3, map[string]*string{"max.message.bytes": &size, "cleanup.policy": &cleanup})
		b.Kafka.CreateTopic(t, name+"_dead", 1, nil)
		r := runCheck(t, e)
		if len(r.find("topic-message-size")) != 1 || len(r.find("topic-compacted")) != 1 || r.Severity != "note" {
			t.Errorf("found %+v", r.findings())
		}
		if got := r.summary("sink"); !strings.Contains(got, name+" has 3 partitions") {
			t.Errorf("the sink is summed up as %q", got)
		}
	})
	t.Run("NATS without the stream", func(t *testing.T) {
		t.Parallel()
		b := world.NATSBus(testenv.NATS(t))
		table, e := shop(t, server)
		subjects := table.Name + ".{type}"
		e = e.With(b.Env()).With(world.Env{"BRIDGE_STREAM_ORDERS_DESTINATION": subjects})
		mustFind(t, e, "unsafe", "no-stream", table.Name+".OrdersDeletedEvent", "nats --server", "--subjects '"+table.Name+".*'")
		named := e.With(world.Env{"BRIDGE_NATS_STREAM": table.Name})
		mustFind(t, named, "unsafe", "no-stream", table.Name, "BRIDGE_NATS_CREATE_STREAM")
		mustBeSilent(t, named.With(world.Env{"BRIDGE_NATS_CREATE_STREAM": "true"}))

		config := jetstream.StreamConfig{Name: table.Name, Subjects: []string{table.Name + ".other"}, Storage: jetstream.FileStorage, Duplicates: 2 * time.Minute}
		stream := b.NATS.CreateStream(t, config)
		mustFind(t, named, "unsafe", "stream-subject", table.Name+".OrdersModifiedEvent")
		config.Subjects = []string{table.Name + ".OrdersAddedEvent", table.Name + ".OrdersModifiedEvent"}
		update(t, b, config)
		if r := runCheck(t, named); len(r.find("stream-subject")) != 1 || !strings.Contains(r.find("stream-subject")[0].What, "OrdersDeletedEvent") {
			t.Errorf("found %+v", r.findings())
		}
		config.Subjects = append(config.Subjects, table.Name+".OrdersDeletedEvent")
		update(t, b, config)
		mustBeSilent(t, named)
		keyed := named.With(world.Env{"BRIDGE_STREAM_ORDERS_DESTINATION": table.Name + ".{key}"})
		mustFind(t, keyed, "warning", "stream-subject", "only a part")
		config.Subjects, config.Duplicates, config.MaxMsgs, config.MaxMsgSize = []string{table.Name + ".>"}, 30*time.Second, 10, 500
		update(t, b, config)
		r := runCheck(t, e)
		for _, code := range []string{"stream-duplicates", "stream-discards", "stream-message-size"} {
			if f := r.find(code); len(f) != 1 || f[0].Severity != "note" {
				t.Errorf("%s: found %+v", code, r.findings())
			}
		}
		if n := stream.CachedInfo().State.Msgs; n != 0 || b.Count(t, table.Name) != 0 {
			t.Error("the check published something")
		}
	})
	t.Run("NATS with a stream in memory", func(t *testing.T) {
		t.Parallel()
		b := world.NATSBus(testenv.NATS(t))
		table, e := shop(t, server)
		b.NATS.CreateStream(t, jetstream.StreamConfig{Name: table.Name, Storage: jetstream.MemoryStorage, Duplicates: 2 * time.Minute})
		mustFind(t, e.With(b.Env()).With(world.Env{"BRIDGE_STREAM_ORDERS_DESTINATION": table.Name + ".{type}"}), "note", "stream-storage")
	})
	t.Run("NATS with a wrong password", func(t *testing.T) {
		t.Parallel()
		nats := testenv.StartNATS(t, testenv.NATSPassword("bridge", "right-secret"))
		_, e := shop(t, server)
		f := mustFind(t, e.With(world.Env{"BRIDGE_SINK_URL": "nats://bridge:wrong-secret@" + nats.Addr()}), "unsafe", "sink-login")
		if strings.Contains(fmt.Sprint(f), "wrong-secret") {
			t.Errorf("the password is printed: %+v", f)
		}
	})
}

func allow(t *testing.T, kafka *testenv.KafkaServer, operation kmsg.ACLOperation, kind kmsg.ACLResourceType, name string) {
	t.Helper()
	client := must.Get(kgo.NewClient(kgo.SeedBrokers(kafka.Brokers()...)))(t)
	defer client.Close()
	grant := kmsg.NewCreateACLsRequestCreation()
	grant.ResourceType, grant.ResourceName, grant.ResourcePatternType = kind, name, kmsg.ACLResourcePatternTypeLiteral
	grant.Principal, grant.Host = "User:"+testenv.KafkaUser, "*"
	grant.Operation, grant.PermissionType = operation, kmsg.ACLPermissionTypeAllow
	request := kmsg.NewPtrCreateACLsRequest()
	request.Creations = append(request.Creations, grant)
	response, err := request.RequestWith(t.Context(), client)
	if err == nil {
		err = kerr.ErrorForCode(response.Results[0].ErrorCode)
	}
	must.OK(t, err)
}

func update(t *testing.T, b *world.Bus, config jetstream.StreamConfig) {
	t.Helper()
	must.Get(b.NATS.JetStream(t).UpdateStream(t.Context(), config))(t)
}
