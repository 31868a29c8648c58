package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"bridge/internal/testall"
)

// editing is an ordered map of blocks with the model that it has to equal.
type editing struct {
	db    *bbolt.DB
	model map[string]string
}

var editPath = []string{"shards", "stream", "shard", "map"}

// openEditing opens a map into which a file of version 2 has put the given entries.
func openEditing(t *testing.T, single map[string]string) *editing {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "map.db"), 0o600, &bbolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	e := &editing{db: db, model: maps.Clone(single)}
	e.update(t, func(b blocks) error {
		for key, value := range single {
			if err := b.b.Put([]byte(key), sealNamed([]byte(value), []byte(key), editPath...)); err != nil {
				return err
			}
		}
		return nil
	})
	return e
}

func (e *editing) update(t *testing.T, change func(blocks) error) {
	t.Helper()
	if err := e.db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte("map"))
		if err != nil {
			return err
		}
		return change(blocks{b, editPath})
	}); err != nil {
		t.Fatal(err)
	}
}

// mustEqual fails the test unless the map has what the model has, in order, to whoever goes through it and to whoever asks; and unless each
// block passes the check of Open and lies between its neighbours. It returns how many blocks there are.
func (e *editing) mustEqual(t *testing.T) (count int) {
	t.Helper()
	want := slices.Sorted(maps.Keys(e.model))
	err := e.db.View(func(tx *bbolt.Tx) error {
		b := blocks{tx.Bucket([]byte("map")), editPath}
		from := 0
		if len(want) > 0 {
			from = rand.IntN(len(want))
		}
		for _, keys := range [][]string{want, want[from:]} {
			var start []byte
			if len(keys) > 0 && len(keys) < len(want) {
				start = []byte(keys[0])
			}
			n := 0
			for one, err := range b.from(start) {
				if err != nil {
					return err
				}
				if n >= len(keys) || string(one.key) != keys[n] || string(one.value) != e.model[keys[n]] {
					return fmt.Errorf("entry %d from %q on is %q", n, start, one.key)
				}
				n++
			}
			if n != len(keys) {
				return fmt.Errorf("there are %d entries from %q on, want %d", n, start, len(keys))
			}
		}
		for _, order := range [][]string{want, shuffled(want)} {
			f := b.finder()
			for _, key := range order {
				for _, asked := range []string{key[:len(key)-1], key, key + "\x00"} {
					got, err := f.get([]byte(asked))
					if expect, there := e.model[asked]; err != nil || string(got) != expect || (got != nil) != there {
						return fmt.Errorf("%q has %q, %v, want %q", asked, got, err, expect)
					}
				}
			}
		}
		var before []byte
		return b.b.ForEach(func(name, value []byte) error {
			count++
			payload, err := unsealNamed(value, name, editPath...)
			if err == nil {
				err = checkBlock(before, name, payload, func(entry) error { return nil })
			}
			before = name
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return count
}

func shuffled(keys []string) []string {
	keys = slices.Clone(keys)
	rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}

// TestEditorEqualsAMap makes random changes, in order and in none, of maps that grow, shrink, and come from an older file.
func TestEditorEqualsAMap(t *testing.T) {
	rounds := testall.Pick(20, 60)
	for name, test := range map[string]struct {
		single, keys    int
		deletes         float64
		sorted, appends bool
	}{
		"grows in order":                      {keys: 3000, deletes: 0.1, sorted: true},
		"grows in no order":                   {keys: 1000, deletes: 0.1},
		"grows at its end":                    {keys: 1 << 40, sorted: true, appends: true},
		"shrinks":                             {single: 2000, keys: 2000, deletes: 0.8, sorted: true},
		"shrinks in no order":                 {single: 700, keys: 700, deletes: 0.8},
		"comes from an older file":            {single: 2000, keys: 2000, deletes: 0.2, sorted: true},
		"comes from an older file, unordered": {single: 500, keys: 500, deletes: 0.2},
	} {
		t.Run(name, func(t *testing.T) {
			next := uint64(0)
			key := func() string {
				if test.appends {
					next++
					return string(binary.BigEndian.AppendUint64(nil, next)) + strings.Repeat("x", rand.IntN(30))
				}
				n := rand.IntN(test.keys)
				return fmt.Sprintf("%x%s", n, strings.Repeat("x", n%50))
			}
			value := func() string {
				if rand.IntN(300) == 0 {
					return "\x01" + strings.Repeat("long", rand.IntN(1000))
				}
				return "\x01" + strings.Repeat("v", 1+rand.IntN(50))
			}
			single := make(map[string]string)
			for range test.single {
				single[key()] = value()
			}
			e := openEditing(t, single)
			e.mustEqual(t)
			for range rounds {
				e.update(t, func(b blocks) error {
					keys := make([]string, 1+rand.IntN(150))
					for i := range keys {
						keys[i] = key()
					}
					if test.sorted {
						slices.Sort(keys)
					}
					edit := b.editor()
					for _, key := range keys {
						var err error
						if rand.Float64() < test.deletes {
							err = edit.delete([]byte(key))
							delete(e.model, key)
						} else {
							e.model[key] = value()
							err = edit.put([]byte(key), []byte(e.model[key]))
						}
						if err != nil {
							return err
						}
					}
					return edit.flush()
				})
				e.mustEqual(t)
			}
		})
	}
}

// TestEditorGoesOnInAMapThatItHasEmptied: bbolt has pages without anything in them until the transaction ends.
func TestEditorGoesOnInAMapThatItHasEmptied(t *testing.T) {
	key := func(n int) []byte { return fmt.Appendf(nil, "key %06d", n) }
	for _, again := range []int{0, 500, 2000} {
		single := make(map[string]string)
		for n := range 1000 {
			single[string(key(n))] = "\x01value"
		}
		e := openEditing(t, single)
		e.update(t, func(b blocks) error {
			edit := b.editor()
			for n := range 1000 {
				if err := edit.delete(key(n)); err != nil {
					return err
				}
			}
			return errors.Join(edit.put(key(again), []byte("\x01again")), edit.flush())
		})
		e.model = map[string]string{string(key(again)): "\x01again"}
		e.mustEqual(t)
	}
}
