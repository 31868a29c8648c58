package bolt_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"bridge/checkpoint"
	"bridge/checkpoint/bolt"
	"bridge/checkpoint/checkpointtest"
	"bridge/internal/inspect"
	"bridge/internal/testall"
)

// viewsKey names the shard that has a view.
var viewsKey = checkpoint.Key{Stream: "views", Shard: "db.orders"}

// fill saves states of all sizes, each several times, so that the file has pages of every kind, older copies among them, and
// returns what it holds.
func fill(t testing.TB, path string) []checkpoint.Entry {
	t.Helper()
	s := mustOpen(t, path)
	for round := range 3 {
		for n := range 12 {
			key := checkpoint.Key{Stream: fmt.Sprint("stream-", n%3), Shard: fmt.Sprintf("db.table_%02d", n)}
			state := checkpointtest.State(100*round + n)
			if n == 5 {
				state = manyGaps(100*round+n, 1500)
			}
			if err := s.Save(t.Context(), key, state); err != nil {
				t.Fatal(err)
			}
		}
	}
	for n := range 12 {
		state := viewState(n)
		if err := s.Save(t.Context(), viewsKey, state); err != nil {
			t.Fatal(err)
		}
		if _, err := s.FoldSteps(viewsKey, 1<<20*(1-n/10)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.SaveRun(t.Context(), viewsKey, checkpointtest.Reconcile(1), [][]byte{[]byte("a"), []byte("b")}); err != nil {
		t.Fatal(err)
	}
	for n := range 25 {
		key := checkpoint.Key{Stream: "wide", Shard: fmt.Sprintf("%0100d", n)}
		if err := s.Save(t.Context(), key, checkpointtest.State(n)); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	return entries
}

// damages change a file's bytes at random; what they return takes the place of the file.
var damages = map[string]func(r *rand.Rand, file []byte) []byte{
	"a flipped bit": func(r *rand.Rand, file []byte) []byte {
		file[r.IntN(len(file))] ^= 1 << r.IntN(8)
		return file
	},
	"a flipped bit in a page's header": func(r *rand.Rand, file []byte) []byte {
		file[r.IntN(len(file)/4096)*4096+r.IntN(64)] ^= 1 << r.IntN(8)
		return file
	},
	"random bytes": func(r *rand.Rand, file []byte) []byte {
		for i, at := 0, r.IntN(len(file)); i < 1+r.IntN(600) && at+i < len(file); i++ {
			file[at+i] = byte(r.Uint32())
		}
		return file
	},
	"a zeroed page": func(r *rand.Rand, file []byte) []byte {
		at := r.IntN(len(file)/4096) * 4096
		clear(file[at : at+4096])
		return file
	},
	"a page over another": func(r *rand.Rand, file []byte) []byte {
		from, to := r.IntN(len(file)/4096)*4096, r.IntN(len(file)/4096)*4096
		copy(file[to:to+4096], file[from:from+4096])
		return file
	},
	"a large number": func(r *rand.Rand, file []byte) []byte {
		at := r.IntN(len(file)/8) * 8
		binary.NativeEndian.PutUint64(file[at:], r.Uint64()>>r.IntN(64))
		return file
	},
	"a cut": func(r *rand.Rand, file []byte) []byte { return file[:r.IntN(len(file)-1)+1] },
	"wrong page numbers in a sound header": func(r *rand.Rand, file []byte) []byte {
		page := file[r.IntN(2)*4096:]
		field := []int{16 + 16, 16 + 32, 16 + 40, 16 + 48, 16 + 8}[r.IntN(5)]
		binary.NativeEndian.PutUint32(page[field:], uint32(r.IntN(40)))
		h := fnv.New64a()
		h.Write(page[16:72])
		binary.NativeEndian.PutUint64(page[72:], h.Sum64())
		return file
	},
}

// TestDamageIsRefusedOrHarmless damages files at random. A file that Open accepts all the same, because the damage hit no
// page in use, holds exactly the newest states and can be written.
func TestDamageIsRefusedOrHarmless(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "whole.db")
	want := fill(t, whole)
	bytes := mustRead(t, whole)
	rounds := testall.Pick(80, 250)
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "bridge.db")
			refused := 0
			for seed := range uint64(rounds) {
				file := damage(rand.New(rand.NewPCG(seed, 1)), append([]byte(nil), bytes...))
				if err := os.WriteFile(path, file, 0o600); err != nil {
					t.Fatal(err)
				}
				if err := openDamaged(t, path, want, seed%16 == 0); err != nil {
					refused++
				}
			}
			t.Logf("%d of %d files are refused", refused, rounds)
			if refused < rounds/20 {
				t.Error("the damage hits nothing, the test shows nothing")
			}
		})
	}
}

