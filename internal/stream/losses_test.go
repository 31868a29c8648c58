package stream_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
)

// TestALossThatIsReadOver: the bus loses the tail of a TP, others refill it, and the hole behind
// the lost messages is read before anchors are compared the next time (rule 20).
func TestALossThatIsReadOver(t *testing.T) {
	scripts(t, map[string]string{
		"several messages": filled + "start; run; pass 1s; lose d 2; other 3; publish d; pass 5m; read 2 due",
		"one message":      filled + "start; run; pass 1s; lose d 2; other 2; publish d; pass 5m; read 2 due",
		"another stream reads the TP from its beginning, and over that loss": filled + `
			lost; start o s; note; run; pass 1s; lose d 2; other 2; publish d; pass 5m; read newer due; o:read newer due`,
		"nothing was lost, and the message at the anchor has expired": filled + `
			start; run; times 5 other | expire d 3 | publish d | pass 5m; read 1`,
	})
	// A stream that starts later waits for e.
	const later = "make e; says x 5 1 of=o in=e; hold e; o:to d e; starting s o; goes-on; note; times 2 other | publish d;"
	scripts(t, map[string]string{
		"a stream that starts later reads over what another one has published": later + `
			pass 1m; free; ended; run; pass 2m; seen; read noted`,
		"and over its loss": later + "lose d 1; other 4; pass 1m; free; ended; run; pass 2m; seen; read newer due",
	})
}

// TestWhatHasExpiredElsewhereIsUnknown (rule 22): a stream has the topics d and e, and a store that
// has read a and b. Then a message of a in e expires unread.
func TestWhatHasExpiredElsewhereIsUnknown(t *testing.T) {
	const (
		begun = "make e; to d e; says a 5 1; says b 5 2 in=e; start;"
		// It goes to e, and c comes behind it, which is left. d has another message of a.
		moves = "says a 5 3; says a 5 4 in=e; says c 5 5 in=e; expire e 2;"
		found = "disputed a b c; next d 2; next e 3;"
	)
	scripts(t, map[string]string{
		"all entries are disputed, and all that is left is read": begun + moves + `
			start; due;` + found + "seen-all a* c*; registered d 3; start; registered d 3; read 3",
		// What is read behind it is late, and decided.
		"while it runs, too": begun + "start;" + moves + "run; pass 2m; due; disputed b",
		"in a topic-partition of the same topic it is not: keys stay in theirs": `
			make e; topic t d e; to t; says a 5 1; says b 5 2 in=e; start;
			says b 5 3 in=e; says c 5 4 in=e; expire e 2; start; disputed b`,
	})
	left, killed := 0, true
	for ; killed && left <= 20; left++ {
		onStage(t, "also where the start is killed", func(t *testing.T, s *stage) {
			s.play(begun + moves + "new")
			s.disk.kill(left)
			killed = s.tries() != nil
			due := s.feeds["s"].due
			if s.play("start;" + found); !due && !s.feeds["s"].due {
				t.Errorf("killed after %d batches, no reconcile is due", left)
			}
		})
	}
	if killed {
		t.Errorf("a start is killed after %d batches", left-1)
	}
}

