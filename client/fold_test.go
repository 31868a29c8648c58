package client

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"example.org/bridge/client/bus"
)

// sent is a message of a test; one that says "" is a deletion.
type sent struct {
	tp    uint32
	key   string
	stamp stamp
	says  string
	bare  bool
	hash  uint32
}

// folding is a fold with the offsets of its TPs, and a copy by its changes.
type folding struct {
	*fold
	ends    map[uint32]uint64
	changes map[string]string
}

func newFolding(tps int) *folding {
	f := &folding{ends: make(map[uint32]uint64), changes: make(map[string]string)}
	f.fold = newFold(false, func(key string, before, after *entity) {
		if got, there := f.changes[key]; there != (before != nil) || there && got != string(before.body) {
			panic(fmt.Sprintf("a change of %s from %q, it was %q", key, before.body, got))
		}
		if delete(f.changes, key); after != nil {
			f.changes[key] = string(after.body)
		}
	})
	f.register(tps)
	return f
}

func (f *folding) add(m sent) outcome {
	f.ends[m.tp]++
	return f.apply(m.message(f.ends[m.tp]), m.tp, []byte(m.says), 0)
}

func (m sent) message(offset uint64) *message {
	parsed := &message{
		said: said{kind: &kind{}}, stored: &bus.Stored{Offset: offset}, key: []byte(m.key), stamp: m.stamp, hash: m.hash, deleted: m.says == "", bare: m.bare,
	}
	// As meta.id: the same for the same fact.
	copy(parsed.id[:], m.key+"="+m.says)
	return parsed
}

func (f *folding) table() map[string]string {
	table := make(map[string]string)
	for key, e := range f.entities {
		table[key] = string(e.body)
	}
	return table
}

// TestFold has what TestFoldWhateverTheOrder does not: what a message counts as, tombstones without
// headers, and another KEY.
func TestFold(t *testing.T) {
	at := func(epoch, seq uint64) stamp { return stamp{epoch, seq} }
	for name, c := range map[string]struct {
		messages []sent
		want     string
		last     outcome
	}{
		"the same event again changes nothing": {
			messages: []sent{{1, "a", at(1, 1), "x", false, 0}, {1, "a", at(2, 1), "x", false, 0}}, want: "a=x", last: repeated},
		"what is older in another TP does not hold": {
			messages: []sent{{1, "a", at(1, 2), "y", false, 0}, {2, "a", at(1, 1), "x", false, 0}}, want: "a=y", last: older},
		"a higher epoch is newer whatever the number": {
			messages: []sent{{1, "a", at(1, 9), "x", false, 0}, {2, "a", at(2, 1), "y", false, 0}}, want: "a=y"},
		"what comes late in its own TP holds": {
			messages: []sent{{1, "a", at(2, 1), "y", false, 0}, {1, "a", at(1, 1), "x", false, 0}}, want: "a=x"},
		"behind what came late, another TP has to be newer than both": {
			messages: []sent{{1, "a", at(2, 5), "y", false, 0}, {1, "a", at(1, 1), "x", false, 0}, {2, "a", at(2, 4), "z", false, 0}}, want: "a=x", last: older},
		"a deletion in another TP is remembered": {
			messages: []sent{{1, "a", at(1, 2), "", false, 0}, {2, "a", at(1, 1), "x", false, 0}}, want: "", last: older},
		"a tombstone without headers deletes in its TP": {
			messages: []sent{{1, "a", at(1, 1), "x", false, 0}, {1, "a", stamp{}, "", true, 0}}, want: ""},
		"a tombstone without headers says nothing of another TP": {
			messages: []sent{{2, "b", at(1, 1), "x", false, 0}, {1, "a", at(1, 2), "x", false, 0}, {2, "a", stamp{}, "", true, 0}}, want: "a=x b=x", last: older},
		"another KEY drops what was there": {
			messages: []sent{{1, "a", at(1, 1), "x", false, 7}, {1, "b+c", at(2, 1), "y", false, 8}}, want: "b+c=y"},
		"what is left of a former KEY does not hold": {
			messages: []sent{{1, "b+c", at(2, 1), "y", false, 8}, {2, "a", at(1, 1), "x", false, 7}}, want: "b+c=y", last: outdated},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFolding(2)
			var last outcome
			for _, m := range c.messages {
				last = f.add(m)
			}
			if got := joined(f.table()); got != c.want || last != c.last {
				t.Errorf("the table is %q and the last message counts as %d, want %q and %d", got, last, c.want, c.last)
			}
			if got := joined(f.changes); got != c.want {
				t.Errorf("the changes make %q, want %q", got, c.want)
			}
			for key := range f.deleted.young {
				if f.entities[key] != nil {
					t.Errorf("%s is there, and remembered as deleted", key)
				}
			}
		})
	}
}

