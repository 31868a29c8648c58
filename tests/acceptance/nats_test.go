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
	stream := server.CreateStream(t, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"a.>"}, Duplicates: 2 * time.Minute})
	e, insert := newShop(t)
	insert(3)
	d := world.NewDaemon(t, world.Binary(t, false), e.With(world.Env{
		"BRIDGE_SINK_URL": "nats://blind:a@" + server.Addr(), "BRIDGE_NATS_STREAM": "EVENTS", "BRIDGE_STREAM_ORDERS_DESTINATION": "a.{type}",
	}))
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
