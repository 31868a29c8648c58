package acceptance

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/tests/must"
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

type leases struct {
	*testing.T
	world  *world.World
	daemon *world.Daemon
	tape   *world.Tape
	// once says that nothing may be repeated.
	once bool
}

const leaseCount = 60

func expire(t *testing.T, b *world.Bus) {
	w := world.Empty(t, testenv.MariaDB(t))
	w.Exec(`CREATE TABLE leases (id int unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, name varchar(32) COLLATE utf8mb4_bin NOT NULL UNIQUE,
		touched timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), KEY (touched))`)
	p := w.Publish(b, world.Publishing{Follow: true, Env: world.Env{"BRIDGE_BATCH_ROWS": "5"}, Streams: []world.Stream{{Name: "leases", Table: "leases", Kind: "capability", Env: world.Env{
		"KEY": "name", "MODIFIED": "touched", "STALE_AFTER": "10m", "STABILITY_WINDOW": "0s", "RECONCILE_INTERVAL": "1s",
	}}}})
	l := &leases{t, w, p.Daemon, p.Tape(), b.Once()}
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
	l.killedWhileAllowed()
	l.checkTurns()
	mustVerify(t, l.daemon.Env)
}

// killedWhileAllowed agrees to deletes, and kills the program in the midst of them. They go on, or
// a person is asked once more.
func (l *leases) killedWhileAllowed() {
	l.Helper()
	before := l.tape.Count()
	if status, body := l.daemon.Post("/api/v1/streams/leases/reconcile?allowDeletes=true"); status != http.StatusAccepted {
		l.Fatalf("the agreement: %d %s", status, body)
	}
	deletes := func() int {
		names := make(map[string]bool)
		for _, m := range l.tape.From(before) {
			names[member(decode(l, m), "name")] = true
		}
		return len(names)
	}
	world.Eventually(l, time.Minute, "deletes begin", func() bool { return deletes() > 0 })
	l.daemon.Kill()
	l.Logf("killed behind %d deletes", deletes())
	l.daemon.Start()
	asked := false
	world.Eventually(l, 2*time.Minute, "the deletes go on", func() bool {
		_, body := l.daemon.Get("/readyz")
		asked = strings.Contains(body, "--allow-deletes")
		return asked || deletes() == 59
	})
	if asked {
		l.daemon.Reconcile("--allow-deletes", "leases")
	}
	l.matches()
}

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

func (l *leases) matches() int {
	l.Helper()
	return liveAs(l.world, l.tape, func(e world.Event) string { return member(e, "name") }, "SELECT name FROM leases WHERE touched > NOW(3) - INTERVAL 10 MINUTE")
}

// checkTurns fails the test unless each lease is added, deleted as stale and added in turns, but
// for what at-least-once repeats behind a kill.
func (l *leases) checkTurns() {
	l.Helper()
	live, seen, deleted := make(map[string]bool), make(map[string]bool), 0
	for _, m := range l.tape.All() {
		e := decode(l, m)
		name := member(e, "name")
		switch {
		case seen[e.ID] && !l.once:
			continue
		case e.Op == event.Modified:
			l.Errorf("%s is modified, though nothing but touched has changed", name)
		case e.Op == event.Deleted && e.Reason != "STALE", live[name] != (e.Op == event.Deleted):
			l.Errorf("%s is %s %s, and was there: %t", name, e.Op, e.Reason, live[name])
		case e.Op == event.Deleted:
			deleted++
		}
		seen[e.ID], live[name] = true, e.Op != event.Deleted
	}
	if deleted == 0 {
		l.Error("nothing expired")
	}
}