func joined(table map[string]string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(table)) {
		all = append(all, key+"="+table[key])
	}
	return strings.Join(all, " ")
}

// TestFoldWhateverTheOrder reads the same TPs in many orders. The copy is always that of the
// model: an entity is where its highest stamp is, and is what the last message there says.
func TestFoldWhateverTheOrder(t *testing.T) {
	for seed := range 1000 {
		random := rand.New(rand.NewPCG(uint64(seed), 7))
		tps := randomTPs(random)
		want := model(tps)
		for range 4 {
			f := newFolding(len(tps))
			for _, m := range interleave(random, tps) {
				f.add(m)
			}
			if got := f.table(); !maps.Equal(got, want) {
				t.Fatalf("seed %d: the table is %v, want %v", seed, got, want)
			}
			if !maps.Equal(f.changes, want) {
				t.Fatalf("seed %d: the changes make %v, want %v", seed, f.changes, want)
			}
		}
	}
}

// randomTPs returns messages of a few entities that move between TPs, mostly in the order of their
// stamps, some late.
func randomTPs(random *rand.Rand) [][]sent {
	tps := make([][]sent, 1+random.IntN(3))
	for i := range 5 + random.IntN(40) {
		m := sent{tp: uint32(1 + random.IntN(len(tps))), key: string(rune('a' + random.IntN(3))), stamp: stamp{1 + uint64(i/12), uint64(i)}}
		if random.IntN(4) > 0 {
			m.says = fmt.Sprint(random.IntN(3))
		}
		into := &tps[m.tp-1]
		*into = append(*into, m)
		if n := len(*into); n > 1 && random.IntN(6) == 0 {
			(*into)[n-1], (*into)[n-2] = (*into)[n-2], (*into)[n-1]
		}
	}
	return tps
}

func model(tps [][]sent) map[string]string {
	highest, table := make(map[string]stamp), make(map[string]string)
	for _, messages := range tps {
		for _, m := range messages {
			if highest[m.key].before(m.stamp) {
				highest[m.key] = m.stamp
			}
		}
	}
	for _, messages := range tps {
		last, wins := make(map[string]string), make(map[string]bool)
		for _, m := range messages {
			last[m.key] = m.says
			wins[m.key] = wins[m.key] || highest[m.key] == m.stamp
		}
		for key := range wins {
			if wins[key] && last[key] != "" {
				table[key] = last[key]
			}
		}
	}
	return table
}

// interleave returns the messages of all TPs in one order that keeps that of each.
func interleave(random *rand.Rand, tps [][]sent) (all []sent) {
	rest := slices.Clone(tps)
	for {
		var open []int
		for i := range rest {
			if len(rest[i]) > 0 {
				open = append(open, i)
			}
		}
		if len(open) == 0 {
			return all
		}
		i := open[random.IntN(len(open))]
		all, rest[i] = append(all, rest[i][0]), rest[i][1:]
	}
}

func TestACopyUnderAnotherKEY(t *testing.T) {
	for _, c := range []struct {
		hash  uint32
		early bool
		want  string
	}{{7, false, "a=x b=y"}, {8, false, "b=y"}, {7, true, "a=x b=y"}, {8, true, "b=y"}} {
		before := newFolding(1)
		before.add(sent{tp: 1, key: "a", stamp: stamp{1, 1}, says: "x", hash: 7})
		next := newFolding(1)
		next.rebuilding, next.changes = true, before.changes
		changed, b := next.changed, sent{tp: 1, key: "b", stamp: stamp{2, 1}, says: "y", hash: c.hash}
		if c.early {
			next.changed = func(string, *entity, *entity) {}
			next.add(b)
			next.changed = changed
		}
		next.replace(before.fold)
		if !c.early {
			next.add(b)
		}
		if got := joined(next.table()); got != c.want || joined(next.changes) != c.want {
			t.Errorf("behind a message with the hash %d the table is %s, want %s", c.hash, got, c.want)
		}
	}
}

