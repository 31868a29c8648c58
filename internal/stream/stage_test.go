package stream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/internal/panics"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/script"
)

// stage is a bus with the process of the moment, on which scripts are played. The name of a step
// may begin with a stream and a colon; else it is of s.
type stage struct {
	*rig
	script.Player
	bus *bus
	of  string
	// streams and with are those of the next process, and changes of its options; kept is what
	// its store has, of a clock that was set back since.
	streams []string
	with    []func(*stream.Options)
	kept    *memory.Store
	back    time.Duration
	// made says that the process has not started, ended is its Start in the background.
	made  bool
	ended <-chan error
	turn  chan struct{}
	leave func()
	// fence is what happens when the process takes over.
	fence string
	// sent are the messages in flight by their keys, at is where they lie.
	sent     map[string]*said
	at       map[string]uint64
	resolves []chan error
	held     chan struct{}
	others   int
	noted    uint32
	future   uint64
	other    another
}

func newStage(t *testing.T) *stage {
	return &stage{
		Player: script.Player{TB: t}, bus: newBus("d"), streams: []string{"s"}, sent: map[string]*said{}, at: map[string]uint64{},
		future: uint64(time.Now().Add(time.Hour).UnixMilli()),
	}
}

// onStage runs a test in a bubble, scripts those that consist of scripts.
func onStage(t *testing.T, name string, test func(t *testing.T, s *stage)) {
	bubble(t, name, func(t *testing.T) { test(t, newStage(t)) })
}

func scripts(t *testing.T, list map[string]string) {
	for name, steps := range list {
		onStage(t, name, func(_ *testing.T, s *stage) { s.play(steps) })
	}
}

func (s *stage) play(steps string) {
	s.Helper()
	s.Play(steps, func(name string, w []string) bool {
		s.Helper()
		s.of = "s"
		if of, rest, found := strings.Cut(name, ":"); found {
			s.of, name = of, rest
		}
		return s.option(name, w) || s.process(name, w) || s.publishing(name, w) || s.onBus(name, w) || s.check(name, w)
	})
}

// causes are errors by their names in scripts.
var causes = map[string]error{
	"killed": errKilled, "unreadable": sink.ErrUnreadable, "superseded": stream.ErrSuperseded, "behind": sink.ErrBehind, "closed": sink.ErrClosed,
	"outage": store.ErrOutage, "unread": stream.ErrUnread, "read-back": stream.ErrReadBack, "again": stream.ErrStartAgain, "nothing": nil,
}

// failed holds an error against its name, none for nil, and words that are in it.
func (s *stage) failed(err error, words []string) {
	s.Helper()
	if len(words) == 0 {
		s.Want(err, nil)
		return
	}
	switch cause, known := causes[words[0]]; {
	case words[0] == "panic" && panics.Is(err):
	case words[0] != "panic" && !known:
		s.Fatalf("%s: no error is named %s", s.Step, words[0])
	case !errors.Is(err, cause) || len(words) > 1 && !strings.Contains(err.Error(), strings.Join(words[1:], " ")):
		s.Errorf("%s: the error is %v", s.Step, err)
	}
}

// number is a number or a word for one, to which another one may be added: now is the epoch of the
// process, future one that is an hour ahead at the beginning, end is the end of d.
func (s *stage) number(word string) (n uint64) {
	for part := range strings.SplitSeq(word, "+") {
		one := uint64(0)
		switch part {
		case "now":
			one = s.c.Epoch().Number()
		case "future":
			one = s.future
		case "end":
			one = s.bus.end("d")
		case "high":
			one = 1 << 50
		case "top":
			one = 1<<56 - 1
		default:
			one = s.Number(part)
		}
		n += one
	}
	return n
}

