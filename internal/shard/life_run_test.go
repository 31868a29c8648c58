package shard_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/shard"
	"example.org/bridge/reconcile"
	"example.org/bridge/sink"
	"example.org/bridge/source"
	"example.org/bridge/tests/must"
)

// everything names all rows of a table and all entities, as a reconcile does at worst.
func (l *life) everything(table int) reconcile.Nomination {
	l.mu.Lock()
	defer l.mu.Unlock()
	var named [][]byte
	for _, name := range slices.Sorted(maps.Keys(l.been)) {
		named = append(named, entity(name))
	}
	return reconcile.Nomination{Rows: []source.Range{{First: 1, Last: max(1, l.highest[table])}}, Entities: named}
}

// drained reports whether the positions have reached the rows of the entities.
func (l *life) drained(t *testing.T) bool {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, rows := range l.rows {
		for _, r := range rows {
			if l.positionOf(t, shardNames[r.table]) < r.id {
				return false
			}
		}
	}
	return true
}

// process returns a new process. Its epoch is its own: a clock has gone on since the last one.
func (l *life) process(t *testing.T) *process {
	t.Helper()
	wait(t, time.Millisecond)
	b := *l.bench
	if b.reader = l.reader(); l.delivery == exactlyOnce {
		b.sink = &transactor{Sink: l.bus, transactions: l.transactions}
	}
	return b.process(t)
}

// lived runs a process until what the tables say is published, with a reconcile, and ends it.
func (l *life) lived(t *testing.T) {
	t.Helper()
	p, stop := l.begun(t)
	l.reconciled(t, p.shards)
	stop()
}

// begun runs a process until what the tables say is published, but for what a reconcile finds.
func (l *life) begun(t *testing.T) (p *process, stop func()) {
	t.Helper()
	p = l.process(t)
	stop = l.runProcess(t, p)
	eventually(t, "drained", func() bool { return l.drained(t) })
	return p, stop
}

// reconciled is one reconcile of all tables.
func (l *life) reconciled(t *testing.T, shards []*shard.Shard) {
	t.Helper()
	for i, s := range shards {
		nominate(t, s, l.everything(i))
	}
}

// begin has a and b told.
func (l *life) begin(t *testing.T) {
	t.Helper()
	l.happen("replace a 1; replace b 1")
	l.lived(t)
}

// dies runs a process that is killed after n steps, and has a reconcile name all where nominates
// says so. It reports whether the process got that far; otherwise it was idle for a while.
func (l *life) dies(t *testing.T, n int, idle time.Duration, nominates bool) bool {
	t.Helper()
	return l.runs(t, reap(n), idle, nominates)
}

// runs runs a process with a reaper, until that has killed it or no step was taken for a while.
func (l *life) runs(t *testing.T, r *reaper, idle time.Duration, nominates bool) (died bool) {
	t.Helper()
	p := l.reaped(t, r)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = p.run(ctx) }) // what the dead say does not matter
	for i, s := range p.shards {
		if nominates {
			running.Go(func() { l.nominates(ctx, t, s, i) })
		}
	}
	died = r.waitDeath(idle)
	cancel()
	running.Wait()
	return died
}

func (l *life) reaped(t *testing.T, r *reaper) *process {
	t.Helper()
	b := *l.bench
	b.opts.ShutdownTimeout = time.Millisecond
	b.sink, b.store, b.reader, b.reaper = reapedSink{l.bus, r}, reapedStore{l.store, r}, reapedReader{l.reader(), r}, r
	if l.delivery == exactlyOnce {
		b.sink = &transactor{Sink: l.bus, reaper: r, transactions: l.transactions}
	}
	wait(t, time.Millisecond)
	return b.process(t)
}

// arrives has the bus take what was in flight when a process was killed, as late as this. It
// reports whether the bus has stored something. Kafka stores it. JetStream drops what it has stored
// within its window and, where it is fenced, what was to lie behind another message than the last
// one.
func (l *life) arrives(t *testing.T, r *reaper, fenced bool, end int) (stored bool) {
	t.Helper()
	before := l.stored()
	if fenced && before != end {
		return false
	}
	must.Get(l.bus.Publish(t.Context(), r.cut))(t)
	return l.stored() > before
}

func (l *life) stored() (n int) {
	for _, count := range l.bus.Destinations() {
		n += count
	}
	return n
}

