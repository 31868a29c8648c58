package acceptance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// TestASubjectTransformIsRefused: what JetStream stores under other subjects is not read back.
// check finds that, and run publishes nothing until the stream has no transform any more.
func TestASubjectTransformIsRefused(t *testing.T) {
	testall.Beside(t)
	server, name := testenv.NATS(t), testenv.NewStreamName()
	config := jetstream.StreamConfig{
		Name: name, Subjects: []string{name + ".>"}, SubjectTransform: &jetstream.SubjectTransformConfig{Source: name + ".>", Destination: name + "_out.>"},
	}
	stream := server.CreateStream(t, config)
	e := orders(t).With(world.Env{"BRIDGE_SINK_URL": server.URL(), "BRIDGE_STREAM_ORDERS_DESTINATION": name + ".orders"})
	wait{e, "stream-unusable", []string{name, "subject_transform"}, false}.must(t)
	if info, err := stream.Info(t.Context()); err != nil || info.State.Msgs != 0 {
		t.Fatalf("%v: %+v", err, info)
	}
	d := world.NewDaemon(t, world.Binary(t, false), e)
	d.Start()
	world.Eventually(t, time.Minute, "bridge waits", func() bool { return len(outages(d)) > 0 })
	config.SubjectTransform = nil
	if _, err := server.JetStream(t).UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	world.AwaitReady(t, d)
	world.Eventually(t, time.Minute, "the row is published", func() bool { return d.Position("orders") == 1 })
}

// TestAMaxPayloadThatGrows: rows over the server's max_payload stop their streams alone, and are
// published after a restart with a larger limit.
func TestAMaxPayloadThatGrows(t *testing.T) {
	testall.Beside(t)
	server, table := testenv.StartNATS(t, testenv.NATSLines("max_payload: 20000")), world.Empty(t, nil)
	b, e := world.NATSBus(server), world.Env{"BRIDGE_STREAMS": "facts,things,other", "BRIDGE_SOURCE_URL": table.URL, "BRIDGE_STABILITY_WINDOW": "0s", "BRIDGE_POLL_INTERVAL": "50ms"}
	for name, kind := range map[string]string{"facts": "release", "things": "capability", "other": "release"} {
		table.Exec("CREATE TABLE " + name + " (id integer PRIMARY KEY AUTOINCREMENT, k text NOT NULL UNIQUE, body text NOT NULL)")
		e = e.With(world.StreamEnv(name, world.Env{"TABLE": name, "KIND": kind, "KEY": "k", "DESTINATION": b.Open(t, name)}))
	}
	for _, name := range []string{"facts", "things"} {
		table.Exec("INSERT INTO "+name+" (k, body) VALUES ('a', 'x'), ('b', ?), ('c', 'x')", large())
	}
	d := world.NewDaemon(t, world.Binary(t, false), b.Env().With(e))
	d.Start()
	for _, name := range []string{"facts", "things"} {
		world.AwaitStopped(t, d, name, "row 2 of", "max_payload")
	}
	table.Exec("INSERT INTO other (k, body) VALUES ('a', 'x')")
	world.Eventually(t, time.Minute, "the other stream goes on", func() bool { return d.Position("other") == 1 })
	server.Reconfigure(t, "max_payload: 20000", "max_payload: 200000")
	d.Term()
	d.Start()
	world.Eventually(t, time.Minute, "all rows are published", func() bool { return d.Position("facts") == 3 && d.Position("things") == 3 })
	for _, name := range []string{"facts", "things"} {
		if n := b.Count(t, name); n != 3 {
			t.Errorf("%s: %d messages of 3 rows", name, n)
		}
	}
	mustVerify(t, d.Env)
}

// TestLongKeysOnNATS has keys that make a subject too long for a line of the protocol, or headers
// too long for JetStream: the row becomes a dead letter, or stops its stream alone.
func TestLongKeysOnNATS(t *testing.T) {
	testall.Beside(t)
	b, prefix := world.NATSBus(testenv.NATS(t)), testenv.NewStreamName()
	b.NATS.CreateStream(t, jetstream.StreamConfig{Name: prefix, Subjects: []string{prefix + ".>"}})
	for name, c := range map[string]struct{ destination, kind, key, says string }{
		"subject": {"k.{key}", "capability", strings.Repeat("订", 460), "max_control_line"},
		"headers": {"h", "release", strings.Repeat("k", 64<<10), "65535"},
	} {
		for _, aside := range []bool{true, false} {
			t.Run(fmt.Sprintf("in %s, with dead letters %t", name, aside), func(t *testing.T) {
				t.Parallel()
				w := world.Empty(t, nil)
				begin := fmt.Sprintf("%s.%s%t.", prefix, name, aside)
				e := b.Env().With(world.Env{
					"BRIDGE_SOURCE_URL": w.URL, "BRIDGE_STREAMS": "long,other", "BRIDGE_NATS_STREAM": prefix, "BRIDGE_STABILITY_WINDOW": "0s",
					"BRIDGE_POLL_INTERVAL": "50ms", "BRIDGE_DOMAIN_ID": fmt.Sprintf("%s%t", name, aside),
					"BRIDGE_STREAM_LONG_DESTINATION": begin + c.destination, "BRIDGE_STREAM_OTHER_DESTINATION": begin + "other",
				})
				if aside {
					e["BRIDGE_DEAD_LETTER"] = begin + "dead"
				}
				for _, table := range []string{"long", "other"} {
					e = e.With(world.StreamEnv(table, world.Env{"TABLE": table, "KIND": c.kind, "KEY": "k"}))
					w.Exec("CREATE TABLE " + table + " (id integer PRIMARY KEY AUTOINCREMENT, k text NOT NULL UNIQUE)")
				}
				w.Exec("INSERT INTO other (k) VALUES ('a'), ('b'), ('c')")
				w.Exec("INSERT INTO long (k) VALUES ('a'), (?), ('c')", c.key)
				d := world.NewDaemon(t, world.Binary(t, false), e)
				d.Start()
				world.Eventually(t, time.Minute, "the other stream is published", func() bool { return d.Position("other") == 3 })
				if aside {
					world.Eventually(t, time.Minute, "the stream goes on", func() bool { return d.Position("long") == 3 })
					if got := d.Metric("bridge_dead_letters_total"); got != 1 {
						t.Errorf("%v dead letters", got)
					}
				} else if s := world.AwaitStopped(t, d, "long", "row 2 of", c.says); len(s.LastError) > 1000 {
					t.Errorf("the stream stops with %.2000s", s.LastError)
				}
				w.Exec("INSERT INTO other (k) VALUES ('d')")
				world.Eventually(t, time.Minute, "the other stream goes on", func() bool { return d.Position("other") == 4 })
				if status, _ := d.Term(); status != 0 || strings.Contains(d.Log.String(), "outage begins") {
					t.Errorf("exit status %d, or a connection was lost:\n%s", status, d.Log)
				}
			})
		}
	}
}
