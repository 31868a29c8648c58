package torture

import (
	"time"

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
	tr.T.Helper()
	tr.shardStops(facts, "the bus has lost acknowledged messages", "start bridge again")
	tr.goesOn(entities)
	tr.terminate()
	tr.Start()
}
