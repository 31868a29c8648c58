package torture

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"example.org/bridge/tests/faulty/failpoint"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// What the checkpoint's folder lacks is read from the bus.
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
				status := second.Wait()
				tr.says("the second process", status, second.Log.String(), tr.Checkpoint(), "in use by another process")
				status, _, stderr := world.Command(tr.T, tr.Env, "checkpoint", "reset", facts)
				tr.says("bridge checkpoint reset", status, stderr, tr.Checkpoint(), "in use by another process")
				tr.flows()
			}
			if tr.Ended() {
				tr.score.Find("the first process ended")
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
		found := must.Get(filepath.Glob(filepath.Join(tr.Checkpoint(), pattern)))(tr.T)
		if len(found) == 0 {
			tr.T.Fatalf("there is no %s", pattern)
		}
		path := found[tr.rng.IntN(len(found))]
		content := must.Get(os.ReadFile(path))(tr.T)
		must.OK(tr.T, os.WriteFile(path, change(slices.Clone(content)), 0o600))
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
					tr.says("with a damaged "+pattern, tr.Wait(), tr.Log.String()[said:], "damaged", "restart bridge")
					tr.Start()
				case <-time.After(50 * time.Millisecond):
				}
			}
		}
		tr.flows()
	}
}

var diskFaults = []fault{
	{
		name: "disk-full", family: "disk and clock", what: "the checkpoint's disk is full for 30 s",
		prepare: func(tr *trial) {
			withFailpoints(tr)
			tr.Env["BRIDGE_CHECKPOINT_URL"] = "file:" + filepath.Join(smallDisk(tr.T, 8<<20), "bridge.db")
		},
		inject: func(tr *trial) {
			empty := fillDisk(tr.T, tr.Checkpoint())
			tr.waits("no space left on device", 30*time.Second)
			empty()
		},
	},
	{
		name: "checkpoint-read-only", family: "disk and clock", what: "the checkpoint can be read and not be written for 30 s",
		prepare: withFailpoints,
		inject: func(tr *trial) {
			writable := testenv.ReadOnly(tr.T, filepath.Join(tr.Checkpoint(), "db"))
			tr.waits("read-only file system", 30*time.Second)
			writable()
		},
	},
	{
		name: "fsync-slow", family: "disk and clock", what: "each fsync of the checkpoint takes 1 s, for a minute",
		prepare: withFailpoints,
		inject: func(tr *trial) {
			tr.points.Set(failpoint.Action{Point: failpoint.StoreSync, Sleep: time.Second})
			tr.outage(time.Minute)
			tr.flows()
			tr.points.Set()
		},
	},
	{
		name: "fsync-fails", family: "disk and clock", what: "fsync fails five times, then for 30 s, then until bridge is killed and started", repeats: true,
		prepare: withFailpoints,
		inject: func(tr *trial) {
			tr.points.Set(failpoint.Action{Point: failpoint.StoreSync, Error: "input/output error", Times: 5})
			world.Eventually(tr.T, syncWithin, "the log tells", func() bool { return strings.Contains(tr.Log.String(), "input/output error") })
			tr.flows()
			tr.points.Set(failpoint.Action{Point: failpoint.StoreSync, Error: "the disk is gone"})
			tr.waits("the disk is gone", 30*time.Second)
			tr.points.Set()
			tr.flows()
			tr.points.Set(failpoint.Action{Point: failpoint.StoreSync, Error: "the disk is gone again"})
			tr.waits("the disk is gone again", 10*time.Second)
			tr.kill()
			tr.points.Set()
			tr.Start()
		},
	},
	{
		name: "fsync-in-doubt", family: "disk and clock", what: "fsync fails when the list of files is written: bridge ends, and is started again, three times", repeats: true,
		prepare: withFailpoints,
		inject: func(tr *trial) {
			for range tr.times(3) {
				said := len(tr.Log.String())
				tr.points.Set(failpoint.Action{Point: failpoint.ManifestSync, Error: "input/output error"})
				status := tr.Wait()
				tr.cuts++
				tr.says("after a failed fsync of the manifest", status, tr.Log.String()[said:], "check its disk, then restart bridge", "input/output error")
				tr.points.Set()
				tr.Start()
				tr.flows()
			}
		},
	},
}

