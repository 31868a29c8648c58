package bench

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"sync"
	"time"

	"bridge/event"
	"bridge/tests/bench/report"
)

// throughput fills a table and measures parts on it, one after the other in each round, so that
// what disturbs the machine meets all of them: the bare scan, publishing alone, and bridge, which
// does both.
func (b *bench) throughput(of size, parts items) {
	b.t.Helper()
	rows := of.rows
	table := fmt.Sprintf("rows_%d", rows)
	b.db.fill(b.t, b.screen, table, rows)
	defer b.db.drop(b.t, table)
	spools := make(map[event.Kind]spool)
	if parts[report.Publish] || b.plan.verify {
		for _, kind := range b.plan.kinds {
			s := b.encode(kind, table, rows)
			spools[kind] = s
			b.report.Add(report.Scan, report.Case{Rows: rows}, report.BytesOfRow, s.rows)
			b.report.Add(report.Publish, report.Case{Kind: string(kind), Rows: rows}, report.BytesOfEvent, s.events)
			b.screen.say("encoded the events of a %s stream: %.0f bytes each, of rows of %.0f bytes", kind, s.events, s.rows)
		}
	}
	for round := range of.rounds {
		for _, kind := range b.plan.kinds {
			if round > 0 && (b.late() && rows != b.plan.rows || kind != event.Release && of.releaseAlone) {
				continue
			}
			for _, one := range b.buses {
				b.screen.say("round %d of %d with %d rows: %s, %s", round+1, of.rounds, rows, kind, one.name())
				b.compare(load{kind: kind, bus: one, table: table, rows: rows, spool: spools[kind]}, parts, round)
			}
		}
	}
	if parts[report.Profile] {
		b.profiles(table, rows)
	}
}

// late reports whether the rest has to be kept short for the run to end within its hour: a further
// round is left out then.
func (b *bench) late() bool { return b.plan.hurryAfter > 0 && time.Since(b.began) > b.plan.hurryAfter }

// profiles runs the program over the backlog with a profile, once for each kind of stream and bus.
func (b *bench) profiles(table string, rows int) {
	for _, kind := range b.plan.kinds {
		for _, one := range b.buses {
			b.screen.say("profile with %d rows: %s, %s", rows, kind, one.name())
			b.profiled(load{kind: kind, bus: one, table: table, rows: rows})
		}
	}
}

// load is one backlog on its way to a bus.
type load struct {
	kind  event.Kind
	bus   bus
	table string
	rows  int
	spool spool
}

// name is what the screen says.
func (l load) name() string { return fmt.Sprintf("%s stream to %s", l.kind, l.bus.name()) }

func (l load) is() report.Case {
	return report.Case{Kind: string(l.kind), Bus: l.bus.name(), Rows: l.rows}
}

// streamEnv is the configuration of the one stream.
func (b *bench) streamEnv(kind event.Kind, tables, destination string) env {
	const prefix = "BRIDGE_STREAM_BENCH_"
	e := env{
		"BRIDGE_SOURCE_URL": b.db.url(), "BRIDGE_STREAMS": streamName, prefix + "TABLE": tables, prefix + "KIND": string(kind),
		prefix + "CREATED": createdColumn, prefix + "KEY": keyColumns[0] + "," + keyColumns[1], prefix + "DESTINATION": destination,
	}
	if deleted := deletedOf(kind); deleted != "" {
		e[prefix+"DELETED"] = deleted
	}
	return e
}

