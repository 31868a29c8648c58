package torture

import (
	"fmt"
	"strings"
	"time"

	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"

	"github.com/nats-io/nats.go/jetstream"
)

// contentsFaults are done to what the bus holds, and to what it lets in.
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
			tr.unreadyFor("maximum messages")
			tr.outage(20 * time.Second)
			for _, stream := range bothStreams {
				tr.Bus.Configure(tr.T, tr.Destination(stream), func(c *jetstream.StreamConfig, _ jetstream.StreamState) { c.MaxMsgs = -1 })
			}
		},
	},
	{
		name: "another-domain", family: "bus contents", only: "nats", because: "Kafka drops no repeats by an id", repeats: true,
		what:    "another bridge publishes both tables in another domain to the same streams, under the same ids; both are killed and lose their checkpoints, twice",
		prepare: func(tr *trial) { tr.Env["BRIDGE_DOMAIN_ID"] = "ours" },
		inject: func(tr *trial) {
			other := inAnotherDomain(tr)
			other.Start()
			for range 2 {
				id := tr.World.Highest(facts)
				world.Eventually(tr.T, time.Minute, "the other domain is published", func() bool { return other.Position(facts) >= id })
				tr.flows()
				tr.kill()
				other.Kill()
				tr.removeCheckpoint(other)
				other.Start()
				tr.Start()
				tr.flows()
			}
			other.Kill()
		},
	},
	{
		name: "another-database", family: "bus contents", repeats: true,
		what: "another bridge in the same domain reads another database and publishes to the same topics or streams; both lose their checkpoints, twice: the other one stops",
		inject: func(tr *trial) {
			w := otherDatabase(tr)
			other := tr.another(world.Env{"BRIDGE_SOURCE_URL": w.URL})
			for range 2 {
				tr.kill()
				tr.removeCheckpoint(other)
				other.Start()
				tr.Start()
				for _, stream := range bothStreams {
					if got := world.AwaitStopped(tr.T, other, stream); !strings.Contains(got.LastError, "another database") {
						tr.score.find("%s of the other database stops: %s", stream, got.LastError)
					}
				}
				tr.flows()
				other.Kill()
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
	{
		name: "row-too-large", family: "bus contents", what: "rows that the bus refuses as too large, in both streams: they are put aside", prepare: toPutAside,
		inject: func(tr *trial) {
			for range 6 {
				tr.swell(facts)
				tr.swell(entities)
				tr.sometime(500 * time.Millisecond)
			}
			tr.flows()
			// What is too large for an event is none of its states: the last one has to arrive.
			tr.World.Exec("UPDATE strict SET bulk = NULL, modified = now(6) WHERE bulk IS NOT NULL")
			tr.readDeadLetters()
		},
	},
	{
		name: "row-too-large-alone", family: "bus contents", prepare: swelling,
		what: "the same without a place for dead letters: that stream stops, the other goes on; the bus's limit is made larger and bridge restarted",
		inject: func(tr *trial) {
			for _, turn := range [][2]string{{facts, entities}, {entities, facts}} {
				stream, other := turn[0], turn[1]
				for shards := tr.Shards(stream); len(shards) == 1 && shards[0].State == "running"; shards = tr.Shards(stream) {
					tr.swell(stream)
					world.Pause(300 * time.Millisecond)
				}
				tr.shardStops(stream, "refuses row", "BRIDGE_STREAM_"+strings.ToUpper(stream)+"_DEAD_LETTER", "higher limit")
				tr.cuts++
				tr.goesOn(other)
				tr.Bus.Limit(tr.T, tr.Destination(stream), 0)
				tr.terminate()
				tr.Start()
				tr.flows()
			}
		},
	},
}

// restartsBehind waits until the release stream has stopped because the bus has lost messages, and
// restarts the program, as it asks for. The other stream heals by itself.
func (tr *trial) restartsBehind() {
	tr.T.Helper()
	tr.shardStops(facts, "the bus has lost acknowledged messages", "start bridge again")
	tr.goesOn(entities)
	tr.terminate()
	tr.Start()
}

// inAnotherDomain returns a second bridge over the tables of the trial, which publishes in another
// domain to other subjects of the same streams.
func inAnotherDomain(tr *trial) *world.Daemon {
	tr.T.Helper()
	e := world.Env{"BRIDGE_DOMAIN_ID": "theirs"}
	for name, value := range tr.Env {
		if strings.HasSuffix(name, "_DESTINATION") {
			e[name] = strings.Replace(value, "{type}", "theirs.{type}", 1)
		}
	}
	return tr.another(e)
}

// otherDatabase returns both tables in another database, with other rows under the same ids.
func otherDatabase(tr *trial) *world.World {
	tr.T.Helper()
	rows, states := world.Load(tr.rng.Uint64(), tr.rng.Uint64())
	states.Entities = 0
	w := world.New(tr.T, world.Options{Database: tr.servers.db, Rows: &rows, Entities: &states})
	w.Insert("other", 500)
	first := uint64(0)
	tr.World.Scan("SELECT min(id) FROM "+entities, &first)
	w.Exec(fmt.Sprintf("INSERT INTO %s (id, app, name, state, n) SELECT %d + seq, 'other', concat('other-', seq), concat('other state ', seq), 1000000 + seq FROM %s",
		entities, first, testenv.Sequence(1000)))
	return w
}
