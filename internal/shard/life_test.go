package shard_test

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"example.org/bridge/event"
	sinkmemory "example.org/bridge/sink/sinktest/memory"
	sourcememory "example.org/bridge/source/sourcetest/memory"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/script"
)

// life is a stream of one or two tables with the entities a and b, and what was true of them, in
// order: a value, or "-" when there was none.
type life struct {
	*bench
	script.Player
	model model
	// refused is an entity whose row the bus refuses: what is said of it is not judged.
	refused string
	// removed says that the bus has lost messages by its rules, kept what is left of the store.
	removed bool
	kept    keep
	// delivery is how the next processes publish. transactions are those of the processes that
	// publish exactly once.
	delivery     delivery
	transactions *coordinator
	// late says that the bus has stored messages of a process behind those of a later one.
	late bool

	// mu guards the rest: things happen while a process runs.
	mu   sync.Mutex
	been map[string][]string
	// rows are those of the entities, the last one put is the last. home is the table where that
	// is, or was.
	rows map[string][]lifeRow
	home map[string]int
	// doubled are the entities that have had two rows at once.
	doubled map[string]bool
	// highest are the highest ids that the tables had, clock is the last MODIFIED.
	highest [2]uint64
	clock   time.Time
}

// lifeRow is a row of an entity in a table.
type lifeRow struct {
	table                    int
	id                       uint64
	value, deleted, modified string
}

// model is a bus in memory with the traits of one.
type model struct {
	name    string
	options sinkmemory.Options
	// apart says that each table has a topic, typed that each type of events has one.
	apart, typed bool
	delivery     delivery
	// late says that what was in flight may arrive late.
	late bool
}

var (
	plain = model{name: "memory"}
	typed = model{name: "a topic for each type", typed: true}
	// An entity that goes to another table goes on in another partition of another topic.
	kafka = model{name: "kafka", options: sinkmemory.Options{Partitions: 2}, apart: true, late: true}
	// Keys are in headers, and repeats are dropped.
	jetStream = model{name: "jetstream", options: sinkmemory.Options{Stream: "S", Duplicates: duplicateWindow}, late: true}

	allBuses = []model{plain, kafka, jetStream, typed}

	// onceBuses are Kafka with transactions, and JetStream with atomic batches on a claim: a claim
	// supersedes as a transactional id does, and a batch is there as a whole or not at all.
	onceBuses = []model{
		{name: "kafka, exactly once", options: kafka.options, apart: true, delivery: exactlyOnce},
		{name: "jetstream, exactly once", options: sinkmemory.Options{Stream: "S"}, delivery: exactlyOnce},
	}
)

// lifeMaxBytes is what a message of a life may have.
const lifeMaxBytes = 10_000

// duplicateWindow is that of JetStream by default.
const duplicateWindow = 2 * time.Minute

// newLife returns a life of a stream of one table, or of two.
func newLife(t *testing.T, bus model, tables int) *life {
	// Shards are idle between all polls that find nothing.
	l := &life{bench: newViewBench(t, true), Player: script.Player{TB: t}, model: bus, been: make(map[string][]string), rows: make(map[string][]lifeRow), home: make(map[string]int), doubled: make(map[string]bool)}
	l.opts.QuietAfter = time.Nanosecond
	options := bus.options
	options.MaxBytes = lifeMaxBytes
	l.delivery = bus.delivery
	l.bus = sinkmemory.New(options)
	l.topics = []string{topic, topic}
	if bus.apart {
		l.topics[1] = "items_1"
	}
	l.destinations = slices.Compact(slices.Clone(l.topics))
	if bus.typed {
		l.topics, l.opts.Route = nil, func(e *event.Event) string { return e.Type }
		l.destinations = []string{"ItemsAddedEvent", "ItemsModifiedEvent", "ItemsDeletedEvent"}
	}
	l.transactions = &coordinator{bus: l.bus}
	l.create()
	if tables == 2 {
		l.second = newViewBench(t, true).table
	}
	return l
}

func (l *life) create() {
	for _, destination := range l.destinations {
		l.bus.Create(destination)
	}
}

