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

// TestAColumnThatIsDroppedStopsItsTable alters one of two tables of a stream while bridge runs on
// a real server and a real bus: the other one goes on, and a new version sets both going.
func TestAColumnThatIsDroppedStopsItsTable(t *testing.T) {
	testall.Beside(t)
	b := world.KafkaBus(testenv.Kafka(t))
	table := world.Empty(t, testenv.MariaDB(t))
	for i := range 2 {
		table.Exec(fmt.Sprintf("CREATE TABLE part_%d (id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, name varchar(20) NOT NULL, note varchar(20)) ENGINE=InnoDB", i))
		table.Exec(fmt.Sprintf("INSERT INTO part_%d (name) VALUES ('a')", i))
	}
	d := table.Publish(b, world.Publishing{
		Streams: []world.Stream{{Name: "parts", Table: "part_{0..1}", Kind: "release"}}, Env: world.Env{"BRIDGE_ON_SCHEMA_CHANGE": "stop"},
	})
	at := func(first, second uint64) func() bool {
		return func() bool {
			s := d.Shards("parts")
			return len(s) == 2 && s[0].Position == first && s[1].Position == second
		}
	}
	d.Start()
	world.Eventually(t, time.Minute, "the first rows are published", at(1, 1))
	table.Exec("ALTER TABLE part_1 DROP COLUMN note")
	table.Exec("INSERT INTO part_0 (name) VALUES ('b')")
	table.Exec("INSERT INTO part_1 (name) VALUES ('b')")
	world.Eventually(t, time.Minute, "one table goes on, the other one stops", func() bool {
		s := d.Shards("parts")
		return at(2, 1)() && s[1].State == "stopped" && strings.Contains(s[1].LastError, "member note was string or null and is gone") &&
			strings.Contains(s[1].LastError, "BRIDGE_STREAM_PARTS_EVENT_VERSION")
	})
	if n := d.Metric("bridge_breaking_schema_changes_total"); n != 1 {
		t.Errorf("%v breaking changes were counted", n)
	}
	d.Term()
	mustFind(t, d.Env, "unsafe", "schema-changed topic-compacted log-flush", "part_1", "note", "EVENT_VERSION")

	d.Env["BRIDGE_STREAM_PARTS_EVENT_VERSION"] = "2.0.0"
	d.Start()
	world.Eventually(t, time.Minute, "both go on", at(2, 2))
	d.Term()
	if n := b.Count(t, d.Destination("parts")); n != 4 {
		t.Errorf("%d messages, want 4", n)
	}
}
