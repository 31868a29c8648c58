package acceptance

import (
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

const (
	factStream = "facts"
	partStream = "parts"
	lastID     = 137
	// survivor is the highest row that the other server has, further how many it writes before
	// bridge reads again.
	survivor, further = 127, 40
)

type failover struct {
	t     *testing.T
	bus   *world.Bus
	proxy *testenv.Proxy
	name  string
	env   world.Env
	*world.Daemon
}

// The daemon has published lastID rows of each table.
func newFailover(t *testing.T, b *world.Bus, first *testenv.DatabaseServer) *failover {
	t.Helper()
	f := &failover{t: t, bus: b, proxy: testenv.StartProxy(t, first.Addr), name: first.NewDatabase(t)}
	f.make(first, lastID)
	f.env = b.Env().With(world.Env{
		"BRIDGE_SOURCE_URL":    fmt.Sprintf("mysql://reader_%s:secret@%s/%s", f.name[len(f.name)-4:], f.proxy.Addr(), f.name),
		"BRIDGE_POLL_INTERVAL": world.PollInterval.String(),
		"BRIDGE_STREAMS":       factStream + "," + partStream,
	})
	for stream, kind := range map[string]string{factStream: "release", partStream: "capability"} {
		f.env = f.env.With(world.StreamEnv(stream, world.Env{"TABLE": stream, "KIND": kind, "CREATED": "created", "DESTINATION": b.Open(t, f.destination(stream))}))
	}
	f.env["BRIDGE_STREAM_PARTS_KEY"] = "token"
	f.Daemon = world.NewDaemon(t, world.Binary(t, false), f.env)
	f.Start()
	f.passed(lastID)
	return f
}

func (f *failover) destination(stream string) string { return f.name + "_" + stream }

// The server may have been restored since the last call.
func (f *failover) exec(server *testenv.DatabaseServer, statement string, args ...any) {
	f.t.Helper()
	db := server.Root(f.t)
	defer func() { _ = db.Close() }()
	if _, err := db.Exec(statement, args...); err != nil {
		f.t.Fatalf("%s: %v", statement, err)
	}
}

// The rows are the same on each server.
func (f *failover) make(server *testenv.DatabaseServer, rows int) {
	f.t.Helper()
	user := "reader_" + f.name[len(f.name)-4:]
	f.exec(server, fmt.Sprintf("CREATE DATABASE IF NOT EXISTS %s; CREATE USER IF NOT EXISTS '%s'@'%%' IDENTIFIED BY 'secret'; GRANT SELECT ON `%s`.* TO '%s'@'%%'",
		f.name, user, f.name, user))
	for _, table := range []string{factStream, partStream} {
		f.exec(server, fmt.Sprintf("CREATE TABLE %s.%s (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, token varchar(40) NOT NULL UNIQUE, "+
			"created datetime(6) NOT NULL DEFAULT now(6))", f.name, table))
		var list []string
		for i := range rows {
			created := time.Date(2026, 1, 1, 0, 0, i, 0, time.UTC)
			list = append(list, fmt.Sprintf("('old-%d', '%s')", i+1, created.Format(time.DateTime)))
		}
		f.exec(server, fmt.Sprintf("INSERT INTO %s.%s (token, created) VALUES %s", f.name, table, strings.Join(list, ", ")))
	}
}

// write has the application write rows of its own, a statement each.
func (f *failover) write(server *testenv.DatabaseServer, rows int) {
	f.t.Helper()
	for _, table := range []string{factStream, partStream} {
		var list []string
		for i := range rows {
			list = append(list, fmt.Sprintf("INSERT INTO %s.%s (token) VALUES ('new-%d')", f.name, table, survivor+1+i))
		}
		f.exec(server, strings.Join(list, ";"))
	}
}

func (f *failover) uptime(server *testenv.DatabaseServer) (seconds int) {
	f.t.Helper()
	db := server.Root(f.t)
	defer func() { _ = db.Close() }()
	var name string
	must.OK(f.t, db.QueryRow("SHOW STATUS LIKE 'Uptime'").Scan(&name, &seconds))
	return seconds
}

func (f *failover) passed(id uint64) {
	f.t.Helper()
	for _, stream := range []string{factStream, partStream} {
		world.Eventually(f.t, time.Minute, fmt.Sprintf("%s has passed %d", stream, id), func() bool { return f.Position(stream) == id })
	}
}

// bySubject returns what the last event of each row of facts says, and of each part.
func (f *failover) bySubject(stream string) map[string]string {
	f.t.Helper()
	last, _ := fold(f.t, f.bus, f.destination(stream), func(e world.Event) (string, string) {
		row, token := fmt.Sprint("row ", e.RowID), member(e, "token")
		if stream == factStream {
			return row, token
		}
		return token, row
	})
	return last
}

var command = regexp.MustCompile(`bridge (checkpoint set \w+ \w+ \d+|reconcile --allow-deletes \w+)`)

// resolve waits until both streams have stopped because ids are used again, types the commands that
// they name, and expects all rows of the table on the bus.
func (f *failover) resolve() {
	t := f.t
	t.Helper()
	typed := make(map[string]string)
	for _, stream := range []string{factStream, partStream} {
		got := world.AwaitStopped(t, f.Daemon, stream, "uses ids again", "10 were others, from id 128 on")
		if got.Position != lastID {
			t.Errorf("%s: position %d, want %d", stream, got.Position, lastID)
		}
		typed[stream] = command.FindString(string(got.LastError))
	}
	if want := "bridge checkpoint set facts facts 127"; typed[factStream] != want {
		t.Errorf("the command is %q, want %q", typed[factStream], want)
	}
	world.AwaitUnready(t, f.Daemon, typed[factStream])
	if r := world.Verify(t, f.env); r.Good || r.Faults()["altered"] != lastID-survivor {
		t.Errorf("verify finds %v, want %d altered", r.Faults(), lastID-survivor)
	}
	if n := f.bus.Count(t, f.destination(factStream)); n != lastID {
		t.Errorf("%d messages are on the bus, want %d", n, lastID)
	}

	types(t, f.env.With(world.Env{"BRIDGE_HTTP_ADDR": f.Daemon.Env["BRIDGE_HTTP_ADDR"]}), 0, strings.Fields(typed[partStream])[1:]...)
	f.Ends()
	types(t, f.env.With(world.Env{"BRIDGE_CHECKPOINT_URL": f.Daemon.Env["BRIDGE_CHECKPOINT_URL"]}), 0, strings.Fields(typed[factStream])[1:]...)
	f.Start()
	f.passed(survivor + further)
	want := map[string]map[string]string{factStream: {}, partStream: {}}
	for id := 1; id <= survivor+further; id++ {
		row, token := fmt.Sprint("row ", id), fmt.Sprint("old-", id)
		if id > survivor {
			token = fmt.Sprint("new-", id)
		}
		want[factStream][row], want[partStream][token] = token, row
	}
	for stream := range want {
		if got := f.bySubject(stream); !maps.Equal(got, want[stream]) {
			t.Errorf("%s: the bus says\n%v, the table\n%v", stream, got, want[stream])
		}
	}
	world.AwaitReady(t, f.Daemon)
}

// TestAFailoverToAServerThatIsBehind: 137 rows were published, the new primary ends at 127, and the
// application writes 40 rows there before bridge reads again.
func TestAFailoverToAServerThatIsBehind(t *testing.T) {
	testall.Beside(t)
	behind := testenv.StartMariaDB(t)
	f := newFailover(t, world.KafkaBus(testenv.Kafka(t)), testenv.MariaDB(t))
	f.fails(behind)
	f.resolve()
}

// fails has a server that is behind take over from the first one, and the application write on.
func (f *failover) fails(behind *testenv.DatabaseServer) {
	f.t.Helper()
	f.proxy.Cut()
	f.make(behind, survivor)
	f.write(behind, further)
	f.proxy.Forward(behind.Addr)
	f.proxy.Heal()
}

// TestACrashThatLosesCommits: the server had not flushed its log when its host crashed. It is the
// same afterwards, without the last ten rows, and the application has written 40 others before
// bridge reads again.
func TestACrashThatLosesCommits(t *testing.T) {
	testall.Beside(t)
	server := testenv.StartMariaDB(t)
	f := newFailover(t, world.NATSBus(testenv.NATS(t)), server)
	// A server tells since when it runs in whole seconds.
	world.Eventually(t, time.Minute, "the server has run for five seconds", func() bool { return f.uptime(server) >= 5 })
	f.proxy.Cut()
	// What a crash of the host leaves.
	for _, table := range []string{factStream, partStream} {
		f.exec(server, fmt.Sprintf("DELETE FROM %s.%s WHERE id > %d; ALTER TABLE %s.%s AUTO_INCREMENT = %d", f.name, table, survivor, f.name, table, survivor+1))
	}
	server.Restart(t)
	f.write(server, further)
	f.proxy.Heal()
	f.resolve()
}

// TestAFailoverThatTheCheckpointDoesNotSee: the new primary is behind and has written on, and the
// process that reads it has no checkpoint.
func TestAFailoverThatTheCheckpointDoesNotSee(t *testing.T) {
	testall.Beside(t)
	behind := testenv.StartMariaDB(t)
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		f := newFailover(t, b, testenv.MariaDB(t))
		f.Kill()
		f.Daemon.LoseCheckpoint()
		f.fails(behind)
		f.Start()
		for _, stream := range []string{factStream, partStream} {
			world.AwaitStopped(t, f.Daemon, stream)
		}
		// Neither a kill nor another loss ends that.
		f.Kill()
		f.Daemon.LoseCheckpoint()
		f.Start()
		f.resolve()
	})
}

