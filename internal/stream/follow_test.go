package stream_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/internal/share"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
	"example.org/bridge/source/ledger"
	"example.org/bridge/tests/must"
)

func TestFollow(t *testing.T) {
	scripts(t, map[string]string{
		"another process is publishing in a transaction": "says a 7 1; says b 7 2; open 1; follow; seen a; elect; seen b",
		"what another one publishes is read, and then the rest with an epoch above": `
			says a 7 1; follow; state following; seen a; says b 7 2; pass 6s; state following; seen b; next d 2;
			no-epoch; says c top 3; elect; seen c; epoch top+1; due`,
		// An offset passes a late message at once, and its entity is nominated when it is the turn
		// of the process.
		"a late message": `
			says a 5 1; follow; says b 4 1; says c 5 2; pass 10s; seen a b* c; next d 3; waits 0; elect; waits 1; due`,
		"a process that has not read to the end for more than a minute does not say that it follows": `
			follow; pass 1h; state following; hang d; pass 10m; state neither; leave`,
		"a topic that is made again is read on": `
			says a 5 1; follow; seen a; make d; says b 5 2; pass 1m; seen b; state following; followed 1; leave`,
		"a topic of a release stream that is made again has the process started again, which reads what is left": `
			release; says a 5 1; follow; seen a; make d; says b 5 2; pass 1m; ended again;
			follow; seen b; state following; followed 1; leave`,
	})
}

func hangs(ctx context.Context, _ []string) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// A TP that is waited for holds up nobody else, and one that has lost messages is not waited for.
func TestReadingsThatStandStill(t *testing.T) {
	onStage(t, "more partitions that do not answer than are read at once", func(t *testing.T, s *stage) {
		tps := ""
		for i := range 12 {
			tps += fmt.Sprintf(" e/%d", i)
			s.play(fmt.Sprintf("make e/%d; says b 5 %d of=o in=e/%d", i, i+2, i))
		}
		s.play("topic e" + tps + "; hold e; o:to e; starting o s; run; pass 1s; says a 5 1; resolving; pass 1m; resolved; free; ended; pass 1m")
	})
	onStage(t, "the end is lost while the start reads", func(t *testing.T, s *stage) {
		for i := range 10 {
			s.play(fmt.Sprint("says a 5 ", i+1))
		}
		s.bus.fails(func(sink.Span) error {
			s.bus.lose("d", 5)
			return nil
		})
		s.play("starting; pass 10m; state ready; ended")
	})
}

// TestWatchOfSeveralStreams: a topic whose bounds nobody tells does not keep the ends of others
// from being looked up.
func TestWatchOfSeveralStreams(t *testing.T) {
	scripts(t, map[string]string{"the first stream's topic does not answer": `
		make e; o:to e; start o s; run; pass 0s; hang e; pass 2m; says new now+1 1; pass 2m; superseded`})
}

// mine has a process publish some shards of stream s, and others the rest.
func mine(shards ...string) func(*stream.Options) {
	return func(o *stream.Options) {
		o.Streams[0].Mine = func(shard string) bool { return slices.Contains(shards, shard) }
	}
}

func of(shard, key string, epoch, seq uint64) *said {
	m := ours(key, epoch, seq)
	m.shard = shard
	return m
}

// TestMessagesOfOtherShares: nothing of them is applied, and nothing concluded from their epochs,
// their hash and what they lack, while catching up and later. One of its own share supersedes it.
func TestMessagesOfOtherShares(t *testing.T) {
	const foreign = "says b future 1 by=other; says c future 2 by=other hash=77; says d 7 3 by=other bare;"
	scripts(t, map[string]string{"of a topic": "mine a; says a 5 1;" + foreign + "start; run; seen a; epoch-below future;" + foreign + `
		says late 4 1; publish own; pass 2m; seen late*; next d end; met now; alone; goes-on;
		says x future+1 1; pass 2m; superseded`})
}