func TestDeletionsAreBounded(t *testing.T) {
	const few = 1000
	d := deletions{few: few}
	key := func(i int) []byte { return fmt.Appendf(nil, "k%d", i) }
	get := func(i int) (position, bool) { return d.get(string(key(i))) }
	t.Run("no more are remembered than there are entities, the oldest go first", func(t *testing.T) {
		for i := range 2*few + 500 {
			d.add(key(i), position{tp: 1}, 0, 0)
		}
		if d.len() != few+500 || d.forgotten != few {
			t.Errorf("%d are remembered and %d forgotten", d.len(), d.forgotten)
		}
		if _, known := get(few - 1); known {
			t.Error("an old one is remembered")
		}
		if _, known := get(few); !known {
			t.Error("a younger one is forgotten")
		}
		for i := range 500 {
			d.add(key(i), position{tp: 1}, 0, few*4)
		}
		if d.len() != few+1000 || d.forgotten != few {
			t.Errorf("of many entities %d are remembered and %d forgotten", d.len(), d.forgotten)
		}
	})
	t.Run("one that was deleted again counts from then on", func(t *testing.T) {
		d.add(key(few), position{tp: 2}, rememberFor/2, few*4)
		d.add(key(-1), position{tp: 1}, rememberFor, few*4)
		if at, known := get(few); !known || at.tp != 2 {
			t.Errorf("it is at %+v, %v", at, known)
		}
		if _, known := get(few + 1); known || d.forgotten != few {
			t.Errorf("of an hour ago it is remembered: %v, %d were forgotten early", known, d.forgotten)
		}
	})
	t.Run("what is deleted again and again takes no memory", func(t *testing.T) {
		d := deletions{few: 10}
		for n := range 1000 {
			d.add([]byte("lease"), position{tp: 1, offset: uint64(n)}, 0, 0)
		}
		if d.len() != 1 {
			t.Errorf("%d are remembered", d.len())
		}
	})
	t.Run("after two hours they are forgotten", func(t *testing.T) {
		d.add(key(-2), position{tp: 1}, 3*rememberFor, 0)
		if d.len() != 1 || d.forgotten != few {
			t.Errorf("%d are remembered, %d were forgotten early", d.len(), d.forgotten)
		}
	})
}

func TestRepeatsAreRememberedInAWindow(t *testing.T) {
	const room, added = 3, 11
	var r repeats
	for i := range byte(added) {
		r.add([16]byte{i}, room)
		r.add([16]byte{i}, room)
		if n := r.len(); n > 2*room {
			t.Errorf("%d ids are remembered", n)
		}
	}
	for i := range byte(added) {
		if _, got := r.get([16]byte{i}); i >= added-room && !got || i < added-2*room && got {
			t.Errorf("id %d is remembered: %v", i, got)
		}
	}
}

// TestAFullListSwaps: once all TPs have met the end of a list, what lies before its beginning in
// each is dropped; where one has no list, at the beginning of the next one.
func TestAFullListSwaps(t *testing.T) {
	f := newFolding(2)
	seq := uint64(0)
	says := func(tp uint32, key, state string) {
		seq++
		f.add(sent{tp: tp, key: key, stamp: stamp{1, seq}, says: state})
	}
	boundIn := func(tp uint32, kind, id string) {
		f.ends[tp]++
		f.bound(kind, id, tp, f.ends[tp], 0)
	}
	bound := func(kind, id string) { boundIn(1, kind, id) }
	holds := func(want string) {
		t.Helper()
		if got := joined(f.table()); got != want || joined(f.changes) != want {
			t.Errorf("it holds %s, by its changes %s, want %s", got, joined(f.changes), want)
		}
	}
	says(1, "a", "x")
	says(1, "b", "x")
	says(1, "c", "x")
	says(2, "d", "x")
	bound(bus.ListEnds, "1")
	holds("a=x b=x c=x d=x")
	bound(bus.ListBegins, "1")
	says(1, "a", "x")
	bound(bus.ListBegins, "1")
	says(1, "b", "y")
	bound(bus.ListBegins, "2")
	bound(bus.ListEnds, "1")
	holds("a=x b=y c=x d=x")
	says(1, "a", "x")
	bound(bus.ListBegins, "2")
	says(1, "b", "")
	bound(bus.ListEnds, "2")
	holds("a=x c=x d=x")
	boundIn(2, bus.ListBegins, "2")
	// It has moved.
	says(2, "c", "y")
	boundIn(2, bus.ListEnds, "2")
	holds("a=x c=y")
	says(1, "b", "z")
	bound(bus.ListBegins, "2")
	bound(bus.ListEnds, "2")
	holds("a=x b=z c=y")
	bound(bus.ListBegins, "3")
	says(1, "b", "z")
	bound(bus.ListEnds, "3")
	holds("a=x b=z c=y")
	bound(bus.ListBegins, "4")
	holds("b=z c=y")
}
