package shard_test

import (
	"fmt"
	"testing"
	"time"

	"bridge/checkpoint/store"
	"bridge/tests/testall"
)

// change is a way in which states come to the owner.
type change struct {
	name   string
	change func(l *life)
	// nominated says that only a reconcile finds it, moves that it takes two tables.
	nominated, moves bool
}

var changes = []change{
	{"rows that are new", func(l *life) { l.replace("a", "2", "0"); l.replace("b", "2", "0") }, false, false},
	{"rows that are marked", func(l *life) { l.replace("a", "2", "1"); l.replace("b", "2", "0") }, false, false},
	{"rows that say when they changed", func(l *life) { l.update("a", "2", "0", true); l.update("b", "2", "1", true) }, false, false},
	{"rows that reconcile found", func(l *life) { l.update("a", "2", "0", false); l.update("b", "2", "1", false) }, true, false},
	{"rows that are gone", func(l *life) { l.remove("a"); l.update("b", "2", "0", false) }, true, false},
	{"rows that go to and fro", func(l *life) { l.replace("a", "2", "0"); l.replace("a", "1", "0"); l.replace("b", "2", "0") }, false, false},
	{"rows that go to another table", func(l *life) { l.move("a", "2"); l.replace("b", "2", "0") }, false, true},
	{"rows that go to another table as they were", func(l *life) { l.move("a", "1"); l.move("b", "2") }, false, true},
	{"rows that go to another table and back", func(l *life) { l.move("a", "2"); l.move("a", "1"); l.move("b", "2") }, false, true},
	{"rows that reconcile misses in one table while another has them", func(l *life) { l.move("a", "2"); l.remove("b") }, true, true},
	{"rows that another table has, too", func(l *life) { l.double("a", "2"); l.replace("b", "2", "0") }, false, true},
}

// meanwhile is what happens to a, or to the bus.
type meanwhile struct {
	name   string
	happen func(l *life)
	moves  bool
}

var meanwhiles = []meanwhile{
	{"it changes", func(l *life) { l.replace("a", "3", "0") }, false},
	{"it changes in place", func(l *life) { l.there("a"); l.update("a", "3", "0", false) }, false},
	{"it changes back", func(l *life) { l.replace("a", "1", "0") }, false},
	{"it changes back in place", func(l *life) { l.there("a"); l.update("a", "1", "0", false) }, false},
	{"it is marked", func(l *life) { l.there("a"); l.update("a", "1", "1", false) }, false},
	{"it is deleted", func(l *life) { l.there("a"); l.remove("a") }, false},
	{"it is deleted and comes back as it was", func(l *life) { l.there("a"); l.remove("a"); l.replace("a", "2", "0") }, false},
	{"both are deleted", func(l *life) { l.there("a"); l.remove("a"); l.remove("b") }, false},
	{"the topic is deleted and created", func(l *life) { l.wipe() }, false},
	{"it changes and the topic is deleted and created", func(l *life) { l.replace("a", "3", "0"); l.wipe() }, false},
	{"retention has passed", func(l *life) { l.expire() }, false},
	{"it changes back in place and retention has passed", func(l *life) { l.there("a"); l.update("a", "1", "0", false); l.expire() }, false},
	{"it is deleted and retention has passed", func(l *life) { l.there("a"); l.remove("a"); l.expire() }, false},
	{"it goes to another table", func(l *life) { l.move("a", "3") }, true},
	{"it goes to another table as it was", func(l *life) { l.move("a", l.value("a")) }, true},
	{"it goes to another table and back", func(l *life) { l.move("a", "3"); l.move("a", "1") }, true},
	{"both go to another table", func(l *life) { l.move("a", "3"); l.move("b", "3") }, true},
	{"another table has it, too", func(l *life) { l.there("a"); l.double("a", "3") }, true},
	{"it goes to another table and the topic is deleted and created", func(l *life) { l.move("a", "3"); l.wipe() }, true},
	{"it goes to another table and retention has passed", func(l *life) { l.move("a", "3"); l.expire() }, true},
}

// TestAKillBetweenPublishAckAndCommit kills a process at each of its steps and changes the tables
// before the next one starts, which has the store, an older copy of it, or none. What was in flight
// may arrive later than that. A process is also killed twice, and the tables change at a step while
// it goes on.
func TestAKillBetweenPublishAckAndCommit(t *testing.T) {
	every := testall.Cases(8, 1)
	for number, c := range changes {
		t.Run("of "+c.name, func(t *testing.T) {
			t.Parallel()
			steps := c.steps(t)
			instantly(t, "and of nothing else", func(t *testing.T) {
				deaths, least := 0, 8*len(twins)
				if every > 1 {
					least = 8
				}
				for step := range steps {
					for bus, twin := range twins {
						if every > 1 && bus != (number+step)%len(twins) {
							continue
						}
						if (crash{change: c, step: step, kept: keep((bus + step) % 3), twin: twin}).killed(t) {
							deaths++
						}
					}
				}
				t.Logf("killed at each of %d steps", len(steps))
				// A look at the bus, a read, a save, a publish of two messages and a save.
				if deaths < least {
					t.Errorf("it was killed %d times, want %d at least", deaths, least)
				}
			})
			for i, m := range meanwhiles {
				for step := range steps {
					if turn := number + i + step; turn%every == 0 {
						crash{change: c, step: step, meanwhile: m}.vary(t, steps, turn/every, every > 1)
					}
				}
			}
		})
	}
}

