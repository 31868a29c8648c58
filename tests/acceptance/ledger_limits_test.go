package acceptance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/workload"
	"example.org/bridge/tests/world"
)

// TestWithoutEvidence tails a table whose id is not its primary key: what is in flight cannot be
// seen there, so gaps expire by age.
func TestWithoutEvidence(t *testing.T) {
	testall.Beside(t)
	l := newRows(t, testenv.MariaDB(t), steadily(2*hotTime+20*time.Second))
	l.Exec("ALTER TABLE orders DROP PRIMARY KEY, ADD PRIMARY KEY (entity), DROP KEY entity, ADD UNIQUE KEY entity (entity), ADD UNIQUE KEY id (id)")
	patient := tailBriefly(l, world.NATSBus(testenv.NATS(t)), "patient", nil)
	hasty := tailBriefly(l, world.KafkaBus(testenv.Kafka(t)), "hasty", world.Env{"BRIDGE_GAP_TTL": "1m"})
	wait, _ := l.Write()
	world.Eventually(t, time.Minute, "first rows", func() bool { return patient.Tape().Count() > 20 && hasty.Tape().Count() > 20 })
	long := l.Begin("long", 3)
	last := long.FirstID() + 2
	short := commitsWhileHot(l, patient, hasty)
	// Far longer than what the status may lie behind.
	world.Pause(hotTime)
	world.Eventually(t, 2*sweepTime+time.Minute, "hasty gives ids up", func() bool { return hasty.Metric("bridge_ids_given_up_total") > 0 })
	world.Eventually(t, 2*sweepTime+time.Minute, "hasty gives up the ids of the transaction that stays open", func() bool {
		s := hasty.Shard(world.Orders)
		// The lowest comes first.
		return s.State != "" && (len(s.Gaps.Oldest) == 0 || s.Gaps.Oldest[0].First > last)
	})
	long.Commit()
	wait()
	patient.complete(sweepTime + time.Minute)

	t.Run("comes late, within a sweep once it is cold", func(t *testing.T) {
		a := patient.mustMatch(world.Expect{Steady: true})
		patient.bounded("all", a.Delay(), 1, sweepTime+time.Second+slack)
		if at, ok := patient.arrived(short.Rows[0].Token); !ok || at.Sub(short.Rows[0].CommitEnded) > time.Second+slack+patient.noiseOf(1) {
			t.Errorf("what committed while it was hot came after %s (%v)", at.Sub(short.Rows[0].CommitEnded), ok)
		}
	})
	t.Run("is lost to the tail when it commits after GAP_TTL, and counted", func(t *testing.T) {
		a := hasty.Verdict(world.Orders, world.Expect{Steady: true})
		t.Logf("hasty: %s", a)
		if len(a.Counts) > 0 {
			t.Errorf("%s", a.Wrong())
		}
		for _, row := range a.Lost {
			if !strings.HasPrefix(row.Token, "long-") {
				t.Errorf("%s was lost", row.Token)
			}
		}
		if len(a.Lost) != len(long.Rows) {
			t.Errorf("%d rows lost, expected the %d that committed too late", len(a.Lost), len(long.Rows))
		}
	})
}

// commitsWhileHot commits a transaction when programs have passed its ids, while those are hot. On
// a machine that is held for too long meanwhile, it begins another one.
func commitsWhileHot(l *world.World, programs ...*tailer) *world.Transaction {
	l.T.Helper()
	for try := range 10 {
		begun, short := time.Now(), l.Begin(fmt.Sprintf("short-%d", try), 3)
		last := short.FirstID() + 2
		l.Insert(fmt.Sprintf("behind-%d", try), 1)
		for _, p := range programs {
			world.Eventually(l.T, time.Minute, p.Name+" has missed the ids", func() bool { return p.Position(world.Orders) > last })
		}
		if time.Since(begun) > hotTime/4 {
			_ = short.Tx.Rollback() // nothing of it is recorded
			continue
		}
		if short.Commit(); short.Rows[0].CommitEnded.Sub(begun) < hotTime/2 {
			return short
		}
	}
	l.T.Fatal("no transaction has committed within half the hot time")
	return nil
}

// TestAStartAtTheLatestRow begins while transactions are open below the latest row.
func TestAStartAtTheLatestRow(t *testing.T) {
	testall.Beside(t)
	for i, start := range []string{"latest", "an id"} {
		t.Run("at "+start, func(t *testing.T) {
			t.Parallel()
			l := newRows(t, testenv.MariaDB(t), workload.Options{})
			l.Insert("before", 10)
			open := l.Begin("open", 3)
			l.Insert("between", 10)
			b := []*world.Bus{world.KafkaBus(testenv.Kafka(t)), world.NATSBus(testenv.NATS(t))}[i]
			at := start
			if start != "latest" {
				at = "23"
			}
			d := plainTail(l, b, "from_"+strings.ReplaceAll(start, " ", "_"), world.Env{"BRIDGE_STREAM_ORDERS_START": at})
			world.Eventually(t, time.Minute, "the start is saved", func() bool { return d.Position(world.Orders) == 23 })
			l.Insert("behind", 5)
			world.Eventually(t, time.Minute, "rows behind the start", func() bool { return d.Tape().Count() == 5 })
			open.Commit()
			world.Eventually(t, time.Minute, "rows that were open at the start", func() bool { return d.Tape().Count() == 8 })
			for i := range 3 {
				if at, ok := d.arrived(fmt.Sprintf("open-%d", i+1)); !ok || at.Before(open.Rows[i].CommitBegun) {
					t.Errorf("open-%d arrived: %v, at %s", i+1, ok, at)
				}
			}
			if _, ok := d.arrived("before-1"); ok {
				t.Error("a row from before the start was published")
			}
		})
	}
}