// smallDisk returns an empty folder on a disk of its own with room for about so many bytes (a
// tmpfs, in whole pages of memory), gone when the test ends. To mount it takes root: others get
// what a server gets that cannot be had.
func smallDisk(t testing.TB, bytes int64) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "disk")
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		err = syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, fmt.Sprintf("size=%d,mode=700", bytes))
	}
	if err != nil {
		testenv.Missing(t, "small disk", fmt.Errorf("mount a tmpfs, as root may: %w", err))
	}
	t.Cleanup(func() {
		// A process that still holds a file there keeps the memory, not the folder.
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// fillDisk writes a file to a folder of smallDisk that takes all the room that is left, and returns
// what removes it. What others give back later is free again: call it once more.
func fillDisk(t testing.TB, dir string) (empty func()) {
	t.Helper()
	f := must.Get(os.CreateTemp(dir, "filler-"))(t)
	defer f.Close()
	// Small steps to the end: a write that does not fit at all writes nothing.
	for _, step := range []int{1 << 20, 4096, 1} {
		var err error
		for piece := make([]byte, step); err == nil; {
			_, err = f.Write(piece)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("fill %s: %v", dir, err)
		}
	}
	return func() { must.OK(t, os.Remove(f.Name())) }
}

// waits lets an outage of the checkpoint's disk pass, of which the program has to say why, and that
// it lives and is not ready.
func (tr *trial) waits(why string, d time.Duration) {
	tr.T.Helper()
	world.AwaitUnready(tr.T, tr.Daemon, why, "checkpoint")
	tr.outage(d)
	if code, body := tr.Get("/livez"); code != 200 {
		tr.score.Find("/livez is %d while the disk is away: %s", code, body)
	}
	if code, body := tr.Get("/readyz"); code != 503 {
		tr.score.Find("/readyz is %d while the disk is away: %s", code, body)
	}
	// What comes back within 10 s of its end has no line of its own.
	if !strings.Contains(tr.Log.String(), "dependency=checkpoint") {
		tr.score.Find("the log says nothing about the checkpoint: %s", why)
	}
}

var clockFaults = []fault{
	hostClock("clock-ahead", "the host's clock is 1 h ahead from the start on", "1h"),
	hostClock("clock-behind", "the host's clock is 1 h behind from the start on", "-1h"),
	hostClock("clock-jumps-ahead", "the host's clock jumps ahead by 1 h while bridge runs", "1h@5s"),
	hostClock("clock-jumps-behind", "the host's clock jumps back by 1 h while bridge runs", "-1h@5s"),
	{
		name: "database-clock-back", family: "disk and clock", what: "the database's clock steps back by 5 s, and forth again, twice",
		prepare: withFailpoints,
		inject: func(tr *trial) {
			for range 2 {
				tr.points.Set(failpoint.Action{Point: failpoint.DatabaseClock, Shift: -5 * time.Second})
				tr.outage(20 * time.Second)
				tr.flows()
				tr.points.Set()
				tr.outage(2 * time.Second)
				tr.flows()
			}
		},
	},
}

// It is set right before the program starts again: what was saved is then of another time.
func hostClock(name, what, wrong string) fault {
	return fault{
		name: name, family: "disk and clock", what: what + ", then it is set right and bridge is started again",
		prepare: func(tr *trial) {
			tr.Daemon.Path = world.Faulty(tr.T)
			tr.Env[failpoint.ClockVariable] = wrong
		},
		inject: func(tr *trial) {
			tr.outage(30 * time.Second)
			tr.flows()
			if by := time.Until(tr.Shards(facts)[0].LastPoll.Time).Abs(); by < 50*time.Minute {
				tr.score.Find("the program's clock was wrong by no more than %s", by)
			}
			tr.terminate()
			delete(tr.Env, failpoint.ClockVariable)
			tr.Start()
		},
	}
}

// through has bridge reach its servers through proxies, which networkFaults do their harm to.
func through(tr *trial) {
	tr.Env["BRIDGE_SOURCE_URL"] = strings.Replace(tr.Env["BRIDGE_SOURCE_URL"], tr.servers.db.Addr, tr.servers.dbProxy.Addr(), 1)
	tr.Env["BRIDGE_SINK_URL"] = tr.Bus.String() + "://" + tr.servers.busProxy.Addr()
}

var networkFaults = []fault{
	onNetwork("network-latency", "200 ms more in each direction, for 60 s", both, func(p *testenv.Proxy) { p.Latency(200 * time.Millisecond) }),
	onNetwork("network-resets", "1 % of all pieces of data lost with a reset of their connection, for 60 s", both,
		func(p *testenv.Proxy) { p.Resets(0.01) }),
	onNetwork("network-bandwidth", "256 kB/s, for 60 s", both, func(p *testenv.Proxy) { p.Bandwidth(256_000) }),
	onNetwork("network-half-open-bus", "the way to the bus swallows all data, connections stay open, for 60 s", toBus, (*testenv.Proxy).HalfOpen),
	onNetwork("network-half-open-database", "the way to the database swallows all data, connections stay open, for 60 s", toDatabase, (*testenv.Proxy).HalfOpen),
	onNetwork("network-cut-bus", "the way to the bus cut for 60 s", toBus, (*testenv.Proxy).Cut),
	onNetwork("network-cut-database", "the way to the database cut for 60 s", toDatabase, (*testenv.Proxy).Cut),
	onNetwork("network-cut-both", "both ways cut for 60 s", both, (*testenv.Proxy).Cut),
	{
		name: "results-cut", family: "network", prepare: through,
		what: "64 kB/s on the way to the database, and all connections reset at random moments for 8 s: results end in the middle",
		inject: func(tr *trial) {
			p := tr.servers.dbProxy
			p.Bandwidth(64_000)
			open := 0
			for end := time.Now().Add(8 * time.Second); time.Now().Before(end); {
				world.Pause(300 * time.Millisecond)
				tr.sometime(time.Second)
				open += p.Open()
				p.Drop()
			}
			p.Heal()
			tr.met(open, "no connection was there to be reset")
		},
	},
}

func toBus(l *servers) []*testenv.Proxy      { return []*testenv.Proxy{l.busProxy} }
func toDatabase(l *servers) []*testenv.Proxy { return []*testenv.Proxy{l.dbProxy} }
func both(l *servers) []*testenv.Proxy       { return append(toBus(l), toDatabase(l)...) }

// The harm lasts a minute.
func onNetwork(name, what string, ways func(*servers) []*testenv.Proxy, harm func(*testenv.Proxy)) fault {
	// What is slow breaks nothing.
	breaks := name != "network-latency" && name != "network-bandwidth"
	return fault{
		name: name, family: "network", what: what, prepare: through, soaks: true,
		inject: func(tr *trial) {
			open, before := 0, 0
			for _, p := range ways(tr.servers) {
				open, before = open+p.Open(), before+p.Broken()
				harm(p)
			}
			tr.outage(time.Minute)
			broken := -before
			for _, p := range ways(tr.servers) {
				p.Heal()
				broken += p.Broken()
			}
			tr.met(open, "no connection went that way")
			if breaks {
				tr.met(broken, "no connection was cut, reset or kept from anything")
			}
		},
	}
}
