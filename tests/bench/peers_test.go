package bench

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// peerWithin is within what time a peer has to go on: a virtual machine takes its time to start.
const peerWithin = 3 * time.Minute

func peerMeasurements(t testing.TB, r *rig, s size) (all []measurement) {
	programs := r.peers(t)
	for _, on := range r.buses {
		name := on.name
		if on.Kafka != nil {
			name = fmt.Sprintf("kafka-%d", on.partitions)
		}
		for _, p := range programs {
			if on.Kafka == nil && p.kafkaAlone {
				continue
			}
			for item, do := range map[string]func(t testing.TB, p *peer, on *bus, s size) figures{
				"Backlog": r.peerBacklog, "Steady": r.peerSteady, "Late": r.peerLate,
			} {
				if p.start != nil || item == "Late" {
					name := fmt.Sprintf("%s/bus=%s/program=%s", item, name, p.name)
					all = append(all, measurement{name, func(t testing.TB) figures { return do(t, p, on, s) }})
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b measurement) int { return cmp.Compare(a.name, b.name) })
	return all
}

// newPeerRig starts a database with a binlog, and what reads it may do so.
func newPeerRig(t testing.TB, buses ...*bus) *rig {
	t.Helper()
	r := newRig(t, []string{"--log-bin=binlog", "--binlog-format=ROW", "--server-id=1"}, buses...)
	r.exec(t, "GRANT RELOAD, SHOW DATABASES, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO '%s'@'%%'", r.User)
	return r
}

func BenchmarkPeers(b *testing.B) {
	r := newPeerRig(b, kafkaOn(testenv.Kafka(b), 8), natsOn(testenv.NATS(b)))
	run(b, peerMeasurements(b, r, sizeOf()))
}

// The program has a target of its own; holder is the topic or stream with its messages.
func (r *rig) startPeer(t testing.TB, p *peer, on *bus, table string, each func(receipt)) (running *process, holder string) {
	t.Helper()
	e := errand{bus: on, table: table, target: r.newName("peer")}
	holder = e.target
	if on.Kafka != nil {
		holder = p.topic(e)
	}
	on.open(t, holder)
	if each != nil {
		on.follow(t, holder, each)
	}
	return p.start(t, e), holder
}

// peerBacklog measures from the start of the process until the bus holds a message for each row,
// and the rate once a tenth is there.
func (r *rig) peerBacklog(t testing.TB, p *peer, on *bus, s size) figures {
	t.Helper()
	rows := s.rows[0]
	running, holder := r.startPeer(t, p, on, r.table(t, wide, rows, true), nil)
	last, steady := arrived(t, running, on, holder, rows, max(1, rows/10))
	f := running.cost(t, last.Sub(running.began).Seconds(), rows)
	if steady > 0 {
		f["steady-rows/s"] = steady
	}
	return f
}

// peerSteady measures from commit to consumer at a thousand rows a second, and what that costs.
func (r *rig) peerSteady(t testing.TB, p *peer, on *bus, s size) figures {
	t.Helper()
	table := r.empty(t, r.newName("table"), 1)[0]
	w := r.newWriter(1000, table)
	running, _ := r.startPeer(t, p, on, table, w.add)
	w.commit(t, 1)
	eventually(t, peerWithin, "a first row is published", func() bool { running.alive(t); return w.count() > 0 })
	w.write(t, s.warm)
	// At both ends of that time some rows are on their way: what comes behind it is not counted.
	began, cpu := time.Now(), spent(t, running.pid)
	f := figures{"written-rows/s": w.write(t, s.write)}
	f["cpu-%"], f["rss-MiB"] = (spent(t, running.pid)-cpu)/time.Since(began).Seconds()*100, running.rss(t)
	delays := w.delays(t, began)
	f["p50-ms"], f["p99-ms"] = percentile(delays, 50), percentile(delays, 99)
	return f
}

type overlapping struct {
	number    int
	id        int64
	committed time.Time
}

// peerLate measures what becomes of rows that are committed behind higher ids: of rows of long
// transactions beside a steady writer.
func (r *rig) peerLate(t testing.TB, p *peer, on *bus, s size) figures {
	t.Helper()
	table, received := r.empty(t, r.newName("table"), 1)[0], newReceipts()
	if p.start == nil {
		poll(t, r, table, received)
	} else {
		r.startPeer(t, p, on, table, received.add)
	}
	rows := overlap(t, r, table, s.late, func() {
		eventually(t, peerWithin, "a first row is published", func() bool { return received.count() > 0 })
	})
	for count, moved := 0, time.Now(); received.count() < len(rows) && time.Since(moved) < s.lostAfter; world.Pause(50 * time.Millisecond) {
		if n := received.count(); n > count {
			count, moved = n, time.Now()
		}
	}
	late, lost, delays := lateOf(rows), 0, []float64(nil)
	received.mu.Lock()
	defer received.mu.Unlock()
	for _, one := range late {
		if at, ok := received.first[revision(one.number)]; ok {
			delays = append(delays, milliseconds(at.Sub(one.committed)))
		} else {
			lost++
		}
	}
	slices.Sort(delays)
	return figures{
		"late-rows": float64(len(late)), "lost-rows": float64(lost), "p50-ms": percentile(delays, 50), "p99-ms": percentile(delays, 99),
	}
}

// overlap has transactions of one row overlap for a while, behind a first one: most are short, two
// dozen take up to three seconds each. It returns all rows.
func overlap(t testing.TB, r *rig, table string, length time.Duration, first func()) (rows []overlapping) {
	t.Helper()
	var mu sync.Mutex
	number := 0
	insert := func(open time.Duration) error {
		mu.Lock()
		number++
		row := overlapping{number: number}
		mu.Unlock()
		tx, err := r.DB.BeginTx(context.Background(), nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		done, err := tx.Exec(fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", table, wide.written, rowOf(fmt.Sprint(row.number))))
		if err != nil {
			return err
		}
		if row.id, err = done.LastInsertId(); err != nil {
			return err
		}
		world.Pause(open)
		if err := tx.Commit(); err != nil {
			return err
		}
		row.committed = time.Now()
		mu.Lock()
		defer mu.Unlock()
		rows = append(rows, row)
		return nil
	}
	must.OK(t, insert(0))
	first()
	var writers sync.WaitGroup
	deadline := time.Now().Add(length)
	write := func(between, open time.Duration) {
		writers.Go(func() {
			for time.Now().Before(deadline) {
				if err := insert(rand.N(open)); err != nil {
					t.Error(err)
					return
				}
				world.Pause(rand.N(between))
			}
		})
	}
	for range 4 {
		write(20*time.Millisecond, 1)
	}
	for range 24 {
		write(time.Millisecond, 3*time.Second)
	}
	writers.Wait()
	return rows
}

func lateOf(rows []overlapping) (late []overlapping) {
	slices.SortFunc(rows, func(a, b overlapping) int { return cmp.Compare(b.id, a.id) })
	var earliest time.Time
	for _, row := range rows {
		if !earliest.IsZero() && earliest.Before(row.committed) {
			late = append(late, row)
		}
		if earliest.IsZero() || row.committed.Before(earliest) {
			earliest = row.committed
		}
	}
	return late
}

// poll is the control, what everybody writes first: SELECT … WHERE id > ? every 100 ms. It loses
// each row that is committed behind a higher one; a run in which it loses nothing shows nothing.
func poll(t testing.TB, r *rig, table string, received *receipts) {
	ctx, cancel := context.WithCancel(context.Background())
	var polling sync.WaitGroup
	t.Cleanup(func() { cancel(); polling.Wait() })
	polling.Go(func() {
		last := uint64(0)
		for tick := time.NewTicker(100 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			rows, err := r.DB.QueryContext(ctx, fmt.Sprintf("SELECT id, revision FROM %s WHERE id > ? ORDER BY id", table), last)
			for err == nil && rows.Next() {
				var one receipt
				err = rows.Scan(&last, &one.revision)
				one.at = time.Now()
				received.add(one)
			}
			if err == nil {
				err = rows.Err()
			}
			if err != nil && ctx.Err() == nil {
				t.Errorf("the control ended: %v", err)
				return
			}
		}
	})
}
