package bench

import (
	"bytes"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"example.org/bridge/event"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// backlog measures one life of the program: from its start until the bus holds all messages of a
// table; a kill and the start behind it; a reconcile, which finds no difference; and a kill with
// the checkpoint lost. Nothing may be published again. Where the scan of the table and its
// publishers were measured in this run, the whole is compared with them.
func (r *rig) backlog(t testing.TB, l load) figures {
	t.Helper()
	d, target := r.start(t, l, r.path, r.tableOf(t, l), nil)
	before := d.counters(t)
	last, steady := arrived(t, d.process, l.bus, target, l.rows, 1)
	seconds := last.Sub(d.began).Seconds()
	f := d.cost(t, seconds, l.rows)
	if steady > 0 {
		f["steady-rows/s"] = steady
	}
	var after counters
	eventually(t, time.Minute, "bridge has counted its rows", func() bool {
		after = d.counters(t)
		return after.rows >= float64(l.rows)
	})
	scan, publish := r.took[fmt.Sprint("scan", l.rows)], r.took[fmt.Sprint("publish", l)]
	// Where all was published before the first look there is no difference.
	if counted := after.rows - before.rows; counted > 0 {
		f["allocs/row"], f["alloc-B/row"] = (after.mallocs-before.mallocs)/counted, (after.allocated-before.allocated)/counted
		if scan > 0 {
			// The way from page to bus: the driver makes the others before there is a page.
			f["onward-allocs/row"] = f["allocs/row"] - r.took[fmt.Sprint("allocs", l.rows)]
		}
	}
	if scan > 0 && publish > 0 {
		f["(S+P)/T"] = (scan + publish) / seconds
	}
	if r.verify {
		r.compare(t, l, target)
	}
	r.restarted(t, d, l, f)
	r.reconciled(t, d, l, f)
	if l.recover {
		r.recovered(t, d, l, f)
	}
	if n := l.bus.Count(t, target); n != int64(l.rows) {
		t.Fatalf("%s holds %d messages of %d rows after kills", target, n, l.rows)
	}
	return f
}

// arrived waits until a target holds a message for every row. It returns when the last one came,
// and how many rows a second have come since a part was there, 0 where that look found all.
func arrived(t testing.TB, p *process, on *bus, target string, rows, part int) (last time.Time, steady float64) {
	t.Helper()
	held, first, since := int64(0), int64(0), time.Time{}
	last = time.Now()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ; held < int64(rows); <-tick.C {
		n := on.Count(t, target)
		if n > held {
			last, held = time.Now(), n
		}
		if first == 0 && n >= int64(part) {
			first, since = n, last
		}
		if n > int64(rows) || time.Since(last) > peerWithin {
			t.Fatalf("%s holds %d messages of %d rows", target, n, rows)
		}
		p.alive(t)
	}
	if held > first {
		steady = float64(held-first) / last.Sub(since).Seconds()
	}
	return last, steady
}

type counters struct{ mallocs, allocated, rows float64 }

// It waits for a process that has just begun.
func (d *daemon) counters(t testing.TB) (c counters) {
	t.Helper()
	eventually(t, 2*time.Minute, "bridge answers", func() bool {
		d.alive(t)
		status, body := d.Get("/metrics")
		sum := func(name string) float64 { return world.SumOf(body, name) }
		c = counters{sum("go_memstats_mallocs_total"), sum("go_memstats_alloc_bytes_total"), sum("bridge_records_total")}
		return status == 200
	})
	return c
}

// restarted kills bridge a moment after its last message and starts it again with its checkpoint.
func (r *rig) restarted(t testing.TB, d *daemon, l load, f figures) {
	t.Helper()
	killed := time.Now()
	d.kill()
	d.restart()
	d.awaitReady(t)
	f["restart-s"] = time.Since(killed).Seconds()
	d.awaitSaved(t, l)
	var size int64
	err := filepath.WalkDir(d.Checkpoint(), func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if info, err := entry.Info(); err == nil { // it may have been removed
			size += info.Size()
		}
		return nil
	})
	must.OK(t, err)
	f["checkpoint-MiB"] = float64(size) / (1 << 20)
}

func (d *daemon) awaitSaved(t testing.TB, l load) {
	t.Helper()
	eventually(t, 10*time.Minute, "all is saved", func() bool {
		d.alive(t)
		return d.Position(streamName) == uint64(l.rows)
	})
}

