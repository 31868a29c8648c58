package acceptance

import (
	"testing"
	"time"

	"bridge/tests/testall"
	"bridge/tests/testenv"
	"bridge/tests/world"
)

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
