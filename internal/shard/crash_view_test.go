package shard_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bridge/checkpoint/store"
	storememory "bridge/checkpoint/store/memory"
	"bridge/internal/testall"
	"bridge/reconcile"
	"bridge/sink"
	"bridge/source"
)

// reaper kills a shard at one of its steps: from then on nothing that it does has an effect. The
// steps are before and after a save, before each message of a publish, and after the last message
// before the acknowledgement.
type reaper struct {
	mu    sync.Mutex
	left  int
	steps int
	dead  chan struct{}
}

// reap returns a reaper that lets n steps pass.
func reap(n int) *reaper { return &reaper{left: n, dead: make(chan struct{})} }

// alive takes a step and reports whether the shard survives it.
func (r *reaper) alive() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left < 0 {
		return false
	}
	if r.left--; r.left < 0 {
		close(r.dead)
		return false
	}
	r.steps++
	return true
}

func (r *reaper) taken() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.steps
}

// reapedStore is a store for a process that a reaper kills.
type reapedStore struct {
	store.Store
	*reaper
}

func (s reapedStore) Apply(ctx context.Context, b *store.Batch) error {
	if !s.alive() {
		return errDead
	}
	if err := s.Store.Apply(ctx, b); err != nil {
		return err
	}
	if !s.alive() {
		return errDead
	}
	return nil
}

// reapedSink is a bus for a process that a reaper kills.
type reapedSink struct {
	sink.Sink
	*reaper
}

func (s reapedSink) Publish(ctx context.Context, batch []sink.Message) (sink.Outcome, error) {
	whole := sink.Outcome{Status: make([]sink.Status, len(batch)), At: make([]sink.At, len(batch))}
	for i := range batch {
		if !s.alive() {
			return s.unanswered(ctx, len(batch))
		}
		out, err := s.Sink.Publish(ctx, batch[i:i+1])
		if err != nil {
			return whole, err
		}
		whole.Status[i] = out.Status[0]
		if at := out.At[0]; at.Known {
			at.TP = tpOf(&whole, out.TPs[at.TP])
			whole.At[i] = at
		}
	}
	if !s.alive() {
		return s.unanswered(ctx, len(batch))
	}
	return whole, nil
}

// unanswered is a publish whose acknowledgement never comes.
func (reapedSink) unanswered(ctx context.Context, n int) (sink.Outcome, error) {
	<-ctx.Done()
	return sink.Outcome{Status: make([]sink.Status, n)}, context.Cause(ctx)
}

// dedupSink is a bus that drops repeats of what it has stored, as JetStream does.
type dedupSink struct {
	sink.Sink
	mu     sync.Mutex
	stored map[string]sink.At
	tps    []sink.TPRef
}

func (s *dedupSink) Publish(ctx context.Context, batch []sink.Message) (sink.Outcome, error) {
	whole := sink.Outcome{Status: make([]sink.Status, len(batch)), At: make([]sink.At, len(batch))}
	for i := range batch {
		s.mu.Lock()
		at, known := s.stored[batch[i].Dedup()]
		s.mu.Unlock()
		if known {
			at.Duplicate = true
			whole.Status[i], whole.At[i] = sink.Acked, at
			continue
		}
		out, err := s.Sink.Publish(ctx, batch[i:i+1])
		if err != nil {
			return whole, err
		}
		s.mu.Lock()
		whole.Status[i], whole.At[i], s.tps = out.Status[0], out.At[0], out.TPs
		s.stored[batch[i].Dedup()] = out.At[0]
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	whole.TPs = s.tps
	return whole, nil
}

// life is a table with the entities a and b, and what was true of them, in order: a value, or "-"
// when there was none.
type life struct {
	*bench
	// ids are the rows of the entities, highest the highest id that any had.
	ids     map[string]uint64
	highest uint64
	// named are the entities that a reconcile names, a and b where it is nil.
	named [][]byte
	been  map[string][]string
	// removed says that the bus has lost messages by its rules, kept what is left of the store.
	removed bool
	kept    keep
	// dedup is nil for a bus that keeps repeats.
	dedup *dedupSink
}

func newLife(t *testing.T, dedups bool) *life {
	l := &life{bench: newViewBench(t, true), ids: make(map[string]uint64), been: make(map[string][]string)}
	if dedups {
		l.dedup = &dedupSink{Sink: l.bus, stored: make(map[string]sink.At)}
		l.sink = l.dedup
	}
	return l
}

// replace gives an entity a new row.
func (l *life) replace(name, value, deleted string) {
	l.highest = l.table.Replace(name, value, deleted, now())
	l.ids[name] = l.highest
	l.became(name, value, deleted)
}

// update changes a row in place; touched moves its MODIFIED.
func (l *life) update(name, value, deleted string, touched bool) {
	modified := "2020-01-01 00:00:00.000000"
	if touched {
		modified = now()
	}
	l.table.Update(l.ids[name], name, value, deleted, modified)
	l.became(name, value, deleted)
}

func (l *life) remove(name string) {
	l.table.Delete(l.ids[name])
	delete(l.ids, name)
	l.became(name, "", "1")
}

func (l *life) became(name, value, deleted string) {
	if deleted == "1" {
		value = "-"
	}
	l.been[name] = append(l.been[name], value)
}

// everything names all rows and entities, as a reconcile does at worst.
func (l *life) everything() reconcile.Nomination {
	named := l.named
	if named == nil {
		named = [][]byte{entity("a"), entity("b")}
	}
	return reconcile.Nomination{Rows: []source.Range{{First: 1, Last: l.highest}}, Entities: named}
}

// dies runs a shard that is killed after n steps, and nominates nominated if that is not nil. It
// reports whether the shard got that far; otherwise it was idle for a while.
func (l *life) dies(t *testing.T, n int, idle time.Duration, nominated func() reconcile.Nomination) bool {
	t.Helper()
	r := reap(n)
	killed := *l.bench
	killed.opts.ShutdownTimeout = time.Millisecond
	killed.sink, killed.store = reapedSink{l.bus, r}, reapedStore{l.store, r}
	if l.dedup != nil {
		killed.sink = reapedSink{l.dedup, r}
	}
	p := killed.process(t)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = p.run(ctx) }) // what the dead say does not matter
	if nominated != nil {
		running.Go(func() {
			for ctx.Err() == nil {
				if _, ok := p.shard.Reach(); ok {
					_, _ = p.shard.Nominate(ctx, nominated())
					return
				}
				wait(t, time.Millisecond)
			}
		})
	}
	died := r.waitDeath(idle)
	cancel()
	running.Wait()
	return died
}

