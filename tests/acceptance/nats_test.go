package acceptance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/sink"
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

// TestTwoDomainsOnOneStream has two databases with the same rows published in two domains to one
// JetStream stream, over kills and lost stores: the events have the same ids, and none may be
// dropped as a repeat of the other domain's.
func TestTwoDomainsOnOneStream(t *testing.T) {
	testall.Beside(t)
	server := testenv.OwnNATS(t)
	server.CreateStream(t, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"eiffel.>"}, Duplicates: 2 * time.Minute})
	b := world.NATSBus(server)
	domains := []string{"eu.acme", "us.acme"}
	var worlds []*world.World
	var daemons []*world.Daemon
	for _, domain := range domains {
		w := world.Empty(t, nil)
		w.Exec("CREATE TABLE roles (id integer PRIMARY KEY AUTOINCREMENT, name text NOT NULL UNIQUE, level integer NOT NULL)")
		w.Exec("INSERT INTO roles (name, level) VALUES ('admin', 1), ('editor', 1), ('reader', 1)")
		worlds = append(worlds, w)
		daemons = append(daemons, world.NewDaemon(t, world.Binary(t, false), b.Env().With(world.Env{
			"BRIDGE_SOURCE_URL": w.URL, "BRIDGE_DOMAIN_ID": domain, "BRIDGE_STREAMS": "roles", "BRIDGE_NATS_STREAM": "EVENTS",
			"BRIDGE_STREAM_ROLES_TABLE": "roles", "BRIDGE_STREAM_ROLES_KIND": "capability", "BRIDGE_STREAM_ROLES_KEY": "name",
			"BRIDGE_STABILITY_WINDOW": "0s", "BRIDGE_POLL_INTERVAL": "50ms", "BRIDGE_STREAM_ROLES_RECONCILE_INTERVAL": "1s",
		})))
	}
	// published waits until each domain has so many messages, and returns the ids of each.
	published := func(n int) (ids map[string][]string) {
		t.Helper()
		world.Eventually(t, time.Minute, fmt.Sprintf("%d messages of each domain are there", n), func() bool {
			ids = make(map[string][]string)
			for _, m := range b.ReadAll(t, "EVENTS") {
				domain := m.Headers[sink.HeaderDomain]
				ids[domain] = append(ids[domain], m.Headers[sink.HeaderID])
			}
			return len(ids[domains[0]]) >= n && len(ids[domains[1]]) >= n
		})
		return ids
	}
	change := func(statement string) {
		for _, w := range worlds {
			w.Exec(statement)
		}
	}
	for _, d := range daemons {
		d.Start()
	}
	published(3)
	// One is killed with its store, one keeps it.
	for i, d := range daemons {
		d.Kill()
		if i == 0 {
			d.LoseCheckpoint()
		}
	}
	change("UPDATE roles SET level = 2 WHERE name = 'admin'")
	change("INSERT INTO roles (name, level) VALUES ('owner', 1)")
	for _, d := range daemons {
		d.Start()
	}
	published(5)
	for _, d := range daemons {
		d.Kill()
		d.LoseCheckpoint()
	}
	change("DELETE FROM roles WHERE name = 'editor'")
	for _, d := range daemons {
		d.Start()
	}
	ids := published(6)
	for _, d := range daemons {
		d.Ends()
		mustVerify(t, d.Env)
		if f := mustFind(t, d.Env, "note", "stream-domains no-modified"); !strings.Contains(f.What, ".acme") {
			t.Errorf("found %+v", f)
		}
	}
	for _, domain := range domains {
		distinct := slices.Compact(slices.Sorted(slices.Values(ids[domain])))
		if len(ids[domain]) != 6 || len(distinct) != 6 {
			t.Errorf("%s has %d messages with %d ids, want 6", domain, len(ids[domain]), len(distinct))
		}
	}
	if a, b := slices.Sorted(maps.Keys(ids)), domains; !slices.Equal(a, b) {
		t.Errorf("the domains are %v", a)
	}
}

// threeFacts makes a table of three rows, and a program that publishes them to a.{type} of the
// JetStream stream EVENTS, which it makes.
func threeFacts(t *testing.T, server *testenv.NATSServer, more world.Env) (*world.Daemon, jetstream.Stream) {
	t.Helper()
	stream := server.CreateStream(t, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"a.>", "b.>"}, Duplicates: 2 * time.Minute})
	w := world.Empty(t, nil)
	w.Exec("CREATE TABLE facts (id integer PRIMARY KEY AUTOINCREMENT, text text NOT NULL, created datetime NOT NULL DEFAULT CURRENT_TIMESTAMP)")
	w.Exec("INSERT INTO facts (text) VALUES ('x'), ('y'), ('z')")
	return world.NewDaemon(t, world.Binary(t, false), world.NATSBus(server).Env().With(world.Env{
		"BRIDGE_SOURCE_URL": w.URL, "BRIDGE_STREAMS": "facts", "BRIDGE_NATS_STREAM": "EVENTS", "BRIDGE_STREAM_FACTS_TABLE": "facts",
		"BRIDGE_STREAM_FACTS_KIND": "release", "BRIDGE_STREAM_FACTS_DESTINATION": "a.{type}", "BRIDGE_STABILITY_WINDOW": "0s",
	}).With(more)), stream
}

