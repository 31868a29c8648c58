package acceptance

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.etcd.io/bbolt"
)

// checkpointFaults are done to the checkpoint file.
var checkpointFaults = []fault{
	{
		name: "checkpoint-truncated", family: "checkpoint", what: "the file is cut off, in several ways; then the copy from before is put back", repeats: true,
		inject: func(tr *trial) {
			tr.stops()
			whole := tr.reads(tr.checkpoint())
			tr.refuses("cut off in its header", whole[:20+tr.rng.IntN(100)])
			tr.refuses("cut in half", whole[:tr.pagesUsed(whole)/2])
			tr.refuses("cut off anywhere", whole[:20+tr.rng.IntN(tr.pagesUsed(whole)-20)])
			tr.writes(whole)
			tr.start()
		},
	},
	{
		name: "checkpoint-flipped", family: "checkpoint", what: "single bits of the file change, in several places; then the copy from before is put back", repeats: true,
		inject: func(tr *trial) {
			tr.stops()
			whole := tr.reads(tr.checkpoint())
			for _, where := range tr.places(whole) {
				tr.refuses(where.name, tr.flipped(whole, where))
			}
			tr.writes(whole)
			tr.start()
		},
	},
	{
		name: "checkpoint-older", family: "checkpoint", what: "the file is replaced by a copy of some seconds before, twice", repeats: true, behind: true,
		inject: func(tr *trial) {
			for range 2 {
				copied := tr.copies()
				tr.sometime(time.Second)
				tr.writes(copied)
				tr.start()
				tr.flows()
			}
		},
	},
	{
		name: "checkpoint-moved-away", family: "checkpoint", what: "the file is moved away, so that every stream begins anew", repeats: true, behind: true, forgets: true, torn: true,
		prepare: func(tr *trial) {
			if tr.lane.nats != nil {
				tr.lane.configure(tr.t, tr.destination(entities), func(c *jetstream.StreamConfig, _ jetstream.StreamState) { c.Duplicates = time.Second })
			}
		},
		inject: func(tr *trial) {
			tr.stops()
			tr.check(os.Rename(tr.checkpoint(), tr.checkpoint()+".damaged"))
			// What JetStream would drop as a repeat of something older it has to take.
			pause(1500 * time.Millisecond)
			tr.start()
		},
	},
	{
		name: "checkpoint-shared", family: "checkpoint", what: "a second process, and commands, on the same file",
		inject: func(tr *trial) {
			for range 2 {
				second := newDaemon(tr.t, tr.path, tr.env.with(env{"BRIDGE_HTTP_ADDR": "127.0.0.1:0"}))
				second.start()
				status := tr.endOf(second)
				tr.says("the second process", status, second.log.String(), tr.checkpoint(), "in use by another process", "stop the other process")
				status, _, stderr := bridge(tr.t, tr.env, "checkpoint", "reset", facts)
				tr.says("bridge checkpoint reset", status, stderr, tr.checkpoint(), "in use by another process")
				tr.flows()
			}
			select {
			case <-tr.done:
				tr.score.find("the first process ended")
			default:
			}
		},
	},
}

// checkpoint returns where the program keeps its place.
func (tr *trial) checkpoint() string {
	return strings.TrimPrefix(tr.env["BRIDGE_CHECKPOINT_URL"], "file:")
}

func (tr *trial) check(err error) {
	tr.t.Helper()
	if err != nil {
		tr.t.Fatal(err)
	}
}

func (tr *trial) reads(path string) []byte {
	tr.t.Helper()
	b, err := os.ReadFile(path)
	tr.check(err)
	return b
}

// writes puts a file in the place of the checkpoint.
func (tr *trial) writes(file []byte) {
	tr.t.Helper()
	tr.check(os.WriteFile(tr.checkpoint(), file, 0o600))
}

// stops ends the program, in good order or not.
func (tr *trial) stops() {
	tr.t.Helper()
	if tr.rng.IntN(2) == 0 {
		tr.kill()
	} else if status, _ := tr.term(); status != 0 {
		tr.score.find("exit status %d after SIGTERM", status)
	}
}

// copies makes a copy of the checkpoint, lets the program go on behind it for some seconds, and stops it.
func (tr *trial) copies() []byte {
	tr.t.Helper()
	tr.kill()
	copied := tr.reads(tr.checkpoint())
	tr.start()
	tr.flows()
	tr.outage(10 * time.Second)
	tr.stops()
	return copied
}

// refuses puts a damaged file in the place of the checkpoint and starts the program, which has to end with a word about it and leave it
// as it is.
func (tr *trial) refuses(damage string, file []byte) {
	tr.t.Helper()
	tr.writes(file)
	said := len(tr.log.String())
	tr.start()
	status := tr.ended()
	tr.says("a file that is "+damage, status, tr.log.String()[said:], tr.checkpoint(), "restore the file from a copy, or move it away")
	if !bytes.Equal(tr.reads(tr.checkpoint()), file) {
		tr.score.find("a file that is %s was written to", damage)
	}
	if left, err := filepath.Glob(tr.checkpoint() + "*"); err != nil || len(left) != 1 {
		tr.score.find("a file that is %s left %v %v", damage, left, err)
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

// place is a part of a checkpoint file: some of its bytes may lie at several offsets, only one of which counts.
type place struct {
	name    string
	offsets []int
	size    int
}

// pagesUsed returns how many bytes of a checkpoint hold its pages.
func (tr *trial) pagesUsed(whole []byte) (size int) {
	tr.inspect(whole, func(tx *bbolt.Tx) error {
		size = int(tx.Size())
		return nil
	})
	return size
}

// inspect looks into a copy of a checkpoint.
func (tr *trial) inspect(whole []byte, look func(*bbolt.Tx) error) {
	tr.t.Helper()
	path := filepath.Join(tr.t.TempDir(), "copy.db")
	tr.check(os.WriteFile(path, whole, 0o600))
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, PreLoadFreelist: true})
	tr.check(err)
	tr.check(db.View(look))
	tr.check(db.Close())
}

// places returns parts of a checkpoint where no bit may change: a header, a page in the middle, a value.
func (tr *trial) places(whole []byte) []place {
	list := []place{{name: "damaged in its header", offsets: []int{16 + os.Getpagesize()*tr.rng.IntN(2)}, size: 64}}
	tr.inspect(whole, func(tx *bbolt.Tx) error {
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
		list = append(list, place{name: "damaged in the middle", offsets: []int{used[tr.rng.IntN(len(used))]}, size: 12})
		shards := tx.Bucket([]byte("shards"))
		for _, stream := range []string{facts, entities} {
			state := shards.Bucket([]byte(stream)).Bucket([]byte(stream)).Get([]byte("state"))
			value := place{name: "damaged in the state of " + stream, size: len(state)}
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

// flipped returns a copy of a file in which one bit of a place is changed.
func (tr *trial) flipped(whole []byte, where place) []byte {
	file := bytes.Clone(whole)
	within, bit := tr.rng.IntN(where.size), byte(1)<<tr.rng.IntN(8)
	for _, at := range where.offsets {
		file[at+within] ^= bit
	}
	return file
}
