package acceptance

import (
	"fmt"
	"testing"
	"time"

	"bridge/tests/world"

	"bridge/tests/testall"
	"bridge/tests/testenv"
)

// memoryLimit is what a program may take that drains a backlog.
const memoryLimit = 100 << 20

// memoryRows is how many rows of about 300 bytes a backlog has: three times the limit, without what
// events add.
func memoryRows() int {
	if world.Soak {
		return 2_000_000
	}
	return 1_000_000
}

func TestMemoryStaysBoundedWhileDrainingABacklog(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	rows := memoryRows()
	table := world.Empty(t, testenv.MariaDB(t))
	table.Exec(`CREATE TABLE backlog (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, name varchar(64) NOT NULL,
		amount decimal(12,2) NOT NULL, created datetime(3) NOT NULL, payload varchar(400) NOT NULL)`)
	table.Exec(fmt.Sprintf(`INSERT INTO backlog (name, amount, created, payload)
		SELECT concat('row-', seq), seq / 7, now(3) - interval 1 hour, repeat(md5(seq), 8) FROM %s ORDER BY seq`, testenv.Sequence(rows)))
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		occupy(t, 1)
		name := table.Name + "_backlog"
		e := b.Env().With(world.Env{
			"BRIDGE_SOURCE_URL":                 table.URL,
			"BRIDGE_STREAMS":                    "backlog",
			"BRIDGE_STREAM_BACKLOG_TABLE":       "backlog",
			"BRIDGE_STREAM_BACKLOG_KIND":        "release",
			"BRIDGE_STREAM_BACKLOG_CREATED":     "created",
			"BRIDGE_STREAM_BACKLOG_DESTINATION": b.Open(t, name),
		})
		d := world.NewDaemon(t, world.Binary(t, false), e)
		started := time.Now()
		d.Start()
		var peak int64
		world.Eventually(t, 10*time.Minute, "backlog drained", func() bool {
			rss, err := d.RSSAnon()
			if err != nil {
				t.Fatal(err)
			}
			peak = max(peak, rss)
			return d.Position("backlog") == uint64(rows)
		})
		t.Logf("%d rows in %s, RssAnon at most %d MiB", rows, time.Since(started).Round(time.Second), peak>>20)
		if got := b.Count(t, name); got != int64(rows) {
			t.Errorf("%d messages arrived, want %d", got, rows)
		}
		if peak > memoryLimit {
			t.Errorf("RssAnon reached %d MiB, want less than %d", peak>>20, memoryLimit>>20)
		}
	})
}