// TestEpochsOfShares: shares that begin in one millisecond have different ones, near the time.
func TestEpochsOfShares(t *testing.T) {
	bubble(t, "at once", func(t *testing.T) {
		for _, number := range []int{1, 3, share.Most} {
			seen, now := make(map[uint64]int), uint64(time.Now().UnixMilli())
			for _, index := range slices.Compact([]int{0, number / 2, number - 1}) {
				r := newRig(t, newBus("d"), nil, func(o *stream.Options) { o.Share = share.Share{Index: index, Number: number} }, "s").start()
				epoch := r.c.Epoch().Number()
				if other, met := seen[epoch]; met || epoch < now || epoch >= now+uint64(number) {
					t.Errorf("share %d of %d has epoch %d at %d, and share %d, too", index, number, epoch, now, other)
				}
				seen[epoch] = index
			}
		}
		b := newBus("d")
		high := uint64(time.Now().Add(time.Hour).UnixMilli())
		b.says(of("a", "a", high, 1))
		r := newRig(t, b, nil, func(o *stream.Options) { o.Share = share.Share{Index: 2, Number: 7} }, "s").start()
		if epoch := r.c.Epoch().Number(); epoch <= high || epoch%7 != 2 {
			t.Errorf("the epoch is %d above %d", epoch, high)
		}
	})
}

// TestPermit: a process that is not permitted publishes nothing, and has to be started again. It is
// asked once its epoch is durable.
func TestPermit(t *testing.T) {
	bubble(t, "refused", func(t *testing.T) {
		refused := errors.New("refused")
		var r *rig
		permit := func(_ context.Context, epoch uint64) error {
			if image := must.Get(r.disk.Load(t.Context()))(t); image.Epoch == 0 || image.Epoch != epoch {
				t.Errorf("the store has the epoch %d", image.Epoch)
			}
			return refused
		}
		r = newRig(t, newBus("d"), nil, func(o *stream.Options) { o.Permit = permit }, "s", "other")
		if err := r.c.Start(t.Context()); !errors.Is(err, stream.ErrStartAgain) || !errors.Is(err, refused) {
			t.Errorf("it starts: %v", err)
		}
	})
}

// TestAnEpochIsAboveThoseOfCopies: the clock of a host may be behind that of the former owner of a
// table, below whose epoch messages do not count.
func TestAnEpochIsAboveThoseOfCopies(t *testing.T) {
	future := uint64(time.Now().Add(time.Hour).UnixMilli())
	for _, copied := range []stream.Copy{
		{Epoch: future},
		{Shards: []store.ShardChange{{Key: store.Key{Stream: "s", Shard: "t"}, Progress: &store.Progress{Since: future}}}},
	} {
		r := newRig(t, newBus("d"), nil, func(o *stream.Options) {
			o.Copy = func(context.Context, string) (stream.Copy, error) { return copied, nil }
		}, "s").start()
		if got := r.c.Epoch().Number(); got <= future {
			t.Errorf("the epoch is %d, want one above %d", got, future)
		}
	}
}

func peers(b *bus, n int) {
	for i := range n {
		b.says(of("other", "x", 9, uint64(i)))
	}
}

// another is another process of the share: it has begun, and nobody tells whether it has.
type another struct{ begun, hidden atomic.Bool }

func (a *another) alone(ctx context.Context) (bool, error) {
	if a.hidden.Load() {
		<-ctx.Done()
		return false, context.Cause(ctx)
	}
	return !a.begun.Load(), nil
}

func (a *another) publishes(b *bus, r *rig) {
	a.begun.Store(true)
	b.says(of("a", "another", r.c.Epoch().Number()+1, 1))
}

// shared is a test of a release stream that publishes the shard a to a topic with other shares.
func shared(t *testing.T, name string, test func(t *testing.T, s *stage)) {
	onStage(t, name, func(t *testing.T, s *stage) {
		s.with = append(s.with, func(o *stream.Options) { o.Alone = s.other.alone })
		s.play("release; mine a; says former 5 1; peers 3; start; run; seen former")
		test(t, s)
	})
}

