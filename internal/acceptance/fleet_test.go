package acceptance

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bridge/tests/world"
)

// fleet is the processes of a standby group that publish one world. A supervisor starts those again
// that end.
type fleet struct {
	*world.Publisher
	members []*fleetMember
	// takeovers are how long it took from the end of the one that worked until another one had
	// published all rows of that moment.
	takeovers map[string][]time.Duration
}

// fleetMember is one process under supervision.
type fleetMember struct {
	name string
	env  world.Env

	mu     sync.Mutex
	daemon *world.Daemon
	// down keeps the supervisor from starting it.
	down bool
	// exits are the exit statuses of those that ended by themselves.
	exits []int
}

// newFleet makes n processes, with what each has of its own, and starts them.
func newFleet(p *world.Publisher, timeout time.Duration, own ...world.Env) *fleet {
	p.T.Helper()
	f := &fleet{Publisher: p, takeovers: make(map[string][]time.Duration)}
	for i, more := range own {
		e := p.Env.With(world.Env{"BRIDGE_STANDBY": strings.ReplaceAll(p.World.Name, ".", "_"), "BRIDGE_STANDBY_TIMEOUT": timeout.String()})
		delete(e, "BRIDGE_HTTP_ADDR")
		delete(e, "BRIDGE_CHECKPOINT_URL")
		e = e.With(more)
		m := &fleetMember{name: fmt.Sprintf("member %d", i), env: e}
		m.daemon = world.NewDaemon(p.T, p.Path, e)
		f.members = append(f.members, m)
	}
	f.supervise()
	return f
}

// supervise starts all members, and those that end, until the test ends.
func (f *fleet) supervise() {
	end, done := make(chan struct{}), make(chan struct{})
	for _, m := range f.members {
		m.daemon.Start()
	}
	go func() {
		defer close(done)
		for {
			select {
			case <-end:
				return
			case <-time.After(50 * time.Millisecond):
			}
			for _, m := range f.members {
				m.revive()
			}
		}
	}()
	f.T.Cleanup(func() {
		close(end)
		<-done
	})
}

// revive starts a member that has ended by itself.
func (m *fleetMember) revive() {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.daemon.Done:
	default:
		return
	}
	if !m.down {
		m.exits = append(m.exits, m.daemon.Cmd.ProcessState.ExitCode())
		m.daemon.Start()
	}
}

// signal sends a signal to the process.
func (m *fleetMember) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.daemon.Cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// kill ends a member by SIGKILL; start starts it again.
func (m *fleetMember) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = true
	m.daemon.Kill()
}

func (m *fleetMember) start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = false
	m.daemon.Start()
}

// term ends a member by SIGTERM and returns its exit status.
func (m *fleetMember) term() (status int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = true
	status, _ = m.daemon.Term()
	return status
}

// standbyStatus is what the tests need of the group.
type standbyStatus struct {
	Member, Host string
	Works        bool
	Working      string
	Since        time.Time
	Differing    []string
}

// status returns what a member says of its group; false while it does not answer.
func (m *fleetMember) status() (s standbyStatus, ok bool) {
	code, body := m.daemon.Get("/api/v1/status")
	var status struct{ Standby standbyStatus }
	if code != http.StatusOK || json.Unmarshal([]byte(body), &status) != nil {
		return s, false
	}
	return status.Standby, status.Standby.Member != ""
}

// worker returns the one member that says that it works, nil while none or several do. Of those
// that stand still none is asked.
func (f *fleet) worker(still ...*fleetMember) (working *fleetMember) {
	for _, m := range f.members {
		if slices.Contains(still, m) {
			continue
		}
		if s, ok := m.status(); ok && s.Works {
			if working != nil {
				return nil
			}
			working = m
		}
	}
	return working
}

// caughtUp waits until one member works and has published all rows of the moment, and has the
// judges ask that one.
func (f *fleet) caughtUp(limit time.Duration, what string, still ...*fleetMember) *fleetMember {
	f.T.Helper()
	ids := map[string]uint64{world.Orders: f.World.Highest(world.Orders), world.Strict: f.World.Highest(world.Strict)}
	var w *fleetMember
	eventuallySoon(f.T, limit, what, func() bool {
		if w = f.worker(still...); w == nil {
			return false
		}
		for stream, id := range ids {
			if w.daemon.Position(stream) < id {
				return false
			}
		}
		return true
	})
	f.Daemon = w.daemon
	return w
}

// eventuallySoon is world.Eventually with a finer look, for what is measured.
func eventuallySoon(t testing.TB, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", limit, what)
		}
		<-tick.C
	}
}

// ready waits until all members say that they are ready.
func (f *fleet) ready() {
	f.T.Helper()
	world.Eventually(f.T, time.Minute, "all members are ready, and one works", func() bool {
		for _, m := range f.members {
			if code, _ := m.daemon.Get("/readyz"); code != http.StatusOK {
				return false
			}
		}
		return f.worker() != nil
	})
}

// takeover ends the work of the one that works, and waits until another one has published the rows
// of that moment. It returns the former one.
func (f *fleet) takeover(how string, end func(*fleetMember), still bool) (former *fleetMember) {
	f.T.Helper()
	eventuallySoon(f.T, time.Minute, "one works", func() bool { former = f.worker(); return former != nil })
	begun := time.Now()
	end(former)
	var w *fleetMember
	if still {
		w = f.caughtUp(2*time.Minute, how, former)
	} else {
		w = f.caughtUp(2*time.Minute, how)
	}
	f.takeovers[how] = append(f.takeovers[how], time.Since(begun))
	if w == former {
		f.T.Errorf("%s: the former one works", how)
	}
	return former
}

// report logs median and maximum of the take-overs.
func (f *fleet) report() {
	f.T.Helper()
	for _, how := range slices.Sorted(maps.Keys(f.takeovers)) {
		all := f.takeovers[how]
		slices.Sort(all)
		f.T.Logf("%s: %d take-overs by %s, median %s, maximum %s", f.Bus, len(all), how,
			all[len(all)/2].Round(10*time.Millisecond), all[len(all)-1].Round(10*time.Millisecond))
	}
	for _, m := range f.members {
		m.mu.Lock()
		if len(m.exits) > 0 {
			f.T.Logf("%s has ended by itself with %v", m.name, m.exits)
		}
		m.mu.Unlock()
	}
}

// alone ends all members in order, and starts one of them without a group: on a busy machine the
// one that works may end while it is asked.
func (f *fleet) alone(w *fleetMember) {
	f.T.Helper()
	for _, m := range f.members {
		m.mu.Lock()
		m.down = true
		select {
		case <-m.daemon.Done:
		default:
			m.daemon.Term()
		}
		m.mu.Unlock()
	}
	delete(w.daemon.Env, "BRIDGE_STANDBY")
	delete(w.daemon.Env, "BRIDGE_STANDBY_TIMEOUT")
	w.start()
	f.Daemon = w.daemon
}

// compare compares all that was published with the record and the tables. cuts are how often a
// process was cut off in the midst of batches.
func (f *fleet) compare(cuts int, once bool) {
	f.T.Helper()
	f.alone(f.caughtUp(2*time.Minute, "all is published"))
	f.AllPublished()
	g := f.Figures(world.Expect{})
	if once {
		g.BoundRepeats(0, cuts)
	} else {
		g.BoundRepeats(f.MostRepeats(cuts), cuts)
	}
	f.T.Logf("%s: %+v", f.Bus, g)
	if len(g.Wrongs) > 0 {
		f.T.Error(strings.Join(g.Wrongs, "\n"))
	}
}
