package world

import (
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"example.org/bridge/internal/httpapi"
	"example.org/bridge/internal/standby"
)

// Group is the processes of a standby group that publish one world. A supervisor starts those
// again that end.
type Group struct {
	*Publisher
	Members []*Member
	// Slowest is how long the slowest take-over took, from the end of the one that worked until
	// another one had published all rows of that moment.
	Slowest time.Duration
	// froze says that one stood still while another one took over.
	froze bool
}

// Member is one process under supervision.
type Member struct {
	*Daemon

	mu sync.Mutex
	// down keeps the supervisor from starting it.
	down bool
	// harmed says that its work was ended last: that it ends by itself is as it has to be. starved
	// counts the ends of one that nothing was done to: it was without a processor for too long.
	harmed  bool
	starved int
}

// NewGroup makes n processes, with what each has of its own, and starts them.
func NewGroup(p *Publisher, timeout time.Duration, own ...Env) *Group {
	p.T.Helper()
	g := &Group{Publisher: p}
	for _, more := range own {
		e := p.Env.WithoutOwn().With(Env{"BRIDGE_STANDBY": strings.ReplaceAll(p.World.Name, ".", "_"), "BRIDGE_STANDBY_TIMEOUT": timeout.String()}).With(more)
		m := &Member{Daemon: NewDaemon(p.T, p.Path, e)}
		m.Start()
		g.Members = append(g.Members, m)
	}
	Every(p.T, 50*time.Millisecond, func() {
		for _, m := range g.Members {
			m.do(func() {
				if m.Ended() && !m.down {
					if !m.harmed {
						m.starved++
					}
					m.Start()
				}
			})
		}
	})
	return g
}

func (m *Member) do(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// Kill ends a member by SIGKILL; Restart starts it again.
func (m *Member) Kill() { m.do(func() { m.down = true; m.Daemon.Kill() }) }

func (m *Member) Restart() { m.do(func() { m.down = false; m.Start() }) }

// Standby returns what a process says of its group; false while it does not answer.
func (d *Daemon) Standby() (s standby.Status, ok bool) {
	status := httpapi.Status{Standby: &s}
	d.Status("", &status)
	return s, s.Member != ""
}

// Worker returns the one member that says that it works, nil while none or several do. Of those
// that stand still none is asked.
func (g *Group) Worker(still ...*Member) (working *Member) {
	for _, m := range g.Members {
		if slices.Contains(still, m) {
			continue
		}
		if s, ok := m.Standby(); ok && s.Works {
			if working != nil {
				return nil
			}
			working = m
		}
	}
	return working
}

// Pair returns the member of two that works, and the one that waits.
func (g *Group) Pair() (works, waits *Member) {
	g.T.Helper()
	Eventually(g.T, time.Minute, "one works", func() bool { works = g.Worker(); return works != nil })
	if waits = g.Members[0]; waits == works {
		waits = g.Members[1]
	}
	return works, waits
}

// Published waits until one member works and has published all rows of the moment, and has the
// judges ask that one.
func (g *Group) Published(limit time.Duration, what string, still ...*Member) *Member {
	g.T.Helper()
	heads := g.heads()
	var w *Member
	Eventually(g.T, limit, what, func() bool {
		if w = g.Worker(still...); w == nil {
			return false
		}
		g.Daemon = w.Daemon
		return len(g.behind(heads)) == 0
	})
	return w
}

func (g *Group) Ready() {
	g.T.Helper()
	Eventually(g.T, time.Minute, "all members are ready, and one works", func() bool {
		return !slices.ContainsFunc(g.Members, func(m *Member) bool { return !m.isReady() }) && g.Worker() != nil
	})
}

// Replace ends the work of the one that works, and waits until another one has published the rows
// of that moment. It returns the former one, which is not asked meanwhile.
func (g *Group) Replace(how string, end func(*Member)) (former *Member) {
	g.T.Helper()
	Eventually(g.T, time.Minute, "one works", func() bool { former = g.Worker(); return former != nil })
	for _, m := range g.Members {
		m.do(func() { m.harmed = m == former })
	}
	begun := time.Now()
	end(former)
	g.Published(2*time.Minute, how, former)
	took := time.Since(begun)
	g.T.Logf("%s: a take-over by %s took %s", g.Bus, how, took.Round(10*time.Millisecond))
	g.Slowest = max(g.Slowest, took)
	return former
}

// Killed has another one take over from the one that works by SIGKILL, and starts that again.
func (g *Group) Killed() { g.Replace("SIGKILL", (*Member).Kill).Restart() }

// Rolled has another one take over from the one that works by SIGTERM, and starts that again.
func (g *Group) Rolled() {
	g.T.Helper()
	g.Replace("SIGTERM", func(m *Member) { m.do(func() { m.down = true; m.Ends() }) }).Restart()
}

// MoveTo has a member work, by SIGTERM to others that do.
func (g *Group) MoveTo(m *Member) {
	g.T.Helper()
	for g.Ready(); g.Published(time.Minute, "one works") != m; g.Ready() {
		g.Rolled()
	}
}

// Stopped has the one that works stand still until another one has taken over and a while longer,
// as a machine that is frozen does, and waits until it waits.
func (g *Group) Stopped(longer time.Duration) {
	g.T.Helper()
	former := g.Replace("SIGSTOP", func(m *Member) { m.do(func() { m.Signal(syscall.SIGSTOP) }) })
	Pause(longer)
	former.do(func() { former.Signal(syscall.SIGCONT) })
	g.Waits(former)
	g.froze = true
}

// Waits waits until a member that worked has noticed that another one does.
func (g *Group) Waits(m *Member) {
	g.T.Helper()
	Eventually(g.T, time.Minute, "the former one waits", func() bool {
		s, ok := m.Standby()
		return ok && !s.Works && s.Working != ""
	})
}

// Alone ends all members in order, and starts one of them without a group: on a busy machine the
// one that works may end while it is asked.
func (g *Group) Alone(w *Member) {
	g.T.Helper()
	for _, m := range g.Members {
		m.do(func() {
			if m.down = true; !m.Ended() {
				m.Term()
			}
		})
	}
	delete(w.Env, "BRIDGE_STANDBY")
	delete(w.Env, "BRIDGE_STANDBY_TIMEOUT")
	w.Restart()
	g.Daemon = w.Daemon
}

// Starved returns how often a process that nothing was done to ended by itself, as one does that
// the bus has not heard for too long. Each is a cut in the midst of batches, too.
func (g *Group) Starved() (n int) {
	for _, m := range g.Members {
		m.do(func() { n += m.starved })
	}
	return n
}

// Unfenced reports whether one stood still while another one took over, and its bus does not fence
// it: Kafka does so in transactions alone.
func (g *Group) Unfenced() bool {
	return (g.froze || g.Starved() > 0) && g.Bus.NATS == nil && !g.Bus.Once()
}

// Compare compares all that was published with the record and the tables. cuts are how often the
// test has cut a process off in the midst of batches.
func (g *Group) Compare(cuts int) {
	g.T.Helper()
	g.Alone(g.Published(2*time.Minute, "all is published"))
	most := g.MostRepeats(cuts + g.Starved())
	if f := g.MustHold(most, Expect{Frozen: g.Unfenced()}); f.Behind > most {
		g.T.Errorf("%d messages came behind those of a successor, at most %d may", f.Behind, most)
	}
}
