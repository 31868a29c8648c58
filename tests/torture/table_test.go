package torture

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/tests/must"
	"example.org/bridge/tests/workload"
	"example.org/bridge/tests/world"
)

var tableFaults = []fault{
	{
		name: "value-not-utf8", family: "tables", what: "rows in both tables whose text is no UTF-8: they are published with null", prepare: oddColumn,
		inject: func(tr *trial) {
			for range 10 {
				tr.spoil()
				tr.sometime(500 * time.Millisecond)
			}
			tr.counts("bridge_bad_values_total")
		},
	},
	{
		name: "column-added", family: "tables", what: "a column that may be NULL comes, which is no event, then one with a default, which is news of every row",
		inject: func(tr *trial) {
			tr.alter("ADD COLUMN maybe varchar(20) DEFAULT NULL")
			tr.flows()
			tr.alter("ADD COLUMN extra varchar(20) NOT NULL DEFAULT 'all'")
		},
	},
	{
		name: "column-dropped", family: "tables", what: "a column goes that the tables had from the first", prepare: extraColumn,
		inject: func(tr *trial) { tr.alter("DROP COLUMN extra") },
	},
	{
		name: "column-renamed", family: "tables", what: "a column gets another name, and back", prepare: extraColumn,
		inject: func(tr *trial) {
			tr.alter("RENAME COLUMN extra TO other")
			tr.flows()
			tr.alter("RENAME COLUMN other TO extra")
		},
	},
	{
		name: "table-renamed-away", family: "tables", what: "the one table is away for 20 s, then the other, each under another name; the other stream goes on",
		inject: func(tr *trial) {
			tr.vanish(facts, entities)
			tr.flows()
			tr.vanish(entities, facts)
		},
	},
	{
		name: "key-updated", family: "tables", repeats: true,
		what: "columns of keys are updated, while bridge is killed three times and then loses its checkpoint",
		mix: map[workload.Change]int{
			workload.Insert: 8, workload.Update: 8, workload.Heartbeat: 4, workload.SoftDelete: 2, workload.Revive: 2, workload.Rename: 12, workload.Recase: 4,
		},
		prepare: func(tr *trial) {
			tr.World.Exec("ALTER TABLE " + entities + " MODIFY modified datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)")
			tr.Env["BRIDGE_STREAM_STRICT_RECONCILE_INTERVAL"] = "24h"
		},
		inject: func(tr *trial) {
			for lost := range 4 {
				tr.sometime(2 * time.Second)
				tr.kill()
				if lost == 3 {
					tr.LoseCheckpoint()
				}
				tr.sometime(time.Second)
				tr.Start()
				tr.flows()
			}
			tr.stopWriters()
			world.Eventually(tr.T, time.Minute, "the bus has the entities of the table", func() bool { return tr.Difference(entities) == "" })
		},
	},
}

func (tr *trial) alter(what string) {
	tr.altered = true
	for _, table := range bothStreams {
		tr.sometime(time.Second)
		tr.World.Exec("ALTER TABLE " + table + " " + what)
	}
}

func extraColumn(tr *trial) {
	for _, table := range bothStreams {
		tr.World.Exec("ALTER TABLE " + table + " ADD COLUMN extra varchar(20) NOT NULL DEFAULT 'all'")
	}
}

// vanish takes a table away for a while, in which the other stream has to go on.
func (tr *trial) vanish(table, other string) {
	tr.World.Exec("RENAME TABLE " + table + " TO aside")
	begun := time.Now()
	tr.shardStops(table, table)
	tr.goesOn(other)
	tr.outage(20*time.Second - time.Since(begun))
	tr.goesOn(other)
	tr.World.Exec("RENAME TABLE aside TO " + table)
}

// oddColumn adds to both tables a column for text, and makes a table with one text that is no
// UTF-8.
func oddColumn(tr *trial) {
	for _, table := range bothStreams {
		tr.World.Exec("ALTER TABLE " + table + " ADD COLUMN odd varchar(10) CHARACTER SET utf8mb4 NOT NULL DEFAULT 'fine'")
	}
	// The server lets no such text in. It takes the file of a table with bytes for that of one with
	// text, which has the same layout.
	tr.World.Exec("CREATE TABLE bytes (c varbinary(40)) ENGINE=Aria")
	tr.World.Exec("INSERT INTO bytes VALUES (x'61C32862')")
	tr.World.Exec("CREATE TABLE texts (c varchar(10) CHARACTER SET utf8mb4) ENGINE=Aria")
	tr.World.Exec("FLUSH TABLES bytes, texts")
	var folder, text string
	tr.World.Scan("SELECT @@datadir", &folder)
	for _, ending := range []string{".MAD", ".MAI"} {
		content := must.Get(os.ReadFile(filepath.Join(folder, tr.World.Name, "bytes"+ending)))(tr.T)
		must.OK(tr.T, os.WriteFile(filepath.Join(folder, tr.World.Name, "texts"+ending), content, 0o660))
	}
	if tr.World.Scan("SELECT hex(c) FROM texts", &text); text != "61C32862" {
		tr.T.Fatalf("the text is %q", text)
	}
}