// openDamaged returns the error of Open, after checking that it is of the right kind, or checks that the file is as good as new.
func openDamaged(t *testing.T, path string, want []checkpoint.Entry, write bool) error {
	t.Helper()
	s, err := bolt.Open(path, bolt.Options{LockTimeout: time.Millisecond})
	if err != nil {
		if !errors.Is(err, checkpoint.ErrCorrupt) && !errors.Is(err, checkpoint.ErrForeign) && !errors.Is(err, checkpoint.ErrNewer) {
			t.Fatalf("Open returns an error of no kind: %v", err)
		}
		mustSay(t, err, path)
		return err
	}
	defer mustClose(t, s)
	got, err := s.List(t.Context())
	if err != nil || !slices.EqualFunc(got, want, sameEntry) {
		t.Fatalf("a damaged file is accepted and holds %d states, %v", len(got), err)
	}
	mustView(t, s, viewsKey, viewAfter(11))
	if run, err := s.LoadRun(t.Context(), viewsKey); err != nil || run != checkpointtest.Reconcile(1) {
		t.Fatalf("a damaged file is accepted and holds the run %+v, %v", run, err)
	}
	if write {
		if err := s.Save(t.Context(), key, checkpointtest.State(1)); err != nil {
			t.Fatalf("a file that is accepted cannot be written: %v", err)
		}
	}
	return nil
}

// sameEntry compares encoded states, which is a hundred times faster than reflection.
func sameEntry(a, b checkpoint.Entry) bool {
	return a.Key == b.Key && string(checkpoint.AppendState(nil, a.State)) == string(checkpoint.AppendState(nil, b.State))
}

func TestEveryCutIntoPagesInUseIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bridge.db")
	fill(t, path)
	file := mustRead(t, path)
	first := file[16:]
	if second := file[4096+16:]; binary.NativeEndian.Uint64(second[48:]) > binary.NativeEndian.Uint64(first[48:]) {
		first = second
	}
	high := int(binary.NativeEndian.Uint64(first[40:]))
	for pages := 1; pages < high; pages++ {
		if err := os.WriteFile(path, file[:pages*4096], 0o600); err != nil {
			t.Fatal(err)
		}
		mustRefuse(t, path, checkpoint.ErrCorrupt, "cut off", "restore the file")
	}
}

func TestDamagedHeadersAreRefused(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "whole.db")
	fill(t, whole)
	for name, test := range map[string]struct {
		from, to int
		want     error
	}{
		"the first header page":    {0, 4096, checkpoint.ErrCorrupt},
		"the second header page":   {4096, 8192, checkpoint.ErrCorrupt},
		"one byte of a header":     {30, 31, checkpoint.ErrCorrupt},
		"both header pages":        {0, 8192, checkpoint.ErrForeign},
		"everything but a header":  {8192, 1 << 30, checkpoint.ErrCorrupt},
		"the magic number":         {16, 20, checkpoint.ErrCorrupt},
		"the second magic number":  {4096 + 16, 4096 + 20, checkpoint.ErrCorrupt},
		"the checksum of a header": {72, 80, checkpoint.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "bridge.db")
			file := mustRead(t, whole)
			for i := test.from; i < min(test.to, len(file)); i++ {
				file[i] ^= 0xa5
			}
			if err := os.WriteFile(path, file, 0o600); err != nil {
				t.Fatal(err)
			}
			mustRefuse(t, path, test.want)
		})
	}
}

func TestANewerFileIsRefused(t *testing.T) {
	for name, put := range map[string]func(tx *bbolt.Tx) error{
		"of the layout": func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte("bridge")).Put([]byte("format"), bolt.Seal([]byte("bridge checkpoint 4"), "bridge", "format"))
		},
		"of a state": func(tx *bbolt.Tx) error {
			b := tx.Bucket([]byte("shards")).Bucket([]byte(key.Stream)).Bucket([]byte(key.Shard))
			return b.Put([]byte("state"), bolt.Seal(bolt.Checksummed([]byte{4, 3, 4}), "shards", key.Stream, key.Shard, "state"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "bridge.db")
			s := mustOpen(t, path)
			if err := s.Save(t.Context(), key, checkpointtest.State(1)); err != nil {
				t.Fatal(err)
			}
			mustClose(t, s)
			editBolt(t, path, bbolt.Options{}, put)
			mustRefuse(t, path, checkpoint.ErrNewer, "run that version")
		})
	}
}

func TestAStateInAnotherPlaceIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bridge.db")
	s := mustOpen(t, path)
	for n, shard := range []string{"a", "b"} {
		if err := s.Save(t.Context(), checkpoint.Key{Stream: "orders", Shard: shard}, checkpointtest.State(n)); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, s)
	editBolt(t, path, bbolt.Options{}, func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte("shards")).Bucket([]byte("orders"))
		return b.Bucket([]byte("a")).Put([]byte("state"), b.Bucket([]byte("b")).Get([]byte("state")))
	})
	mustRefuse(t, path, checkpoint.ErrCorrupt, "checksum")
}

// TestNonsenseWithAGoodSealIsRefused puts values of no form into the file.
func TestNonsenseWithAGoodSealIsRefused(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "whole.db")
	fill(t, whole)
	number := "\x00\x00\x00\x00\x00\x00\x00\x07"
	for name, path := range map[string][]string{
		"a state":                    {"state"},
		"a journal":                  {"journal"},
		"a run":                      {"run"},
		"an entry of a view":         {"view", "a"},
		"a row":                      {"rows", number + "a"},
		"a row without an entity":    {"rows", number},
		"a recent value":             {"recent", number},
		"a range of ids":             {"given", number},
		"a name of a range":          {"given", "a"},
		"a name of an absent entity": {"absent", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "bridge.db")
			if err := os.WriteFile(file, mustRead(t, whole), 0o600); err != nil {
				t.Fatal(err)
			}
			editBolt(t, file, bbolt.Options{}, func(tx *bbolt.Tx) error {
				b := tx.Bucket([]byte("shards")).Bucket([]byte(viewsKey.Stream)).Bucket([]byte(viewsKey.Shard))
				if len(path) == 2 {
					b = b.Bucket([]byte(path[0]))
				}
				full := append([]string{"shards", viewsKey.Stream, viewsKey.Shard}, path...)
				return b.Put([]byte(path[len(path)-1]), bolt.Seal([]byte{1, 2, 3}, full...))
			})
			mustRefuse(t, file, checkpoint.ErrCorrupt, "restore the file")
			found := bolt.Inspect(file)
			if found.Known || len(found.Findings) != 1 || found.Findings[0].Code != inspect.CheckpointCorrupt {
				t.Errorf("Inspect finds %v", found.Findings)
			}
		})
	}
}

// TestBlocksThatOverlapAreRefused: each of them is sound, and yet an entity between the two would be looked for in the wrong one.
func TestBlocksThatOverlapAreRefused(t *testing.T) {
	for name, want := range map[string]error{"entity-0": checkpoint.ErrCorrupt, "~": nil} {
		path := filepath.Join(t.TempDir(), "bridge.db")
		s := mustOpen(t, path)
		if err := s.Save(t.Context(), key, viewState(30)); err != nil {
			t.Fatal(err)
		}
		if ended, err := s.FoldSteps(key, 1<<20); err != nil || !ended {
			t.Fatalf("folding to the end: %v, %v", ended, err)
		}
		mustClose(t, s)
		editBolt(t, path, bbolt.Options{}, func(tx *bbolt.Tx) error {
			names := []string{"shards", key.Stream, key.Shard, "view"}
			known := checkpoint.AppendKnown(nil, checkpoint.Known{Fate: checkpoint.Gone, Since: time.Unix(0, 0)})
			block := append([]byte{0x80, byte(len(name))}, name...)
			block = append(append(block, byte(len(known))), known...)
			b := tx.Bucket([]byte(names[0]))
			for _, name := range names[1:] {
				b = b.Bucket([]byte(name))
			}
			return b.Put([]byte("~~"), bolt.Seal(block, append(names, "~~")...))
		})
		if want != nil {
			mustRefuse(t, path, want, "out of order")
		} else {
			mustClose(t, mustOpen(t, path))
		}
	}
}

// TestAFileCutOffInUse: reading what is gone is a fault, not a crash.
func TestAFileCutOffInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bridge.db")
	fill(t, path)
	s, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 8192); err != nil {
		t.Fatal(err)
	}
	if _, err := s.List(t.Context()); !errors.Is(err, checkpoint.ErrCorrupt) {
		t.Errorf("List returns %v, want ErrCorrupt", err)
	}
	err = s.Save(t.Context(), key, checkpointtest.State(1))
	if !errors.Is(err, checkpoint.ErrCorrupt) {
		t.Errorf("Save returns %v, want ErrCorrupt", err)
	}
	mustSay(t, err, "restart bridge")
	if err := s.Close(); !errors.Is(err, checkpoint.ErrCorrupt) {
		t.Errorf("Close returns %v, want ErrCorrupt", err)
	}
}