// TestAStreamMovesToAnotherSubject publishes a table to another subject of the same JetStream
// stream within the duplicate window, from the beginning: its events have the ids that they had.
func TestAStreamMovesToAnotherSubject(t *testing.T) {
	testall.Beside(t)
	server := testenv.OwnNATS(t)
	d, _ := threeFacts(t, server, nil)
	for run, subject := range []string{"a.{type}", "b.{type}"} {
		d.Env["BRIDGE_STREAM_FACTS_DESTINATION"] = subject
		if run > 0 {
			if status, _, stderr := world.Command(t, d.Env, "checkpoint", "reset", "facts"); status != 0 {
				t.Fatalf("checkpoint reset: %s", stderr)
			}
		}
		d.Start()
		world.Eventually(t, time.Minute, "the messages are there", func() bool { return world.NATSBus(server).Count(t, "EVENTS") >= int64(3*(run+1)) })
		d.Ends()
	}
	mustVerify(t, d.Env)
}

// TestWhatMayNotBeReadCountsForNoRepeat has a message removed within the duplicate window, a
// store lost, and a login that may read nothing: its event has the id that the server has seen, and
// is published all the same.
func TestWhatMayNotBeReadCountsForNoRepeat(t *testing.T) {
	testall.Beside(t)
	server := testenv.StartNATS(t, testenv.NATSLines(
		"no_auth_user: admin",
		"authorization {",
		"  users = [",
		"    { user: admin, password: a },",
		`    { user: blind, password: a, permissions: { publish: { deny: ["$JS.API.CONSUMER.>", "$JS.API.STREAM.MSG.GET.>", "$JS.API.DIRECT.GET.>"] } } }`,
		"  ]",
		"}",
	))
	b := world.NATSBus(server)
	d, stream := threeFacts(t, server, world.Env{"BRIDGE_SINK_URL": "nats://blind:a@" + server.Addr()})
	rowOne := func() bool {
		return slices.ContainsFunc(b.ReadAll(t, "EVENTS"), func(m world.Message) bool { return m.Headers[sink.HeaderRowID] == "1" })
	}
	d.Start()
	world.Eventually(t, time.Minute, "three messages are there", func() bool { return b.Count(t, "EVENTS") >= 3 })
	d.Kill()
	d.LoseCheckpoint()
	if err := stream.DeleteMsg(t.Context(), 1); err != nil || rowOne() {
		t.Fatalf("the message of row 1 is there: %v", err)
	}
	d.Start()
	world.Eventually(t, time.Minute, "the message of row 1 is there again", rowOne)
}

// TestADeadLetterThatIsGoneIsStoredAgain removes a dead letter within the duplicate window, and the
// store: the server knows its id, and it has to be there again.
func TestADeadLetterThatIsGoneIsStoredAgain(t *testing.T) {
	testall.Beside(t)
	server := testenv.OwnNATS(t)
	d, events := threeFacts(t, server, world.Env{"BRIDGE_DEAD_LETTER": "dead", "BRIDGE_NATS_STREAM": "", "BRIDGE_STREAM_FACTS_CREATED": "created"})
	tooSmall := events.CachedInfo().Config
	tooSmall.MaxMsgSize = 100
	if _, err := server.JetStream(t).UpdateStream(t.Context(), tooSmall); err != nil {
		t.Fatal(err)
	}
	dead := server.CreateStream(t, jetstream.StreamConfig{Name: "DEAD", Subjects: []string{"dead"}, Duplicates: 2 * time.Minute})
	areDead := func() bool { return world.NATSBus(server).Count(t, "DEAD") == 3 }
	d.Start()
	world.Eventually(t, time.Minute, "the dead letters are there", areDead)
	d.Kill()
	d.LoseCheckpoint()
	if err := dead.DeleteMsg(t.Context(), 1); err != nil || areDead() {
		t.Fatalf("the dead letter is not removed: %v", err)
	}
	d.Start()
	world.Eventually(t, time.Minute, "the dead letter is there again", areDead)
}