// bridge measures one run of the program over a backlog, from the start of the process until the
// bus holds all messages, and returns how long that took in seconds; and behind it, where they are
// among the parts, a restart, a reconcile and a start without the checkpoint.
func (b *bench) bridge(l load, parts items) (seconds, reconcile float64) {
	b.t.Helper()
	profile := ""
	if b.plan.profile != "" {
		profile = filepath.Join(b.plan.profile, fmt.Sprintf("%s-%s-%d", l.kind, l.bus.name(), l.rows))
	}
	d, target, end := b.start(l, b.path, profile)
	defer end()
	before := d.counters()
	steady := b.published(d, l, target)
	seconds = time.Since(d.began).Seconds()
	cpu, peak := d.spent(), d.memory.peak()
	var after counters
	eventually(b.t, time.Minute, "bridge has counted its rows", func() bool {
		after = d.counters()
		return after.rows >= float64(l.rows)
	})
	for metric, value := range map[string]float64{
		report.Seconds: seconds, report.RowsASecond: float64(l.rows) / seconds, report.CPU: cpu / float64(l.rows) * 1e6, report.RssAnon: peak,
	} {
		b.report.Add(report.Bridge, l.is(), metric, value)
	}
	// Where all was published before the first look there is no difference.
	if counted := after.rows - before.rows; counted > 0 {
		b.report.Add(report.Bridge, l.is(), report.Allocs, (after.mallocs-before.mallocs)/counted)
		b.report.Add(report.Bridge, l.is(), report.AllocBytes, (after.allocated-before.allocated)/counted)
	}
	if steady > 0 {
		b.report.Add(report.Bridge, l.is(), report.SteadyRate, steady)
	}
	b.screen.say("bridge, %s: %.2f s, %.0f rows a second, %.0f when steady, %.2f CPU-seconds, %.1f MiB, %.2f allocations a row", l.name(), seconds,
		float64(l.rows)/seconds, steady, cpu, peak, b.report.Last(report.Bridge, l.is(), report.Allocs))
	if b.plan.verify {
		b.verify(l, target)
	}
	if parts[report.Restart] {
		d = b.restart(d, l, target)
		defer d.end()
	}
	if parts.reconcile(l.kind) {
		reconcile = b.reconcile(d, l)
	}
	if b.plan.profile != "" {
		d.term()
	}
	if parts[report.Recovery] {
		b.recover(d, l, target)
	}
	return seconds, reconcile
}

// start starts the program at path on a backlog and a target of its own, with a folder for its
// profiles unless that is "". end ends it and drops the target.
func (b *bench) start(l load, path, profile string) (d *daemon, target string, end func()) {
	b.t.Helper()
	target = newTarget(l.kind)
	e := b.streamEnv(l.kind, l.table, l.bus.open(b.t, target))
	maps.Copy(e, l.bus.env(target))
	if profile != "" {
		e["BRIDGE_TEST_PROFILE"] = profile
	}
	d = startDaemon(b.t, path, e)
	return d, target, func() {
		d.end()
		l.bus.drop(b.t, target)
	}
}

// published waits until the target holds a message for every row, and returns how many rows a
// second have come since the first look that found some, 0 if that one found all.
func (b *bench) published(d *daemon, l load, target string) (steady float64) {
	b.t.Helper()
	var first int64
	var since time.Time
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	moved, last := time.Now(), int64(0)
	for {
		n := l.bus.count(b.t, target)
		if first == 0 && n > 0 {
			first, since = n, time.Now()
		}
		switch {
		case n == int64(l.rows):
			return float64(n-first) / time.Since(since).Seconds()
		case n > int64(l.rows):
			b.t.Fatalf("%s holds %d messages of %d rows", target, n, l.rows)
		case n > last:
			moved, last = time.Now(), n
		case time.Since(moved) > 2*time.Minute:
			b.t.Fatalf("%s holds %d messages of %d rows, and no more for two minutes", target, n, l.rows)
		}
		d.alive()
		b.screen.far("bridge, "+l.name(), n, int64(l.rows))
		<-tick.C
	}
}

// verify compares the messages of a target with those that were encoded for the publishers: what is
// compared is the same.
func (b *bench) verify(l load, target string) {
	b.t.Helper()
	var mu sync.Mutex
	values := make(map[string][]byte, l.rows)
	stop := l.bus.follow(b.t, target, func(a arrival) {
		mu.Lock()
		defer mu.Unlock()
		values[fmt.Sprint(a.row)] = bytes.Clone(a.value)
	})
	defer stop()
	eventually(b.t, time.Minute, "all messages are read", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(values) == l.rows
	})
	messages, err := openSpool(l.spool.path)
	if err != nil {
		b.t.Fatal(err)
	}
	for m, ok := messages.next(); ok; m, ok = messages.next() {
		if got := values[string(m.row)]; !bytes.Equal(got, m.value) {
			b.t.Fatalf("bridge has published for row %s\n%s\nthe publishers send\n%s", m.row, got, m.value)
		}
	}
}