func TestPass(t *testing.T) {
	const superseded = "times 24 peers 5 | publish own | pass 5s; superseded"
	for name, script := range map[string]string{
		"not over a batch in flight": `
			peers 5; send own; store own; peers 5; publish above; pass 2m; next-within d 4 9; ack own; pass 2m; next d end`,
		"what follows an unknown outcome is read until it was read back": `
			send own; publish above; unknown own; pass 30s; peers 5; store own; peers 5; pass 2m; seen own;
			resolve; says late 5 2; pass 2m; seen; next d end`,
		"what follows an unknown outcome is read where the bus could not be read then": `
			send own; unknown own; unreadable; resolve; readable; peers 5; store own; publish above; pass 2m; seen own`,
		"a topic that is found while the process runs is read to its end first": `
			topic d d d/2; make d/2; says x 7 1 by=other in=d/2; says before 5 2 in=d/2; pass 2m; seen before;
			says late 5 3 in=d/2; pass 3m; seen; next d/2 3`,
		"not where the bus has lost messages, and has others at their offsets": `
			publish own; peers 5; publish lost; pass 1s; lose d 4; session d; peers 20; publish behind; pass 2m; stops behind`,
		// The end is noted before it is lost.
		"not where the bus has lost messages of others, and has one in flight at their offsets": `
			peers 1; publish own; peers 30; pass 6500ms; lose d 6; session d;
			send flying; store flying; peers 40; pass 2m; ack flying; pass 2m; next d end`,
		"not over what another process of the share has published": "peers 5; another;" + superseded,
		"nor while a batch stays in flight":                        "pass 1m; send stays; peers 5; pass 1m; another;" + superseded,
		"nor while nobody tells who has begun":                     "pass 1m; hidden; another;" + superseded,
		"nor while sessions end one after the other": `
			peers 5; says late 5 2; times 60 session d | publish own | pass 2s; seen late`,
		"again once the bus tells that nobody has begun": `
			hidden; peers 5; says late 5 2; pass 2m; seen late;
			told; pass 1m; says late 5 3; publish own; pass 2m; seen; next d end`,
	} {
		shared(t, name, func(_ *testing.T, s *stage) { s.play(script) })
	}
	shared(t, "what other shares publish is not read, and offsets come to the end", func(t *testing.T, s *stage) {
		var read atomic.Uint64
		s.bus.fails(func(span sink.Span) error { read.Add(span.To - span.From - 1); return nil })
		s.play("times 30 peers 40 | publish own | pass 1s")
		if next := s.registration("s", "d").Next; next < 20*41 {
			t.Errorf("the offset is %d while the shares publish, the topic ends with %d", next, s.bus.end("d"))
		}
		s.play("peers 40; pass 2m; next d end; seen")
		if g := s.registration("s", "d"); read.Load() > 0 || g.High.Offset != s.bus.end("d")-41 || g.Last != g.High {
			t.Errorf("%d messages were read beside anchors; registered as %+v", read.Load(), g)
		}
	})
	shared(t, "what was passed over is not read at a start, nor behind an unknown outcome", func(t *testing.T, s *stage) {
		s.play("publish own; times 5 peers 1000 | pass 2m")
		var mu sync.Mutex
		var readings, most uint64
		s.bus.fails(func(span sink.Span) error {
			mu.Lock()
			defer mu.Unlock()
			readings, most = readings+1, max(most, span.To-span.From)
			return nil
		})
		s.play("peers 3; resolve; peers 3")
		readings = 0
		s.play("start")
		if most > 6 || readings != 2 {
			t.Errorf("a span of %d messages was read for 6 new ones, a start has read %d spans", most, readings)
		}
	})
}

// undecided is a feed that cannot read the store for late messages.
type undecided struct{ *recorder }

func (undecided) ForgetDecided(context.Context) error { return stream.ErrUnread }

func TestLateMessagesThatCannotBeRead(t *testing.T) {
	onStage(t, "the bus is read on, so another bridge is seen", func(t *testing.T, s *stage) {
		s.with = append(s.with, func(o *stream.Options) { o.Streams[0].Feed = undecided{o.Streams[0].Feed.(*recorder)} })
		if s.play("start; run; says new now+1 1; pass 2m; superseded"); len(s.faults.Outages()) != 1 {
			t.Errorf("the outages are %+v", s.faults.Outages())
		}
	})
}

func TestACopyIsLaterThanTheStoreWas(t *testing.T) {
	bubble(t, "what a later process has dropped is forgotten though another stream was ready first", func(t *testing.T) {
		key := store.Key{Stream: "s", Shard: "x"}
		former := memory.New()
		must.OK(t, former.Apply(t.Context(), &store.Batch{Epoch: 5, Shards: []store.ShardChange{
			{Key: key, Progress: &store.Progress{Started: true, Position: 7, Saved: published}},
		}}))
		var r *rig
		r = newRig(t, newBus("d"), former, func(o *stream.Options) {
			o.Copy = func(ctx context.Context, name string) (stream.Copy, error) {
				if name == "u" {
					return stream.Copy{}, nil
				}
				err := r.c.Wait(ctx, "u")
				return stream.Copy{Epoch: 6, Forgets: func(string) (may, table bool) { return true, true }}, err
			}
		}, "s", "u")
		must.OK(t, errors.Join(r.start().stopOf("s"), r.stopOf("u")))
		image, err := r.disk.Load(t.Context())
		if p := image.Shards[key]; err != nil || p.Position != 0 || p.Since != 7 {
			t.Errorf("%+v, %v", p, err)
		}
	})
}