// spoil puts text that is no UTF-8 into what both tables have got in the last moment.
func (tr *trial) spoil() {
	tr.T.Helper()
	for _, table := range bothStreams {
		for {
			_, err := tr.World.DB.Exec("UPDATE " + table + " JOIN texts SET odd = c WHERE odd = 'fine' AND created > now(6) - INTERVAL 300000 MICROSECOND")
			var refused *mysql.MySQLError
			if errors.As(err, &refused) && refused.Number == 1213 {
				continue // A writer came first.
			}
			must.OK(tr.T, err)
			break
		}
	}
}

// counts notes when a counter of the program is zero for one of the streams.
func (tr *trial) counts(metric string) {
	tr.T.Helper()
	for _, stream := range bothStreams {
		begin := metric + `{stream="` + stream + `"} `
		world.Eventually(tr.T, time.Minute, begin+"is above zero", func() bool {
			_, body := tr.Get("/metrics")
			_, value, found := strings.Cut(body, begin)
			return found && !strings.HasPrefix(value, "0\n")
		})
	}
}

var contentsFaults = []fault{
	{
		name: "topics-remade", family: "bus contents", repeats: true, loses: true,
		what: "both topics or streams are deleted and made again; the release stream stops, and a person restarts bridge",
		inject: func(tr *trial) {
			for _, stream := range bothStreams {
				tr.Bus.Remake(tr.T, tr.Destination(stream))
			}
			tr.restartsBehind()
		},
	},
	{
		name: "bus-restored", family: "bus contents", repeats: true, loses: true,
		what: "the bus goes back to how it was seconds ago, while bridge runs; the release stream stops, and a person restarts bridge",
		inject: func(tr *trial) {
			before := tr.Bus.Server().Snapshot(tr.T)
			tr.flows()
			tr.sometime(3 * time.Second)
			tr.Bus.Server().Restore(tr.T, before)
			tr.restartsBehind()
		},
	},
	{
		name: "bus-restored-meanwhile", family: "bus contents", repeats: true, loses: true,
		what: "the same while bridge does not run: it heals by itself",
		inject: func(tr *trial) {
			before := tr.Bus.Server().Snapshot(tr.T)
			tr.flows()
			tr.sometime(3 * time.Second)
			tr.terminate()
			tr.Bus.Server().Restore(tr.T, before)
			tr.Start()
		},
	},
	{
		name: "stream-full", family: "bus contents", only: "nats", because: "a topic of Kafka has no limit at which it refuses messages",
		what: "both streams reach a limit and discard what is new, for 20 s",
		inject: func(tr *trial) {
			for _, stream := range bothStreams {
				tr.Bus.Configure(tr.T, tr.Destination(stream), func(c *jetstream.StreamConfig, now jetstream.StreamState) {
					c.Discard, c.MaxMsgs = jetstream.DiscardNew, int64(now.Msgs)+20
				})
			}
			world.AwaitUnready(tr.T, tr.Daemon, "maximum messages")
			tr.outage(20 * time.Second)
			for _, stream := range bothStreams {
				tr.Bus.Configure(tr.T, tr.Destination(stream), func(c *jetstream.StreamConfig, _ jetstream.StreamState) { c.MaxMsgs = -1 })
			}
		},
	},
	{
		name: "leader-moved", family: "bus contents", what: "on a bus of three servers other leaders are elected again and again for 30 s",
		on: clustered,
		inject: func(tr *trial) {
			moved := make(map[string]int)
			// Each has to move once, however long a busy cluster takes for that.
			begun := time.Now()
			for time.Since(begun) < tr.within(30*time.Second) || (moved[facts] == 0 || moved[entities] == 0) && time.Since(begun) < 2*time.Minute {
				for _, stream := range bothStreams {
					moved[stream] += tr.Bus.MoveLeaders(tr.T, tr.Destination(stream))
					tr.sometime(500 * time.Millisecond)
				}
			}
			for _, stream := range bothStreams {
				tr.met(moved[stream], "no leader of "+stream+" has moved")
			}
		},
	},
}

// restartsBehind waits until the release stream has stopped because the bus has lost messages, and
// restarts the program, as it asks for. The other stream heals by itself.
func (tr *trial) restartsBehind() {
	tr.shardStops(facts, "the bus has lost acknowledged messages", "start bridge again")
	tr.goesOn(entities)
	tr.terminate()
	tr.Start()
}
