package acceptance

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// TestFaultsThatOnlyAPersonCanFix takes away a table, a column and a grant, each from one of four
// streams.
func TestFaultsThatOnlyAPersonCanFix(t *testing.T) {
	testall.Beside(t)
	b := world.NATSBus(testenv.NATS(t))
	table := world.Empty(t, testenv.MariaDB(t))
	for _, name := range []string{"fine", "columnless", "hidden"} {
		table.Exec("CREATE TABLE " + name + " (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, body text)")
		table.Exec("INSERT INTO " + name + " (body) VALUES ('x')")
	}
	user := "narrow_" + table.Name[max(0, len(table.Name)-12):]
	table.Exec(fmt.Sprintf("CREATE USER '%s'@'%%' IDENTIFIED BY 'hunter2-secret'", user))
	for _, name := range []string{"fine", "columnless"} {
		table.Exec(fmt.Sprintf("GRANT SELECT ON `%s`.%s TO '%s'@'%%'", table.Name, name, user))
	}
	// A grant outlives its table.
	table.Exec("CREATE TABLE gone (id int)")
	table.Exec(fmt.Sprintf("GRANT SELECT ON `%s`.gone TO '%s'@'%%'", table.Name, user))
	table.Exec("DROP TABLE gone")
	var streams []world.Stream
	for _, name := range []string{"fine", "gone", "columnless", "hidden"} {
		streams = append(streams, world.Stream{Name: name, Table: name, Kind: "release"})
	}
	d := table.Publish(b, world.Publishing{Streams: streams, Env: world.Env{
		"BRIDGE_SOURCE_URL": table.Server.URL(user, "hunter2-secret", table.Name), "BRIDGE_STREAM_COLUMNLESS_CREATED": "born",
	}})
	d.Start()
	for stream, words := range map[string][]string{
		"gone":       {"gone", "exist"},
		"columnless": {"born"},
		"hidden":     {"GRANT SELECT ON", "hidden"},
	} {
		world.AwaitStopped(t, d.Daemon, stream, words...)
	}
	world.Eventually(t, time.Minute, "the fine stream goes on", func() bool { return d.Position("fine") == 1 })

	t.Run("and goes on by itself once the table is back", func(t *testing.T) {
		table.Exec("CREATE TABLE gone (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, body text)")
		table.Exec("INSERT INTO gone (body) VALUES ('x')")
		table.Exec("ALTER TABLE columnless ADD COLUMN born datetime(6) NOT NULL DEFAULT '2020-01-01'")
		table.Exec(fmt.Sprintf("GRANT SELECT ON `%s`.hidden TO '%s'@'%%'", table.Name, user))
		for _, stream := range []string{"gone", "columnless", "hidden"} {
			world.Eventually(t, time.Minute, stream+" goes on", func() bool { return d.Position(stream) == 1 })
		}
		world.AwaitReady(t, d.Daemon)
	})
	if strings.Contains(d.Log.String(), "hunter2-secret") {
		t.Error("the log holds the password")
	}
}

// TestASettingThatTheCheckpointDependsOn: KIND is another one at the next start. Its stream stops
// and publishes nothing, the other goes on, and the command that is named has it begin again.
func TestASettingThatTheCheckpointDependsOn(t *testing.T) {
	testall.Beside(t)
	e, insert := newShop(t)
	insert(9)
	d := world.NewDaemon(t, world.Binary(t, false), e.With(world.Env{
		"BRIDGE_SINK_URL": "embedded:" + filepath.Join(t.TempDir(), "nats"), "BRIDGE_STREAMS": "orders,parts",
		"BRIDGE_STREAM_PARTS_TABLE": e["BRIDGE_STREAM_ORDERS_TABLE"], "BRIDGE_STREAM_PARTS_KIND": "release",
	}))
	d.Start()
	passed := func(stream string, id uint64) {
		t.Helper()
		world.Eventually(t, time.Minute, fmt.Sprintf("%s has passed %d", stream, id), func() bool { return d.Position(stream) == id })
	}
	passed("orders", 9)
	passed("parts", 9)
	d.Term()

	insert(1)
	d.Env["BRIDGE_STREAM_PARTS_KIND"] = "capability"
	found := runCheck(t, d.Env).find("checkpoint-meaning")
	if len(found) != 1 || found[0].Severity != "unsafe" || !strings.Contains(found[0].What, "KIND was release and is capability") || found[0].Statement != "bridge checkpoint reset parts" {
		t.Errorf("check finds %+v", found)
	}
	d.Start()
	passed("orders", 10)
	world.AwaitStopped(t, d, "parts", "bridge checkpoint reset parts")
	world.AwaitUnready(t, d, "another configuration")
	d.Term()
	if status, _, stderr := world.Command(t, d.Env, "checkpoint", "reset", "parts"); status != 0 {
		t.Fatal(stderr)
	}
	if found := runCheck(t, d.Env).find("checkpoint-meaning"); len(found) > 0 {
		t.Errorf("check finds %+v", found)
	}
	d.Start()
	passed("parts", 10)
	world.AwaitReady(t, d)
}