func (s *stage) option(name string, w []string) bool {
	of := s.of
	set := func(change func(*stream.Stream)) {
		s.with = append(s.with, func(o *stream.Options) {
			for i := range o.Streams {
				if o.Streams[i].Name == of {
					change(&o.Streams[i])
				}
			}
		})
	}
	switch name {
	case "to": // DESTINATION...
		set(func(st *stream.Stream) { st.Destinations = w })
	case "release":
		set(func(st *stream.Stream) { st.Release = true })
	case "ignore": // EPOCH
		set(func(st *stream.Stream) { st.IgnoreBelow = s.number(w[0]) })
	case "stopped": // CAUSE
		set(func(st *stream.Stream) { st.Stopped = causes[w[0]] })
	case "forgets": // AFTER, or never, or a cause: what the bus says of its topics
		after, err := time.ParseDuration(w[0])
		set(func(st *stream.Stream) { st.Forgets = forgets(after, err == nil, causes[w[0]]) })
	case "domain": // NAME
		s.with = append(s.with, func(o *stream.Options) { o.Domain = w[0] })
	case "one-worker":
		s.with = append(s.with, func(o *stream.Options) { o.Workers = 1 })
	case "no-reader":
		s.with = append(s.with, func(o *stream.Options) { o.Reader = nil })
	case "mine": // SHARD...
		s.with = append(s.with, mine(w...))
	case "fence": // STEP, or refused
		if s.fence = strings.Join(w, " "); s.rig == nil {
			s.with = append(s.with, func(o *stream.Options) { o.Fence = s.takesOver })
		}
	default:
		return false
	}
	return true
}

func (s *stage) takesOver(context.Context) error {
	if s.fence == "refused" {
		return fmt.Errorf("the id: %w", sink.ErrFenced)
	}
	s.play(s.fence)
	return nil
}

// create makes a process on what the store of the last one has.
func (s *stage) create(streams []string) {
	if s.rig != nil {
		s.kept = s.disk.Clone()
		image := must.Get(s.kept.Load(s.Context()))(s)
		for i := range image.Registrations {
			image.Registrations[i].Seen += uint64(s.back.Milliseconds())
		}
		must.OK(s, s.kept.Apply(s.Context(), &store.Batch{Registrations: image.Registrations}))
	}
	if s.back = 0; len(streams) > 0 {
		s.streams = streams
	}
	s.rig = newRig(s.TB, s.bus, s.kept, func(o *stream.Options) {
		for _, change := range s.with {
			change(o)
		}
	}, s.streams...)
	s.made = true
}

// tries starts the process that was made, which may fail.
func (s *stage) tries() error {
	s.made = false
	return s.c.Start(s.Context())
}

func (s *stage) process(name string, w []string) bool {
	s.Helper()
	f := func() *recorder { return s.feeds[s.of] }
	switch name {
	case "new", "start", "starting": // STREAM...
		if name == "new" || !s.made || len(w) > 0 {
			s.create(w)
		}
		switch s.made = name == "new"; name {
		case "start":
			s.start()
		case "starting":
			s.ended = s.starting()
		}
	case "follow": // a process that waits for its turn
		s.turn = make(chan struct{})
		turn, ended := s.turn, make(chan error, 1)
		s.with = append(s.with, func(o *stream.Options) { o.Turn = turn })
		s.create(nil)
		ctx, cancel := context.WithCancel(s.Context())
		s.leave, s.ended, s.made = cancel, ended, false
		go func() { ended <- s.c.Start(ctx) }()
		s.pass(10 * time.Second)
	case "elect":
		close(s.turn)
		s.play("ended; state ready")
	case "leave":
		s.leave()
		<-s.ended
	case "ended": // CAUSE
		s.failed(<-s.ended, w)
	case "start-fails": // CAUSE
		s.failed(s.tries(), w)
	case "run":
		s.run()
	case "pass": // TIME
		s.pass(s.Duration(w[0]))
	case "set-back": // TIME
		s.back = s.Duration(w[0])
	case "lost": // the store
		s.rig, s.kept = nil, nil
	case "kill": // N, or off, and a CAUSE: what the disk does behind N batches
		if s.disk.kill(-1); w[0] != "off" {
			s.disk.kill(int(s.number(w[0])))
		}
		if s.disk.fault = errKilled; len(w) > 1 {
			s.disk.fault = causes[w[1]]
		}
	case "refuse": // CAUSE
		f().fail(causes[w[0]], "")
	case "panic":
		f().panics = true
	case "decide":
		_, _, err := f().movers.Pass(s.Context())
		s.Want(err, nil)
	case "session": // TP
		s.c.NewSession(w[0])
	default:
		return false
	}
	return true
}

