package stream_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/stream"
)

// disputed returns the keys of the entities whose entry is disputed.
func (r *rig) disputed() string {
	r.t.Helper()
	f := r.feeds["s"]
	var keys []string
	for _, key := range []string{"a", "b", "c"} {
		e, err := f.entry(r.t.Context(), key)
		if err != nil {
			r.t.Fatal(err)
		}
		if e.Disputed {
			keys = append(keys, key)
		}
	}
	return strings.Join(keys, " ")
}

// TestWhatHasExpiredElsewhereIsUnknown (rule 22): a stream has the topics d and e, and a store that
// has read a and b. Then a message of a in e expires unread.
func TestWhatHasExpiredElsewhereIsUnknown(t *testing.T) {
	two := func(o *stream.Options) { o.Streams[0].Destinations = []string{"d", "e"} }
	begun := func(t *testing.T, b *bus) []store.Batch {
		b.says(ours("a", 5, 1))
		b.append("e", ours("b", 5, 2).stored())
		r := newRig(t, b, nil, two, "s").start()
		batches, _ := r.disk.applied()
		return batches
	}
	// moves has a go to e, and c come behind it, which is left. d has another message of a.
	moves := func(b *bus) {
		b.says(ours("a", 5, 3))
		b.append("e", ours("a", 5, 4).stored())
		b.append("e", ours("c", 5, 5).stored())
		b.expire("e", 2)
	}
	want := func(t *testing.T, r *rig) {
		t.Helper()
		if got := r.disputed(); got != "a b c" || !r.feeds["s"].due {
			t.Errorf("disputed are %q, a reconcile is due: %v", got, r.feeds["s"].due)
		}
		r.wantNext("s", "d", 2)
		r.wantNext("s", "e", 3)
	}
	bubble(t, "all entries are disputed, and all that is left is read", func(t *testing.T) {
		b := newBus("d", "e")
		batches := begun(t, b)
		moves(b)
		r := newRig(t, b, batches, two, "s").start()
		want(t, r)
		if got := r.seen("s"); len(strings.Fields(got)) != 2 {
			t.Errorf("it has read %q, want a and c", got)
		}
		number := r.registration("s", "d").Number
		batches, _ = r.disk.applied()
		r = newRig(t, b, batches, two, "s").start()
		if got := r.registration("s", "d").Number; got != number || r.feeds["s"].due {
			t.Errorf("the next start has the registration %d, had %d, a reconcile is due: %v", got, number, r.feeds["s"].due)
		}
	})
	bubble(t, "also where the start is killed", func(t *testing.T) {
		for left, killed := 0, true; killed; left++ {
			b := newBus("d", "e")
			batches := begun(t, b)
			moves(b)
			r := newRig(t, b, batches, two, "s")
			r.disk.left = left
			killed = r.c.Start(t.Context()) != nil
			batches, _ = r.disk.applied()
			due := r.feeds["s"].due
			r = newRig(t, b, batches, two, "s").start()
			r.feeds["s"].due = r.feeds["s"].due || due
			want(t, r)
			if left > 20 {
				t.Fatal("it does not come to an end")
			}
		}
	})
	bubble(t, "while it runs, too", func(t *testing.T) {
		b := newBus("d", "e")
		r := newRig(t, b, begun(t, b), two, "s").start()
		moves(b)
		r.run()
		r.pass(2 * time.Minute)
		// What is read behind it is late, and decided.
		if got := r.feeds["s"].movers.Waiting(); !r.feeds["s"].due {
			t.Errorf("no reconcile is due, %d wait", got)
		}
		if got := r.disputed(); !strings.Contains(got, "b") {
			t.Errorf("disputed are %q", got)
		}
	})
	bubble(t, "in a topic-partition of the same topic it is not: keys stay in theirs", func(t *testing.T) {
		b := newBus("d", "e")
		b.topics["t"] = []string{"d", "e"}
		one := func(o *stream.Options) { o.Streams[0].Destinations = []string{"t"} }
		b.says(ours("a", 5, 1))
		b.append("e", ours("b", 5, 2).stored())
		r := newRig(t, b, nil, one, "s").start()
		batches, _ := r.disk.applied()
		b.append("e", ours("b", 5, 3).stored())
		b.append("e", ours("c", 5, 4).stored())
		b.expire("e", 2)
		r = newRig(t, b, batches, one, "s").start()
		if got := r.disputed(); got != "b" {
			t.Errorf("disputed are %q, want b alone: %s", got, fmt.Sprint(r.registration("s", "d")))
		}
	})
}