// read waits until the process that runs has read the bus to its ends, and decided all late
// messages.
func (l *life) read(t *testing.T) {
	t.Helper()
	eventually(t, "the bus is read", func() bool {
		image := must.Get(l.store.Load(t.Context()))(t)
		tps := must.Get(l.bus.TPs(t.Context(), l.destinations))(t)
		return !slices.ContainsFunc(tps, func(tp sink.TP) bool {
			return !slices.ContainsFunc(image.Registrations, func(r store.Registration) bool { return r.TP == tp.Name && !r.Retired && r.Next >= tp.End })
		})
	})
}

// nominates names all of a table once its shard runs.
func (l *life) nominates(ctx context.Context, t *testing.T, s *shard.Shard, table int) {
	for ctx.Err() == nil {
		if _, ok := s.Reach(); ok {
			_, _ = s.Nominate(ctx, l.everything(table))
			return
		}
		wait(t, time.Millisecond)
	}
}

// seenEvent is a message with what it says.
type seenEvent struct {
	said
	name, value string
	message     *sink.Message
}

// events returns the events of each entity by their stamps, and the value that each ends with for a
// consumer: within a topic the last one holds, across them that with the highest stamp. It fails
// the test where a topic has them in another order, unless some have come late.
func (l *life) events(t *testing.T) (of map[string][]seenEvent, last map[string]string) {
	t.Helper()
	of, last = make(map[string][]seenEvent), make(map[string]string)
	ends := make(map[string]seenEvent)
	for _, destination := range l.destinations {
		if destination == deadTopic {
			continue
		}
		messages, here := l.bus.Messages(destination), make(map[string]seenEvent)
		for i, one := range l.saidOn(t, destination) {
			e := seenEvent{said: one, message: &messages[i]}
			op, state, _ := strings.Cut(one.text, " ")
			if e.name, e.value, _ = strings.Cut(state, "="); op == "Deleted" {
				e.value = "-"
			}
			if before, ok := here[e.name]; ok && byStamp(before, e) > 0 && !l.late {
				t.Errorf("%s comes behind %s, which was sent later", e.text, before.text)
			}
			here[e.name] = e
			of[e.name] = append(of[e.name], e)
		}
		for name, e := range here {
			if end, ok := ends[name]; !ok || byStamp(end, e) < 0 {
				ends[name] = e
			}
		}
	}
	for name := range of {
		slices.SortStableFunc(of[name], byStamp)
		last[name] = ends[name].value
	}
	return of, last
}

func byStamp(a, b seenEvent) int {
	x, y := &a.message.State, &b.message.State
	return cmp.Or(cmp.Compare(x.Epoch, y.Epoch), cmp.Compare(x.Seq, y.Seq))
}

// agrees fails the test unless the bus tells the life as it was: nothing out of order, nothing
// twice, each event linked to the one before, and in the end what is true. Where messages came late
// the end alone is judged: what was published before they were met did not know of them.
func (l *life) agrees(t *testing.T) {
	t.Helper()
	of, last := l.events(t)
	for name := range l.been {
		if name == l.refused {
			continue
		}
		if !l.late {
			l.ordered(t, name, of[name])
		}
		is := l.value(name)
		if is == "-" && l.removed && l.kept == noStore {
			// Nothing tells any more that there was one.
			continue
		}
		if last[name] != is && (is != "-" || last[name] != "") {
			t.Errorf("%s is %q and the bus says %q", name, is, last[name])
		}
	}
}

// ordered fails the test unless the events of an entity tell it as it was.
func (l *life) ordered(t *testing.T, name string, events []seenEvent) {
	t.Helper()
	var values []string
	known, id := make(map[string]bool), ""
	for _, e := range events {
		if known[e.id] && !l.removed {
			t.Errorf("%s was repeated, and could be read back", e.text)
		}
		known[e.id] = true
		if e.predecessor != id && !l.removed {
			t.Errorf("%s follows %q, the event before it is %q", e.text, e.predecessor, id)
		}
		id = e.id
		values = append(values, e.value)
	}
	if l.removed {
		// Rule 22: what is true is told once more.
		values = slices.Compact(values)
	}
	// Either row is published where nothing is known of the other one: the younger one in the end.
	if !l.doubled[name] && !subsequence(values, l.been[name]) {
		t.Errorf("%s was told as %v and was %v", name, values, l.been[name])
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

// explain says what the bus says where the test has failed.
func (l *life) explain(t *testing.T) {
	if !t.Failed() {
		return
	}
	l.late = true
	of, _ := l.events(t)
	var all []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		for _, e := range of[name] {
			all = append(all, fmt.Sprintf("%s (%s row %d, %d)", e.text, e.message.Shard, e.row, e.message.State.Seq))
		}
	}
	t.Fatalf("on %s, with store %d, it says %v; what was is %v", l.model.name, l.kept, all, l.been)
}
