package standbytest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"example.org/bridge/internal/standby"
)

// Options describe an Elector to the suite.
type Options struct {
	// Timeout is the timeout of the group.
	Timeout time.Duration
	// Elector returns one for another member of the group with a name. It is closed by the suite.
	Elector func(t *testing.T, group string) standby.Elector
	// Cut has an Elector reach nothing any more, or again.
	Cut func(e standby.Elector, cut bool)
	// Bubble runs a test by a clock of its own. Nil means by the host's.
	Bubble func(t *testing.T, test func(*testing.T))
}

// Run runs the suite.
func Run(t *testing.T, o Options) {
	for name, test := range map[string]func(*testing.T, *group){
		"one that joins takes no work away, and one that leaves in order is followed soon": inOrder,
		"one that is not heard of stops before another one works":                          silence,
		"all know who waits, and the right one follows":                                    succession,
		"settings that change reach the others":                                            agreement,
	} {
		t.Run(name, func(t *testing.T) {
			run := func(t *testing.T) { test(t, &group{t: t, o: o, name: "suite-" + slug(t.Name())}) }
			if o.Bubble != nil {
				o.Bubble(t, run)
				return
			}
			t.Parallel()
			run(t)
		})
	}
}

func slug(name string) string {
	b := []byte(name)
	for i, c := range b {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9') {
			b[i] = '-'
		}
	}
	return string(b)
}

type group struct {
	t    *testing.T
	o    Options
	name string
}

type member struct {
	*standby.Member
	t       *testing.T
	elector standby.Elector
	ready   atomic.Bool
	stop    context.CancelFunc
	ended   chan struct{}
	err     error
	endedAt time.Time
}

func (g *group) join(name string, ready bool, settings standby.Settings) *member {
	m := &member{t: g.t, elector: g.o.Elector(g.t, g.name), ended: make(chan struct{})}
	m.ready.Store(ready)
	m.Member = standby.New(standby.Options{
		Group: g.name, Elector: m.elector, Member: name, Host: "host-" + name, Settings: settings, Timeout: g.o.Timeout,
		Ready: m.ready.Load, Log: slog.New(slog.NewTextHandler(g.t.Output(), nil)),
		Fault: func(err error) {
			if err != nil {
				g.t.Logf("%s: %v", name, err)
			}
		},
	})
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	go func() {
		defer close(m.ended)
		m.err = m.Run(ctx)
		m.endedAt = time.Now()
	}()
	g.t.Cleanup(func() {
		stop()
		<-m.ended
		if err := m.elector.Close(); err != nil {
			g.t.Error(err)
		}
	})
	return m
}

func (m *member) leave() {
	m.t.Helper()
	m.stop()
	if <-m.ended; m.err != nil {
		m.t.Error(m.err)
	}
}

func (m *member) works() bool { return m.Status().Works }

// eventually waits until something holds, for up to limit; by the host's clock for four minutes,
// since a busy machine needs longer than a test asks for.
func (g *group) eventually(limit time.Duration, what string, is func() bool) (took time.Duration) {
	g.t.Helper()
	if g.o.Bubble == nil {
		limit = max(limit, 4*time.Minute)
	}
	begun := time.Now()
	tick := time.NewTicker(g.o.Timeout / 100)
	defer tick.Stop()
	for !is() {
		if time.Since(begun) > limit {
			g.t.Fatalf("not within %s: %s", limit, what)
		}
		<-tick.C
	}
	return time.Since(begun)
}

func inOrder(t *testing.T, g *group) {
	a, b := g.join("z", true, nil), g.join("b", true, nil)
	g.eventually(4*g.o.Timeout, "one of two that start at once works, and both know it", func() bool {
		one, other := a.Status(), b.Status()
		return one.Works != other.Works && one.Claim.Member == other.Claim.Member && one.Claim.Member != ""
	})
	if b.works() {
		a, b = b, a
	}
	works := a.Status()
	c := g.join("c", true, nil)
	g.eventually(2*g.o.Timeout, "the third one waits", func() bool { return c.Status().Claim.Member == works.Member })
	c.leave()
	<-time.After(g.o.Timeout / 4)
	if b.works() || !a.works() {
		t.Fatal("the work went to another one, though the first one lives")
	}
	if s := b.Status(); s.Claim.Since.IsZero() || s.Claim.Host != works.Host {
		t.Errorf("the waiting one knows %+v", s.Working)
	}
	soon, tries := g.o.Timeout/2, 1
	if g.o.Bubble == nil {
		// Behind one that is silent it takes nine tenths; a busy machine may need as long at times.
		soon, tries = g.o.Timeout*8/10, 4
	}
	for try := 1; ; try++ {
		a.leave()
		switch took := g.eventually(g.o.Timeout, "the one that waits works", b.works); {
		case took <= soon:
			return
		case try == tries:
			t.Fatalf("it took %s", took)
		}
		a, b = b, g.join(fmt.Sprint("d", try), true, nil)
		g.eventually(2*g.o.Timeout, "another one waits", func() bool { return b.Status().Claim.Member == a.Status().Member })
	}
}

