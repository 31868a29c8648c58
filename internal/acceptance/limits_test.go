package acceptance

import (
	"fmt"
	"testing"
	"time"

	"bridge/internal/testenv"
)

// memoryRows is a backlog of about 300 bytes a row.
const memoryRows = 2_000_000

func TestMemoryStaysBoundedWhileDrainingABacklog(t *testing.T) {
	const limit = 100 << 20
	eachBus(t, func(t *testing.T, b bus) {
		table := newRevisions(t, testenv.MariaDB(t))
		table.exec(`CREATE TABLE backlog (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, name varchar(64) NOT NULL,
			amount decimal(12,2) NOT NULL, created datetime(3) NOT NULL, payload varchar(400) NOT NULL)`)
		table.exec(fmt.Sprintf(`INSERT INTO backlog (name, amount, created, payload)
			SELECT concat('row-', seq), seq / 7, now(3) - interval 1 hour, repeat(md5(seq), 8) FROM seq_1_to_%d`, memoryRows))
		name := table.name + "_backlog"
		e := b.env().with(env{
			"BRIDGE_SOURCE_URL":                 table.sourceURL(),
			"BRIDGE_STREAMS":                    "backlog",
			"BRIDGE_STREAM_BACKLOG_TABLE":       "backlog",
			"BRIDGE_STREAM_BACKLOG_KIND":        "release",
			"BRIDGE_STREAM_BACKLOG_CREATED":     "created",
			"BRIDGE_STREAM_BACKLOG_DESTINATION": b.open(t, name),
		})
		d := newDaemon(t, binary(t, false), e)
		started := time.Now()
		d.start()
		var peak int64
		eventually(t, 10*time.Minute, "backlog drained", func() bool {
			rss, err := d.rssAnon()
			if err != nil {
				t.Fatal(err)
			}
			peak = max(peak, rss)
			return d.position("backlog") == memoryRows
		})
		t.Logf("%d rows in %s, RssAnon at most %d MiB", memoryRows, time.Since(started).Round(time.Second), peak>>20)
		if got := b.count(t, name); got != memoryRows {
			t.Errorf("%d messages arrived, want %d", got, memoryRows)
		}
		if peak > limit {
			t.Errorf("RssAnon reached %d MiB, want less than %d", peak>>20, limit>>20)
		}
	})
}
