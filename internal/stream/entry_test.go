package stream_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
)

// says returns a message with a digest of its own.
func says(tp uint32, offset, epoch, seq uint64) *stream.Message {
	return &stream.Message{
		State: sink.State{Epoch: epoch, Seq: seq, Digest: [16]byte{byte(tp), byte(offset), byte(seq)}}, Shard: "a", Row: seq,
		Event: [16]byte{1, byte(tp), byte(offset)}, At: store.At{TP: tp, Offset: offset},
	}
}

func dead(m *stream.Message) *stream.Message {
	m.Dead = true
	return m
}

func applied(e store.Entry, messages ...*stream.Message) store.Entry {
	for _, m := range messages {
		e, _ = stream.Apply(e, m)
	}
	return e
}

func TestApply(t *testing.T) {
	e := applied(store.Entry{}, says(1, 4, 7, 5))
	recorded := store.Entry{State: store.Recorded, Row: 9, Digest: [16]byte{1}}
	somewhere := e
	somewhere.At = store.At{}
	for name, tt := range map[string]struct {
		entry             store.Entry
		message           *stream.Message
		applied, disputed bool
		seq               uint64
	}{
		"nothing is known":                                   {store.Entry{}, says(1, 0, 7, 5), true, false, 5},
		"any message replaces what was recorded":             {recorded, says(1, 0, 1, 1), true, false, 1},
		"a TP that is not known, the same":                   {somewhere, says(1, 0, 7, 5), true, false, 5},
		"a TP that is not known, older":                      {somewhere, says(1, 0, 7, 4), true, true, 5},
		"in another TP, of which the entry is a dead letter": {e, says(2, 9, 7, 5), true, false, 5},
		"in another TP, the dead letter of the entry":        {e, dead(says(2, 9, 7, 5)), false, false, 5},
		"in a TP that is read again, the same confirms":      {stream.Renewed(e, 2), says(2, 0, 7, 5), true, false, 5},
		"in a TP that is read again, an older one":           {stream.Renewed(e, 2), says(2, 0, 7, 4), true, true, 5},
		"in another TP than the one that is read again":      {stream.Renewed(e, 2), says(3, 0, 7, 4), false, true, 5},
	} {
		t.Run(name, func(t *testing.T) {
			next, ok := stream.Apply(tt.entry, tt.message)
			want := tt.entry
			if tt.applied {
				want = applied(store.Entry{}, tt.message)
				want.Epoch, want.Disputed = next.Epoch, tt.disputed
			}
			want.Seq = tt.seq
			if next != want || ok != tt.applied {
				t.Errorf("%+v, %v\nwant %+v, %v", next, ok, want, tt.applied)
			}
		})
	}
}

func TestWhatAMessageMakesOfAnEntry(t *testing.T) {
	m := says(1, 4, 7, 5)
	m.State.Kind, m.State.Digest, m.Time = sink.StateAbsent, [16]byte{}, time.Unix(1_760_000_000, 999)
	want := store.Entry{Shard: "a", Row: 5, Event: m.Event, State: store.Absent, Since: time.Unix(1_760_000_000, 0).UTC(), At: m.At, Epoch: 7, Seq: 5}
	if got := applied(store.Entry{}, m); got != want {
		t.Errorf("absent: %+v, want %+v", got, want)
	}
	m.State.Kind, m.State.Event = sink.StateTombstone, [16]byte{7}
	want.State, want.Since, want.Event = store.Tombstone, time.Time{}, m.State.Event
	if got := applied(store.Entry{}, m); got != want {
		t.Errorf("a dead letter of a tombstone: %+v, want %+v", got, want)
	}
}

