package torture

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/tests/world"
)

// moveFaults have entities go from one table of their stream to the other.
var moveFaults = []fault{
	{
		name: "entity-moved", family: "tables", what: "entities go to another table of their stream and come back as they were, five times",
		prepare: withMoves,
		inject: func(tr *trial) {
			m := tr.third.(*moves)
			for range tr.times(5) {
				m.each(func(e *mover) { e.move(1, "moved") })
				tr.sometime(time.Second)
				m.each(func(e *mover) { e.move(0, "active") })
				m.arrive()
			}
		},
	},
	{
		name: "entity-moved-without-bus", family: "tables", prepare: withMoves,
		what: "while the bus stands still, entities change and go to another table, or go there and come back; three times",
		inject: func(tr *trial) {
			m := tr.third.(*moves)
			for range tr.times(3) {
				tr.Bus.Server().Pause()
				m.each(func(e *mover) {
					if e.number%2 == 0 {
						e.move(e.table, "old")
					} else {
						e.move(1, "moved")
					}
				})
				// The former table has it in flight.
				world.Pause(time.Second)
				m.each(func(e *mover) { e.move(1-e.table, []string{"new", "active"}[e.number%2]) })
				tr.outage(5 * time.Second)
				tr.Bus.Server().Resume()
				m.arrive()
				m.each(func(e *mover) { e.move(0, "active") })
				m.arrive()
			}
			tr.met(m.said("old")+m.said("moved"), "nothing of the former tables was in flight")
		},
	},
	{
		name: "entity-moved-while-deleted", family: "tables", prepare: withMoves,
		what: "while the bus stands still, a reconcile finds entities gone, which then come in another table; three times",
		inject: func(tr *trial) {
			m := tr.third.(*moves)
			gone := m.entities[:len(m.entities)/3]
			// Another round where the reconcile was too late for a delete in flight.
			for round := 0; round < tr.times(3) || round < 8 && m.said(nowhere) == 0; round++ {
				tr.Bus.Server().Pause()
				for _, e := range gone {
					e.commit(nowhere, e.remove())
				}
				if status, body := tr.Post("/api/v1/streams/" + moved + "/reconcile"); status != http.StatusAccepted {
					tr.T.Fatalf("a reconcile: %d %s", status, body)
				}
				// The deletes are in flight.
				world.Pause(2 * time.Second)
				for _, e := range gone {
					e.table = 1 - e.table
					e.commit("moved", e.insert("moved"))
				}
				tr.outage(5 * time.Second)
				tr.Bus.Server().Resume()
				m.arrive()
			}
			tr.met(m.said(nowhere), "no delete was in flight")
		},
	},
}

// moved is a third stream of a trial, with two tables.
const moved = "moved"

var movedTables = []string{"moved_0", "moved_1"}

// nowhere is the state of an entity without a row.
const nowhere = "-"

// moves are the entities that move.
type moves struct {
	*trial
	entities []*mover
}

// mover is an entity that moves, and the states that it has been in, in the order of their commits.
type mover struct {
	*moves
	number, table int
	key           string
	been          []string
}

// withMoves makes the tables, and has the program publish them.
func withMoves(tr *trial) {
	tr.T.Helper()
	for _, table := range movedTables {
		tr.World.Exec(`CREATE TABLE ` + table + ` (
			id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
			k varchar(64) COLLATE utf8mb4_bin NOT NULL,
			state varchar(64) NOT NULL,
			created datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
			modified datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
			UNIQUE KEY k (k), KEY modified (modified)) ENGINE=InnoDB`)
	}
	m := &moves{trial: tr}
	for i := range 60 {
		e := &mover{moves: m, number: i, key: fmt.Sprintf("M%d", i)}
		e.commit("active", e.insert("active"))
		m.entities = append(m.entities, e)
	}
	tr.addStream(moved, world.Env{"TABLE": strings.Join(movedTables, ","), "KIND": "capability", "KEY": "k", "MODIFIED": "modified", "STABILITY_WINDOW": "0s"})
	tr.third = m
}

func (m *moves) each(do func(*mover)) {
	for _, e := range m.entities {
		do(e)
	}
}

func (e *mover) insert(state string) string {
	return fmt.Sprintf("INSERT INTO %s (k, state) VALUES ('%s', '%s')", movedTables[e.table], e.key, state)
}

func (e *mover) remove() string {
	return fmt.Sprintf("DELETE FROM %s WHERE k = '%s'", movedTables[e.table], e.key)
}

// commit runs statements in one transaction, after which the entity has a state.
func (e *mover) commit(state string, statements ...string) {
	e.T.Helper()
	tx, err := e.World.DB.Begin()
	e.check(err)
	for _, s := range statements {
		_, err := tx.Exec(s)
		e.check(err)
	}
	e.check(tx.Commit())
	e.been = append(e.been, state)
}

