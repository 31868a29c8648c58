package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.org/bridge/checkpoint/store"
	storememory "example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/config/configtest"
	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/standby"
	"example.org/bridge/source"
	sourcememory "example.org/bridge/source/sourcetest/memory"
	"example.org/bridge/tests/must"
)

// group is a household whose bridges are a standby group.
type group struct{ *household }

// groupTimeout is short: the election in memory takes no time.
const groupTimeout = 2 * time.Second

func newGroup(t *testing.T) *group {
	g := &group{household: newHousehold(t, "moves")}
	g.household.stop()
	g.cfg.Standby = config.Standby{Group: "g", Timeout: groupTimeout, Settings: standby.Settings{"BRIDGE_STREAM_MOVES_KEY": "1"}}
	return g
}

// process is a member of a group, with a store of its own.
type process struct {
	*App
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
	a := must.Get(Open(g.t.Context(), Options{
		Config: &cfg, Logger: textLogger(g.t.Output()),
		openStore: func(context.Context, string, *slog.Logger) (store.Store, error) { return keptStore{kept}, nil },
	}))(g.t)
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

// begunGroup returns a group whose first process works, and has published a row.
func begunGroup(t *testing.T) (*group, *process) {
	g := newGroup(t)
	a := g.join(nil)
	g.works(a)
	g.publishes("d_0", "M", "one")
	return g, a
}

// waits waits until a process is ready to take over.
func (g *group) waits(p *process) {
	g.t.Helper()
	g.eventually("it waits, and is ready", func() bool {
		s := p.member.Status()
		return !s.Works && s.Working != "" && len(p.Daemon().Ready(g.t.Context())) == 0
	})
}

// TestAStandbyThatBeganEmptyPollsWhatWasOpen: an id became pending while it waited, and many were
// handed out since. It reads no table before it works.
func TestAStandbyThatBeganEmptyPollsWhatWasOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, a := begunGroup(t)
		b := g.join(nil)
		g.waits(b)
		table := g.tables["d_0"]
		// By its time the second cursor does not see it.
		open := table.Open("late", "one", "2000-01-01 00:00:00.000000")
		table.Skip(150_000)
		g.publishes("d_0", "N", "one")
		table.Skip(150_000)
		g.publishes("d_0", "O", "one")
		g.eventually("the one that waits has read it", func() bool { return b.Daemon().Status().Streams[0].CatchUp.Messages == 3 })
		for _, one := range b.Daemon().Status().Streams[0].Shards {
			if !one.LastPoll.IsZero() {
				t.Errorf("one that waits has read the table %s", one.Shard)
			}
		}
		if a.stop(); a.err != nil {
			t.Error(a.err)
		}
		if _, err := a.Daemon().Pause(t.Context(), httpapi.PauseRequest{Stream: "moves"}); !errors.Is(err, httpapi.ErrCannotPause) {
			t.Errorf("one that has left takes a pause: %v", err)
		}
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
		g, a := begunGroup(t)
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

// TestAStandbyThatNeverWorkedSeesIDsUsedAgain: the database fails over to a server that is behind,
// and who takes over knows the progress of each stream, and has no list of the rows published last.
func TestAStandbyThatNeverWorkedSeesIDsUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// More streams than are compared at the same time.
		const streams, survivor, rows = 7, 25, 40
		env := make(configtest.Env)
		var names []string
		for i := range streams {
			names = append(names, fmt.Sprint("facts", i))
			prefix := fmt.Sprintf("BRIDGE_STREAM_FACTS%d_", i)
			env[prefix+"TABLE"], env[prefix+"KIND"], env[prefix+"DESTINATION"] = names[i], "release", names[i]
		}
		env["BRIDGE_STREAMS"] = strings.Join(names, ",")
		g := &group{household: emptyHousehold(t, env)}
		g.cfg.Standby = config.Standby{Group: "g", Timeout: groupTimeout}
		for i := range g.cfg.Streams {
			table := g.cfg.Streams[i].Tables[0]
			g.tables[table] = sourcememory.NewTable(g.cfg.Streams[i].Spec(table),
				source.Column{Name: "id", Kind: source.Int}, source.Column{Name: "name", Kind: source.Text})
			g.bus.Create(table)
		}
		insert := func(what string, n int) {
			for name, table := range g.tables {
				for i := range n {
					table.Insert(fmt.Sprintf("%s row %d of %s", what, i, name))
				}
			}
		}
		published := func(n int) {
			g.eventually("all is published", func() bool {
				return !slices.ContainsFunc(names, func(topic string) bool { return len(g.bus.Messages(topic)) != n })
			})
		}
		a := g.join(nil)
		g.works(a)
		b := g.join(nil)
		g.waits(b)
		insert("old", rows)
		published(rows)
		if a.stop(); a.err != nil {
			t.Error(a.err)
		}
		for _, table := range g.tables {
			table.Lose(survivor)
			table.Move("second", false)
		}
		insert("new", 2*rows)
		g.eventually("all streams stop", func() bool {
			return !slices.ContainsFunc(b.Daemon().Status().Streams, func(s httpapi.StreamStatus) bool {
				return s.Shards[0].LastError == "" || !strings.Contains(string(s.Shards[0].LastError), "15 were others, from id 26 on")
			})
		})
		published(rows)
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
