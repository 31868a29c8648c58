package stream_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
	"example.org/bridge/tests/must"
)

// bubble runs a test with time that passes at once.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// filled has a bus with three messages, and a store that has read them.
const filled = "says a 5 1; says b 5 2; says c 5 3; start;"

func TestStart(t *testing.T) {
	scripts(t, map[string]string{
		"without a store all is read, and the epoch is above all met": `
			other; says a high 1; says b high 2; start; seen a b; next d 3; epoch high+1; epoch-is-durable;
			start; seen; epoch high+2`,
		"one reading serves two streams, and a new one reads from the beginning": `
			says a 5 1; says b 5 2 of=o; start; seen a; start s o; seen; o:seen b; o:next d 2`,
		"a message of another domain is not ours": "says a 5 1; domain other; start; seen",
		"a late message is applied, and its entity nominated when the stream is ready": `
			says a 5 1; says b 4 1; says c 5 2; start; seen a b* c; next d 3; waits 1`,
		"a message of the empty key is read":       "says a 5 1 nameless; start; next d 1",
		"an epoch below that of the store is late": filled + "says d 8 1; start; seen d*",
	})
}

// TestWhatCouldNotBeRead of the checkpoint for the comparison of a database is read again.
func TestWhatCouldNotBeRead(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		failed := false
		r := newRig(t, newBus("d"), memory.New(), func(o *stream.Options) {
			o.Confirm = func(context.Context, string, bool) error {
				if failed = !failed; failed {
					return stream.ErrUnread
				}
				return nil
			}
		}, "s")
		must.OK(t, r.start().stopOf("s"))
	})
}

func TestStartStops(t *testing.T) {
	for name, c := range map[string]struct{ message, want string }{
		"a message without a state":           {"says x 5 9 bare", "begin at START again: bridge checkpoint reset s"},
		"a message of a newer form":           {"says x 5 9 newer", "newer form"},
		"a message without a shard":           {"says x 5 9 no-shard", "no header bridge-shard"},
		"a message with a key too long":       {"says x 5 9 long", "has 32001 bytes"},
		"an absence at a time of no calendar": {"says x 5 9 gone never", "outside the years"},
		"a newest message with another hash":  {"says x 5 9 hash=8", "another KIND, KEY or scope of entities: restore that setting, use another destination, or stop bridge, then to ignore what was published"},
	} {
		onStage(t, name+" stops its stream and no other", func(_ *testing.T, s *stage) {
			s.play("says a 5 1;" + c.message + "; says b 5 2 of=o; start s o; stops-at 1 " + c.want)
			s.play("o:goes-on; next d 1; o:next d 3")
		})
	}
	onStage(t, "a message of the last epoch stops its stream", func(t *testing.T, s *stage) {
		s.play("says a 4611686018427387903 1; start")
		if err := s.stopOf("s"); err == nil || !strings.Contains(err.Error(), "none is left above") {
			t.Error(err)
		}
	})
	scripts(t, map[string]string{
		"a message with another hash is passed over once a newer one has ours": "says x 5 1 hash=8; says a 5 2; start; seen a; next d 2",
		"a message without a state may be ignored":                             "says x 5 9 bare; ignore 1; start; next d 1",
		"a message with another hash may be ignored, but for one since the command": `
			says x 5 1 hash=8; ignore 6; start; next d 1; lost; ignore 5; start; stops-at 0 another KIND`,
		"a stream that was stopped stays so, and is not read": "stopped killed; says a 5 1; start s other; stops killed; other:goes-on; seen",
		"an error of the feed stops its stream":               "says a 5 1; new; refuse killed; start; stops killed; next d 0",
		"a part of the store that cannot be read has its stream wait, and no other": `
			one-worker; says a 5 1; says b 5 2 of=u; new s u; refuse unread; starting; pass 1m;
			u:seen b; state neither; u:state ready; refuse nothing; ended; goes-on; seen a;
			run; refuse unread; says c 5 3; says d 5 4 of=u; pass 3m; u:seen d*; refuse nothing; pass 1m; seen c*`,
		"a panic of the feed stops its stream and no other": "says a 5 1; new s u; panic; start; stops panic; u:goes-on",
		"an error of the store ends Start":                  "says a 5 1; new; kill 1; start-fails killed",
	})
}