type statements struct {
	// pages are reads of the table behind a position, rows reads of ranges with all columns, ids
	// reads of ranges without; others are all else. Connections are the sessions opened meanwhile.
	pages, rows, ids, others, connections int
}

// By the server's general log, without those of the administrator. length is how long d was indeed.
func statementsOf(l *world.World, d time.Duration) (s statements, length time.Duration) {
	l.T.Helper()
	begun := time.Now()
	l.Exec("TRUNCATE mysql.general_log")
	world.Pause(d)
	var command, text string
	l.Each("SELECT command_type, argument FROM mysql.general_log WHERE user_host LIKE '%reader%' AND command_type IN ('Connect', 'Query', 'Execute')", []any{&command, &text}, func() {
		ofTable := strings.Contains(text, "`orders`") && strings.Contains(text, "ORDER BY")
		switch ranges, values := strings.Contains(text, "BETWEEN"), strings.Contains(text, "`token`"); {
		case command == "Connect":
			s.connections++
		case ofTable && ranges && values:
			s.rows++
		case ofTable && ranges:
			s.ids++
		case ofTable && values:
			s.pages++
		default:
			s.others++
		}
	})
	return s, time.Since(begun)
}

// TestStatements counts what the server is asked, by its own log.
func TestStatements(t *testing.T) {
	testall.Beside(t)
	l := newRows(t, testenv.StartMariaDB(t, "--general-log=1", "--log-output=TABLE"), workload.Options{})
	insert := func(n int) { l.Insert(fmt.Sprint(time.Now().UnixNano()), n) }
	insert(50)
	d := plainTail(l, world.NATSBus(testenv.NATS(t)), "counted", nil)
	arrives(d.Publisher)
	// What was there before says nothing about how busy the table is.
	insert(1)
	arrives(d.Publisher)
	count := func(t *testing.T) statements {
		t.Helper()
		s, length := statementsOf(l, 6*time.Second)
		polls := int(length/world.PollInterval) + 5
		t.Logf("in %s of %d polls: %+v", length, polls, s)
		if s.pages == 0 || s.pages > polls {
			t.Errorf("%d pages, want one a poll at most", s.pages)
		}
		// Two statements that meet for the first time open a second session: a dozen statements.
		if s.connections > 1 || s.others > polls/5+12*s.connections {
			t.Errorf("%d other statements, %d new sessions", s.others, s.connections)
		}
		return s
	}
	alone := func(t *testing.T) {
		t.Helper()
		// A poll that was under way when the last gap was filled may still look for it.
		if s := count(t); s.rows > 1 || s.ids > 1 {
			t.Errorf("%d reads of hot gaps and %d of evidence without a gap", s.rows, s.ids)
		}
	}

	t.Run("are one a poll without gaps", alone)
	var open []*world.Transaction
	for i := range 20 {
		open = append(open, l.Begin(fmt.Sprintf("open-%d", i), 5))
		insert(40)
	}
	world.Eventually(t, time.Minute, "the gaps are known", func() bool { return d.Shard(world.Orders).Gaps.InFlight == 100 })
	t.Run("are one more for hot gaps and one for evidence while there are some", func(t *testing.T) {
		// A sweep may come between.
		if s := count(t); s.rows == 0 || s.rows > s.pages+1 || s.ids == 0 || s.ids > s.pages+2 {
			t.Errorf("%d reads of hot gaps and %d of evidence at %d pages, want one each", s.rows, s.ids, s.pages)
		}
	})
	for _, transaction := range open {
		transaction.Commit()
	}
	world.Eventually(t, time.Minute, "the gaps are filled", func() bool {
		s := d.Shard(world.Orders)
		return s.State != "" && s.Gaps.Hot+s.Gaps.Cold == 0
	})
	t.Run("are one a poll again once they are filled", alone)
}

// memoryLimit is what a program may take that drains a backlog.
const memoryLimit = 100 << 20

func TestMemoryStaysBoundedWhileDrainingABacklog(t *testing.T) {
	testall.Beside(t)
	// With about 1,000 bytes each they are more than twice the limit, without what events add.
	const rows = 250_000
	table := world.Empty(t, testenv.MariaDB(t))
	table.Exec(`CREATE TABLE backlog (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, name varchar(64) NOT NULL,
		amount decimal(12,2) NOT NULL, created datetime(3) NOT NULL, payload varchar(1000) NOT NULL)`)
	table.Exec(fmt.Sprintf(`INSERT INTO backlog (name, amount, created, payload)
		SELECT concat('row-', seq), seq / 7, now(3) - interval 1 hour, repeat(md5(seq), 30) FROM %s ORDER BY seq`, testenv.Sequence(rows)))
	world.EachBus(t, func(t *testing.T, b *world.Bus) {
		occupy(t)
		d := table.Publish(b, world.Publishing{Streams: []world.Stream{{Name: "backlog", Table: "backlog", Kind: "release", Env: world.Env{"CREATED": "created"}}}})
		started := time.Now()
		d.Start()
		var peak int64
		world.Eventually(t, 10*time.Minute, "backlog drained", func() bool {
			rss := must.Get(d.RSSAnon())(t)
			peak = max(peak, rss)
			return d.Position("backlog") == uint64(rows)
		})
		t.Logf("%d rows in %s, RssAnon at most %d MiB", rows, time.Since(started).Round(time.Second), peak>>20)
		if got := b.Count(t, d.Destination("backlog")); got != int64(rows) {
			t.Errorf("%d messages arrived, want %d", got, rows)
		}
		if peak > memoryLimit {
			t.Errorf("RssAnon reached %d MiB, want less than %d", peak>>20, memoryLimit>>20)
		}
	})
}