func (l *life) tableOf(i int) *sourcememory.Table { return []*sourcememory.Table{l.table, l.second}[i] }

// now is later at each call, so that MODIFIED tells which of two rows is younger. l.mu is held.
func (l *life) now() string {
	l.clock = l.clock.Add(time.Microsecond)
	if now := time.Now().UTC(); now.After(l.clock) {
		l.clock = now
	}
	return l.clock.Format(stamp)
}

// put gives an entity a row in a table, beside those that it has. l.mu is held.
func (l *life) put(name string, table int, value, deleted string) {
	r := lifeRow{table: table, value: value, deleted: deleted, modified: l.now()}
	r.id = l.tableOf(table).Replace(name, value, deleted, r.modified)
	l.rows[name] = slices.DeleteFunc(l.rows[name], func(o lifeRow) bool { return o.table == table })
	l.rows[name] = append(l.rows[name], r)
	l.home[name], l.highest[table] = table, r.id
	l.became(name)
}

// happen plays what happens to the tables, to the bus and to transactions.
func (l *life) happen(steps string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Play(steps, l.step)
}

// step is one of happen: of an entity with a value, which may be marked as deleted. l.mu is held.
func (l *life) step(name string, w []string) bool {
	deleted := "0"
	if slices.Contains(w, "marked") {
		deleted = "1"
	}
	switch name {
	case "replace": // gives it a new row in its table
		l.put(w[0], l.home[w[0]], w[1], deleted)
	case "update", "touch": // change its row in place; touch moves MODIFIED
		l.update(w[0], w[1], deleted, name == "touch")
	case "remove":
		l.drop(w[0])
	case "move": // to the other table; = is the value that it has
		value := w[1]
		if value == "=" {
			value = l.is(w[0])
		}
		l.drop(w[0])
		l.put(w[0], 1-l.home[w[0]], value, "0")
	case "double": // gives it a row in the other table, too
		l.doubled[w[0]] = true
		l.put(w[0], 1-l.home[w[0]], w[1], "0")
	case "there": // makes sure that it has a row
		if l.is(w[0]) == "-" {
			l.put(w[0], l.home[w[0]], "between", "0")
		}
	case "wipe": // deletes the topics and creates them again
		l.removed = true
		l.bus.Wipe()
		l.create()
	case "expire": // removes all that is on the bus, by its rules
		l.removed = true
		tps := must.Get(l.bus.TPs(context.Background(), l.destinations))(l)
		for _, tp := range tps {
			l.bus.Expire(tp.Name, tp.End)
		}
	case "over-time":
		l.transactions.expires = true
	case "no-answer":
		l.transactions.unanswered = true
	case "foreign":
		l.transactions.foreign = time.Now().Add(20 * time.Second)
	case "calm":
		l.transactions.calm()
	default:
		return false
	}
	return true
}

func (l *life) update(name, value, deleted string, touched bool) {
	r := &l.rows[name][len(l.rows[name])-1]
	modified := old
	switch {
	case touched:
		modified = l.now()
	case len(l.rows[name]) > 1:
		// It is the younger one still.
		modified = r.modified
	}
	r.value, r.deleted, r.modified = value, deleted, modified
	l.tableOf(r.table).Update(r.id, name, value, deleted, modified)
	l.became(name)
}

func (l *life) drop(name string) {
	for _, r := range l.rows[name] {
		l.tableOf(r.table).Delete(r.id)
	}
	l.rows[name] = nil
	l.became(name)
}

// became notes what is true of an entity: of several rows what the younger one says (rule 29).
// l.mu is held.
func (l *life) became(name string) {
	value := "-"
	if rows := l.rows[name]; len(rows) > 0 {
		if r := slices.MaxFunc(rows, func(a, b lifeRow) int { return cmp.Compare(a.modified, b.modified) }); r.deleted == "0" {
			value = r.value
		}
	}
	if !utf8.ValidString(value) {
		value = "" // as an event tells it
	}
	l.been[name] = append(l.been[name], value)
}

// is returns what is true of an entity, value does where l.mu is not held.
func (l *life) is(name string) string { return l.been[name][len(l.been[name])-1] }

func (l *life) value(name string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.is(name)
}
