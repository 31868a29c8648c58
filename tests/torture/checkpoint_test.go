package torture

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"time"

	"bridge/tests/world"

	"github.com/nats-io/nats.go/jetstream"
	"go.etcd.io/bbolt"
)

// checkpointFaults are done to the checkpoint file.
var checkpointFaults = []fault{
	{
		name: "checkpoint-truncated", family: "checkpoint", what: "the file is cut off, in several ways; then the copy from before is put back", repeats: true,
		inject: func(tr *trial) {
			f := checkpointFile{tr}
			tr.stops()
			whole := tr.reads(tr.checkpoint())
			f.refuses("cut off in its header", whole[:20+tr.rng.IntN(100)])
			f.refuses("cut in half", whole[:f.pagesUsed(whole)/2])
			f.refuses("cut off anywhere", whole[:20+tr.rng.IntN(f.pagesUsed(whole)-20)])
			f.writes(whole)
			tr.Start()
		},
	},
	{
		name: "checkpoint-flipped", family: "checkpoint", what: "single bits of the file change, in several places; then the copy from before is put back", repeats: true,
		inject: func(tr *trial) {
			f := checkpointFile{tr}
			tr.stops()
			whole := tr.reads(tr.checkpoint())
			for _, where := range f.regions(whole) {
				f.refuses(where.name, f.flipped(whole, where))
			}
			f.writes(whole)
			tr.Start()
		},
	},
	{
		name: "checkpoint-older", family: "checkpoint", what: "the file is replaced by a copy of some seconds before, twice", repeats: true, behind: true,
		inject: func(tr *trial) {
			f := checkpointFile{tr}
			for range 2 {
				copied := f.copies()
				tr.sometime(time.Second)
				f.writes(copied)
				tr.Start()
				tr.flows()
			}
		},
	},
	{
		name: "checkpoint-moved-away", family: "checkpoint", what: "the file is moved away, so that every stream begins again", repeats: true, behind: true, forgets: true, torn: true,
		prepare: func(tr *trial) {
			if tr.Bus.NATS != nil {
				tr.Bus.Configure(tr.T, tr.Destination(entities), func(c *jetstream.StreamConfig, _ jetstream.StreamState) { c.Duplicates = time.Second })
			}
		},
		inject: func(tr *trial) {
			tr.stops()
			tr.check(os.Rename(tr.checkpoint(), tr.checkpoint()+".damaged"))
			// What JetStream would drop as a repeat of something older it has to take.
			world.Pause(1500 * time.Millisecond)
			tr.Start()
		},
	},
	{
		name: "checkpoint-shared", family: "checkpoint", what: "a second process, and commands, on the same file",
		inject: func(tr *trial) {
			for range 2 {
				second := world.NewDaemon(tr.T, tr.Path, tr.Env.With(world.Env{"BRIDGE_HTTP_ADDR": "127.0.0.1:0"}))
				second.Start()
				status := tr.endOf(second)
				tr.says("the second process", status, second.Log.String(), tr.checkpoint(), "in use by another process", "stop the other process")
				status, _, stderr := world.Command(tr.T, tr.Env, "checkpoint", "reset", facts)
				tr.says("bridge checkpoint reset", status, stderr, tr.checkpoint(), "in use by another process")
				tr.flows()
			}
			select {
			case <-tr.Done:
				tr.score.find("the first process ended")
			default:
			}
		},
	},
}

// checkpoint returns the file of the checkpoint.
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

// writes replaces the checkpoint.
func (f checkpointFile) writes(file []byte) {
	f.T.Helper()
	f.check(os.WriteFile(f.checkpoint(), file, 0o600))
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
func (f checkpointFile) copies() []byte {
	f.T.Helper()
	f.kill()
	copied := f.reads(f.checkpoint())
	f.Start()
	f.flows()
	f.outage(10 * time.Second)
	f.stops()
	return copied
}

// refuses replaces the checkpoint by a damaged file and starts the program, which has to end with a
// word about it and leave it as it is.
func (f checkpointFile) refuses(damage string, file []byte) {
	f.T.Helper()
	f.writes(file)
	said := len(f.Log.String())
	f.Start()
	status := f.ended()
	f.says("a file that is "+damage, status, f.Log.String()[said:], f.checkpoint(), "restore the file from a copy, or move it away")
	if !bytes.Equal(f.reads(f.checkpoint()), file) {
		f.score.find("a file that is %s was written to", damage)
	}
	if left, err := filepath.Glob(f.checkpoint() + "*"); err != nil || len(left) != 1 {
		f.score.find("a file that is %s left %v %v", damage, left, err)
	}
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

// checkpointFile is the checkpoint of a trial, as a file to harm.
type checkpointFile struct{ *trial }

// region is a part of a checkpoint file: some of its bytes may lie at several offsets, only one of
// which counts.
type region struct {
	name    string
	offsets []int
	size    int
}

// pagesUsed returns how many bytes of a checkpoint hold its pages.
func (f checkpointFile) pagesUsed(whole []byte) (size int) {
	f.inspect(whole, func(tx *bbolt.Tx) error {
		size = int(tx.Size())
		return nil
	})
	return size
}

// inspect looks into a copy of a checkpoint.
func (f checkpointFile) inspect(whole []byte, look func(*bbolt.Tx) error) {
	f.T.Helper()
	path := filepath.Join(f.T.TempDir(), "copy.db")
	f.check(os.WriteFile(path, whole, 0o600))
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, PreLoadFreelist: true})
	f.check(err)
	f.check(db.View(look))
	f.check(db.Close())
}

// regions returns parts of a checkpoint where no bit may change: a header, a page in the middle, a
// value.
func (f checkpointFile) regions(whole []byte) []region {
	list := []region{{name: "damaged in its header", offsets: []int{16 + os.Getpagesize()*f.rng.IntN(2)}, size: 64}}
	f.inspect(whole, func(tx *bbolt.Tx) error {
		var used []int
		for id := 2; ; id++ {
			page, err := tx.Page(id)
			if err != nil || page == nil {
				break
			}
			if page.Type == "leaf" || page.Type == "branch" {
				used = append(used, id*os.Getpagesize())
			}
			id += page.OverflowCount
		}
		// Its number, its kind, and how many it holds.
		list = append(list, region{name: "damaged in the middle", offsets: []int{used[f.rng.IntN(len(used))]}, size: 12})
		shards := tx.Bucket([]byte("shards"))
		for _, stream := range []string{facts, entities} {
			state := shards.Bucket([]byte(stream)).Bucket([]byte(stream)).Get([]byte("state"))
			value := region{name: "damaged in the state of " + stream, size: len(state)}
			for at := 0; ; at += len(state) {
				next := bytes.Index(whole[at:], state)
				if next < 0 {
					break
				}
				at += next
				value.offsets = append(value.offsets, at)
			}
			list = append(list, value)
		}
		return nil
	})
	return list
}

// flipped returns a copy of a file in which one bit of a region is changed.
func (f checkpointFile) flipped(whole []byte, where region) []byte {
	file := bytes.Clone(whole)
	within, bit := f.rng.IntN(where.size), byte(1)<<f.rng.IntN(8)
	for _, at := range where.offsets {
		file[at+within] ^= bit
	}
	return file
}
