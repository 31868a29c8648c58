package acceptance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

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

// fillOther makes the tables of f on another server, with other rows.
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

// countProgress returns how many messages with progress are on a bus.
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
