package shard_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	storememory "example.org/bridge/checkpoint/store/storetest/memory"
	"example.org/bridge/internal/shard"
	"example.org/bridge/tests/testall"
)

// change is a way in which states come to the owner, as a script of a life.
type change struct {
	name, script string
	// nominated says that only a reconcile finds it.
	nominated bool
}

var changes = []change{
	{"rows that are new", "replace a 2; replace b 2", false},
	{"rows that are marked", "replace a 2 marked; replace b 2", false},
	{"rows that say when they changed", "touch a 2; touch b 2 marked", false},
	{"rows that reconcile found", "update a 2; update b 2 marked", true},
	{"rows that are gone", "remove a; update b 2", true},
	{"rows that go to and fro", "replace a 2; replace a 1; replace b 2", false},
	{"rows that go to another table", "move a 2; replace b 2", false},
	{"rows that go to another table as they were", "move a 1; move b 2", false},
	{"rows that go to another table and back", "move a 2; move a 1; move b 2", false},
	{"rows that reconcile misses in one table while another has them", "move a 2; remove b", true},
	{"rows that another table has, too", "double a 2; replace b 2", false},
}

// meanwhile is what happens to a, or to the bus.
type meanwhile struct{ name, script string }

// The first six leave the bus as it is.
var meanwhiles = []meanwhile{
	{"it changes", "replace a 3"},
	{"it changes in place", "there a; update a 3"},
	{"it changes back", "replace a 1"},
	{"it changes back in place", "there a; update a 1"},
	{"it is marked", "there a; update a 1 marked"},
	{"it is deleted", "there a; remove a"},
	{"it is deleted and comes back as it was", "there a; remove a; replace a 2"},
	{"both are deleted", "there a; remove a; remove b"},
	{"the topic is deleted and created", "wipe"},
	{"it changes and the topic is deleted and created", "replace a 3; wipe"},
	{"retention has passed", "expire"},
	{"it changes back in place and retention has passed", "there a; update a 1; expire"},
	{"it is deleted and retention has passed", "there a; remove a; expire"},
	{"it goes to another table", "move a 3"},
	{"it goes to another table as it was", "move a ="},
	{"it goes to another table and back", "move a 3; move a 1"},
	{"both go to another table", "move a 3; move b 3"},
	{"another table has it, too", "there a; double a 3"},
	{"it goes to another table and the topic is deleted and created", "move a 3; wipe"},
	{"it goes to another table and retention has passed", "move a 3; expire"},
}

// mishaps happen to transactions.
var mishaps = []meanwhile{
	{"a transaction is over its time limit", "over-time"},
	{"the answer to a commit is lost", "no-answer"},
	{"somebody else's transaction is open for a while", "foreign"},
}

// crash is one case of the table: a process that publishes a change is killed at a step, and
// something happens.
type crash struct {
	change
	model model
	step  int
	// meanwhile happens while no process runs, or with goes at the step of one that goes on.
	meanwhile meanwhile
	goes      bool
	// again and then are a step of the next process, and what happens when that is killed, too.
	again int
	then  meanwhile
	// kept is what is left of the store. set says that the shard's position is set in it.
	kept keep
	set  bool
	// late says that what was in flight is stored once the next process has published, lands that a
	// commit on its way is done.
	late, lands bool
	// switches has the next process deliver in the other way.
	switches bool
	// before, when not nil, sets the life up for the change.
	before func(l *life)
}