func TestAnotherTopicIsReadAgain(t *testing.T) {
	const refill = "says a 5 1; says b 5 2; says c 5 7"
	for name, harm := range map[string]string{
		"it ends early":                         "lose d 2",
		"another message lies at the anchor":    "lose d 0;" + refill,
		"it was made again with the same ends":  "make d;" + refill,
		"it begins behind what was read of it":  "other 2; expire d 4",
		"it lost all, and others have refilled": "lose d 0; other 4",
	} {
		onStage(t, name, func(t *testing.T, s *stage) {
			s.play(filled + harm + "; start; read 2 due; in-force 1 2")
			if s.bus.end("d") != 3 && s.disputed("s") == "" {
				t.Error("no entry is disputed")
			}
		})
	}
	scripts(t, map[string]string{
		"it was made again with fewer partitions": `
			make t/0; make t/1; topic t t/0 t/1; to t; says a 5 1 in=t/0; says b 5 2 in=t/1; start; disputed;
			topic t t/0; make t/0; start; disputed a b; due; in-force 1 3; in-force 2 0; start; registered t/0 3`,
		"it was deleted, and another one has its subjects": `
			make A; topic t A; to t; says a 5 1 in=A; says b 5 2 in=A; start; make B; topic t B; start; disputed;
			delete A; start; disputed a b; due; in-force 1 0; start; registered B 2`,
		"another one has its subjects, and its server does not answer": `
			make A; topic t A; to t; says a 5 1 in=A; says b 5 2 in=A; start; make B; topic t B; lose A 1; start; disputed; in-force 1 1`,
		"another broker does not know of a partition yet": `
			make t/0; make t/1; topic t t/0 t/1; to t; says a 5 1 in=t/0; says b 5 2 in=t/1; start; topic t t/0; start; disputed`,
		"it lost a late message and what came behind it, and others have refilled": `
			says a 5 1; says b 4 1; says c 5 2; start; next d 3; lose d 1; other 2; start; read 2 due`,
		"it lost what was acknowledged beyond a hole, and others have refilled": filled + `
			start; other; publish a; lose d 4; other; start; read 2 due`,
	})
	onStage(t, "nothing has changed, and a new leader knew less for a moment", func(_ *testing.T, s *stage) {
		s.play(filled)
		whole, looks := s.bus.logs["d"].messages, 0
		s.bus.looks(func(context.Context, []string) error {
			s.bus.mu.Lock()
			defer s.bus.mu.Unlock()
			s.bus.logs["d"].messages = whole[:min(1+looks, len(whole))]
			looks++
			return nil
		})
		s.play("start; read 1")
	})
}

func TestReleaseStreams(t *testing.T) {
	onStage(t, "one that lost something forgets its progress and reads all", func(t *testing.T, s *stage) {
		s.play("release;" + filled + "lose d 2; start; seen a b")
		if !slices.Equal(s.disk.forgot, []int{0}) {
			t.Errorf("batches %v forget, want the first", s.disk.forgot)
		}
	})
	onStage(t, "one whose topic begins late goes on, and that stays known", func(t *testing.T, s *stage) {
		s.play("release;" + filled + "says d 5 4; says e 5 5; expire d 4; start; seen e; registered d 1")
		if g := s.registration("s", "d"); !g.Late {
			t.Errorf("registration %+v", g)
		}
	})
	scripts(t, map[string]string{
		"one that lost something stops where messages have expired": "release;" + filled + "expire d 1; lose d 2; start; stops behind rebuild",
		"messages of it are never late":                             "release; says a 5 1; says b 4 1; start; seen a b; next d 2",
	})
}

func (s *stage) disputed(of string) string {
	s.Helper()
	var keys []string
	for _, key := range []string{"a", "b", "c", "d"} {
		e := must.Get(s.feeds[of].entry(s.Context(), key))(s)
		if e.Disputed {
			keys = append(keys, key)
		}
	}
	return strings.Join(keys, " ")
}

