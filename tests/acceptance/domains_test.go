package acceptance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/sink"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// TestTwoDomainsOnOneStream has two databases with the same rows published in two domains to one
// JetStream stream, over kills and lost stores: the events have the same ids, and none may be
// dropped as a repeat of the other domain's.
func TestTwoDomainsOnOneStream(t *testing.T) {
	testall.Beside(t)
	server := testenv.OwnNATS(t)
	server.CreateStream(t, natsjs.StreamConfig{Name: "EVENTS", Subjects: []string{"eiffel.>"}, Duplicates: 2 * time.Minute})
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
func threeFacts(t *testing.T, server *testenv.NATSServer, more world.Env) (*world.Daemon, natsjs.Stream) {
	t.Helper()
	stream := server.CreateStream(t, natsjs.StreamConfig{Name: "EVENTS", Subjects: []string{"a.>", "b.>"}, Duplicates: 2 * time.Minute})
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
	dead := server.CreateStream(t, natsjs.StreamConfig{Name: "DEAD", Subjects: []string{"dead"}, Duplicates: 2 * time.Minute})
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