func (c crash) String() string {
	text := fmt.Sprintf("on %s at step %d, store %d", c.model.name, c.step, c.kept)
	for name, is := range map[string]bool{"set": c.set, "goes on": c.goes, "late": c.late, "lands": c.lands, "switches": c.switches} {
		if is {
			text += ", " + name
		}
	}
	if c.then.script != "" {
		return fmt.Sprintf("%s, %s, at step %d %s", text, c.meanwhile.name, c.again, c.then.name)
	}
	return text + ", " + c.meanwhile.name
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

// lose leaves what is kept of the store.
func (b *bench) lose(kept keep, copied store.Store) {
	switch kept {
	case olderCopy:
		b.store = copied
	case noStore:
		b.store = storememory.New()
	}
}

// draw chooses what is not of the table by chance.
func (c crash) draw(rng *rand.Rand, steps int, happens []meanwhile) crash {
	c.kept, c.lands, c.late = keep(rng.IntN(3)), rng.IntN(2) == 0, c.model.late && rng.IntN(2) == 0
	if rng.IntN(4) > 0 {
		c.meanwhile = happens[rng.IntN(len(happens))]
	}
	mishap := slices.ContainsFunc(mishaps, func(m meanwhile) bool { return m.name == c.meanwhile.name })
	switch chance := rng.IntN(8); {
	case c.switches:
	case mishap:
		// A reconcile may meet it, and is not done then: the next one is.
		c.again, c.then = steps*100, meanwhile{"it is over", "calm"}
		c.goes = chance < 4
	case chance < 2:
		c.goes, c.late = true, false
	case chance < 4:
		c.again, c.then, c.late = rng.IntN(steps), meanwhiles[rng.IntN(len(meanwhiles))], false
	case chance == 4:
		c.kept, c.set, c.late = wholeStore, true, false
	}
	return c
}

// table is what crashes runs: times cases for one in every so many steps of each change and bus, of
// which harmed says whether the process took so many steps.
type table struct {
	buses        []model
	every, times int
	harmed       func(t *testing.T, rng *rand.Rand, c crash, steps int) bool
	// least is how many of 100 processes are harmed at least.
	least int
}

func (s table) run(t *testing.T) {
	for number, c := range changes {
		t.Run("of "+c.name, func(t *testing.T) {
			t.Parallel()
			cases, harmed, turn := 0, 0, number
			for bus, model := range s.buses {
				steps := crash{change: c}.steps(t, model)
				for step := range steps {
					if turn++; turn%s.every > 0 {
						continue
					}
					rng := rand.New(rand.NewPCG(uint64(number*len(s.buses)+bus), uint64(step)))
					for range s.times {
						if cases++; s.harmed(t, rng, crash{change: c, model: model, step: step}, steps) {
							harmed++
						}
					}
				}
			}
			if t.Logf("%d of %d were harmed", harmed, cases); cases >= 10 && harmed*100 < cases*s.least {
				t.Errorf("only %d of %d processes took as many steps", harmed, cases)
			}
		})
	}
}

// one is a case of a table on a clock of its own.
func (c crash) one(t *testing.T, happens func(t *testing.T) bool) (harmed bool) {
	instantly(t, c.String(), func(t *testing.T) { harmed = happens(t) })
	return harmed
}

// TestAKillBetweenPublishAckAndCommit kills a process at each of its steps and changes the tables
// before the next one starts, which has the store, an older copy of it, or none. What was in flight
// may arrive later than that. A process is also killed twice, and the tables change at a step while
// it goes on.
func TestAKillBetweenPublishAckAndCommit(t *testing.T) {
	table{allBuses, testall.Cases(9, 1), testall.Cases(1, 6), func(t *testing.T, rng *rand.Rand, c crash, steps int) bool {
		c = c.draw(rng, steps, meanwhiles)
		return c.one(t, c.killed)
	}, 75}.run(t)
}

// TestAKillInATransaction does the same to a process that publishes exactly once: nothing is
// published twice. A commit that was on its way arrives, or does not.
func TestAKillInATransaction(t *testing.T) {
	table{onceBuses, testall.Cases(9, 1), testall.Cases(1, 6), func(t *testing.T, rng *rand.Rand, c crash, steps int) bool {
		c = c.draw(rng, steps, slices.Concat(meanwhiles, mishaps, mishaps))
		return c.one(t, c.killed)
	}, 75}.run(t)
}

// TestAKillBeforeAChangeOfDelivery: the next process publishes in the other way. What an
// at-least-once process had in flight may arrive late; what a transaction had may not.
func TestAKillBeforeAChangeOfDelivery(t *testing.T) {
	table{slices.Concat(onceBuses, []model{kafka, jetStream}), testall.Cases(31, 3), 1, func(t *testing.T, rng *rand.Rand, c crash, steps int) bool {
		c.switches = true
		c = c.draw(rng, steps, []meanwhile{{}})
		return c.one(t, c.killed)
	}, 75}.run(t)
}

// TestAZombieAtEachStepOfAShard has a process stand still at each step of publishing until another
// one has taken over and published, with a copy of its store. It goes on then, and publishes
// nothing. A third one has the store of either.
func TestAZombieAtEachStepOfAShard(t *testing.T) {
	table{onceBuses, testall.Cases(17, 2), 1, func(t *testing.T, rng *rand.Rand, c crash, _ int) bool {
		c.meanwhile = meanwhiles[rng.IntN(6)]
		return c.one(t, c.standsStill)
	}, 30}.run(t)
}

// TestAKillWithARefusedRow: the dead letter of a row is in the transaction of the rows beside it,
// and there once, whenever the process is killed.
func TestAKillWithARefusedRow(t *testing.T) {
	c := crash{
		change: change{"a row that the bus refuses", "replace a 2; replace c " + strings.Repeat("x", lifeMaxBytes) + "; replace b 2", false},
		before: func(l *life) {
			l.opts.DeadLetter, l.destinations, l.refused = deadTopic, append(l.destinations, deadTopic), "c"
			l.bus.Create(deadTopic)
		},
	}
	for step := range c.steps(t, onceBuses[0]) {
		c.step, c.kept, c.model, c.lands = step, keep(step%3), onceBuses[step%2], step/2%2 == 0
		c.one(t, func(t *testing.T) bool {
			l, died := c.death(t)
			if dead := l.bus.Messages(deadTopic); len(dead) != 1 {
				t.Errorf("%d dead letters", len(dead))
			}
			return died
		})
	}
}

// steps returns how many steps a process takes that publishes the change.
func (c crash) steps(t *testing.T, bus model) (steps int) {
	c.model = bus
	c.one(t, func(t *testing.T) bool {
		l, _ := c.begin(t)
		r := watch(0, nil)
		l.runs(t, r, idle, c.nominated)
		steps = r.taken()
		return false
	})
	return steps
}

// killed kills a process, lets it happen while none runs, and compares what the next one
// publishes, with one reconcile, with what was true. It reports whether the process took so many
// steps.
func (c crash) killed(t *testing.T) (died bool) {
	if c.goes {
		c.goesOn(t)
		return true
	}
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
	if c.set {
		l.set(t, l.position(t))
	}
	l.happen(c.meanwhile.script)
	if c.then.script != "" {
		l.dies(t, c.again, idle, true)
		l.happen(c.then.script)
	}
	p, stop := l.begun(t)
	if c.late && len(r.cut) > 0 {
		if c.step%2 == 0 {
			// It arrives before a start.
			stop()
		}
		l.late = l.arrives(t, r, c.model.name == jetStream.name && c.step%3 > 0, end)
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
	l.runs(t, watch(c.step, func() { l.happen(c.meanwhile.script) }), idle, c.nominated)
	l.happen(c.then.script)
	l.lose(c.kept, copied)
	l.lived(t)
	l.agrees(t)
}

// standsStill has a process stand still at the first step of publishing from a step on, while
// another one lives. It reports whether there was one.
func (c crash) standsStill(t *testing.T) (stood bool) {
	l, copied := c.begin(t)
	defer l.explain(t)
	own := l.store
	r := watch(0, nil)
	r.still = &standstill{at: c.step, reached: make(chan struct{}), resume: make(chan struct{})}
	limits := l.opts.Limits
	l.opts.Limits = shard.NewLimits(32<<20, 1, 2).Stream()
	zombie := l.reaped(t, r)
	l.opts.Limits = limits
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = zombie.run(ctx) }) // it is superseded
	for i, s := range zombie.shards {
		if c.nominated {
			running.Go(func() { l.nominates(ctx, t, s, i) })
		}
	}
	stood = r.still.reach(r)
	l.store = copied
	l.lived(t)
	published := l.stored()
	close(r.still.resume)
	r.waitDeath(idle)
	if n := l.stored(); n != published {
		t.Errorf("the zombie has published %d messages", n-published)
	}
	cancel()
	running.Wait()
	l.happen(c.meanwhile.script)
	if c.step%2 == 0 {
		l.store = own
	}
	l.lived(t)
	l.agrees(t)
	return stood
}