func TestRun(t *testing.T) {
	scripts(t, map[string]string{
		"a hole between acknowledgements is read, and its messages are late": `
			start; run; other; says old 7 1; publish a; next d 0; pass 2s; seen old*; next d 3`,
		"the store names the entity of a late message until it was decided": `
			start; run; says old 7 1; pass 2m; seen old*;
			start; run; pass 3s; seen; waits 1; decide; pass 2s; start; waits 0`,
		"an idle topic is read to its end once a minute": "start; run; other; pass 50s; next d 0; pass 15s; next d 1",
		"what is in flight is not read":                  "start; run; send a; store a; pass 2m; seen; ack a; next d 1",
		"a message of a higher epoch ends publishing, and not the process": `
			start; run; says new now+1 1; pass 2m; superseded; stops superseded; seen; met now+1`,
		"a message of our epoch that was never sent ends publishing": "start; run; says new now 77; pass 2m; superseded",
		"an added partition is read from its beginning": `
			topic d d d/2; start; run; make d/2; says a 7 1 in=d/2; pass 2m; seen a; next d/2 1`,
		"a topic that is made again is read again at a new session": filled + `
			start; run; make d; says a 5 1; pass 1s; session d; pass 3s; seen a; read 2 due`,
	})
}

func TestOneLookServesAllNewSessions(t *testing.T) {
	onStage(t, "behind an outage", func(_ *testing.T, s *stage) {
		s.play("topic d d e f; make e; make f; start; run; pass 2s")
		var looks atomic.Int32
		s.bus.looks(func(ctx context.Context, _ []string) error { looks.Add(1); return backoff.Pause(ctx, 5*time.Second) })
		s.play("session d; session e; session f; pass 9s")
		if n := looks.Load(); n != 1 {
			t.Errorf("%d looks", n)
		}
	})
}

func TestResolve(t *testing.T) {
	scripts(t, map[string]string{
		"it reads what a publish of unknown outcome has stored": "start; send a; store a; unknown a; resolve; seen a*",
		"it waits for the outcome of another shard's batch, and reads on behind it": `
			start; send a; send b; store b; store a; unknown a; resolving; seen; unresolved; ack b; resolved; seen a*`,
		"two that wait for one another's batch both end once it is unknown": `
			start; send a; send b; store b; store a; unknown a; resolving; unknown b; resolving; resolved; seen b* a*`,
		"of a capability stream that cannot be read": "start; unreadable; send a; unknown a; resolve unreadable",
	})
	onStage(t, "of a release stream that cannot be read", func(t *testing.T, s *stage) {
		s.play("release; start; unreadable; send a; unknown a; resolve")
		if doubts := s.committer.Doubts("s"); doubts > 0 {
			t.Errorf("%d batches are kept that nobody reads back", doubts)
		}
	})
}

func TestAcknowledged(t *testing.T) {
	onStage(t, "one at an offset that is covered or taken, without an offset, or of a topic made again is unknown", func(t *testing.T, s *stage) {
		s.play(filled + "start")
		for name, acks := range map[string][]stream.Span{
			"below":             {{TP: 1, Range: stream.Range{From: 2, To: 3}}},
			"without an offset": {{TP: 1}},
			"not registered":    {{TP: 7, Range: stream.Range{From: 9, To: 10}}},
			// As where the bus has lost the former one since.
			"as another of the batch": {{TP: 1, Range: stream.Range{From: 9, To: 12}}, {TP: 1, Range: stream.Range{From: 11, To: 12}}},
		} {
			m := s.sends("a")
			if err := s.committer.Acknowledged(t.Context(), m.seq, acks, &store.Batch{}); !errors.Is(err, stream.ErrReadBack) {
				t.Errorf("%s: %v", name, err)
			}
		}
		// Right before another one there is room.
		for _, at := range []uint64{9, 8} {
			if err := s.acknowledge(s.sends("a"), at); err != nil {
				t.Error(err)
			}
		}
		s.play("next d 3")
	})
	scripts(t, map[string]string{
		"what the store does not take is not covered": "start; send a; store a; kill 0; ack a killed; kill off; resolve; seen a*",
		"it covers the topic for the other streams":   "start s o; publish a; next d 1; o:next d 1",
		"it is still in flight while the disk takes no writes, and is called again": `
			start; send a; store a; kill 0 outage; ack a outage; pass 1m; next d 0; kill off; ack a; next d 1`,
	})
}

