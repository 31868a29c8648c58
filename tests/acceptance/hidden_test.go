package acceptance

import (
	"strings"
	"testing"
	"time"

	"bridge/tests/world"

	"bridge/tests/testall"
	"bridge/tests/testenv"
)

// MariaDB lists none of the columns row_start and row_end, and yet they can be selected.
func TestAHiddenColumnStopsItsStreamAlone(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	table, e := shop(t, testenv.MariaDB(t))
	table.Exec("CREATE TABLE versions (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, name varchar(20) NOT NULL) ENGINE=InnoDB WITH SYSTEM VERSIONING")
	table.Exec("INSERT INTO versions (name) VALUES ('a')")
	e = e.With(world.Env{"BRIDGE_STREAMS": "versions,orders", "BRIDGE_STREAM_VERSIONS_TABLE": "versions", "BRIDGE_STREAM_VERSIONS_KIND": "release", "BRIDGE_STREAM_VERSIONS_CREATED": "row_start"})
	f := mustFind(t, e, "unsafe", "no-column", "row_start", "hidden", "CREATED")
	if f.Subject != "versions" || f.Statement != "" {
		t.Errorf("%+v", f)
	}

	d := world.NewDaemon(t, world.Binary(t, false), e)
	d.Start()
	world.Eventually(t, time.Minute, "the other stream is published", func() bool { return d.Position("orders") == 2 })
	world.Eventually(t, time.Minute, "the stream stops", func() bool {
		s := d.Shards("versions")
		return len(s) == 1 && s[0].State == "stopped" && strings.Contains(s[0].LastError, "is hidden")
	})
	if status, _ := d.Term(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	if log := d.Log.String(); strings.Contains(log, "panic") {
		t.Errorf("the log:\n%s", log)
	}
}