// TestWhatWasPendingAtTheStart: a process begins behind 100, where 50 and 60 are pending, and
// copies its progress then, or once it has published 101. What follows is on the bus alone.
func TestWhatWasPendingAtTheStart(t *testing.T) {
	key := store.Key{Stream: "s", Shard: "a"}
	kept := memory.New()
	p, err := stream.OpenProgress(t.Context(), kept, key, store.Progress{}, ledger.Options{})
	must.OK(t, err)
	begin := stream.Beginning{First: store.Progress{Started: true, Position: 100, Floor: 100}, Epoch: 5, At: published, Now: published}
	for id := uint64(1); id <= 100; id++ {
		if id != 50 && id != 60 {
			begin.Committed = append(begin.Committed, id)
		}
	}
	copies := func(change store.ShardChange) store.ShardChange {
		must.OK(t, kept.Apply(t.Context(), &store.Batch{Shards: []store.ShardChange{change}}))
		change.Parts = nil
		for _, kind := range []store.Kind{store.Gaps, store.Ahead} {
			for one, err := range kept.Parts(t.Context(), key, kind, 0) {
				must.OK(t, err)
				one.Kind, change.Parts = kind, append(change.Parts, one)
			}
		}
		return change
	}
	begun := must.Get(p.Begin(begin))(t)
	begun = copies(begun)
	later, _, err := p.Advance(&stream.Read{Through: 101, Passed: []uint64{101}, At: published.Add(time.Second)})
	must.OK(t, err)
	later = copies(later)
	read := []store.Registration{{Stream: "s", TP: "d", Incarnation: "1", Next: 1, Epoch: 5}}
	const says = "says x 5 1 row=101 floor=100; says y 5 2 row=60 floor=100; says z 5 3 row=102 floor=100;"
	for name, c := range map[string]struct {
		before string
		copied stream.Copy
		// after is what happens with the copy, gaps are the ids that are missing then.
		after, gaps string
	}{
		"a process that has followed takes over": {
			"release; follow; " + says + "pass 6s; seen x y z", stream.Copy{Registrations: read, Shards: []store.ShardChange{later}}, "elect; seen y z", "50"},
		"the copy is of before the first message": {
			"release; follow; " + says + "pass 6s; seen x y z", stream.Copy{Shards: []store.ShardChange{begun}}, "elect; seen x y z", "50"},
		"a folder that has read the bus": {
			"release; start; " + says + "start; seen x y z", stream.Copy{Registrations: read, Shards: []store.ShardChange{later}}, "start; seen y z", "50"},
		"one that has the gaps keeps what it has": {
			"release; " + says, stream.Copy{Registrations: read, Shards: []store.ShardChange{later}}, "start; seen y z; start; seen", "50"},
		"a capability stream, whose view tells what is on the bus": {
			says + "start; seen x y z", stream.Copy{Shards: []store.ShardChange{later}}, "start; seen", "50 60"},
	} {
		onStage(t, name, func(t *testing.T, s *stage) {
			copied := stream.Copy{}
			s.with = append(s.with, func(o *stream.Options) {
				o.Copy = func(context.Context, string) (stream.Copy, error) { return copied, nil }
			})
			s.play(c.before)
			copied = c.copied
			s.play(c.after)
			image := must.Get(s.disk.Load(t.Context()))(t)
			gaps := must.Get(stream.LoadGaps(t.Context(), s.disk, key, image.Shards[key].Position))(t)
			missing := ""
			for _, g := range gaps {
				missing += fmt.Sprintf(" %d", g.First)
			}
			if missing != " "+c.gaps {
				t.Errorf("missing are%s, want %s: %+v", missing, c.gaps, image.Shards[key])
			}
		})
	}
}