func (f *failover) fillOther(server *testenv.DatabaseServer, rows int) {
	f.t.Helper()
	f.make(server, 1)
	for _, table := range []string{factStream, partStream} {
		f.exec(server, fmt.Sprintf("TRUNCATE %s.%s", f.name, table))
		for i := range rows {
			f.exec(server, fmt.Sprintf("INSERT INTO %s.%s (token) VALUES ('other-%d')", f.name, table, i+1))
		}
	}
}

// TestTwoDatabasesInOneDomain: two bridges differ in SOURCE_URL alone. The second one stops before
// it takes over, whatever it has rows for, and the first one goes on.
func TestTwoDatabasesInOneDomain(t *testing.T) {
	testall.Beside(t)
	other := testenv.MySQL(t)
	kafka, nats := world.KafkaBus(testenv.Kafka(t)), world.NATSBus(testenv.NATS(t))
	for name, c := range map[string]struct {
		bus  *world.Bus
		rows int
		env  world.Env
	}{
		"at least once":             {nats, 3, nil},
		"exactly once":              {kafka.ExactlyOnce("lineage"), 200, nil},
		"a database without rows":   {kafka, 0, nil},
		"a standby with its copies": {nats, 3, world.Env{"BRIDGE_STANDBY": "lineage"}},
		"its progress on the bus":   {kafka, 3, progressOnBus(t, kafka)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			twoDatabases(t, c.bus, other, c.rows, c.env)
		})
	}
}