// move has the entity go to a table, or change there if it is in that one.
func (e *mover) move(table int, state string) {
	e.T.Helper()
	if e.table == table {
		e.commit(state, fmt.Sprintf("UPDATE %s SET state = '%s', modified = now(6) WHERE k = '%s'", movedTables[table], state, e.key))
		return
	}
	remove := e.remove()
	e.table = table
	e.commit(state, remove, e.insert(state))
}

// moveEvent is an event of an entity that moves.
type moveEvent struct {
	world.Event
	state string
}

// events returns the events of each entity in the order of the bus.
func (m *moves) events() map[string][]moveEvent {
	m.T.Helper()
	of := make(map[string][]moveEvent)
	for _, message := range m.Bus.ReadAll(m.T, m.Destination(moved)) {
		e, err := world.DecodeEvent(message)
		m.check(err)
		key, one := "", moveEvent{Event: e, state: nowhere}
		m.check(json.Unmarshal(e.Data["k"], &key))
		if e.Op != event.Deleted {
			m.check(json.Unmarshal(e.Data["state"], &one.state))
		}
		of[key] = append(of[key], one)
	}
	return of
}

// said returns how many events say a state.
func (m *moves) said(state string) (n int) {
	m.T.Helper()
	for _, events := range m.events() {
		for _, e := range events {
			if e.state == state {
				n++
			}
		}
	}
	return n
}

// arrive waits until the bus says of each entity what is true.
func (m *moves) arrive() {
	m.T.Helper()
	wrong := ""
	defer func() {
		if m.T.Failed() {
			m.T.Logf("%s", wrong)
		}
	}()
	world.Eventually(m.T, time.Minute, "each entity that has moved arrives", func() bool {
		wrong = m.wrong(m.events())
		return wrong == ""
	})
}

// wrong says which entities do not end with what the rows of both tables say.
func (m *moves) wrong(of map[string][]moveEvent) string {
	m.T.Helper()
	truth := make(map[string]string)
	for _, table := range movedTables {
		var key, state string
		m.World.Each("SELECT k, state FROM "+table, []any{&key, &state}, func() { truth[key] = state })
	}
	var wrong []string
	for _, e := range m.entities {
		is, last := nowhere, nowhere
		if state, there := truth[e.key]; there {
			is = state
		}
		if events := of[e.key]; len(events) > 0 {
			last = events[len(events)-1].state
		}
		if is != last || is != e.been[len(e.been)-1] {
			wrong = append(wrong, fmt.Sprintf("%s is %s, was to be %v, the bus says %s", e.key, is, e.been, last))
		}
	}
	return strings.Join(wrong[:min(len(wrong), 3)], "; ")
}

// end has a reconcile compare the tables, once all rows are published.
func (m *moves) end() {
	m.T.Helper()
	for i, table := range movedTables {
		id := m.World.Highest(table)
		world.Eventually(m.T, time.Minute, table+" is published", func() bool {
			shards := m.Shards(moved)
			return len(shards) == len(movedTables) && shards[i].Position >= id
		})
	}
	m.Daemon.Reconcile(moved)
}

// judge counts what is wrong with the events: they are to tell the states of each entity in their
// order, none that never was, each linked to the one before alone, and to end with what is true.
func (m *moves) judge(f *world.Figures) {
	m.T.Helper()
	of, bodies := m.events(), make(map[string]string)
	note := func(figure *int, format string, args ...any) {
		if *figure++; len(f.Wrongs) <= 10 {
			f.Find(moved+": "+format, args...)
		}
	}
	for _, e := range m.entities {
		last, at := "", 0
		var told []string
		for _, one := range of[e.key] {
			if was, again := bodies[one.ID]; again {
				if f.Repeated++; was != string(one.Value) {
					note(&f.OtherID, "two events of %s have the id %s", e.key, one.ID)
				}
				continue
			}
			f.Events++
			bodies[one.ID], told = string(one.Value), append(told, one.state)
			if links := one.Links; len(links) > 1 || (len(links) == 1) != (last != "") || len(links) == 1 && links[0].Target != last {
				note(&f.Disorder, "an event of %s follows %v, and the one before is %q: told were %v of %v", e.key, links, last, told, e.been)
			}
			next := slices.Index(e.been[at:], one.state)
			if next < 0 {
				note(&f.Disorder, "%s was told as %v and was %v", e.key, told, e.been)
			}
			last, at = one.ID, at+next+1
		}
	}
	if wrong := m.wrong(of); wrong != "" {
		note(&f.False, "%s", wrong)
	}
}
