package torture

import (
	"fmt"
	"slices"
	"time"

	"example.org/bridge/tests/faulty/failpoint"
	"example.org/bridge/tests/world"
)

// shareFaults are done to one of three processes that share the tables, and to the tables.
var shareFaults = []fault{
	{
		name: "share-killed", family: "shares", shares: 3, repeats: true, prepare: withProgress,
		what: "one of three shares is killed at random moments, again and again; the others go on",
		inject: func(tr *trial) {
			tr.killShares(5, func(*world.Daemon) { tr.sometime(time.Second) })
		},
	},
	{
		name: "share-folder-lost", family: "shares", shares: 3, repeats: true, prepare: withProgress,
		what: "one of three shares is killed and started without its folder, again and again; the others go on",
		inject: func(tr *trial) {
			tr.killShares(3, func(d *world.Daemon) {
				d.LoseCheckpoint()
			})
		},
	},
	{
		name: "tables-come-and-go", family: "shares", shares: 3, repeats: true,
		what: "tables that match a pattern are created, filled, dropped and made again, while one of three shares is killed",
		prepare: func(tr *trial) {
			withProgress(tr)
			tr.Daemon.Path = world.Faulty(tr.T)
			tr.Env[failpoint.LookVariable] = "1s"
		},
		inject: func(tr *trial) {
			const table = facts + "_that_comes"
			for turn := range tr.times(5) {
				tr.World.Exec("CREATE TABLE " + table + " LIKE " + facts + "_0")
				tr.World.InsertInto(table, fmt.Sprintf("turn-%d", turn), 20+turn)
				tr.killShares(1, func(*world.Daemon) {})
				tr.flows()
				// With more rows than the one before, it would not be told apart from that.
				tr.World.InsertInto(table, fmt.Sprintf("more-%d", turn), 40)
				tr.flows()
				tr.World.Exec("DROP TABLE " + table)
				world.Eventually(tr.T, 2*time.Minute, table+" is gone", func() bool {
					for _, shard := range tr.Shards(facts) {
						if shard.Shard == table {
							return shard.State == "gone"
						}
					}
					return false
				})
			}
		},
	},
}

// withProgress has processes keep their progress on the bus.
func withProgress(tr *trial) {
	tr.T.Helper()
	tr.Env = tr.Env.With(tr.Bus.Progress(tr.T)).With(world.Env{"BRIDGE_CHECKPOINT_URL": "bus://" + tr.T.TempDir()})
}

// killShares kills one of the shares after the other, and starts it after something was done to
// it. The others have to publish what is written meanwhile.
func (tr *trial) killShares(times int, then func(*world.Daemon)) {
	tr.T.Helper()
	tables := make([]int, len(tr.Shares))
	for i, share := range tr.Shares {
		tables[i] = tr.Tables(share)
		tr.met(tables[i], "a share has no tables")
	}
	for range tr.times(times) {
		tr.sometime(time.Second)
		i := tr.rng.IntN(len(tr.Shares))
		killed := tr.Shares[i]
		tr.cuts += tables[i] + 1 // One may have come.
		killed.Kill()
		then(killed)
		for _, other := range slices.Delete(slices.Clone(tr.Shares), i, i+1) {
			tr.GoesOn(other)
		}
		killed.Start()
		tr.sometime(time.Second)
	}
}