// begin returns a life with a change that is not published, and a copy of the store from before.
func (c crash) begin(t *testing.T) (l *life, copied store.Store) {
	t.Helper()
	tables := 1
	if all := c.change.script + c.meanwhile.script + c.then.script; strings.Contains(all, "move") || strings.Contains(all, "double") {
		tables = 2
	}
	l = newLife(t, c.model, tables)
	l.kept, l.transactions.lands = c.kept, c.lands
	l.happen("replace a 1; replace b 1")
	_, stop := l.begun(t)
	stop()
	copied = copyStore(l.store)
	if c.before != nil {
		c.before(l)
	}
	l.happen(c.change.script)
	return l, copied
}

// TestWhatTheStoreLacksIsReadBack restores a copy of the store that lacks what was published since,
// or loses the store. No event comes twice or out of order, and another start finds nothing, with
// one topic or several.
func TestWhatTheStoreLacksIsReadBack(t *testing.T) {
	every, n := testall.Cases(5, 1), 0
	for name, c := range map[string]struct {
		// Each is published by itself, behind the copy of the store.
		published []string
		// then happens while nothing runs.
		then string
	}{
		"nothing":                                {nil, ""},
		"nothing, then a change":                 {nil, "replace a 3"},
		"a change":                               {[]string{"replace a 2"}, ""},
		"a change, then back":                    {[]string{"replace a 2"}, "replace a 1"},
		"two changes, the first again":           {[]string{"replace a 2", "replace a 3"}, "replace a 2"},
		"an entity that came and goes":           {[]string{"replace c 1"}, "remove c"},
		"an entity that came and went":           {[]string{"replace c 1", "remove c"}, ""},
		"an entity that went, then is as it was": {[]string{"remove a"}, "replace a 1"},
		"an entity that went and came back":      {[]string{"remove a", "replace a 1"}, ""},
		"a change in place, then back":           {[]string{"touch a 2"}, "update a 1"},
		"an entity that was marked, then is not": {[]string{"replace a 1 marked"}, "replace a 1"},
		"an entity that was marked, then goes":   {[]string{"replace a 1 marked"}, "remove a"},
		// It is null in the event: the digest is in the headers.
		"a state that no event can tell": {[]string{"replace a \xff"}, ""},
	} {
		for i, bus := range allBuses {
			for _, kept := range []keep{olderCopy, noStore} {
				if n++; n%every > 0 {
					continue
				}
				instantly(t, fmt.Sprintf("%s, store %d behind %s", bus.name, kept, name), func(t *testing.T) {
					l := newLife(t, bus, 1+i%2)
					l.begin(t)
					copied := copyStore(l.store)
					for _, step := range c.published {
						l.happen(step)
						l.lived(t)
					}
					l.happen(c.then)
					l.lose(kept, copied)
					l.lived(t)
					l.agrees(t)
					l.explain(t)
					l.saysNothingNew(t)
				})
			}
		}
	}
}

func (l *life) saysNothingNew(t *testing.T) {
	t.Helper()
	before := l.stored()
	if l.lived(t); l.stored() != before {
		t.Errorf("the next start publishes %d messages", l.stored()-before)
	}
}