func TestWait(t *testing.T) {
	onStage(t, "a stream waits for its own topics alone", func(t *testing.T, s *stage) {
		s.play("make e; says a 5 1; says b 5 2 of=o in=e; hold e; o:to e; starting s o; goes-on")
		if s.c.Epoch() == nil {
			t.Error("the stream is ready without an epoch")
		}
		synctest.Wait()
		p := s.c.Progress()
		if s := p.Streams[0]; !s.Ready || s.Messages != 1 || s.Left != 0 {
			t.Errorf("the stream that is ready: %+v", s)
		}
		if one := p.Streams[1]; one.Ready || one.Messages != 0 || one.Left != 1 || p.Epoch != s.c.Epoch().Number() {
			t.Errorf("the other one: %+v", one)
		}
		s.play("free; ended; o:goes-on")
		if _, synced := s.disk.counts(); synced < 3 {
			t.Errorf("%d batches are synced: the registration of the other stream is not", synced)
		}
	})
	onStage(t, "a wait ends with its context, and an unknown stream is an error", func(t *testing.T, s *stage) {
		s.play("new")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errKilled)
		defer cancel()
		if err := s.c.Wait(ctx, "s"); !errors.Is(err, errKilled) {
			t.Errorf("Wait: %v", err)
		}
		if err := s.c.Wait(ctx, "nobody"); err == nil || errors.Is(err, errKilled) {
			t.Errorf("Wait: %v", err)
		}
	})
	onStage(t, "a stream is ready though each look at its topics takes long, and messages of others come", func(t *testing.T, s *stage) {
		s.play("says a 5 1")
		looks := 0
		s.bus.looks(func(ctx context.Context, _ []string) error {
			looks++
			s.bus.other("d")
			return backoff.Pause(ctx, 30*time.Second)
		})
		s.play("starting; pass 10m; state ready")
		s.bus.looks(nil)
		s.play("ended; goes-on; seen a")
		if looks != 2 {
			t.Errorf("%d looks: one is repeated, since it may have been slow that time", looks)
		}
	})
	onStage(t, "a cancelled Start returns the cause, and the stream is not ready", func(t *testing.T, s *stage) {
		s.play("says a 5 1; new")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errKilled)
		if err := s.c.Start(ctx); !errors.Is(err, errKilled) {
			t.Errorf("Start: %v", err)
		}
		if err := s.c.Wait(ctx, "s"); err == nil {
			t.Error("the stream is ready")
		}
	})
	scripts(t, map[string]string{
		"topics that cannot be read stop a capability stream, and not a release stream": `
			says a 5 1; fails unreadable; o:release; start s o; stops unreadable; o:goes-on`,
		"without a reader all streams are ready at once": "no-reader; start; goes-on; epoch now",
	})
}

func unreadable(context.Context, []string) error { return sink.ErrUnreadable }

// TestRegister has messages be acknowledged in a TP that is not registered.
func TestRegister(t *testing.T) {
	onStage(t, "a shard waits for the look of another one, and has its number", func(t *testing.T, s *stage) {
		s.play("start; make e; topic d d e")
		open, numbers := make(chan struct{}), make(chan uint32, 2)
		s.bus.looks(func(context.Context, []string) error { <-open; return nil })
		for range 2 {
			go func() {
				n, err := s.c.Register(t.Context(), "s", sink.TPRef{Name: "e"})
				if err != nil {
					t.Error(err)
				}
				numbers <- n
			}()
			synctest.Wait()
		}
		close(open)
		if a, b := <-numbers, <-numbers; a == 0 || a != b {
			t.Errorf("the numbers are %d and %d", a, b)
		}
	})
	onStage(t, "shards do not repeat a slow look that has just ended", func(t *testing.T, s *stage) {
		s.play("start; topic d d e")
		looks := atomic.Int32{}
		s.bus.looks(func(ctx context.Context, _ []string) error { looks.Add(1); return backoff.Pause(ctx, 3*time.Second) })
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if n, err := s.c.Register(t.Context(), "s", sink.TPRef{Name: "e"}); n != 0 || err != nil {
					t.Errorf("number %d, %v", n, err)
				}
			})
		}
		all.Wait()
		if n := looks.Load(); n != 1 {
			t.Errorf("%d looks", n)
		}
	})
	scripts(t, map[string]string{
		"one that was made again is registered at once, so that its loss is noticed": filled + `
			start; run; make d; send d; store d; registers d 2 2; ack d; lose d 0; pass 5m; disputed a b c d`,
		"of one that was made again meanwhile the outcome is unknown": filled + "start; make d; make d; registers d 2 0 read-back",
		"one that is not there is looked up once a second": `
			topic d d d/2; start; registers d/2 2 0; make d/2; registers d/2 2 0; pass 1s; registers d/2 2 2`,
		"a release stream that cannot be read goes on": filled + "release; start; make d; unreadable; registers d 2 0",
		"of a capability stream that cannot be read the outcome is unknown": filled + `
			start; make d; unreadable; registers d 2 0 read-back`,
	})
}
