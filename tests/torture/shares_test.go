package torture

import (
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/tests/faulty/failpoint"
	"example.org/bridge/tests/world"
)

// shareFaults are done to one of three processes that share the tables, and to the tables.
var shareFaults = []fault{
	{
		name: "share-killed", family: "shares", shares: 3, repeats: true, prepare: withProgress,
		what: "one of three shares is killed, again and again",
		inject: func(tr *trial) {
			tr.killShares(5, func(*world.Daemon) { tr.sometime(time.Second) })
		},
	},
	{
		name: "share-folder-lost", family: "shares", shares: 3, repeats: true, prepare: withProgress,
		what: "one of three shares is killed and started without its folder, again and again",
		inject: func(tr *trial) {
			tr.killShares(3, func(d *world.Daemon) {
				d.LoseCheckpoint()
			})
		},
	},
	{
		name: "share-paused", family: "shares", shares: 3, repeats: true, prepare: withProgress,
		what: "one of three shares stands still for 20 s, again and again",
		inject: func(tr *trial) {
			tr.harmShares(3, func(d *world.Daemon) { d.Signal(syscall.SIGSTOP) }, func(d *world.Daemon) {
				tr.outage(20 * time.Second)
				d.Signal(syscall.SIGCONT)
			})
		},
	},
	{
		name: "share-cut", family: "shares", shares: 3, repeats: true,
		what: "the way of one of three shares to the bus swallows all data for 20 s, again and again",
		prepare: func(tr *trial) {
			withProgress(tr)
			through(tr)
			if tr.Bus.NATS == nil {
				return
			}
			for _, stream := range bothStreams {
				// On a busy machine the others may take longer than two minutes.
				tr.Bus.Configure(tr.T, tr.Destination(stream), func(c *jetstream.StreamConfig, _ jetstream.StreamState) { c.Duplicates = 10 * time.Minute })
			}
		},
		inject: func(tr *trial) {
			tr.harmShares(3, func(d *world.Daemon) { tr.servers.busProxy.Isolate(d.Cmd.Process.Pid) }, func(*world.Daemon) {
				tr.outage(20 * time.Second)
				broken := tr.servers.busProxy.Broken()
				tr.servers.busProxy.Heal()
				tr.met(tr.servers.busProxy.Broken()-broken, "no connection of the share was kept from anything")
			})
		},
	},
	{
		name: "shares-without-database", family: "shares", shares: 3, prepare: withProgress,
		what:   "SIGKILL of the database of three shares, away for 10 s, twice",
		inject: killedTwice(databaseOf, false),
	},
	{
		name: "shares-change", family: "shares", shares: 3, repeats: true,
		what: "3, no, 4, 6, 3 and no shares; a process of each former number wakes up",
		// Else one that stands still is waited for for 45 s.
		prepare: withProgressAnd(failpoint.SilenceVariable, "12s"),
		inject: func(tr *trial) {
			for _, number := range []int{0, 4, 6, 3, 0}[:tr.times(5)] {
				tr.sometime(2 * time.Second)
				tr.changeShares(number)
				tr.flows()
			}
		},
	},
	{
		name: "tables-come-and-go", family: "shares", shares: 3, repeats: true,
		what:    "tables that match a pattern are created, filled, dropped and made again, while one of three shares is killed",
		prepare: withProgressAnd(failpoint.LookVariable, "1s"),
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

func withProgress(tr *trial) {
	tr.T.Helper()
	tr.Env = tr.Env.With(tr.Bus.Progress(tr.T)).With(world.Env{"BRIDGE_CHECKPOINT_URL": "bus://" + tr.T.TempDir()})
}

// withProgressAnd does so, too, and runs a program that a variable of package failpoint tells its
// time.
func withProgressAnd(variable, value string) func(*trial) {
	return func(tr *trial) {
		withProgress(tr)
		tr.Daemon.Path = world.Faulty(tr.T)
		tr.Env[variable] = value
	}
}

// changeShares ends the processes, in good order or not, but for one that stands still until a
// number of others is ready. That one is shut out.
func (tr *trial) changeShares(number int) {
	still := tr.rng.IntN(len(tr.Shares))
	woken := tr.Tables(tr.Shares[still])
	for i, d := range tr.Shares {
		tr.cuts += tr.Tables(d) + 1
		switch {
		case i == still:
			d.Signal(syscall.SIGSTOP)
		case tr.rng.IntN(2) == 0:
			d.Kill()
		default:
			d.Term()
		}
	}
	former := tr.Shares[still]
	tr.StartShares(number)
	if !tr.Bus.Once() {
		tr.woken += woken
	}
	former.Signal(syscall.SIGCONT)
	if status := former.Wait(); status != 1 {
		tr.score.Find("a process of a former number has ended with status %d", status)
	}
}

// then is called before the share starts again.
func (tr *trial) killShares(times int, then func(*world.Daemon)) {
	tr.harmShares(times, (*world.Daemon).Kill, func(d *world.Daemon) {
		then(d)
		d.Start()
	})
}

// harmShares does harm to one of the shares after the other. The others have to publish what is
// written before that is healed.
func (tr *trial) harmShares(times int, harm, heal func(*world.Daemon)) {
	tables := make([]int, len(tr.Shares))
	for i, share := range tr.Shares {
		tables[i] = tr.Tables(share)
		tr.met(tables[i], "a share has no tables")
	}
	for range tr.times(times) {
		tr.sometime(time.Second)
		i := tr.rng.IntN(len(tr.Shares))
		tr.cuts += tables[i] + 1 // One may have come.
		harm(tr.Shares[i])
		for _, other := range slices.Delete(slices.Clone(tr.Shares), i, i+1) {
			tr.GoesOn(other)
		}
		heal(tr.Shares[i])
		tr.sometime(time.Second)
	}
}