// TestTheOrderOfTPsDoesNotMatter compares Apply with what rule 6 comes to: the TP with the highest
// stamp has the entity, its last message is the entry, disputed where that is not the highest. Some
// messages have a dead letter, too.
func TestTheOrderOfTPsDoesNotMatter(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		tps := make([][]*stream.Message, 1+rng.IntN(3))
		var highest *stream.Message
		for i, seq := range rng.Perm(1 + rng.IntN(8)) {
			tp := rng.IntN(len(tps))
			m := says(uint32(tp+1), uint64(i), uint64(1+seq/3), uint64(seq))
			if tps[tp] = append(tps[tp], m); highest == nil || seq > int(highest.State.Seq) {
				highest = m
			}
		}
		of := tps[highest.At.TP-1]
		var deadLetters []*stream.Message
		for _, tp := range tps {
			for _, m := range tp {
				if rng.IntN(3) == 0 {
					deadLetters = append(deadLetters, dead(says(9, uint64(len(deadLetters)), m.State.Epoch, m.State.Seq)))
				}
			}
		}
		tps = append(tps, deadLetters)
		want := applied(store.Entry{}, of[len(of)-1])
		want.Disputed = want.Seq != highest.State.Seq
		want.Epoch, want.Seq = highest.State.Epoch, highest.State.Seq
		var e store.Entry
		for left := tps; len(left) > 0; {
			i := rng.IntN(len(left))
			if len(left[i]) == 0 {
				left = append(left[:i:i], left[i+1:]...)
				continue
			}
			e = applied(e, left[i][0])
			if again, ok := stream.Apply(e, left[i][0]); ok || again != e {
				t.Fatalf("applied twice: %+v, %+v", e, again)
			}
			left[i] = left[i][1:]
		}
		if e != want {
			t.Fatalf("%+v\nwant %+v", e, want)
		}
	}
}

// The hashes are on the bus: none may change.
func TestTheHashOfAMeaning(t *testing.T) {
	seen := make(map[uint32]bool)
	for _, c := range []struct {
		kind  string
		key   []string
		scope stream.Scope
		want  uint32
	}{
		{"capability", []string{"id"}, stream.ScopeTable, 0xc353cfa4},
		{"release", []string{"id"}, stream.ScopeTable, 0x894d4e4f},
		{"capability", []string{"app", "cluster"}, stream.ScopeStream, 0xab25b722},
		{"capability", []string{"cluster", "app"}, stream.ScopeStream, 0x330f24a6},
		{"capability", []string{"appcluster"}, stream.ScopeStream, 0xe910fd0a},
		{"capability", []string{"app"}, stream.ScopeStream, 0xcd0969bc},
	} {
		got := stream.MeaningHash(c.kind, c.key, c.scope)
		if got != c.want || seen[got] {
			t.Errorf("%s %v %s: %#x, want %#x", c.kind, c.key, c.scope, got, c.want)
		}
		seen[got] = true
	}
	if stream.MeaningHash("release", []string{"ID"}, stream.ScopeTable) != stream.MeaningHash("release", []string{"id"}, stream.ScopeTable) {
		t.Error("the case of a column changes the hash")
	}
}

// TestTheCommandsOfAMeaning: a shard may go on where its position still says something.
func TestTheCommandsOfAMeaning(t *testing.T) {
	was := map[string]store.Meaning{"release": {Kind: "release", Table: "shop.t", ID: "id"}, "capability": {Kind: "capability", Table: "shop.t", ID: "id", Key: []string{"id"}}}
	for _, c := range []struct {
		is   store.Meaning
		was  string
		goOn string
	}{
		{store.Meaning{Kind: "release", Table: "crm.t", ID: "id"}, "release", "bridge checkpoint set s t 10"},
		{store.Meaning{Kind: "release", Table: "shop.t", ID: "seq"}, "release", ""},
		{store.Meaning{Kind: "capability", Table: "shop.t", ID: "id", Key: []string{"id"}}, "release", ""},
		{store.Meaning{Kind: "release", Table: "shop.t", ID: "id"}, "capability", ""},
		{store.Meaning{Kind: "capability", Table: "crm.t", ID: "id", Key: []string{"id"}}, "capability", ""},
		{store.Meaning{Kind: "capability", Table: "shop.t", ID: "id", Key: []string{"name"}}, "capability", ""},
	} {
		former := was[c.was]
		reset, goOn := stream.MeaningCommands(store.Key{Stream: "s", Shard: "t"}, &former, 10, former.Differences(&c.is))
		if reset != "bridge checkpoint reset s" || goOn != c.goOn {
			t.Errorf("%+v that was %+v: %q and %q", c.is, former, reset, goOn)
		}
	}
}