// waitDeath waits for the death, or until no step was taken for the time idle, and reports whether
// the shard died.
func (r *reaper) waitDeath(idle time.Duration) (died bool) {
	for {
		before := r.taken()
		select {
		case <-r.dead:
			return true
		case <-time.After(idle):
			if r.taken() == before {
				return false
			}
		}
	}
}

// agrees fails the test unless the bus tells the life as it was: nothing out of order, nothing
// twice, each event linked to the one before, and in the end what is true.
func (l *life) agrees(t *testing.T) {
	t.Helper()
	told, last := make(map[string][]string), make(map[string]string)
	known, ids := make(map[string]bool), make(map[string]string)
	for i, m := range l.bus.Messages(topic) {
		one := l.said(t)[i]
		op, state, _ := strings.Cut(one.text, " ")
		name, value, _ := strings.Cut(state, "=")
		if op == "Deleted" {
			value = "-"
		}
		last[name] = value
		if known[m.ID] && !l.removed {
			t.Errorf("%s was repeated, and could be read back", one.text)
		}
		known[m.ID] = true
		if one.predecessor != ids[name] && !l.removed {
			t.Errorf("%s follows %q, the event before it is %q", one.text, one.predecessor, ids[name])
		}
		ids[name] = m.ID
		told[name] = append(told[name], value)
	}
	for name, been := range l.been {
		if l.removed {
			// Rule 22: what is true is told once more.
			told[name] = slices.Compact(told[name])
		}
		if !subsequence(told[name], been) {
			t.Errorf("%s was told as %v and was %v", name, told[name], been)
		}
		is := been[len(been)-1]
		if is == "-" && l.removed && l.kept == noStore {
			// Nothing tells any more that there was one.
			continue
		}
		if last[name] != is && (is != "-" || last[name] != "") {
			t.Errorf("%s is %q and the bus says %q", name, is, last[name])
		}
	}
}

// subsequence reports whether the elements of part are in whole, in that order.
func subsequence(part, whole []string) bool {
	for _, element := range part {
		i := slices.Index(whole, element)
		if i < 0 {
			return false
		}
		whole = whole[i+1:]
	}
	return true
}

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

// wipe deletes the topics and creates them again.
func (l *life) wipe() {
	l.removed = true
	l.bus.Wipe()
	l.bus.Create(topic)
	l.bus.Create(deadTopic)
	if l.dedup != nil {
		clear(l.dedup.stored)
	}
}

// expire removes all that is on the bus, by its rules.
func (l *life) expire() {
	l.removed = true
	l.bus.Expire(topic, uint64(l.count(topic)))
}

// there makes sure that an entity has a row.
func (l *life) there(name string) {
	if been := l.been[name]; been[len(been)-1] == "-" {
		l.replace(name, "between", "0")
	}
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