func (s *stage) publishing(name string, w []string) bool {
	s.Helper()
	switch name {
	case "publish": // KEY
		s.publishes(w[0])
	case "send": // KEY
		s.sent[w[0]] = s.sends(w[0])
	case "store": // KEY: the bus does
		s.at[w[0]] = s.bus.says(s.sent[w[0]])
	case "ack": // KEY CAUSE
		s.failed(s.acknowledge(s.sent[w[0]], s.at[w[0]]), w[1:])
	case "unknown": // KEY
		s.committer.Unknown(s.sent[w[0]].seq)
	case "resolve": // CAUSE
		s.failed(s.c.Resolve(s.Context(), s.of), w)
	case "resolving":
		done := make(chan error, 1)
		s.resolves = append(s.resolves, done)
		go func() { done <- s.c.Resolve(s.Context(), "s") }()
		synctest.Wait()
	case "unresolved":
		s.Want(len(s.resolves[len(s.resolves)-1]), 0)
	case "resolved":
		for _, done := range s.resolves {
			s.Want(<-done, nil)
		}
	case "registers": // TP INCARNATION NUMBER CAUSE
		n, err := s.c.Register(s.Context(), s.of, sink.TPRef{Name: w[0], Incarnation: w[1]})
		s.Want(n, w[2])
		s.failed(err, w[3:])
	default:
		return false
	}
	return true
}

// says stores the message KEY EPOCH SEQ with settings: in=TP, of=STREAM, by=SHARD, hash=N, row=N,
// floor=N, gone, nameless for the empty key,
// and bare or newer for the form of its state, or what else no store takes: no-shard, long, never.
func (s *stage) says(w []string) {
	m, tp, form := ours(w[0], s.number(w[1]), s.number(w[2])), "d", ""
	for _, setting := range w[3:] {
		switch name, value, _ := strings.Cut(setting, "="); name {
		case "in":
			tp = value
		case "of":
			m.stream = value
		case "by":
			m.shard = value
		case "hash":
			m.hash = uint32(s.number(value))
		case "row":
			m.row = s.number(value)
		case "floor":
			m.floor = s.number(value)
		case "gone":
			m.digest = 0
		default:
			form = name
		}
	}
	stored := m.stored()
	switch last := len(stored.Headers) - 1; form {
	case "bare":
		stored.Headers = stored.Headers[:last]
	case "newer":
		stored.Headers[last].Value = []byte("2 1 1 0.0.0 x 0 9")
	case "no-shard":
		stored.Headers = slices.DeleteFunc(stored.Headers, func(h sink.Header) bool { return h.Name == sink.HeaderShard })
	case "nameless":
		stored.Key = nil
	case "long":
		stored.Key = bytes.Repeat([]byte("k"), store.MaxEntity+1)
	case "never":
		stored.Headers = slices.DeleteFunc(stored.Headers, func(h sink.Header) bool { return h.Name == sink.HeaderPublishedAt })
		stored.Time = math.MaxInt64
	}
	s.bus.append(tp, stored)
}

func (s *stage) onBus(name string, w []string) bool {
	s.Helper()
	switch name {
	case "make": // TP, or make it again
		s.bus.make(w[0])
	case "delete": // TP
		s.bus.mu.Lock()
		delete(s.bus.logs, w[0])
		s.bus.mu.Unlock()
	case "topic": // NAME TP...
		s.bus.mu.Lock()
		s.bus.topics[w[0]] = w[1:]
		s.bus.mu.Unlock()
	case "says":
		s.says(w)
	case "other": // N messages of somebody else
		for range s.number(append(w, "1")[0]) {
			s.others++
			s.bus.other(strconv.Itoa(s.others))
		}
	case "peers": // N messages of other shares
		peers(s.bus, int(s.number(w[0])))
	case "another": // process of the share publishes
		s.other.publishes(s.bus, s.rig)
	case "hidden", "told": // whether there is one
		s.other.hidden.Store(name == "hidden")
	case "lose": // TP OFFSET
		s.bus.lose(w[0], s.number(w[1]))
	case "expire": // TP OFFSET
		s.bus.expire(w[0], s.number(w[1]))
	case "open": // N
		s.bus.open = s.number(w[0])
	case "compact": // TP: that a is gone, and all else of it; c follows
		s.play("says a 5 3 gone in=" + w[0])
		s.bus.remove(w[0], s.bus.end(w[0])-1)
		s.bus.remove("d", 0)
		s.play("says c 5 4 in=" + w[0])
	case "hold": // TP: reads of it wait
		s.held = s.bus.holds(w[0])
	case "free":
		close(s.held)
	case "fails": // CAUSE: all reads do
		s.bus.fails(func(sink.Span) error { return causes[w[0]] })
	case "unreadable":
		s.bus.looks(unreadable)
	case "readable":
		s.bus.looks(nil)
	case "hang": // DESTINATION
		s.bus.looks(func(ctx context.Context, destinations []string) error {
			if destinations[0] == w[0] {
				return hangs(ctx, nil)
			}
			return nil
		})
	default:
		return false
	}
	return true
}