// TestATopicThatGoesWhileItIsReadAgain: what it held is waited for no more.
func TestATopicThatGoesWhileItIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus("d", "e")
		r := newRig(t, b, memory.New(), func(o *stream.Options) { o.Streams[0].Destinations = []string{"d", "e"} }, "s").start()
		r.run()
		b.make("e")
		b.append("e", ours("k", 5, 1).stored())
		free := b.holds("e")
		r.pass(2 * time.Minute)
		if !r.c.Rereading("s") {
			t.Error("it is not waited for")
		}
		b.mu.Lock()
		delete(b.logs, "e")
		b.mu.Unlock()
		close(free)
		r.pass(2 * time.Minute)
		if r.c.Rereading("s") {
			t.Error("it is waited for")
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

// TestLackingOfManyTables: twenty times as many take no hundred times as long.
func TestLackingOfManyTables(t *testing.T) {
	lacking := func(tables int) (took time.Duration) {
		image := &store.Image{Shards: make(map[store.Key]store.Progress)}
		copied := &stream.Copy{Epoch: 1, Forgets: func(string) (bool, bool) { return true, true }}
		for i := range tables {
			key := store.Key{Stream: "s", Shard: fmt.Sprint("t", i)}
			image.Shards[key] = store.Progress{Started: true}
			copied.Shards = append(copied.Shards, store.ShardChange{Key: key, Progress: &store.Progress{Started: true}})
		}
		for range 3 {
			began := time.Now()
			if b := stream.Lacking(image, "s", copied, func() uint32 { return 0 }); len(b.Shards) != 0 {
				t.Errorf("%d shards", len(b.Shards))
			}
			if one := time.Since(began); took == 0 || one < took {
				took = one
			}
		}
		return took
	}
	if few, many := lacking(500), lacking(10_000); many > 100*few {
		t.Errorf("many take %s, few %s", many, few)
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

// forgets answers the same of every topic.
func forgets(after time.Duration, does bool, err error) func(context.Context, string) (time.Duration, bool, error) {
	return func(context.Context, string) (time.Duration, bool, error) { return after, does, err }
}

// forgetful has a stream on the topics d and e, which forget within a day what says that an entity
// is gone, and a store that has read a and b, of the topic d, and nothing of e. What was read 13
// hours ago is read again, what was 11 hours ago is not.
const forgetful = "make e; to d e; forgets 24h; says a 5 1; says b 5 2; start;"

// TestWhatCompactionRemovedUnread (rule 30): a store has read a, and compaction has removed all
// that the bus had of it, also that it is gone.
func TestWhatCompactionRemovedUnread(t *testing.T) {
	for name, script := range map[string]string{
		"it is read again from the beginning, once": `
			pass 13h; compact d; start; decides a; seen b c; registered d 3; registered e 4;
			pass 11h; says b 5 5; says c 5 6; start; registered d 3; registered e 4`,
		"also where that lay in another topic than what the entry is of": "pass 13h; compact e; start; decides a",
		"and where one topic was read lately": `
			pass 11h; says b 5 5; start; decides; pass 11h; compact e; start; decides a`,
		"a process that could not read for long reads it again": "start; pass 13h; compact d; resolve; decides a",
		"a clock that was set back tells nothing":               "pass 11h; compact d; set-back 24h; start; decides a",
	} {
		onStage(t, name, func(_ *testing.T, s *stage) { s.play(forgetful + script) })
	}
	onStage(t, "and where the bus does not show it at first", func(_ *testing.T, s *stage) {
		s.play(forgetful + "pass 13h; compact d")
		hidden := s.bus.logs["d"]
		delete(s.bus.logs, "d")
		s.play("start")
		s.bus.logs["d"] = hidden
		s.play("run; pass 2m; decides a")
	})
	onStage(t, "a start that is killed leaves the next one less to read", func(t *testing.T, s *stage) {
		s.play(forgetful + "pass 13h; compact d")
		due := false
		for starts := 0; ; starts++ {
			s.play("new; kill 2")
			err := s.tries()
			if due = due || s.feeds["s"].due; err == nil {
				if s.play("disputed a; registered d 3; registered e 4"); !due {
					t.Error("no reconcile was due")
				}
				return
			}
			if !errors.Is(err, errKilled) || starts > 10 {
				t.Fatalf("start %d: %v", starts, err)
			}
			s.play("pass 1h")
		}
	})
	onStage(t, "kills in a reading give no more time than one", func(t *testing.T, s *stage) {
		s.play(forgetful)
		// They are of a younger process, so none is late: each start reads a part, and is killed.
		for i := range 5000 {
			s.play(fmt.Sprintf("says %d high %d", i, 10+i))
		}
		for range 2 {
			s.play("new; kill 1; start-fails killed")
			if next := s.registration("s", "d").Next; next == 2 || next == 5002 {
				t.Fatalf("it has read up to %d", next)
			}
			s.play("pass 7h")
		}
		s.play("compact d; start; decides a")
	})
}

// TestWhatIsNotReadAgain (rule 30).
func TestWhatIsNotReadAgain(t *testing.T) {
	for name, script := range map[string]string{
		"a topic with one new offset, less than an event with its tombstone takes": "pass 72h; other; start",
		"a topic that was read lately":                                             "pass 11h; says c 5 4; says b 5 5; start",
		"a topic behind a clock that was set back a little":                        "says c 5 4; says b 5 5; set-back 30s; start",
		"by a process that runs, a topic that was quiet":                           "start; run; pass 13h; other 2; pass 5m; next d 4",
		"by a process that runs, a topic that forgets at once":                     "forgets 0s; start; run; times 5 other 2 | pass 1m",
		"a topic that forgets nothing":                                             "pass 240h; compact d; forgets never; start; goes-on; decides",
		"a topic of which the bus does not tell what it forgets":                   "pass 240h; compact d; forgets closed; start; stops closed; decides",
	} {
		onStage(t, name, func(_ *testing.T, s *stage) {
			s.play(forgetful + script)
			if !strings.Contains(script, "stops") {
				s.play("registered d 1; registered e 2")
			}
		})
	}
	onStage(t, "a topic that takes long to read", func(_ *testing.T, s *stage) {
		// b is late, and so the last one that is read.
		s.play(forgetful + "pass 13h; compact d; says b 4 9")
		var slow atomic.Bool
		slow.Store(true)
		s.bus.fails(func(span sink.Span) error {
			if slow.Load() && span.To > span.From+1 {
				wait := time.NewTimer(13 * time.Hour)
				<-wait.C
				s.bus.other("new")
				s.bus.other("new")
			}
			return nil
		})
		// A round is never short, and behind it something is left.
		s.play("starting; pass 130h")
		slow.Store(false)
		s.play("ended; registered d 3; registered e 4")
	})
}