// vary runs the cases of a change, a step and what happens meanwhile. turn varies the rest; few
// leaves out most of that.
func (c crash) vary(t *testing.T, steps []step, turn int, few bool) {
	name, kind := fmt.Sprintf("at step %d, then %s", c.step, c.meanwhile.name), steps[c.step]
	for bus, twin := range twins {
		mine := bus == turn%3
		switch {
		case kind == reading && (!mine || turn%2 > 0 && few), (few || turn%3 > 0) && !mine:
			// A kill behind a read is as one before the next effect.
			continue
		}
		one := c
		one.kept, one.twin = keep((turn/3+bus)%3), twin
		one.late = twin.name != plain.name && (turn/2+bus)%2 == 0
		instantly(t, fmt.Sprintf("%s, on %s", name, twin.name), func(t *testing.T) { one.killed(t) })
	}
	c.kept, c.twin = keep(turn%3), twins[turn/3%3]
	switch {
	case turn%4 == 0, kind == reading && turn%2 == 0:
		instantly(t, fmt.Sprintf("at step %d %s while it goes on", c.step, c.meanwhile.name), func(t *testing.T) { c.goesOn(t) })
	case turn%3 == 1:
		c.again, c.then = turn%len(steps), meanwhiles[(turn+1)%len(meanwhiles)]
		instantly(t, fmt.Sprintf("%s, then at step %d, then %s", name, c.again, c.then.name), func(t *testing.T) { c.killed(t) })
	}
}

// crash is one case of the table: a process that publishes a change is killed at a step, and
// something happens.
type crash struct {
	change
	step      int
	meanwhile meanwhile
	// again and then are a step of the next process, and what happens when that is killed, too.
	again int
	then  meanwhile
	// kept is what is left of the store.
	kept keep
	twin twin
	// late says that what was in flight is stored once the next process has published, lands that a
	// commit on its way is done.
	late, lands bool
	// switches has the next process deliver in the other way.
	switches bool
}

// steps returns the steps of a process that publishes a change: those of the bus with the most.
func (c change) steps(t *testing.T) []step { return c.stepsOn(t, twins...) }

// stepsOn is steps on some buses.
func (c change) stepsOn(t *testing.T, twins ...twin) (steps []step) {
	for _, twin := range twins {
		instantly(t, "on "+twin.name, func(t *testing.T) {
			l, _ := crash{change: c, twin: twin}.begin(t)
			r := watch(0, nil)
			l.runs(t, r, idle, c.nominated)
			if len(r.steps) > len(steps) {
				steps = r.steps
			}
		})
	}
	return steps
}

// idle is how long a process takes no step when it has nothing left to do.
const idle = 6 * time.Millisecond

// keep says what is left of the store after the kill.
type keep int

const (
	wholeStore keep = iota
	olderCopy
	noStore
)

// killed kills a process, lets it happen while none runs, and compares what the next one
// publishes, with one reconcile, with what was true. It reports whether the process took so many
// steps.
func (c crash) killed(t *testing.T) (died bool) {
	t.Helper()
	_, died = c.death(t)
	return died
}

// death is killed, and returns the life.
func (c crash) death(t *testing.T) (l *life, died bool) {
	t.Helper()
	l, copied := c.begin(t)
	defer l.explain(t)
	r := reap(c.step)
	died = l.runs(t, r, idle, c.nominated)
	if c.switches {
		l.delivery = exactlyOnce - l.delivery
	}
	end := l.stored()
	l.lose(c.kept, copied)
	c.meanwhile.do(l)
	if c.then.happen != nil {
		l.dies(t, c.again, idle, true)
		c.then.do(l)
	}
	p, stop := l.begun(t)
	if c.late && len(r.cut) > 0 {
		if c.step%2 == 0 {
			// It arrives before a start.
			stop()
		}
		l.late = l.arrives(t, r, c.twin.name == jetStream.name && c.step%3 > 0, end)
		if c.step%2 == 0 {
			p, stop = l.begun(t)
		}
		l.read(t)
	}
	l.reconciled(t, p.shards)
	stop()
	l.agrees(t)
	return l, died
}

// goesOn has it happen at a step of a process that goes on. Then the next one follows.
func (c crash) goesOn(t *testing.T) {
	t.Helper()
	l, copied := c.begin(t)
	defer l.explain(t)
	l.runs(t, watch(c.step, func() { c.meanwhile.do(l) }), idle, c.nominated)
	c.then.do(l)
	l.lose(c.kept, copied)
	l.lived(t)
	l.agrees(t)
}

func (m meanwhile) do(l *life) {
	if m.happen != nil {
		m.happen(l)
	}
}

// begin returns a life with a change that is not published, and a copy of the store from before.
func (c crash) begin(t *testing.T) (l *life, copied store.Store) {
	t.Helper()
	tables := 1
	if c.moves || c.meanwhile.moves || c.then.moves {
		tables = 2
	}
	l = newLife(t, c.twin, tables)
	l.kept, l.transactions.lands = c.kept, c.lands
	l.replace("a", "1", "0")
	l.replace("b", "1", "0")
	_, stop := l.begun(t)
	stop()
	copied = copyStore(t, l.store)
	c.change.change(l)
	return l, copied
}
