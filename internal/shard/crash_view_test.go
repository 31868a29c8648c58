package shard_test

import (
	"fmt"
	"testing"
	"time"

	storememory "bridge/checkpoint/store/memory"
	"bridge/internal/testall"
	"bridge/reconcile"
)

// change is a way in which states come to the owner.
type change struct {
	name   string
	change func(l *life)
	// nominated says that only a reconcile finds it.
	nominated bool
}

var changes = []change{
	{"rows that are new", func(l *life) { l.replace("a", "2", "0"); l.replace("b", "2", "0") }, false},
	{"rows that are marked", func(l *life) { l.replace("a", "2", "1"); l.replace("b", "2", "0") }, false},
	{"rows that say when they changed", func(l *life) { l.update("a", "2", "0", true); l.update("b", "2", "1", true) }, false},
	{"rows that reconcile found", func(l *life) { l.update("a", "2", "0", false); l.update("b", "2", "1", false) }, true},
	{"rows that are gone", func(l *life) { l.remove("a"); l.update("b", "2", "0", false) }, true},
	{"rows that go to and fro", func(l *life) { l.replace("a", "2", "0"); l.replace("a", "1", "0"); l.replace("b", "2", "0") }, false},
}

// meanwhile is what happens to a while nothing runs.
var meanwhile = []struct {
	name   string
	happen func(l *life)
}{
	{"it changes", func(l *life) { l.replace("a", "3", "0") }},
	{"it changes in place", func(l *life) { l.there("a"); l.update("a", "3", "0", false) }},
	{"it changes back", func(l *life) { l.replace("a", "1", "0") }},
	{"it changes back in place", func(l *life) { l.there("a"); l.update("a", "1", "0", false) }},
	{"it is marked", func(l *life) { l.there("a"); l.update("a", "1", "1", false) }},
	{"it is deleted", func(l *life) { l.there("a"); l.remove("a") }},
	{"it is deleted and comes back as it was", func(l *life) { l.there("a"); l.remove("a"); l.replace("a", "2", "0") }},
	{"both are deleted", func(l *life) { l.there("a"); l.remove("a"); l.remove("b") }},
	{"the topic is deleted and created", func(l *life) { l.wipe() }},
	{"it changes and the topic is deleted and created", func(l *life) { l.replace("a", "3", "0"); l.wipe() }},
	{"retention has passed", func(l *life) { l.expire() }},
	{"it is deleted and retention has passed", func(l *life) { l.there("a"); l.remove("a"); l.expire() }},
}

// TestAKillBetweenPublishAckAndCommit kills a process at each of its steps and changes the table
// before the next one starts, which has the store, an older copy of it, or none.
func TestAKillBetweenPublishAckAndCommit(t *testing.T) {
	// In make test each case has one of the six combinations of stores and buses.
	every := testall.Pick(false, true)
	for _, c := range changes {
		t.Run("of "+c.name, func(t *testing.T) {
			steps := 0
			instantly(t, "and of nothing else", func(t *testing.T) {
				for c.killedAt(t, every, steps, func(*life) {}) {
					if steps++; steps > 50 {
						t.Fatal("it does not come to an end")
					}
				}
			})
			t.Logf("killed at each of %d steps", steps)
			if steps < 6 {
				t.Error("a save, a publish of two messages and a save have more steps")
			}
			for i, m := range meanwhile {
				for step := range steps {
					instantly(t, fmt.Sprintf("at step %d, then %s", step, m.name), func(t *testing.T) { c.killedAt(t, every, step, m.happen) })
					again, then := (i+step)%steps, meanwhile[(i+step+1)%len(meanwhile)]
					instantly(t, fmt.Sprintf("at step %d, then %s, then at step %d, then %s", step, m.name, again, then.name), func(t *testing.T) {
						c.killedAt(t, every, step, func(l *life) {
							m.happen(l)
							l.dies(t, again, 20*time.Millisecond, l.everything)
							then.happen(l)
						})
					})
				}
			}
		})
	}
}

// killedAt kills a shard at a step while it publishes a change, lets something happen while none
// runs, and compares what the next one publishes, with one reconcile, with what was true. It uses
// what is left of the store, on a bus that keeps repeats and on one that drops them. It reports
// whether the shard took so many steps.
func (c change) killedAt(t *testing.T, every bool, step int, happen func(*life)) (died bool) {
	t.Helper()
	for i, kept := range []keep{wholeStore, olderCopy, noStore, wholeStore, olderCopy, noStore} {
		if every || i == step%6 {
			died = c.killedWith(t, kept, i > 2, step, happen)
		}
	}
	return died
}

// keep says what is left of the store after the kill.
type keep int

const (
	wholeStore keep = iota
	olderCopy
	noStore
)

func (c change) killedWith(t *testing.T, kept keep, dedups bool, step int, happen func(*life)) (died bool) {
	t.Helper()
	l := newLife(t, dedups)
	l.kept = kept
	defer func() {
		if t.Failed() {
			t.Fatalf("the store is %d, the bus drops repeats: %t; it says %v", kept, dedups, texts(l.said(t)))
		}
	}()
	l.replace("a", "1", "0")
	l.replace("b", "1", "0")
	_, stop := l.run(t)
	l.expectSaid(t, "Added a=1", "Added b=1")
	eventually(t, "saved", func() bool { return l.position(t) == l.ids["b"] })
	stop()
	copied := copyStore(t, l.store)
	c.change(l)
	var nominated func() reconcile.Nomination
	if c.nominated {
		nominated = l.everything
	}
	died = l.dies(t, step, 150*time.Millisecond, nominated)
	switch kept {
	case olderCopy:
		l.store = copied
	case noStore:
		l.store = storememory.New()
	}
	happen(l)
	s, stop := l.run(t)
	eventually(t, "drained", func() bool { return l.position(t) >= max(l.ids["a"], l.ids["b"]) })
	nominate(t, s, l.everything())
	stop()
	l.agrees(t)
	return died
}