// reconciled asks a drained bridge for a reconcile. A release stream without gaps reads no row.
func (r *rig) reconciled(t testing.TB, d *daemon, l load, f figures) {
	t.Helper()
	// From here on, the memory is that of the reconcile.
	d.memory.end()
	d.memory = watchMemory(t, d.pid)
	cpu := spent(t, d.pid)
	done := d.ReconcileByHTTP(streamName, "")
	seconds := done.EndedAt.Sub(done.StartedAt.Time).Seconds()
	f["reconcile-s"], f["reconcile-MiB"] = seconds, d.memory.peak()
	if l.kind == event.Capability {
		if done.Rows != uint64(l.rows) {
			t.Fatalf("the reconcile has compared %d rows of %d", done.Rows, l.rows)
		}
		f["reconcile-rows/s"], f["reconcile-cpu-s/Mrow"] = float64(l.rows)/seconds, (spent(t, d.pid)-cpu)/float64(l.rows)*1e6
	}
}

// recovered kills bridge, removes its checkpoint and starts it again, until it has read the bus and
// seen to all rows.
func (r *rig) recovered(t testing.TB, d *daemon, l load, f figures) {
	t.Helper()
	d.kill()
	d.LoseCheckpoint()
	d.restart()
	d.awaitSaved(t, l)
	f["recovery-s"], f["recovery-MiB"] = time.Since(d.began).Seconds(), d.memory.peak()
	read, _ := d.Stream(streamName)
	if !read.CatchUp.Ready || read.CatchUp.Messages != uint64(l.rows) {
		t.Fatalf("bridge has read %+v of %d messages", read.CatchUp, l.rows)
	}
	f["recovery-msgs/s"] = float64(l.rows) / read.CatchUp.Seconds
}

// read calls each for the messages of a target until it has had so many, with all revisions.
func (r *rig) read(t testing.TB, l load, target string, each func(receipt)) {
	t.Helper()
	var mu sync.Mutex
	messages, rows := 0, make(map[string]bool, l.rows)
	stop := l.bus.follow(t, target, func(a receipt) {
		mu.Lock()
		defer mu.Unlock()
		messages++
		rows[a.revision] = true
		each(a)
	})
	eventually(t, 5*time.Minute, "a consumer has read all rows", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(rows) == l.rows
	})
	stop()
	if messages != l.rows {
		t.Fatalf("%s holds %d messages of %d rows", target, messages, l.rows)
	}
}

// compare compares the messages of a target with those of the spool: what is compared is the same.
func (r *rig) compare(t testing.TB, l load, target string) {
	t.Helper()
	values := make(map[string][]byte, l.rows)
	r.read(t, l, target, func(a receipt) { values[a.revision] = bytes.Clone(a.value) })
	err := r.spool(t, l).each(func(m spooled) error {
		if got := values[revisionOf(m.value)]; !bytes.Equal(got, m.value) {
			return fmt.Errorf("bridge has published for row %s\n%s\nthe publishers send\n%s", m.row, got, m.value)
		}
		return nil
	})
	must.OK(t, err)
}

// deliver measures a backlog until all its rows are acknowledged, and fails unless a consumer reads
// each of them once.
func (r *rig) deliver(t testing.TB, l load) figures {
	t.Helper()
	d, target := r.start(t, l, r.path, r.tableOf(t, l), nil)
	eventually(t, 10*time.Minute, "all rows are acknowledged", func() bool { return d.counters(t).rows >= float64(l.rows) })
	f := d.cost(t, time.Since(d.began).Seconds(), l.rows)
	d.kill()
	r.read(t, l, target, func(receipt) {})
	return f
}

// profile runs the program over a backlog with a profile of its CPU, which stays in
// bin/bench/profiles for go tool pprof.
func (r *rig) profile(t testing.TB, l load) figures {
	t.Helper()
	folder := filepath.Join(testenv.Root(), "bin", "bench", "profiles", fmt.Sprintf("%s-%s", l.kind, l.bus.name))
	d, target := r.start(t, l, r.profiler(t), r.tableOf(t, l), world.Env{"BRIDGE_TEST_PROFILE": folder})
	last, _ := arrived(t, d.process, l.bus, target, l.rows, 1)
	f := d.cost(t, last.Sub(d.began).Seconds(), l.rows)
	d.Term()
	return f
}