func (s *stage) check(name string, w []string) bool {
	s.Helper()
	words, f := strings.Join(w, " "), s.feeds[s.of]
	switch name {
	case "seen": // KEY...
		s.wantSeen(s.of, words)
	case "seen-all": // KEY... in any order
		keys := strings.Fields(s.seen(s.of))
		slices.Sort(keys)
		s.Want(strings.Join(keys, " "), words)
	case "next": // TP OFFSET
		s.wantNext(s.of, w[0], s.number(w[1]))
	case "next-within": // TP OFFSET OFFSET
		if n := s.registration(s.of, w[0]).Next; n < s.number(w[1]) || n > s.number(w[2]) {
			s.Errorf("%s: it is %d", s.Step, n)
		}
	case "registered": // TP NUMBER
		s.Want(s.registration(s.of, w[0]).Number, w[1])
	case "note": // the registration of d
		s.noted = s.registration(s.of, "d").Number
	case "read": // NUMBER, or noted or newer, and due, of d
		g := s.registration(s.of, "d")
		number := fmt.Sprint(g.Number)
		if is := map[string]bool{"noted": g.Number == s.noted, "newer": g.Number > s.noted}; is[w[0]] {
			number = w[0]
		}
		s.Want([]any{number, g.Next, f.due}, []any{w[0], s.bus.end("d"), len(w) > 1})
	case "met": // EPOCH
		s.Want(s.registration(s.of, "d").Epoch, s.number(w[0]))
	case "in-force": // NUMBER NUMBER
		s.Want(s.committer.InForce(uint32(s.number(w[0]))), w[1])
	case "epoch": // NUMBER
		s.Want(s.c.Epoch().Number(), s.number(w[0]))
	case "epoch-below": // NUMBER
		s.Want(s.c.Epoch().Number() < s.number(w[0]), true)
	case "no-epoch":
		s.Want(s.c.Epoch() == nil, true)
	case "epoch-is-durable":
		applied, synced := s.disk.counts()
		image, err := s.disk.Load(s.Context())
		s.Want([]any{synced, image.Epoch, err}, []any{applied, s.c.Epoch().Number(), nil})
	case "due":
		s.Want(f.due, true)
	case "disputed": // KEY...
		s.Want(s.disputed(s.of), words)
	case "decides": // KEY... are disputed, and a reconcile decides them
		s.Want([]any{s.disputed(s.of), f.due}, []any{words, len(w) > 0})
	case "waits": // N
		s.Want(f.movers.Waiting(), w[0])
	case "followed": // N times the feed was told that the process follows
		s.Want(f.followed, w[0])
	case "state": // following, ready or neither
		p := s.c.Progress().Streams[slices.Index(s.streams, s.of)]
		s.Want([]any{p.Following, p.Ready, p.Err}, []any{words == "following", words == "ready", nil})
	case "stops": // CAUSE WORD...
		s.failed(s.stopOf(s.of), w)
	case "stops-at": // OFFSET WORD...
		stop, ok := errors.AsType[*stream.StopError](s.stopOf(s.of))
		if !ok || stop.Offset != s.number(w[0]) || !strings.Contains(stop.Error(), strings.Join(w[1:], " ")) {
			s.Errorf("%s: %v", s.Step, stop)
		}
	case "goes-on":
		s.Want(s.stopOf(s.of), nil)
	case "superseded":
		s.failed(s.over, []string{"superseded"})
	case "alone":
		s.Want(s.over, nil)
	default:
		return false
	}
	return true
}
