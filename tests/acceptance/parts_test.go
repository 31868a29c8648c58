package acceptance

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"example.org/bridge/tests/must"
	"example.org/bridge/tests/world"
)

type parts struct{ worlds []*world.World }

func newParts(worlds []*world.World) parts {
	for _, w := range worlds {
		w.Exec("CREATE TABLE parts (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40) CHARACTER SET ascii COLLATE ascii_bin NOT NULL UNIQUE, " +
			"state INT NOT NULL, modified DATETIME(6) NOT NULL, KEY (modified))")
	}
	return parts{worlds}
}

// move changes entities and moves them between the databases, each change when its server answers,
// until stop is called.
func (p parts) move() (stop func()) {
	var stops []func()
	for mover := range 4 {
		random, at, state := rand.New(rand.NewPCG(uint64(mover), 7)), make(map[string]int), 0
		exec := func(source int, statement string, args ...any) {
			w := p.worlds[source]
			for _, err := w.DB.Exec(statement, args...); err != nil && !w.T.Failed(); _, err = w.DB.Exec(statement, args...) {
				world.Pause(100 * time.Millisecond)
			}
		}
		stops = append(stops, every(60*time.Millisecond, func() {
			state++
			name := fmt.Sprintf("part-%d-%d", mover, random.IntN(12))
			from, there := at[name]
			to := random.IntN(len(p.worlds))
			if there && random.IntN(5) == 0 {
				exec(from, "DELETE FROM parts WHERE name = ?", name)
				delete(at, name)
				return
			}
			exec(to, "INSERT INTO parts (name, state, modified) VALUES (?, ?, now(6)) ON DUPLICATE KEY UPDATE state = VALUES(state), modified = VALUES(modified)", name, state)
			if there && from != to {
				exec(from, "DELETE FROM parts WHERE name = ?", name)
			}
			at[name] = to
		}))
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// compare fails the test unless the bus ends as the tables, and returns how many events are there
// twice.
func (p parts) compare(of *world.Publisher) (repeated int) {
	of.T.Helper()
	want := make(map[string]string)
	for _, w := range p.worlds {
		maps.Copy(want, w.Pairs("SELECT name, state FROM parts"))
	}
	got, repeated := fold(of.T, of.Bus, of.Destination("parts"), func(e world.Event) (string, string) { return member(e, "name"), member(e, "state") })
	if !maps.Equal(got, want) {
		of.T.Errorf("parts: the bus ends with %v, the tables have %v", got, want)
	}
	of.T.Logf("%d parts, %d events of them repeated", len(got), repeated)
	return repeated
}

// numbers returns how often each row is there, by its column v, and calls each with each event
// where it is not nil. Events of two rows have two ids.
func numbers(t testing.TB, b *world.Bus, destination string, each func(v int, e world.Event)) map[int]int {
	t.Helper()
	times, ids := make(map[int]int), make(map[string]int)
	b.Read(t, destination, func(m world.Message) {
		e := decode(t, m)
		v := must.Get(strconv.Atoi(member(e, "v")))(t)
		if before, known := ids[e.ID]; known && before != v {
			t.Errorf("the event %s is of the rows %d and %d", e.ID, before, v)
		}
		ids[e.ID] = v
		times[v]++
		if each != nil {
			each(v, e)
		}
	})
	return times
}
