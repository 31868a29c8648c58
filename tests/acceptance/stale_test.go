package acceptance

import (
	"fmt"
	"testing"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// TestRowsExpire: rows that nobody touches for STALE_AFTER are deleted on the bus and added when
// they are touched again, whatever is killed and lost. Where all of them expire at once a person
// is asked.
func TestRowsExpire(t *testing.T) {
	testall.Beside(t)
	eachDelivery(t, expire)
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
	l.matches()
	for round := range 4 {
		l.touch("11 minute", fmt.Sprintf("id %% 4 = %d", round))
		world.Pause(world.Between(0, 1500*time.Millisecond))
		l.daemon.Kill()
		if round%2 == 1 {
			l.daemon.LoseCheckpoint()
		}
		l.touch("9 minute", fmt.Sprintf("id %% 4 = %d", (round+3)%4))
		l.daemon.Start()
		l.matches()
	}
	l.checkTurns()

	// The application is down: nothing was touched.
	before := l.tape.Count()
	l.touch("1 hour", "")
	world.AwaitUnready(l, l.daemon, "--allow-deletes")
	l.daemon.Kill()
	l.daemon.Start()
	world.AwaitUnready(l, l.daemon, "--allow-deletes")
	if n := l.tape.Count(); n != before {
		t.Errorf("%d messages before anyone agreed", n-before)
	}
	l.touch("0 minute", "")
	if n := l.matches(); n != leaseCount+1 {
		t.Errorf("%d rows live, want %d", n, leaseCount+1)
	}
	l.touch("1 hour", "id <= 59")
	world.AwaitUnready(l, l.daemon, "--allow-deletes")
	l.daemon.Reconcile("--allow-deletes", "leases")
	l.matches()
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

// matches waits until those live by the events that were touched lately, and returns their number.
func (l *leases) matches() int {
	l.Helper()
	return liveAs(l.world, l.tape, func(e world.Event) string { return member(e, "name") }, "SELECT name FROM leases WHERE touched > NOW(3) - INTERVAL 10 MINUTE")
}

// checkTurns fails the test unless each lease is added, deleted as stale and added in turns.
func (l *leases) checkTurns() {
	l.Helper()
	known, deleted := make(map[string]bool), 0
	for _, m := range l.tape.All() {
		e := decode(l, m)
		name := member(e, "name")
		switch {
		case e.Op == event.Modified:
			l.Errorf("%s is modified, though nothing but touched has changed", name)
		case e.Op == event.Deleted && (e.Reason != "STALE" || !known[name]):
			l.Errorf("%s is deleted for %s, and was there: %t", name, e.Reason, known[name])
		case e.Op == event.Deleted:
			deleted++
		}
		known[name] = true
	}
	if deleted == 0 {
		l.Error("nothing expired")
	}
}
