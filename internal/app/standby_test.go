package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"bridge/checkpoint/store"
	storememory "bridge/checkpoint/store/memory"
	"bridge/internal/config"
	"bridge/internal/standby"
	standbymemory "bridge/internal/standby/memory"
	"bridge/sink"
	sinkmemory "bridge/sink/sinktest/memory"
	"bridge/source"
)

// ownSink is one process's way to a bus: Close ends its own calls.
type ownSink struct {
	*sinkmemory.Sink
	closed chan struct{}
	end    func()
}

func newOwnSink(bus *sinkmemory.Sink) *ownSink {
	s := &ownSink{Sink: bus, closed: make(chan struct{})}
	s.end = sync.OnceFunc(func() { close(s.closed) })
	return s
}

func (s *ownSink) Publish(ctx context.Context, batch []sink.Message) (sink.Outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-s.closed:
			cancel(sink.ErrClosed)
		case <-ctx.Done():
		}
	}()
	return s.Sink.Publish(ctx, batch)
}

func (s *ownSink) Close() error {
	s.end()
	return nil
}

// countedTables counts the reads of tables.
type countedTables struct {
	tables
	reads *atomic.Int64
}

func (c countedTables) Shard(spec source.Spec) source.Shard {
	return countedShard{c.tables.Shard(spec), c.reads}
}

type countedShard struct {
	source.Shard
	reads *atomic.Int64
}

func (c countedShard) Read(ctx context.Context, q source.Query, p *source.Page) error {
	c.reads.Add(1)
	return c.Shard.Read(ctx, q, p)
}

// group is a household whose bridges are a standby group.
type group struct {
	*household
	entries standbymemory.Entries
}

// groupTimeout is short: the election in memory takes no time.
const groupTimeout = 2 * time.Second

func newGroup(t *testing.T) *group {
	g := &group{household: newHousehold(t, "moves")}
	g.household.stop()
	g.household.stop = func() {}
	g.cfg.Standby = config.Standby{Group: "g", Timeout: groupTimeout, Settings: standby.Settings{"BRIDGE_STREAM_MOVES_KEY": "1"}}
	return g
}

// process is a member of a group, with a store of its own.
type process struct {
	*App
	// reads counts what it has read of tables.
	reads atomic.Int64
	stop  func()
	ended chan struct{}
	err   error
}

// join starts a process. change may change its configuration.
func (g *group) join(change func(*config.Config)) *process {
	g.t.Helper()
	cfg := *g.cfg
	if change != nil {
		change(&cfg)
	}
	p := &process{ended: make(chan struct{})}
	kept := storememory.New()
	a, err := Open(g.t.Context(), Options{Config: &cfg, Logger: textLogger(g.t.Output()), ends: &ends{
		source: func(*config.Config, *slog.Logger) (source.Source, error) {
			return countedTables{g.tables, &p.reads}, nil
		},
		store: func(context.Context, string, *slog.Logger) (store.Store, error) { return keptStore{kept}, nil },
		sink:  func(*config.Config, *slog.Logger, hooks) (sink.Sink, error) { return newOwnSink(g.bus), nil },
		elector: func(*config.Config, *slog.Logger) (standby.Elector, error) {
			return standby.NewLease(standbymemory.New(&g.entries), silence(&cfg)), nil
		},
		bucket: g.openBucket,
	}})
	if err != nil {
		g.t.Fatal(err)
	}
	p.App = a
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(p.ended)
		p.err = errors.Join(a.Run(ctx), a.Close())
	}()
	p.stop = sync.OnceFunc(func() {
		cancel()
		<-p.ended
	})
	g.t.Cleanup(p.stop)
	return p
}

// works waits until a process works, and has the household look at it.
func (g *group) works(p *process) {
	g.t.Helper()
	g.eventually("it works", func() bool { return p.member.Status().Works })
	g.app = p.App
}

// waits waits until a process is ready to take over.
func (g *group) waits(p *process) {
	g.t.Helper()
	g.eventually("it waits, and is ready", func() bool {
		s := p.member.Status()
		return !s.Works && s.Working.Member != "" && len(p.Daemon().Ready(g.t.Context())) == 0
	})
}

// messages counts what is on the bus.
func (g *group) messages() (n int) {
	for _, topic := range g.topics {
		n += len(g.bus.Messages(topic))
	}
	return n
}

