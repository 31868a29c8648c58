package shard_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bridge/reconcile"
	"bridge/sink"
	"bridge/source"
)

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
