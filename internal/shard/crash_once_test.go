package shard_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bridge/internal/shard"
	sinkmemory "bridge/sink/sinktest/memory"
	"bridge/tests/testall"
)

// onceTwins are Kafka with transactions, and JetStream with atomic batches on a claim: a claim
// supersedes as a transactional id does, and a batch is there as a whole or not at all.
var onceTwins = []twin{
	{name: kafka.name, options: kafka.options, apart: kafka.apart, delivery: exactlyOnce},
	{name: jetStream.name, options: sinkmemory.Options{Stream: "S"}, delivery: exactlyOnce},
}

// onceTwin returns one of them, by turns.
func onceTwin(turn int) twin { return onceTwins[turn%len(onceTwins)] }

// mishaps happen to transactions, besides what happens to rows and topics.
var mishaps = []meanwhile{
	{"a transaction is over its time limit", func(l *life) { l.transactions.expires = true }, false},
	{"the answer to a commit is lost", func(l *life) { l.transactions.mute = true }, false},
	{"somebody else's transaction is open for a while", func(l *life) { l.transactions.foreign = time.Now().Add(20 * time.Second) }, false},
}

// TestAKillInATransaction kills a process that publishes exactly once at each of its steps, and has
// things happen before the next one starts, or while it goes on: nothing is published twice. A
// commit that was on its way arrives, or does not.
func TestAKillInATransaction(t *testing.T) {
	every, some := testall.Cases(40, 3), testall.Cases(3, 1)
	for number, c := range changes {
		t.Run("of "+c.name, func(t *testing.T) {
			t.Parallel()
			steps := c.stepsOn(t, onceTwins...)
			deaths := 0
			for step := range steps {
				for _, lands := range []bool{false, true} {
					if (number+step)%some > 0 {
						continue
					}
					one := crash{change: c, step: step, kept: keep(step % 3), twin: onceTwin(number + step/3), lands: lands}
					instantly(t, fmt.Sprintf("on %s at step %d, a commit lands: %v", one.twin.name, step, lands), func(t *testing.T) {
						if one.killed(t) {
							deaths++
						}
					})
				}
			}
			// A look at the bus, a takeover, a read, a save, a transaction of two messages and a
			// save.
			if deaths < 2*12/some {
				t.Errorf("it was killed %d times", deaths)
			}
			for i, m := range slices.Concat(meanwhiles, mishaps) {
				for step := range steps {
					if turn := number + i + step; turn%every == 0 {
						one := crash{change: c, step: step, meanwhile: m, kept: keep(turn / every % 3), twin: onceTwin(number + i), lands: turn/every%2 == 0}
						if i >= len(meanwhiles) {
							// A reconcile may meet it, and is not done then: the next one is.
							one.again, one.then = len(steps)*100, meanwhile{"it is over", func(l *life) { l.transactions.calm() }, false}
						}
						instantly(t, fmt.Sprintf("on %s at step %d, then %s", one.twin.name, step, m.name), func(t *testing.T) { one.killed(t) })
						instantly(t, fmt.Sprintf("on %s at step %d %s while it goes on", one.twin.name, step, m.name), func(t *testing.T) { one.goesOn(t) })
					}
				}
			}
		})
	}
}

// TestAZombieAtEachStepOfAShard has a process stand still at each step of publishing until another
// one has taken over and published, with a copy of its store. It goes on then, and publishes
// nothing. A third one has the store of either.
func TestAZombieAtEachStepOfAShard(t *testing.T) {
	every := testall.Cases(4, 1)
	for number, c := range changes {
		t.Run("of "+c.name, func(t *testing.T) {
			t.Parallel()
			stood := 0
			for step := range c.stepsOn(t, onceTwins...) {
				m := meanwhiles[(number+step)%6]
				if (number+step)%every > 0 {
					continue
				}
				instantly(t, fmt.Sprintf("at step %d, then %s", step, m.name), func(t *testing.T) {
					if (crash{change: c, step: step, meanwhile: m, twin: onceTwin(number + step/every)}).standsStill(t) {
						stood++
					}
				})
			}
			// A takeover has two steps, a transaction of two messages five.
			if stood < 7/every {
				t.Errorf("it stood still %d times", stood)
			}
		})
	}
}

// standsStill has a process stand still at the first step of publishing from a step on, while
// another one lives. It reports whether there was one.
func (c crash) standsStill(t *testing.T) (stood bool) {
	t.Helper()
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
	c.meanwhile.do(l)
	if c.step%2 == 0 {
		l.store = own
	}
	l.lived(t)
	l.agrees(t)
	return stood
}

// TestAKillBeforeAChangeOfDelivery: the next process publishes in the other way. What an
// at-least-once process had in flight may arrive late; what a transaction had may not.
func TestAKillBeforeAChangeOfDelivery(t *testing.T) {
	every := testall.Cases(6, 1)
	for number, c := range changes {
		t.Run("of "+c.name, func(t *testing.T) {
			t.Parallel()
			for _, from := range append([]twin{kafka, jetStream}, onceTwins...) {
				for step := range c.stepsOn(t, from) {
					if (number+step)%every > 0 {
						continue
					}
					one := crash{change: c, step: step, kept: keep((number + step) % 3), twin: from, lands: step%2 == 0, late: step%4 < 2, switches: true}
					instantly(t, fmt.Sprintf("on %s at step %d, from delivery %d", from.name, step, from.delivery), func(t *testing.T) { one.killed(t) })
				}
			}
		})
	}
}

// TestAKillWithARefusedRow: the dead letter of a row is in the transaction of the rows beside it,
// and there once, whenever the process is killed.
func TestAKillWithARefusedRow(t *testing.T) {
	c := change{"a row that the bus refuses", func(l *life) {
		l.opts.DeadLetter, l.destinations = deadTopic, append(l.destinations, deadTopic)
		l.bus.Create(deadTopic)
		l.replace("a", "2", "0")
		l.replace("c", strings.Repeat("x", lifeMaxBytes), "0")
		l.replace("b", "2", "0")
	}, false, false}
	for step := range c.stepsOn(t, onceTwins...) {
		for _, lands := range []bool{false, true} {
			twin := onceTwin(step)
			instantly(t, fmt.Sprintf("on %s at step %d, a commit lands: %v", twin.name, step, lands), func(t *testing.T) {
				l, _ := crash{change: c, step: step, kept: keep(step % 3), twin: twin, lands: lands}.death(t)
				if dead := l.bus.Messages(deadTopic); len(dead) != 1 {
					t.Errorf("%d dead letters", len(dead))
				}
			})
		}
	}
}