func silence(t *testing.T, g *group) {
	a := g.join("a", true, nil)
	g.eventually(4*g.o.Timeout, "the first one works", a.works)
	b := g.join("b", true, nil)
	g.eventually(2*g.o.Timeout, "the second one waits", func() bool { return b.Status().Claim.Member == "a" })
	g.o.Cut(a.elector, true)
	g.eventually(3*g.o.Timeout, "the second one works", b.works)
	works := time.Now()
	<-a.ended
	if !errors.Is(a.err, standby.ErrLost) {
		t.Fatalf("the first one ended with %v", a.err)
	}
	if !a.endedAt.Before(works) {
		t.Errorf("the first one stopped %s after the second one began", a.endedAt.Sub(works))
	}
	g.o.Cut(a.elector, false)
	again := g.join("a2", true, nil)
	g.eventually(2*g.o.Timeout, "the former one waits", func() bool { return again.Status().Claim.Member == "b" })
	if !b.works() {
		t.Error("it took the work away")
	}
}

// succession has members wait of which one is not ready, one becomes ready, and one has other
// settings: all know that, and follow in this order once the ones before them have left.
func succession(t *testing.T, g *group) {
	same, other := standby.Settings{"ONE": "1", "TWO": "2", "OLD": "x"}, standby.Settings{"ONE": "1", "TWO": "3", "NEW": "y"}
	a := g.join("a", true, same)
	g.eventually(4*g.o.Timeout, "the first one works", a.works)
	cold, late, differs := g.join("b", false, same), g.join("c", false, same), g.join("d", true, other)
	const b, c, d = "b on host-b, false []", "c on host-c, false []", "d on host-d, true [NEW OLD TWO]"
	know := func(members []*member, want ...string) {
		t.Helper()
		for _, m := range members {
			g.eventually(3*g.o.Timeout, fmt.Sprintf("all know that %q wait", want), func() bool {
				var got []string
				for _, w := range m.Status().Waiting {
					got = append(got, fmt.Sprintf("%s on %s, %v %v", w.Member, w.Host, w.Ready, w.Differing))
				}
				return slices.Equal(got, want)
			})
		}
	}
	know([]*member{a, cold, late, differs}, b, c, d)
	if got := differs.Status().Differing; !slices.Equal(got, []string{"NEW", "OLD", "TWO"}) || len(cold.Status().Differing) > 0 {
		t.Errorf("%v differ, and %v", got, cold.Status().Differing)
	}
	late.ready.Store(true)
	know([]*member{a, cold, late, differs}, b, "c on host-c, true []", d)
	if !a.works() {
		t.Fatal("the first one does not work any more")
	}
	a.leave()
	g.eventually(g.o.Timeout, "the one that is ready works", late.works)
	know([]*member{cold, late, differs}, b, d)
	late.leave()
	g.eventually(4*g.o.Timeout, "the one with the same settings works", cold.works)
	g.eventually(2*g.o.Timeout, "the other one has heard of it", func() bool { return differs.Status().Claim.Member == "b" })
	left := time.Now()
	cold.leave()
	g.eventually(6*g.o.Timeout, "the other one works when nobody else is there", differs.works)
	if took := time.Since(left); took < 2*g.o.Timeout {
		t.Errorf("a member with other settings works after %s", took)
	}
	know([]*member{differs})
}

// agreement has two members change their settings, one after the other: the one that waits is
// refused in between, and again once the one that works has further ones.
func agreement(t *testing.T, g *group) {
	settings := func(value string) standby.Settings { return standby.Settings{"S_RECONCILE_MAX_DELETES": value} }
	a := g.join("a", true, settings("1"))
	g.eventually(4*g.o.Timeout, "the first one works", a.works)
	b := g.join("b", true, settings("1"))
	know := func(what string, differing ...string) {
		t.Helper()
		g.eventually(3*g.o.Timeout, what, func() bool {
			waits := a.Status().Waiting
			return slices.Equal(b.Status().Differing, differing) && len(waits) == 1 && slices.Equal(waits[0].Differing, differing)
		})
	}
	know("both have the same settings")
	b.Agree(settings("2"))
	know("the one that waits has new ones", "S_RECONCILE_MAX_DELETES")
	a.Agree(settings("2"))
	know("both have the new ones")
	a.Agree(settings("3"))
	know("the one that works has further ones", "S_RECONCILE_MAX_DELETES")
	if !a.works() {
		t.Error("the first one does not work any more")
	}
}