// TestUpdatesOfAKey updates columns of the key of a table whose soft deletes do that, too: the
// former entity is deleted within two polls, without a reconcile.
func TestUpdatesOfAKey(t *testing.T) {
	testall.Beside(t)
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		k := newKeyUpdates(t, b)
		k.daemon.Start()
		k.do("INSERT INTO ns (Name) VALUES ('db'), ('cache'), ('a'), ('b')")
		k.expect("added db+0", "added cache+0", "added a+0", "added b+0")
		t.Run("by a soft delete", func(t *testing.T) {
			k.do("UPDATE ns SET IsDeleted = 1, DeletedAt = 1700000000001 WHERE Name = 'db'")
			k.expect("deleted db+0")
			k.do("INSERT INTO ns (Name) VALUES ('db')")
			k.expect("added db+0")
		})
		t.Run("by a new name", func(t *testing.T) {
			k.do("UPDATE ns SET Name = 'store' WHERE Name = 'cache'")
			k.expect("added store+0", "deleted cache+0")
		})
		t.Run("of two rows that change their names", func(t *testing.T) {
			k.do("UPDATE ns SET Name = 'tmp' WHERE Name = 'a'", "UPDATE ns SET Name = 'a' WHERE Name = 'b'", "UPDATE ns SET Name = 'b' WHERE Name = 'tmp'")
			k.do("INSERT INTO ns (Name) VALUES ('last')")
			liveAs(k.world, k.tape, nsKey, "SELECT concat(Name, '+0') FROM ns WHERE IsDeleted = 0")
			for _, text := range k.texts(k.seen) {
				if strings.HasPrefix(text, "deleted") {
					t.Errorf("%s, though all are there", text)
				}
			}
			k.seen = k.tape.Count()
		})
		for _, text := range k.texts(0) {
			if strings.HasPrefix(text, "deleted") && !strings.HasSuffix(text, "+0") {
				t.Errorf("%s, which never was", text)
			}
		}
		mustNotReconcile(t, k.daemon)
		k.daemon.Reconcile("ns")
		if n := k.daemon.Metric(reconciledRows); n == 0 {
			t.Errorf("%s is 0 after a reconcile", reconciledRows)
		}
		t.Run("while bridge is killed, also with its checkpoint lost", func(t *testing.T) {
			k.seen = k.tape.Count()
			k.daemon.Kill()
			k.do("UPDATE ns SET Name = 'killed' WHERE Name = 'store'")
			k.daemon.Start()
			k.expect("added killed+0", "deleted store+0")
			k.daemon.Kill()
			k.daemon.LoseCheckpoint()
			k.do("UPDATE ns SET Name = 'lost' WHERE Name = 'killed'")
			k.daemon.Start()
			k.expect("added lost+0", "deleted killed+0")
		})
		mustVerify(t, k.daemon.Env)
	})
}

const reconciledRows = "bridge_reconcile_rows"

// mustNotReconcile fails the test if a reconcile has begun since the start of a daemon. The
// interval of one hour has the first one begin half an hour later at the earliest: what is on the
// bus by now was found without it.
func mustNotReconcile(t testing.TB, d *world.Daemon) {
	t.Helper()
	if n, interval := d.Metric(reconciledRows), d.Metric("bridge_reconcile_interval_seconds"); n != 0 || interval < time.Hour.Seconds() {
		t.Errorf("a reconcile has read %v rows, at an interval of %v s", n, interval)
	}
}

type keyUpdates struct {
	*testing.T
	world  *world.World
	daemon *world.Daemon
	tape   *world.Tape
	// seen counts the messages that the test has dealt with.
	seen int
}

func newKeyUpdates(t *testing.T, b *world.Bus) *keyUpdates {
	w := world.Empty(t, testenv.MariaDB(t))
	w.Exec(`CREATE TABLE ns (
		Id int unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, Name varchar(32) COLLATE utf8mb4_bin NOT NULL,
		IsDeleted bit(1) NOT NULL DEFAULT b'0', DeletedAt bigint NOT NULL DEFAULT 0,
		T timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, UNIQUE (Name, DeletedAt), KEY (T))`)
	p := w.Publish(b, world.Publishing{Follow: true, Streams: []world.Stream{{Name: "ns", Table: "ns", Kind: "capability", Env: world.Env{
		"ID": "Id", "KEY": "Name,DeletedAt", "DELETED": "IsDeleted", "MODIFIED": "T", "STABILITY_WINDOW": "0s", "RECONCILE_INTERVAL": "1h",
	}}}})
	return &keyUpdates{T: t, world: w, tape: p.Tape(), daemon: p.Daemon}
}

func (k *keyUpdates) do(statements ...string) {
	k.Helper()
	must.OK(k, k.world.Open(statements...).Commit())
}

// texts returns what the messages from one on say, such as "added db+0".
func (k *keyUpdates) texts(from int) (list []string) {
	for _, m := range k.tape.From(from) {
		e := decode(k, m)
		list = append(list, string(e.Op)+" "+nsKey(e))
	}
	return list
}

func nsKey(e world.Event) string { return member(e, "name") + "+" + member(e, "deletedAt") }

// expect waits for further messages, in any order, and nothing else.
func (k *keyUpdates) expect(want ...string) {
	k.Helper()
	world.Eventually(k, time.Minute, fmt.Sprint(want), func() bool { return len(k.texts(k.seen)) >= len(want) })
	got := k.texts(k.seen)
	if !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		k.Fatalf("the bus says %v, want %v", got, want)
	}
	k.seen += len(got)
}
