package acceptance

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// TestRowsExpire: rows that nobody touches for STALE_AFTER are deleted on the bus and added when
// they are touched again, whatever is killed and lost. Where all of them expire at once a person
// is asked.
func TestRowsExpire(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		for name, bus := range map[string]*world.Bus{"at least once": b, "exactly once": b.ExactlyOnce(strings.ReplaceAll(t.Name(), "/", "_"))} {
			t.Run(name, func(t *testing.T) { t.Parallel(); expire(t, bus) })
		}
	})
}

// leases is a table whose rows are kept alive by touching them.
type leases struct {
	*testing.T
	world  *world.World
	daemon *world.Daemon
	tape   *world.Tape
}

const leaseCount = 60

func expire(t *testing.T, b *world.Bus) {
	w := world.Empty(t, testenv.MariaDB(t))
	w.Exec(`CREATE TABLE leases (id int unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, name varchar(32) COLLATE utf8mb4_bin NOT NULL UNIQUE,
		touched timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), KEY (touched))`)
	p := w.Publish(b, world.Publishing{Follow: true, Streams: []world.Stream{{Name: "leases", Table: "leases", Kind: "capability", Env: world.Env{
		"KEY": "name", "MODIFIED": "touched", "STALE_AFTER": "10m", "STABILITY_WINDOW": "0s", "RECONCILE_INTERVAL": "1s",
	}}}})
	l := &leases{t, w, p.Daemon, p.Tape()}
	l.touch("0 minute", "")
	for i := range leaseCount {
		w.Exec(fmt.Sprintf("INSERT INTO leases (name) VALUES ('l%d')", i))
	}
	// Of rows that are stale from the first nothing is published.
	w.Exec("INSERT INTO leases (name, touched) VALUES ('never', NOW(3) - INTERVAL 1 DAY)")
	l.daemon.Start()
	l.matches(leaseCount)
	for round := range 4 {
		l.touch("11 minute", fmt.Sprintf("id %% 4 = %d", round))
		world.Pause(world.Between(0, 1500*time.Millisecond))
		l.daemon.Kill()
		if round%2 == 1 {
			l.daemon.LoseCheckpoint()
		}
		l.touch("9 minute", fmt.Sprintf("id %% 4 = %d", (round+3)%4))
		l.daemon.Start()
		l.matches(-1)
	}
	l.checkTurns()

	// The application is down: nothing was touched.
	before := l.tape.Count()
	l.touch("1 hour", "")
	world.Eventually(l, time.Minute, "a person is asked", func() bool {
		code, body := l.daemon.Get("/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(body, "--allow-deletes")
	})
	l.daemon.Kill()
	l.daemon.Start()
	world.Eventually(l, time.Minute, "a person is still asked", func() bool {
		code, body := l.daemon.Get("/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(body, "--allow-deletes")
	})
	if n := l.tape.Count(); n != before {
		t.Errorf("%d messages before anyone agreed", n-before)
	}
	l.touch("0 minute", "")
	l.matches(leaseCount + 1)
	l.touch("1 hour", "id <= 59")
	world.Eventually(l, time.Minute, "a person is asked again", func() bool {
		_, body := l.daemon.Get("/readyz")
		return strings.Contains(body, "--allow-deletes")
	})
	l.daemon.Reconcile("--allow-deletes", "leases")
	l.matches(-1)
	l.checkTurns()
	mustVerify(t, l.daemon.Env)
}

// touch sets when rows were touched.
func (l *leases) touch(ago, where string) {
	l.Helper()
	if where == "" {
		where = "TRUE"
	}
	l.world.Exec("UPDATE leases SET touched = NOW(3) - INTERVAL " + ago + " WHERE name <> 'never' AND " + where)
	if ago == "0 minute" {
		l.world.Exec("UPDATE leases SET touched = NOW(3) WHERE name = 'never'")
	}
}

// lease is an event of the table.
type lease struct {
	op, name, reason string
}

func (l *leases) events() (list []lease) {
	for _, m := range l.tape.From(0) {
		var e struct {
			Meta struct{ Type string }
			Data struct{ Name, Reason string }
		}
		if err := json.Unmarshal(m.Value, &e); err != nil {
			l.Fatal(err)
		}
		list = append(list, lease{strings.TrimSuffix(strings.TrimPrefix(e.Meta.Type, "Leases"), "Event"), e.Data.Name, e.Data.Reason})
	}
	return list
}

// matches waits until those live by the events that were touched lately; most is their number, -1
// for any.
func (l *leases) matches(most int) {
	l.Helper()
	live, table := make(map[string]bool), make(map[string]bool)
	l.Cleanup(func() {
		if !maps.Equal(live, table) {
			l.Logf("live are %v, the table has %v", live, table)
		}
	})
	world.Eventually(l, 2*time.Minute, "the rows that are touched", func() bool {
		clear(live)
		clear(table)
		for _, e := range l.events() {
			if live[e.name] = true; e.op == "Deleted" {
				delete(live, e.name)
			}
		}
		var name string
		l.world.Each("SELECT name FROM leases WHERE touched > NOW(3) - INTERVAL 10 MINUTE", []any{&name}, func() { table[name] = true })
		return maps.Equal(live, table) && (most < 0 || len(table) == most)
	})
}

// checkTurns fails the test unless each lease is added, deleted as stale and added in turns.
func (l *leases) checkTurns() {
	l.Helper()
	last := make(map[string]string)
	deleted := 0
	for _, e := range l.events() {
		switch {
		case e.op == "Deleted" && e.reason != "STALE":
			l.Errorf("%+v", e)
		case e.op == "Deleted" && last[e.name] == "":
			l.Errorf("%s is deleted and was never there", e.name)
		case e.op == "Modified":
			l.Errorf("%+v, though nothing but touched has changed", e)
		}
		if e.op == "Deleted" {
			deleted++
		}
		last[e.name] = e.op
	}
	if deleted == 0 {
		l.Error("nothing expired")
	}
}