// TestAFolderThatIsBehind: where a copy knows a later message, the store gets all of it, but for
// its own later decisions.
func TestAFolderThatIsBehind(t *testing.T) {
	t.Parallel()
	key := func(shard string) store.Key { return store.Key{Stream: "s", Shard: shard} }
	tp := func(name, incarnation string, next, high uint64) store.Registration {
		r := store.Registration{Stream: "s", TP: name, Incarnation: incarnation, Next: next, High: store.Anchor{Offset: high}}
		r.High.Hash = high
		return r
	}
	for _, c := range []struct {
		name   string
		is     store.Registration
		behind bool
	}{
		{"it is not", tp("a", "1", 8, 9), false},
		{"nor by a lower offset", tp("a", "1", 3, 5), false},
		{"it is by the offset", tp("a", "1", 11, 9), true},
		{"by the last message", tp("a", "1", 3, 12), true},
		{"by a topic that it does not know", tp("b", "1", 3, 2), true},
		{"not where nothing is in that", tp("b", "1", 3, 0), false},
		{"not by another topic of its name", tp("a", "2", 11, 12), false},
	} {
		was := tp("a", "1", 8, 9)
		was.Number = 4
		has := store.Image{Registrations: []store.Registration{was, {Number: 5, Stream: "other", TP: "a"}}, Shards: map[store.Key]store.Progress{
			key("t"): {Started: true, Position: 3}, key("reset"): {Since: 9, Position: 2}, key("begun"): {Started: true},
		}}
		copied := &stream.Copy{Registrations: []store.Registration{c.is}}
		for _, shard := range []string{"t", "reset"} {
			copied.Shards = append(copied.Shards, store.ShardChange{Key: key(shard), Progress: &store.Progress{Started: true, Position: 10}})
		}
		copied.Shards = append(copied.Shards, store.ShardChange{Key: key("begun"), Progress: &store.Progress{}})
		b := stream.Lacking(&has, "s", copied, func() uint32 { return 0 })
		if behind := len(b.Shards) == 1 && b.Shards[0].Key == key("t") && b.Shards[0].Progress.Position == 10; behind != c.behind {
			t.Errorf("%s: shards %+v", c.name, b.Shards)
		}
		retired := was
		retired.Retired = true
		if want := []store.Registration{retired, c.is}; c.behind != slices.Equal(b.Registrations, want) {
			t.Errorf("%s: registrations %+v", c.name, b.Registrations)
		}
	}
}

func TestLacking(t *testing.T) {
	t.Parallel()
	key, other := store.Key{Stream: "s", Shard: "t"}, store.Key{Stream: "other", Shard: "t"}
	copied := func(p store.Progress) *stream.Copy {
		return &stream.Copy{
			Registrations: []store.Registration{{Number: 7, Stream: "s", TP: "a/0", Next: 5}},
			Shards:        []store.ShardChange{{Key: key, Progress: &p, Parts: []store.Part{{Kind: store.Gaps, Bytes: []byte("x")}}}},
		}
	}
	begun := store.Progress{Started: true, Position: 9}
	for _, c := range []struct {
		name                 string
		has                  store.Image
		is                   store.Progress
		shards, registration int
	}{
		{"an empty store lacks all", store.Image{}, begun, 1, 1},
		{"one of other streams, too", store.Image{
			Shards: map[store.Key]store.Progress{other: begun}, Registrations: []store.Registration{{Number: 7, Stream: "other", TP: "a/0"}},
		}, begun, 1, 1},
		{"one that has begun goes on from what it has", store.Image{Shards: map[store.Key]store.Progress{key: {Started: true, Position: 1}}}, begun, 0, 0},
		{"also where the copy has not begun", store.Image{Shards: map[store.Key]store.Progress{key: {Started: true, Position: 1}}}, store.Progress{}, 0, 0},
		{"one that has read the bus lacks a decision", store.Image{Registrations: []store.Registration{{Number: 1, Stream: "s", TP: "a/0", Next: 8}}}, begun, 1, 0},
		{"and one that was reset lacks the next one", store.Image{Shards: map[store.Key]store.Progress{key: {Since: 4}}}, store.Progress{Started: true, Since: 4}, 1, 0},
		{"a command on the bus is newer", store.Image{Shards: map[store.Key]store.Progress{key: {Started: true, Since: 4}}}, store.Progress{Since: 5}, 1, 0},
		{"a command on the store is newer", store.Image{Shards: map[store.Key]store.Progress{key: {Since: 6}}}, store.Progress{Started: true, Since: 5}, 0, 0},
	} {
		b := stream.Lacking(&c.has, "s", copied(c.is), func() uint32 { return 0 })
		if len(b.Shards) != c.shards || len(b.Registrations) != c.registration {
			t.Errorf("%s: %+v", c.name, b)
		}
		if len(b.Shards) == 1 && (len(b.Shards[0].Clear) != 8 || *b.Shards[0].Progress != c.is || len(b.Shards[0].Parts) != 1) {
			t.Errorf("%s: the shard is %+v", c.name, b.Shards[0])
		}
		if len(b.Registrations) == 1 && (b.Registrations[0].Number != 0 || b.Registrations[0].Next != 5) {
			t.Errorf("%s: the registration is %+v", c.name, b.Registrations[0])
		}
	}
}

// TestAStoreLosesWhatALaterProcessHasDropped: a process that has waited for longer than a table was
// gone neither goes on behind the former table of that name, nor knows it as gone.
func TestAStoreLosesWhatALaterProcessHasDropped(t *testing.T) {
	key := func(shard string) store.Key { return store.Key{Stream: "logs", Shard: shard} }
	image := &store.Image{Epoch: 5, Shards: map[store.Key]store.Progress{
		key("log_*"): {}, key("log_1"): {Started: true, Position: 7}, key("log_2"): {Started: true, Position: 9}, key("\x02log_2"): {Position: 1}, key("orders"): {Position: 3},
	}}
	copied := &stream.Copy{
		Shards:  []store.ShardChange{{Key: key("log_*"), Progress: &store.Progress{}}, {Key: key("log_1"), Progress: &store.Progress{Started: true}}},
		Forgets: func(shard string) (may, table bool) { return strings.Contains(shard, "log_"), shard == "log_2" },
	}
	for _, c := range []struct {
		epoch uint64
		want  int
	}{{5, 0}, {6, 2}} {
		copied.Epoch = c.epoch
		b := stream.Lacking(image, "logs", copied, func() uint32 { return 0 })
		if len(b.Shards) != c.want {
			t.Errorf("a copy of epoch %d changes %+v", c.epoch, b.Shards)
		}
		for _, change := range b.Shards {
			p := change.Progress
			if !change.Remove || change.Key == key("log_2") && (!p.Started || p.Position != 0 || p.Since <= 6) || change.Key == key("\x02log_2") && p != nil {
				t.Errorf("what was dropped becomes %+v", change)
			}
		}
	}
}