func countProgress(t *testing.T, b *world.Bus, topic string) int64 {
	t.Helper()
	if b.NATS != nil {
		topic = "KV_" + topic
	}
	return b.Count(t, topic)
}

func twoDatabases(t *testing.T, b *world.Bus, other *testenv.DatabaseServer, rows int, env world.Env) {
	f := newFailover(t, b, testenv.MariaDB(t))
	f.fillOther(other, rows)
	user := f.name[len(f.name)-4:]
	second := world.NewDaemon(t, world.Binary(t, false), f.env.With(env).With(world.Env{
		"BRIDGE_SOURCE_URL": fmt.Sprintf("mysql://reader_%s:secret@%s/%s", user, other.Addr, f.name),
	}))
	topic, written := env["BRIDGE_CHECKPOINT_TOPIC"], int64(0)
	if topic != "" {
		// Both keep their progress under one name, and the first one is away meanwhile.
		f.Term()
		f.Daemon.Env = f.Daemon.Env.With(env).With(ownFolder(t))
		f.Start()
		for _, stream := range []string{factStream, partStream} {
			world.Eventually(t, time.Minute, "the progress of "+stream+" is written", func() bool {
				return f.Daemon.Metric(`bridge_progress_written_seconds{stream="`+stream+`"}`) > 0
			})
		}
		f.Term()
		written = countProgress(t, b, topic)
	}
	for range 2 {
		second.Start()
		for _, stream := range []string{factStream, partStream} {
			world.AwaitStopped(t, second, stream, "another database", "were read from ", "/"+f.name, "BRIDGE_DOMAIN_ID", "bridge checkpoint set facts facts 0")
		}
		second.Kill()
	}
	if topic != "" {
		if n := countProgress(t, b, topic); n != written || n == 0 {
			t.Errorf("%d messages with progress are on the bus, the first one wrote %d", n, written)
		}
		f.Start()
	}
	if found := runCheck(t, second.Env).find("other-database"); len(found) != 1 || found[0].Severity != "unsafe" || !strings.Contains(found[0].What, "/"+f.name) {
		t.Errorf("check finds %+v", found)
	}
	if found := runCheck(t, f.Daemon.Env).find("other-database"); len(found) > 0 {
		t.Errorf("check of the first one finds %+v", found)
	}
	f.exec(testenv.MariaDB(t), fmt.Sprintf("INSERT INTO %s.facts (token) VALUES ('last'); INSERT INTO %[1]s.parts (token) VALUES ('last')", f.name))
	f.passed(lastID + 1)
	world.AwaitReady(t, f.Daemon)
	if env != nil {
		return
	}
	second.Env["BRIDGE_DOMAIN_ID"] = "other.acme"
	second.Start()
	f.exec(other, fmt.Sprintf("INSERT INTO %s.facts (token) VALUES ('last'); INSERT INTO %[1]s.parts (token) VALUES ('last')", f.name))
	for _, stream := range []string{factStream, partStream} {
		world.Eventually(t, time.Minute, stream+" of the other domain is published", func() bool { return second.Position(stream) == uint64(rows+1) })
	}
	world.AwaitReady(t, second)
	if n := len(b.ReadAll(t, f.destination(factStream))); n != lastID+1+rows+1 {
		t.Errorf("%d messages of both domains, want %d", n, lastID+rows+2)
	}
	world.AwaitReady(t, f.Daemon)
}
