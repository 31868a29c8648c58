package torture

import (
	"os"
	"path/filepath"
	"slices"
	"time"

	"example.org/bridge/tests/world"

	"github.com/nats-io/nats.go/jetstream"
)

// checkpointFaults are done to the folder of the checkpoint. What it lacks is read from the bus.
var checkpointFaults = []fault{
	{
		name: "checkpoint-truncated", family: "checkpoint", what: "files of the checkpoint are cut off, one after the other", repeats: true,
		inject: func(tr *trial) {
			damages(tr, func(content []byte) []byte { return content[:tr.rng.IntN(len(content))] })
		},
	},
	{
		name: "checkpoint-flipped", family: "checkpoint", what: "single bits of the files of the checkpoint change, one file after the other", repeats: true,
		inject: func(tr *trial) {
			damages(tr, func(content []byte) []byte {
				content[tr.rng.IntN(len(content))] ^= byte(1) << tr.rng.IntN(8)
				return content
			})
		},
	},
	{
		name: "checkpoint-older", family: "checkpoint", what: "the folder is replaced by a copy of some seconds before, twice", repeats: true,
		inject: func(tr *trial) {
			for range 2 {
				tr.kill()
				copied := tr.CopyCheckpoint()
				tr.Start()
				tr.flows()
				tr.outage(10 * time.Second)
				tr.stops()
				tr.sometime(time.Second)
				tr.PutCheckpoint(copied)
				tr.Start()
				tr.flows()
			}
		},
	},
	{
		name: "checkpoint-removed", family: "checkpoint", what: "the folder is removed, twice", repeats: true,
		prepare: func(tr *trial) {
			// JetStream drops no repeats.
			for _, stream := range bothStreams {
				if tr.Bus.NATS != nil {
					tr.Bus.Configure(tr.T, tr.Destination(stream), func(c *jetstream.StreamConfig, _ jetstream.StreamState) { c.Duplicates = time.Second })
				}
			}
		},
		inject: func(tr *trial) {
			for range 2 {
				tr.stops()
				tr.LoseCheckpoint()
				world.Pause(1500 * time.Millisecond)
				tr.Start()
				tr.flows()
			}
		},
	},
	{
		name: "checkpoint-shared", family: "checkpoint", what: "a second process, and commands, on the same folder",
		inject: func(tr *trial) {
			for range 2 {
				second := world.NewDaemon(tr.T, tr.Path, tr.Env.With(world.Env{"BRIDGE_HTTP_ADDR": "127.0.0.1:0"}))
				second.Start()
				status := tr.endOf(second)
				tr.says("the second process", status, second.Log.String(), tr.Checkpoint(), "in use by another process")
				status, _, stderr := world.Command(tr.T, tr.Env, "checkpoint", "reset", facts)
				tr.says("bridge checkpoint reset", status, stderr, tr.Checkpoint(), "in use by another process")
				tr.flows()
			}
			if tr.Ended() {
				tr.score.find("the first process ended")
			}
		},
	},
}

// damages changes one file of each kind of the checkpoint, in another order for each seed, while
// the program does not run. A file that says which manifest counts is made again at each start.
// Damage that is found at once is set aside, and what is found later ends the program, which then
// is to be started again.
func damages(tr *trial, change func([]byte) []byte) {
	tr.T.Helper()
	kinds := []string{"FORMAT", "db/MANIFEST-*", "db/OPTIONS-*", "db/*.sst"}
	tr.rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	for _, pattern := range kinds {
		tr.stops()
		found, err := filepath.Glob(filepath.Join(tr.Checkpoint(), pattern))
		tr.check(err)
		if len(found) == 0 {
			tr.T.Fatalf("there is no %s", pattern)
		}
		path := found[tr.rng.IntN(len(found))]
		content, err := os.ReadFile(path)
		tr.check(err)
		tr.check(os.WriteFile(path, change(slices.Clone(content)), 0o600))
		said := len(tr.Log.String())
		tr.Start()
		deadline := time.Now().Add(time.Minute)
		// More than once: a damaged block may be read for a later row alone.
		for range 3 {
			rows, states := tr.World.Highest(facts), tr.World.Highest(entities)
			for (tr.Position(facts) < rows || tr.Position(entities) < states) && time.Now().Before(deadline) {
				select {
				case <-tr.Done:
					tr.cuts++
					tr.says("with a damaged "+pattern, tr.Cmd.ProcessState.ExitCode(), tr.Log.String()[said:], "damaged", "restart bridge")
					tr.Start()
				case <-time.After(50 * time.Millisecond):
				}
			}
		}
		tr.flows()
	}
}