// TestAStandbyWaitsForHours: it is alive and ready, knows who works and who waits, reads no table
// and follows the bus. It takes over when the other one is stopped.
func TestAStandbyWaitsForHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		g.cfg.Streams = slices.Clone(g.cfg.Streams)
		g.cfg.Streams[0].PollInterval, g.cfg.Standby.Timeout = 10*time.Second, 2*time.Minute
		a := g.join(nil)
		g.works(a)
		b := g.join(nil)
		g.waits(b)
		if _, err := b.Daemon().Working(); err == nil || !strings.Contains(err.Error(), a.member.Status().Member+" on ") || !strings.Contains(err.Error(), "listens nowhere") {
			t.Errorf("one that waits says %v of one that listens nowhere", err)
		}
		if peer, err := a.Daemon().Working(); err != nil || !peer.Self || peer.Member != a.member.Status().Member {
			t.Errorf("one that works says %+v, %v", peer, err)
		}
		if s := b.Daemon().Status(); s.Standby == nil || s.Standby.Works || *s.Standby.Working != a.member.Status().Member || s.Standby.Since == nil || s.Epoch != 0 {
			t.Errorf("one that waits says %+v of its group", s.Standby)
		}
		g.eventually("both know who waits", func() bool {
			one, other := a.Daemon().Status().Standby.Waiting, b.Daemon().Status().Standby.Waiting
			return len(one) == 1 && len(other) == 1 && one[0].Ready && one[0].Member == b.member.Status().Member && other[0].Member == one[0].Member
		})
		if s := a.Daemon().Status(); !s.Standby.Works || *s.Standby.Working != s.Standby.Member {
			t.Errorf("one that works says %+v of its group", s.Standby)
		}
		for n := range 12 {
			g.insert("d_0", fmt.Sprint("M", n), "one")
			<-time.After(10 * time.Minute)
			if err := b.Daemon().Live(); err != nil {
				t.Fatal(err)
			}
			if reasons := b.Daemon().Ready(t.Context()); len(reasons) > 0 {
				t.Fatal(reasons)
			}
		}
		if n := b.reads.Load(); n > 0 {
			t.Errorf("one that waits has read %d pages", n)
		}
		if n := b.Daemon().Status().Streams[0].CatchUp.Messages; n != 12 {
			t.Errorf("it has followed %d messages", n)
		}
		a.stop()
		if a.err != nil {
			t.Error(a.err)
		}
		g.works(b)
		g.insert("d_1", "N", "two")
		g.published("N", "two")
		if n := g.messages(); n != 13 {
			t.Errorf("%d messages, want 13: %s", n, g.history())
		}
		g.compare()
	})
}

// TestAStandbyThatBeganEmptyPollsWhatWasOpen: an id became pending while it waited, and many were
// handed out since.
func TestAStandbyThatBeganEmptyPollsWhatWasOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		a := g.join(nil)
		g.works(a)
		g.insert("d_0", "M", "one")
		g.published("M", "one")
		b := g.join(nil)
		g.waits(b)
		table := g.tables["d_0"]
		// By its time the second cursor does not see it.
		open := table.Open("late", "one", "2000-01-01 00:00:00.000000")
		table.Skip(150_000)
		g.insert("d_0", "N", "one")
		g.published("N", "one")
		table.Skip(150_000)
		g.insert("d_0", "O", "one")
		g.published("O", "one")
		g.eventually("the one that waits has read it", func() bool { return b.Daemon().Status().Streams[0].CatchUp.Messages == 3 })
		a.stop()
		g.works(b)
		g.compare()
		table.Commit(open)
		g.published("late", "one")
	})
}

// TestASupersededProcessGivesTheWorkUp: a bridge outside of the group, or one of another group,
// publishes the same streams.
func TestASupersededProcessGivesTheWorkUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		a := g.join(nil)
		g.works(a)
		g.insert("d_0", "M", "one")
		g.published("M", "one")
		foreign := g.join(func(c *config.Config) { c.Standby = config.Standby{} })
		g.eventually("the foreign one has an epoch", func() bool { return foreign.Daemon().Status().Epoch > 0 })
		row := g.insert("d_1", "N", "two")
		g.eventually("it stops", func() bool {
			// On a busy topic it soon meets a message of the other one.
			g.update("d_1", row, "N", time.Now().String())
			select {
			case <-a.ended:
				return true
			default:
				return false
			}
		})
		if !errors.Is(a.err, standby.ErrLost) {
			t.Errorf("it ends with %v", a.err)
		}
		// It left in order, so nobody waits for it.
		c := g.join(nil)
		g.works(c)
		g.update("d_1", row, "N", "three")
		g.published("N", "three")
	})
}

func TestAnotherConfigurationIsRefusedByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		a := g.join(nil)
		g.works(a)
		b := g.join(func(c *config.Config) { c.Standby.Settings = standby.Settings{"BRIDGE_STREAM_MOVES_KEY": "2"} })
		g.eventually("it says what differs", func() bool {
			reasons := b.Daemon().Ready(t.Context())
			return len(reasons) == 1 && strings.Contains(reasons[0].Reason, "BRIDGE_STREAM_MOVES_KEY") && strings.Contains(reasons[0].Reason, a.member.Status().Member)
		})
		if s := b.Daemon().Status().Standby; len(s.Differing) != 1 {
			t.Errorf("its status says %+v", s)
		}
		g.eventually("the one that works knows it, too", func() bool {
			waiting := a.Daemon().Status().Standby.Waiting
			return len(waiting) == 1 && slices.Equal(waiting[0].Differing, []string{"BRIDGE_STREAM_MOVES_KEY"})
		})
	})
}
