package torture

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bridge/tests/world"

	"github.com/nats-io/nats.go/jetstream"
)

// checkpointFaults are done to the folder of the checkpoint. What it lacks is read from the bus.
var checkpointFaults = []fault{
	{
		name: "checkpoint-truncated", family: "checkpoint", what: "files of the checkpoint are cut off, one after the other", repeats: true,
		inject: func(tr *trial) {
			f := folder{tr}
			for _, harmed := range f.files() {
				f.damages(harmed, func(content []byte) []byte { return content[:tr.rng.IntN(len(content))] })
			}
		},
	},
	{
		name: "checkpoint-flipped", family: "checkpoint", what: "single bits of the files of the checkpoint change, one file after the other", repeats: true,
		inject: func(tr *trial) {
			f := folder{tr}
			for _, harmed := range f.files() {
				f.damages(harmed, func(content []byte) []byte {
					content[tr.rng.IntN(len(content))] ^= byte(1) << tr.rng.IntN(8)
					return content
				})
			}
		},
	},
	{
		name: "checkpoint-older", family: "checkpoint", what: "the folder is replaced by a copy of some seconds before, twice", repeats: true,
		inject: func(tr *trial) {
			for range 2 {
				copied := folder{tr}.copies()
				tr.sometime(time.Second)
				tr.check(os.RemoveAll(tr.checkpoint()))
				tr.check(os.CopyFS(tr.checkpoint(), os.DirFS(copied)))
				tr.Start()
				tr.flows()
			}
		},
	},
	{
		name: "checkpoint-removed", family: "checkpoint", what: "the folder is removed, twice", repeats: true,
		prepare: func(tr *trial) {
			if tr.Bus.NATS != nil {
				// JetStream drops no repeats.
				tr.Bus.Configure(tr.T, tr.Destination(entities), func(c *jetstream.StreamConfig, _ jetstream.StreamState) { c.Duplicates = time.Second })
				tr.Bus.Configure(tr.T, tr.Destination(facts), func(c *jetstream.StreamConfig, _ jetstream.StreamState) { c.Duplicates = time.Second })
			}
		},
		inject: func(tr *trial) {
			for range 2 {
				tr.stops()
				tr.check(os.RemoveAll(tr.checkpoint()))
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
				tr.says("the second process", status, second.Log.String(), tr.checkpoint(), "in use by another process")
				status, _, stderr := world.Command(tr.T, tr.Env, "checkpoint", "reset", facts)
				tr.says("bridge checkpoint reset", status, stderr, tr.checkpoint(), "in use by another process")
				tr.flows()
			}
			if tr.Ended() {
				tr.score.find("the first process ended")
			}
		},
	},
}

// checkpoint returns the folder of the checkpoint.
func (tr *trial) checkpoint() string {
	return strings.TrimPrefix(tr.Env["BRIDGE_CHECKPOINT_URL"], "file:")
}

func (tr *trial) check(err error) {
	tr.T.Helper()
	if err != nil {
		tr.T.Fatal(err)
	}
}

func (tr *trial) reads(path string) []byte {
	tr.T.Helper()
	b, err := os.ReadFile(path)
	tr.check(err)
	return b
}

// stops ends the program, in good order or not.
func (tr *trial) stops() {
	tr.T.Helper()
	if tr.rng.IntN(2) == 0 {
		tr.kill()
	} else {
		tr.terminate()
	}
}

// copies makes a copy of the checkpoint, lets the program go on behind it for some seconds, and
// stops it.
func (f folder) copies() (path string) {
	f.T.Helper()
	f.kill()
	path = f.T.TempDir()
	f.check(os.CopyFS(path, os.DirFS(f.checkpoint())))
	f.Start()
	f.flows()
	f.outage(10 * time.Second)
	f.stops()
	return path
}

// folder is the checkpoint of a trial, as files to harm.
type folder struct{ *trial }

// kindsOfFiles are the files of a checkpoint that are harmed, one of each kind. A file that says
// which manifest counts is made anew at each start.
var kindsOfFiles = []string{"FORMAT", "db/MANIFEST-*", "db/OPTIONS-*", "db/*.sst"}

// files returns patterns of the files to harm, in another order for each seed.
func (f folder) files() []string {
	list := slices.Clone(kindsOfFiles)
	f.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// damages stops the program, changes a file of the checkpoint and starts the program. Damage that
// is found at once is set aside, and what is found later ends the program, which then is to be
// started again.
func (f folder) damages(pattern string, change func([]byte) []byte) {
	f.T.Helper()
	f.stops()
	found, err := filepath.Glob(filepath.Join(f.checkpoint(), pattern))
	f.check(err)
	if len(found) == 0 {
		f.T.Fatalf("there is no %s", pattern)
	}
	path := found[f.rng.IntN(len(found))]
	f.check(os.WriteFile(path, change(f.reads(path)), 0o600))
	said := len(f.Log.String())
	f.Start()
	deadline := time.Now().Add(time.Minute)
	// More than once: a damaged block may be read for a later row alone.
	for range 3 {
		rows, states := f.World.Highest(facts), f.World.Highest(entities)
		for (f.Position(facts) < rows || f.Position(entities) < states) && time.Now().Before(deadline) {
			select {
			case <-f.Done:
				f.cuts++
				f.says("with a damaged "+pattern, f.Cmd.ProcessState.ExitCode(), f.Log.String()[said:], "damaged", "restart bridge")
				f.Start()
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	f.flows()
}

// says notes it when what ended with a status has not failed, or has not said all of words.
func (tr *trial) says(who string, status int, text string, words ...string) {
	if status != 1 {
		tr.score.find("%s: exit status %d, want 1: %.600s", who, status, text)
	}
	for _, word := range words {
		if !strings.Contains(text, word) {
			tr.score.find("%s: nothing about %q: %.600s", who, word, text)
		}
	}
}
